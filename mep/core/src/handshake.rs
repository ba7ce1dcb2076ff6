//! From a connection to a session, and back: candidates, collisions, better connections.
//!
//! Every node dials every peer; the higher of a pair leaves the lower two seconds' start. When both dialled all the same,
//! the lower end decides, so that both ends keep the same connection: the higher end offers a connection by its hello, one
//! at a time; the lower end answers the first offer with its own hello, which makes it the session, and closes the others
//! as duplicates. An offer with a later hello than the session's says that the peer has lost that session, and wins.

use crate::carrier::{CarrierCommand, ConnId};
use crate::mep::{Mep, Timer};
use crate::outbox::Part;
use crate::output::DownReason;
use crate::peer::{Candidate, MOST_CANDIDATES, Session};
use crate::wire::{self, Refusal};
use crate::{PeerState, proto};
use gslb_types::{NodeId, Timestamp};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a connection may stand without the peer's hello.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// What the end that loses a collision is told.
pub(crate) const DUPLICATE: &str = "duplicate";

impl Mep {
    pub(crate) fn connected(
        &mut self,
        now: Timestamp,
        candidate: Candidate,
        peer: &NodeId,
        address: SocketAddr,
    ) {
        let (conn, dialled) = (candidate.link.conn, candidate.dialled);
        let Some(place) = self.peers.iter().position(|known| known.id == *peer) else {
            let own = if *peer == self.me { "this node's own name" } else { "not a node of this group" };
            let reason = format!("{peer} is {own}");
            self.strangers.unknown_nodes += 1;
            self.strangers.last = Some((address, reason.clone()));
            self.command(CarrierCommand::Close { conn, reason });
            return;
        };
        self.dial_done(place, dialled);
        let is_better = self.peers[place].would_be_better(candidate.over);
        if dialled && self.peers[place].session.is_some() && !is_better {
            self.command(CarrierCommand::Close { conn, reason: DUPLICATE.to_owned() });
            return self.seek_better(now, place);
        }
        let is_in_quarantine = self.peers[place].quarantine > now;
        if is_in_quarantine || self.peers[place].candidates.len() >= MOST_CANDIDATES {
            let refusal = if is_in_quarantine { Refusal::Quarantine } else { Refusal::TooMany };
            self.peers[place].status.refusals += 1;
            self.command(CarrierCommand::Close { conn, reason: refusal.to_string() });
            return self.after_candidate(now, place);
        }
        self.conns.insert(conn, place);
        self.peers[place].candidates.push(candidate);
        self.timers.set(Timer::Hello(conn), now + HELLO_TIMEOUT);
        self.offer_next(now, place);
    }

    /// Takes the hello of a candidate.
    pub(crate) fn hello_arrived(&mut self, now: Timestamp, place: usize, conn: ConnId, hello: &proto::Hello) {
        let hello = match wire::check_hello(hello, &self.peers[place].id, &self.settings) {
            Ok(hello) => hello,
            Err(refusal) => return self.refuse(now, place, conn, &refusal),
        };
        if !self.peers[place].admits(hello.boot) {
            return self.refuse(now, place, conn, &Refusal::Displaced);
        }
        let later = |session: &Session| session.boot == hello.boot && session.number >= hello.number;
        if self.peers[place].session.as_ref().is_some_and(later) {
            return self.close_candidate(place, conn, DUPLICATE);
        }
        self.offer(now, place, conn);
        self.establish(now, place, conn, hello);
    }

    /// The connection is gone.
    pub(crate) fn connection_lost(&mut self, now: Timestamp, conn: ConnId, reason: &str) {
        self.timers.stop(Timer::Retired(conn));
        let Some(place) = self.conns.get(&conn).copied() else { return };
        let reason = wire::printable(reason);
        if self.peers[place].has_session_on(conn) {
            return self.session_lost(now, place, DownReason::Closed(reason));
        }
        self.forget_candidate(place, conn);
        if self.peers[place].session.is_some() || !self.peers[place].candidates.is_empty() {
            return self.after_candidate(now, place);
        }
        // The other end says why it does not want us, or the carrier why it broke: either way only time or an operator helps.
        self.peers[place].backoff.refused();
        self.attempt_failed(place, format!("connection closed before a session: {reason}"), true);
        self.after_candidate(now, place);
    }

    pub(crate) fn hello_overdue(&mut self, now: Timestamp, conn: ConnId) {
        if let Some(place) = self.conns.get(&conn).copied() {
            self.refuse(now, place, conn, &Refusal::HelloTimeout(HELLO_TIMEOUT));
        }
    }

    pub(crate) fn refuse(&mut self, now: Timestamp, place: usize, conn: ConnId, refusal: &Refusal) {
        let reason = refusal.to_string();
        self.close_candidate(place, conn, &reason);
        let peer = &mut self.peers[place];
        peer.status.refusals += 1;
        peer.backoff.refused();
        self.attempt_failed(place, reason, true);
        self.after_candidate(now, place);
    }

    fn offer_next(&mut self, now: Timestamp, place: usize) {
        if let Some(conn) = self.peers[place].next_offer() {
            self.offer(now, place, conn);
        }
    }

    /// Sends this node's hello over a candidate, unless it was sent.
    fn offer(&mut self, now: Timestamp, place: usize, conn: ConnId) {
        let hello = wire::hello(&self.me, self.boot, self.hellos + 1, &self.settings);
        let peer = &mut self.peers[place];
        let Some(candidate) = peer.candidate(conn).filter(|candidate| !candidate.offered) else { return };
        candidate.offered = true;
        self.hellos += 1;
        let (command, length) = candidate.link.send(now, &Part::new(hello).body);
        peer.status.frames_out += 1;
        peer.status.bytes_out += length as u64;
        self.command(command);
        self.timers.set(Timer::Hello(conn), now + HELLO_TIMEOUT);
    }

    /// Notes why an attempt came to nothing. A refusal is the reason an operator looks for, whatever ended the session before.
    pub(crate) fn attempt_failed(&mut self, place: usize, reason: String, refused: bool) {
        let status = &mut self.peers[place].status;
        match status.state {
            PeerState::Up | PeerState::Suspect => return,
            PeerState::Connecting => status.reason.clone_from(&reason),
            PeerState::Down if refused => status.reason.clone_from(&reason),
            PeerState::Down => {}
        }
        status.last_attempt = Some(reason);
    }

    /// Goes on after a connection or a dial came to nothing: with the next candidate, or by dialling again.
    pub(crate) fn after_candidate(&mut self, now: Timestamp, place: usize) {
        self.offer_next(now, place);
        if self.peers[place].is_alone() {
            self.dial_later(now, place);
        } else {
            self.seek_better(now, place);
        }
    }

    pub(crate) fn close_candidate(&mut self, place: usize, conn: ConnId, reason: &str) {
        if self.forget_candidate(place, conn) {
            self.command(CarrierCommand::Close { conn, reason: reason.to_owned() });
        }
    }

    fn forget_candidate(&mut self, place: usize, conn: ConnId) -> bool {
        self.conns.remove(&conn);
        self.timers.stop(Timer::Hello(conn));
        self.peers[place].take_candidate(conn).is_some()
    }
}
