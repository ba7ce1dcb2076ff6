//! A session begins, moves to a better connection, and ends.

use crate::PeerState;
use crate::carrier::{CarrierCommand, ConnId};
use crate::handshake::{DUPLICATE, HELLO_TIMEOUT};
use crate::mep::{MOVED, Mep, Timer};
use crate::outbox::Part;
use crate::output::{DownReason, Output};
use crate::peer::{Dial, Session};
use crate::proto::{self, frame::Body};
use crate::transitions::{Why, unheard};
use crate::wire::{PeerHello, Refusal};
use gslb_types::{Timestamp, Transport};
use std::collections::BTreeSet;
use std::time::Duration;

/// A session that lasted this long proves the peer reachable: the back-off starts anew.
const STABLE: Duration = Duration::from_secs(30);

/// How long a peer that broke the protocol is neither dialled nor let in (threat T8). Long enough that it costs nothing to
/// have it come back and do it again; short enough that an operator who put it right need not wait.
const QUARANTINE: Duration = Duration::from_secs(60);

/// Words are sent this many times as often as the less patient end asks for: two may be lost.
const WORDS_PER_KEEPALIVE: u32 = 3;

/// The shortest pause between two words, however impatient a peer claims to be.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

impl Mep {
    /// Makes a candidate the session, in place of the one there is. If it is a better one with the same process, nobody sees
    /// anything of it: what was told stands, and everything is told again.
    pub(crate) fn establish(&mut self, now: Timestamp, place: usize, conn: ConnId, hello: PeerHello) {
        let Some(candidate) = self.peers[place].take_candidate(conn) else { return };
        self.timers.stop(Timer::Hello(conn));
        let boot = self.peers[place].session.as_ref().map(|session| session.boot);
        let mut queue = self.outbox.queue(hello.knows_relays);
        let moves = boot == Some(hello.boot) && self.peers[place].would_be_better(candidate.over);
        match boot {
            Some(_) if moves => {
                if let Some(before) = self.retire_session(now, place) {
                    queue = self.outbox.queue_after(&before.queue, hello.knows_relays);
                }
            }
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
        let patience = patience.max(LEAST_PAUSE * WORDS_PER_KEEPALIVE);
        let session = Session {
            link: candidate.link,
            boot: hello.boot,
            number: hello.number,
            since: now,
            pause: patience / WORDS_PER_KEEPALIVE,
            patience,
            unheard: None,
            queue,
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
        self.timers.stop(Timer::Unheard(place));
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
    fn retire_session(&mut self, now: Timestamp, place: usize) -> Option<Session> {
        let session = self.peers[place].session.take()?;
        let conn = session.link.conn;
        self.conns.remove(&conn);
        if self.peers[place].decides {
            self.timers.set(Timer::Retired(conn), now + HELLO_TIMEOUT);
        } else {
            self.command(CarrierCommand::Close { conn, reason: MOVED.to_owned() });
        }
        Some(session)
    }

    /// Ends the session, if there is one, and says so.
    fn end_session(&mut self, now: Timestamp, place: usize, reason: DownReason) -> bool {
        let peer = &mut self.peers[place];
        let Some(session) = peer.session.take() else { return false };
        let reason = unheard(now, &session, reason);
        let of_words =
            [Timer::Word(place), Timer::Silence(place), Timer::Quiet(place), Timer::Unheard(place)];
        of_words.into_iter().chain([Timer::Pump(place)]).for_each(|timer| self.timers.stop(timer));
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
            | DownReason::Behind(_)
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

    /// The session is gone, for whatever reason.
    pub(crate) fn session_lost(&mut self, now: Timestamp, place: usize, reason: DownReason) {
        if self.end_session(now, place, reason) {
            self.after_candidate(now, place);
        }
    }

    /// Ends everything with a peer because this node stops.
    pub(crate) fn say_goodbye(&mut self, now: Timestamp, peer: usize) {
        let reason = DownReason::Shutdown.to_string();
        let mut conns: Vec<ConnId> = self.peers[peer].candidates.drain(..).map(|c| c.link.conn).collect();
        if self.peers[peer].session.is_some() {
            let goodbye = proto::Goodbye { reason: "the node stops".to_owned() };
            self.say(now, peer, &Part::new(Body::Goodbye(goodbye)));
        }
        self.peers[peer].status.reason.clone_from(&reason);
        if let Some(session) = self.peers[peer].session.take() {
            self.turned(now, peer, PeerState::Down, Why::from(&DownReason::Shutdown));
            conns.push(session.link.conn);
        }
        self.peers[peer].dial = Dial::Idle;
        for conn in conns {
            self.conns.remove(&conn);
            self.command(CarrierCommand::Close { conn, reason: reason.clone() });
        }
    }
}
