//! When a peer is dialled, and over what: while there is no session, and for a better connection while there is one.

use crate::backoff::draw;
use crate::carrier::{CarrierCommand, ConnId, Over};
use crate::mep::{Mep, Timer};
use crate::peer::Dial;
use crate::wire;
use gslb_types::{NodeId, Timestamp};
use std::time::Duration;

/// The start the higher node of a pair leaves the lower one.
const LOWER_FIRST: Duration = Duration::from_secs(2);

/// The start it leaves when its own process has just started: its peers may not know yet that they have lost it, and its
/// table is to be back within two seconds (reliability R9).
const LOWER_FIRST_AT_START: Duration = Duration::from_millis(500);

/// A dial that the carrier has not reported on for this long is given up; carriers report sooner.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

impl Mep {
    pub(crate) fn dial_failed(&mut self, now: Timestamp, peer: &NodeId, over: Over, reason: &str) {
        let Some(place) = self.peers.iter().position(|known| known.id == *peer) else { return };
        if self.peers[place].dial != Dial::InFlight(over) {
            return;
        }
        self.dial_done(place, true);
        if self.peers[place].session.is_some() {
            self.peers[place].status.last_attempt =
                Some(format!("dial over {over} failed: {}", wire::printable(reason)));
            return self.seek_better(now, place);
        }
        self.peers[place].try_other_carrier(over);
        self.peers[place].backoff.failed();
        self.attempt_failed(place, format!("dial failed: {}", wire::printable(reason)), false);
        self.after_candidate(now, place);
    }

    pub(crate) fn dial_due(&mut self, now: Timestamp, place: usize) {
        match self.peers[place].dial {
            Dial::Idle => {}
            Dial::Waiting
                if self.peers[place].session.is_some() && self.peers[place].better_over().is_none() =>
            {
                self.peers[place].dial = Dial::Idle;
            }
            Dial::Waiting => {
                let peer = &mut self.peers[place];
                let over = peer.better_over().unwrap_or(peer.next_over);
                peer.dial = Dial::InFlight(over);
                let dial = CarrierCommand::Dial { peer: peer.id.clone(), address: peer.status.address, over };
                self.command(dial);
                self.timers.set(Timer::Dial(place), now + DIAL_TIMEOUT);
            }
            Dial::InFlight(over) => {
                let peer = self.peers[place].id.clone();
                self.dial_failed(now, &peer, over, "nothing came of it");
            }
        }
    }

    /// Dials for the first time.
    pub(crate) fn dial_at_start(&mut self, now: Timestamp, place: usize) {
        self.dial_after(now, place, LOWER_FIRST_AT_START);
    }

    /// Dials after the back-off.
    pub(crate) fn dial_later(&mut self, now: Timestamp, place: usize) {
        self.dial_after(now, place, LOWER_FIRST);
    }

    fn dial_after(&mut self, now: Timestamp, place: usize, lower_first: Duration) {
        let peer = &mut self.peers[place];
        let mut wait = peer.backoff.wait(&mut self.rng);
        if !peer.decides {
            wait += lower_first + draw(lower_first / 4, &mut self.rng);
        }
        peer.dial = Dial::Waiting;
        self.timers.set(Timer::Dial(place), peer.quarantine.max(now + wait));
    }

    /// Dials over QUIC in a while if the session is one that might run over it.
    pub(crate) fn seek_better(&mut self, now: Timestamp, place: usize) {
        let peer = &mut self.peers[place];
        if peer.dial == Dial::Idle && peer.would_be_better(Over::Quic) {
            peer.dial = Dial::Waiting;
            let retry = self.settings.quic_retry;
            self.timers.set(Timer::Dial(place), now + retry + draw(retry / 4, &mut self.rng));
        }
    }

    /// A connection stands, or a dial came to nothing. A dial that is on its way goes on when it was the peer's that stands.
    pub(crate) fn dial_done(&mut self, place: usize, dialled: bool) {
        let peer = &mut self.peers[place];
        if dialled || (peer.dial == Dial::Waiting && peer.session.is_none()) {
            peer.dial = Dial::Idle;
            self.timers.stop(Timer::Dial(place));
        }
    }

    /// The connection can't stay for long. If it is the session's, another one may take its place, and is dialled for if this
    /// end can make one that lasts longer.
    pub(crate) fn connection_ages(&mut self, now: Timestamp, conn: ConnId, renew: bool) {
        let Some(place) = self.conns.get(&conn).copied() else { return };
        let peer = &mut self.peers[place];
        let Some(session) = peer.session.as_mut().filter(|session| session.link.conn == conn) else { return };
        session.ageing = true;
        if renew && !matches!(peer.dial, Dial::InFlight(_)) {
            peer.dial = Dial::Waiting;
            self.timers.set(Timer::Dial(place), now);
        }
    }
}
