//! From a connection to a session, and back: candidates, collisions, better connections.
//!
//! Every node dials every peer; the higher of a pair leaves the lower two seconds' start. When both dialled all the same,
//! the lower end decides, so that both ends keep the same connection: the higher end offers a connection by its hello, one
//! at a time; the lower end answers the first offer with its own hello, which makes it the session, and closes the others
//! as duplicates. An offer with a later hello than the session's says that the peer has lost that session, and wins.

use crate::carrier::{CarrierCommand, ConnId};
use crate::mep::{MOVED, Mep, Timer};
use crate::outbox::Part;
use crate::output::{DownReason, Output};
use crate::peer::{Candidate, Dial, MOST_CANDIDATES, Session};
use crate::transitions::Why;
use crate::wire::{self, PeerHello, Refusal};
use crate::{PeerState, proto};
use gslb_types::{NodeId, Timestamp, Transport};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a connection may stand without the peer's hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// A session that lasted this long proves the peer reachable: the back-off starts anew.
const STABLE: Duration = Duration::from_secs(30);

/// How long a peer that broke the protocol is neither dialled nor let in (threat T8). Long enough that it costs nothing to
/// have it come back and do it again; short enough that an operator who put it right need not wait.
const QUARANTINE: Duration = Duration::from_secs(60);

/// Words are sent this many times as often as the less patient end asks for: two may be lost.
const WORDS_PER_KEEPALIVE: u32 = 3;

/// The shortest pause between two words, however impatient a peer claims to be.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// What the end that loses a collision is told.
const DUPLICATE: &str = "duplicate";

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

    /// The session is gone, for whatever reason.
    pub(crate) fn session_lost(&mut self, now: Timestamp, place: usize, reason: DownReason) {
        if self.end_session(now, place, reason) {
            self.after_candidate(now, place);
        }
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

    /// Makes a candidate the session, in place of the one there is. If it is a better one with the same process, nobody sees
    /// anything of it: what was told stands, and everything is told again.
    fn establish(&mut self, now: Timestamp, place: usize, conn: ConnId, hello: PeerHello) {
        let Some(candidate) = self.peers[place].take_candidate(conn) else { return };
        self.timers.stop(Timer::Hello(conn));
        let boot = self.peers[place].session.as_ref().map(|session| session.boot);
        let moves = boot == Some(hello.boot) && self.peers[place].would_be_better(candidate.over);
        match boot {
            Some(_) if moves => self.retire_session(now, place),
            Some(boot) if boot == hello.boot => {
                self.end_session(now, place, DownReason::Superseded);
            }
            Some(boot) => {
                self.peers[place].displace(boot);
                self.end_session(now, place, DownReason::Restarted);
            }
            None => {}
        }
        let others: Vec<ConnId> = self.peers[place].candidates.iter().map(|other| other.link.conn).collect();
        for other in others {
            self.close_candidate(place, other, DUPLICATE);
        }
        let patience = hello.keepalive.unwrap_or(self.settings.keepalive).min(self.settings.keepalive);
        let session = Session {
            link: candidate.link,
            boot: hello.boot,
            number: hello.number,
            since: now,
            pause: (patience / WORDS_PER_KEEPALIVE).max(LEAST_PAUSE),
            queue: self.outbox.queue(hello.knows_relays),
            snapshot_began: None,
            synced: false,
            violations: 0,
            over: candidate.over,
            ageing: false,
            knows_relays: hello.knows_relays,
            links_due: hello.knows_relays,
            requested: BTreeSet::new(),
            request_due: false,
            snapshot_wanted: false,
            released: BTreeSet::new(),
            request_number: 0,
            request_read: false,
            values_in: 0,
            implausible: 0,
        };
        self.timers.set(Timer::Word(place), now + session.pause);
        self.timers.set(Timer::Silence(place), now + self.settings.keepalive);
        self.timers.set(Timer::Quiet(place), now + self.doubtful());
        self.timers.set(Timer::Pump(place), now);
        let peer = &mut self.peers[place];
        peer.session = Some(session);
        if peer.transport == Transport::Auto {
            peer.next_over = candidate.over;
        }
        let status = &mut peer.status;
        status.last_attempt = None;
        status.implausible = false;
        status.sessions += u64::from(!moves);
        status.snapshot_in = None;
        status.snapshot_out = None;
        status.hears_us = None;
        status.path_rtt = None;
        status.over = Some(candidate.over);
        status.boot = Some(hello.boot);
        status.version = Some(hello.software);
        status.config_hash = Some(hello.config_hash);
        status.mismatches = hello.mismatches;
        status.certificate_expires = Some(candidate.certificate_expires);
        let id = peer.id.clone();
        if moves {
            self.heard(now, place, None);
            // What it relayed is asked for again, over the new connection.
            self.timers.set(Timer::Relays, now);
        } else {
            self.outbox.node_up(now, &id);
            self.turned(now, place, PeerState::Up, Why::established(candidate.dialled));
            self.outputs.push_back(Output::PeerUp { peer: id });
        }
        self.seek_better(now, place);
    }

    /// Gives the session's connection up, for a better one. The end that has decided so leaves the old one open until the
    /// other has followed, who would take its end for that of the session.
    fn retire_session(&mut self, now: Timestamp, place: usize) {
        let Some(session) = self.peers[place].session.take() else { return };
        let conn = session.link.conn;
        self.conns.remove(&conn);
        if self.peers[place].decides {
            self.timers.set(Timer::Retired(conn), now + HELLO_TIMEOUT);
        } else {
            self.command(CarrierCommand::Close { conn, reason: MOVED.to_owned() });
        }
    }

    /// Ends the session, if there is one, and says so.
    fn end_session(&mut self, now: Timestamp, place: usize, reason: DownReason) -> bool {
        let peer = &mut self.peers[place];
        let Some(session) = peer.session.take() else { return false };
        let timers = [Timer::Word(place), Timer::Silence(place), Timer::Quiet(place), Timer::Pump(place)];
        timers.into_iter().for_each(|timer| self.timers.stop(timer));
        if peer.dial == Dial::Waiting {
            peer.dial = Dial::Idle;
            self.timers.stop(Timer::Dial(place));
        }
        let conn = session.link.conn;
        self.conns.remove(&conn);
        let told = match &reason {
            DownReason::Restarted => Some(Refusal::Displaced.to_string()),
            DownReason::Goodbye(_) => Some("goodbye".to_owned()),
            DownReason::Closed(_) => None,
            DownReason::Silent(_)
            | DownReason::NotHeard(_)
            | DownReason::Superseded
            | DownReason::Misbehaved(_)
            | DownReason::Shutdown => Some(reason.to_string()),
        };
        match reason {
            DownReason::Misbehaved(_) => {
                peer.backoff.refused();
                peer.quarantine = now + QUARANTINE;
            }
            DownReason::Goodbye(_) | DownReason::Restarted => peer.backoff.reset(),
            _ if now.since(session.since) >= STABLE => peer.backoff.reset(),
            _ => peer.backoff.failed(),
        }
        peer.status.sent_seq = session.link.sent;
        peer.status.received_seq = session.link.received;
        let id = peer.id.clone();
        self.turned(now, place, PeerState::Down, Why::from(&reason));
        self.site_lost(now, place);
        let down = Output::PeerDown { peer: id, reason };
        if let Some(reason) = told {
            self.command(CarrierCommand::Close { conn, reason });
        }
        self.outputs.push_back(down);
        true
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

    fn close_candidate(&mut self, place: usize, conn: ConnId, reason: &str) {
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
