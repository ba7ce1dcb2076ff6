//! What the owner notes: changed values, LDNS that asked, sessions that were used. All of it waits to be told, within bounds.

use crate::mep::{Mep, Timer, queues};
use crate::outbox::Outbox;
use crate::output::DownReason;
use crate::peer::Peer;
use crate::values::SessionKey;
use gslb_types::{Ldns, NodeId, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

/// How long news wait for company: several in one frame cost little more than one.
const BATCH: Duration = Duration::from_millis(5);

/// How long a sighting waits that only refreshes an age.
const REFRESH_BATCH: Duration = Duration::from_secs(1);

/// LDNS that wait to be asked for, at most. Beyond it what waits is not asked for, and counted by peer.
const MOST_WANTED: usize = 65_536;

impl Mep {
    /// Notes that what this site advertises for an LDNS changed. `first`: it is the first value of a new LDNS, and told at
    /// once. Other changes are told at once if none was told within the last RTT interval, and together when it has passed.
    pub fn note_rtt(&mut self, now: Timestamp, ldns: Ldns, first: bool) {
        if !self.is_heard() {
            return;
        }
        self.outbox.rtt_changed(ldns, first, queues(&mut self.peers));
        let at = if first { now + BATCH } else { self.rtts_rest.max(now + BATCH) };
        self.set_no_later(Timer::Rtts, at);
        self.relieve(now);
    }

    /// Notes that an address asked this node, so long ago. `fresh`: the table had no entry for it; it is told at once, and
    /// peers that have values tell them. Refreshes of the age of an entry are told at leisure; how often is for the caller.
    pub fn note_sighting(&mut self, now: Timestamp, address: IpAddr, age: Duration, fresh: bool) {
        if !self.is_heard() {
            return;
        }
        self.outbox.sighted(address, now.before(age), fresh, queues(&mut self.peers));
        self.set_no_later(Timer::Sightings, now + if fresh { BATCH } else { REFRESH_BATCH });
        self.relieve(now);
    }

    /// Notes that this site has no value of an LDNS any longer: it is too old, or its entry was pushed out. Told like other changes,
    /// and even to a peer that gets everything anew, because that tells only what there is.
    pub fn note_withdrawn(&mut self, now: Timestamp, ldns: Ldns) {
        if !self.is_heard() {
            return;
        }
        self.outbox.withdrawn(ldns, queues(&mut self.peers));
        self.set_no_later(Timer::Rtts, self.rtts_rest.max(now + BATCH));
        self.relieve(now);
    }

    /// Asks the peers for their values of an LDNS whose entry was made on a peer's word that was not fresh: the others may
    /// have told theirs before there was a place to write them. Peers that are still telling all they know are not asked.
    pub fn want(&mut self, now: Timestamp, ldns: Ldns) {
        let is_told = |peer: &Peer| peer.session.as_ref().is_some_and(|session| session.synced);
        if !self.peers.iter().any(is_told) {
            return;
        }
        self.outbox.want(ldns, queues(&mut self.peers));
        self.set_no_later(Timer::Wanted, now + BATCH);
        if self.outbox.wanted_len() > MOST_WANTED {
            for peer in &mut self.peers {
                let skipped = peer.session.as_mut().map(|session| self.outbox.skip_wants(&mut session.queue));
                peer.status.wants_dropped += skipped.unwrap_or_default() as u64;
            }
            self.end_turn();
        }
    }

    /// Notes that a persistence session was used, of this node or of a query it answered. It is told with the next batch, as
    /// [`Values::session`](crate::Values::session) has it then.
    pub fn note_session(&mut self, now: Timestamp, key: SessionKey) {
        if !self.is_heard() {
            return;
        }
        self.outbox.session_used(key, queues(&mut self.peers));
        self.set_no_later(Timer::Sessions, now + self.settings.sessions_interval);
        self.relieve(now);
    }

    /// Asks a peer to tell all it knows once more: [`Output::Synced`](crate::Output::Synced) follows. Returns whether it could
    /// be asked: it has a session, and speaks version 1.1.
    pub fn ask_snapshot(&mut self, now: Timestamp, peer: &NodeId) -> bool {
        let Some(place) = self.peers.iter().position(|known| known.id == *peer) else { return false };
        let Some(session) = self.peers[place].session.as_mut().filter(|session| session.knows_relays) else {
            return false;
        };
        session.snapshot_wanted = true;
        self.set_no_later(Timer::Pump(place), now);
        true
    }

    /// Whether [`Mep::ask_snapshot`] would ask this peer.
    pub fn can_be_asked(&self, peer: &NodeId) -> bool {
        let session =
            self.peers.iter().find(|known| known.id == *peer).and_then(|known| known.session.as_ref());
        session.is_some_and(|session| session.knows_relays)
    }

    /// Keeps the outbox within its cap: first by sending sooner, then by taking the peers that lag most back to the start.
    pub(crate) fn relieve(&mut self, now: Timestamp) {
        let (cap, sessions_cap) = (self.settings.outbox_cap, self.settings.sessions_cap);
        let is_half = |outbox: &Outbox| {
            outbox.len().max(outbox.withdrawn_len()) > cap / 2 || outbox.sessions_len() > sessions_cap / 2
        };
        if !is_half(&self.outbox) {
            return;
        }
        for timer in [Timer::Rtts, Timer::Sightings, Timer::Sessions] {
            self.set_no_later(timer, now);
        }
        // Looking through all queues costs more than a note, and the turn ends with it anyway.
        if self.outbox.len().max(self.outbox.withdrawn_len()) <= cap
            && self.outbox.sessions_len() <= sessions_cap
        {
            return;
        }
        self.end_turn();
        while self.outbox.len() > cap || self.outbox.sessions_len() > sessions_cap {
            let most = queues(&mut self.peers).map(|queue| queue.lag()).max();
            for (place, peer) in self.peers.iter_mut().enumerate() {
                if let Some(session) = peer.session.as_mut().filter(|s| Some(s.queue.lag()) == most) {
                    self.outbox.resync(now, &mut session.queue);
                    peer.status.resyncs += 1;
                    peer.status.snapshot_out = None;
                    self.timers.set(Timer::Pump(place), now);
                }
            }
            self.end_turn();
        }
        self.relieve_of_withdrawals(now, cap);
    }

    /// Withdrawals cannot be left out: the peer's words of this session would be confirmed for ever (faults I-46). So the sessions
    /// of those that keep the oldest end, if they read nothing. One that reads is about to be told, and others that stand as far
    /// back with it; they are waited for until there are twice as many.
    fn relieve_of_withdrawals(&mut self, now: Timestamp, cap: usize) {
        while self.outbox.withdrawn_len() > cap {
            let waiting = self.outbox.withdrawn_len();
            let read = |peer: &Peer| peer.session.as_ref().map(|session| session.queue.withdrawn_read());
            let least = self.peers.iter().filter_map(read).min();
            let stands_in_the_way = |peer: &Peer| {
                let has_room = peer.session.as_ref().is_some_and(|session| session.link.has_room());
                least.is_some() && read(peer) == least && (!has_room || waiting > cap * 2)
            };
            let behind: Vec<usize> =
                (0..self.peers.len()).filter(|place| stands_in_the_way(&self.peers[*place])).collect();
            if behind.is_empty() {
                return;
            }
            for place in behind {
                self.session_lost(now, place, DownReason::Behind(waiting));
            }
            self.end_turn();
        }
    }
}
