//! What waits to be told, and in which order.
//!
//! The changes are kept once for all peers; a peer's queue is its places in them. Values are read when they are sent.

mod part;
mod queue;
mod relaying;
mod snapshot;
mod steps;
mod streams;

pub(crate) use part::Part;
pub(crate) use queue::Queue;
pub(crate) use steps::Step;

use crate::log::{ChangeLog, Cursor};
use crate::{ServiceMetric, SessionKey};
use gslb_types::{Ldns, SiteName, Timestamp};
use snapshot::Snapshot;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use streams::Heard;

/// From one chunk of a snapshot, or of answers, to the next: at most 200,000 rows a second to one peer, and others get a word
/// in between.
const PACE: Duration = Duration::from_millis(5);

/// The changes that not every peer has been told.
pub(crate) struct Outbox {
    rtts: ChangeLog<Ldns, RttNote>,
    rtts_due: u64,
    sightings: ChangeLog<IpAddr, SightingNote>,
    sightings_due: u64,
    metrics: Vec<ServiceMetric>,
    metrics_taken: Timestamp,
    /// Pieces of changes that were packed, by the number they begin after: other peers are most likely at the same places.
    /// Valid for one turn, since values change between turns; no change is noted within one.
    packed: BTreeMap<u64, Packed>,
    /// LDNS that were new to somebody although this node has a value of them.
    missed: Vec<Ldns>,
    /// LDNS whose values no longer hold, or that are gone: told apart from other changes, since no snapshot tells them.
    withdrawn: ChangeLog<Ldns, ()>,
    withdrawn_due: u64,
    /// LDNS this node asks for.
    wanted: ChangeLog<Ldns, ()>,
    sessions: ChangeLog<SessionKey, ()>,
    sessions_due: u64,
    /// What is relayed of the sites that are heard.
    heard: Heard,
}

#[derive(Clone, Copy)]
struct RttNote {
    /// The value changed, so that even its withdrawal is told. Otherwise a peer may just not have it.
    changed: bool,
    /// The peers may not know the LDNS yet: it is told along.
    first: bool,
}

#[derive(Clone, Copy)]
struct SightingNote {
    seen: Timestamp,
    fresh: bool,
}

struct Packed {
    upto: u64,
    entries: usize,
    parts: Vec<Part>,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Outbox {
            rtts: ChangeLog::new(),
            rtts_due: 0,
            sightings: ChangeLog::new(),
            sightings_due: 0,
            metrics: Vec::new(),
            metrics_taken: Timestamp::ZERO,
            packed: BTreeMap::new(),
            missed: Vec::new(),
            withdrawn: ChangeLog::new(),
            withdrawn_due: 0,
            wanted: ChangeLog::new(),
            sessions: ChangeLog::new(),
            sessions_due: 0,
            heard: Heard::new(),
        }
    }

    /// The queue of a session that begins: everything, then what changes from here on.
    pub(crate) fn queue(&self, knows_relays: bool) -> Queue {
        Queue {
            rtts: Cursor::new(self.rtts.last()),
            sightings: Cursor::new(self.sightings.last()),
            asked: BTreeMap::new(),
            asked_next: Timestamp::ZERO,
            wanted: None,
            withdrawn: Cursor::new(self.withdrawn.last()),
            withdrawn_read: self.withdrawn.last(),
            withdrawn_sent: VecDeque::new(),
            metrics: Some(0),
            snapshot: Snapshot::NotBegun,
            snapshot_began: Timestamp::ZERO,
            snapshot_again: false,
            knows_relays,
            sessions: Cursor::new(self.sessions.last()),
            streams: BTreeMap::new(),
            began: BTreeMap::new(),
            walk_next: Timestamp::ZERO,
        }
    }

    /// The queue of a session that goes on over another connection: as at the beginning, and the withdrawals that the peer has
    /// not acknowledged, since the frames under way may be lost.
    pub(crate) fn queue_after(&self, before: &Queue, knows_relays: bool) -> Queue {
        let at = before.withdrawn_read;
        let pending = self.withdrawn.between(at, self.withdrawn.last()).count();
        Queue { withdrawn: Cursor { at, pending }, withdrawn_read: at, ..self.queue(knows_relays) }
    }

    /// The peer of a queue has told all it knew: from here on it is asked for what it has missed to tell.
    pub(crate) fn wants_from_here(&self, queue: &mut Queue) {
        queue.wanted = Some(Cursor::new(self.wanted.last()));
    }

    /// Notes that this node asks for an LDNS.
    pub(crate) fn want<'a>(&mut self, ldns: Ldns, queues: impl Iterator<Item = &'a mut Queue>) {
        let before = self.wanted.note(ldns, |_| ());
        for cursor in queues.filter_map(|queue| queue.wanted.as_mut()) {
            cursor.noted(before);
        }
    }

    /// Does not ask a peer for what it has not been asked for yet. Returns how many LDNS these are.
    pub(crate) fn skip_wants(&self, queue: &mut Queue) -> usize {
        let Some(cursor) = queue.wanted.as_mut() else { return 0 };
        std::mem::replace(cursor, Cursor::new(self.wanted.last())).pending
    }

    /// Withdrawals that somebody has not acknowledged.
    pub(crate) fn withdrawn_len(&self) -> usize {
        self.withdrawn.len()
    }

    /// LDNS that wait to be asked for.
    pub(crate) fn wanted_len(&self) -> usize {
        self.wanted.len()
    }

    /// Notes that the value of an LDNS no longer holds, or that its entry is gone.
    pub(crate) fn withdrawn<'a>(&mut self, ldns: Ldns, queues: impl Iterator<Item = &'a mut Queue>) {
        let before = self.withdrawn.note(ldns, |_| ());
        queues.for_each(|queue| queue.withdrawn.noted(before));
    }

    /// Notes that the value of an LDNS changed (`first`: to its first value).
    pub(crate) fn rtt_changed<'a>(
        &mut self,
        ldns: Ldns,
        first: bool,
        queues: impl Iterator<Item = &'a mut Queue>,
    ) {
        self.note_rtt(ldns, RttNote { changed: true, first }, queues);
    }

    /// The LDNS of [`Outbox::rtt_missed`] that turned up since the last call.
    pub(crate) fn take_missed(&mut self) -> Vec<Ldns> {
        std::mem::take(&mut self.missed)
    }

    /// Notes that peers may lack the value of an LDNS.
    pub(crate) fn rtt_missed<'a>(&mut self, ldns: Ldns, queues: impl Iterator<Item = &'a mut Queue>) {
        self.note_rtt(ldns, RttNote { changed: false, first: false }, queues);
    }

    fn note_rtt<'a>(&mut self, ldns: Ldns, note: RttNote, queues: impl Iterator<Item = &'a mut Queue>) {
        let before = self.rtts.note(ldns, |old| {
            old.map_or(note, |old| RttNote {
                changed: old.changed || note.changed,
                first: old.first || note.first,
            })
        });
        queues.for_each(|queue| queue.rtts.noted(before));
    }

    /// Notes that an address asked.
    pub(crate) fn sighted<'a>(
        &mut self,
        address: IpAddr,
        seen: Timestamp,
        fresh: bool,
        queues: impl Iterator<Item = &'a mut Queue>,
    ) {
        let before = self.sightings.note(address, |old| {
            old.map_or(SightingNote { seen, fresh }, |old| SightingNote {
                seen: old.seen.max(seen),
                fresh: old.fresh || fresh,
            })
        });
        queues.for_each(|queue| queue.sightings.noted(before));
    }

    /// Notes that a persistence session was used.
    pub(crate) fn session_used<'a>(&mut self, key: SessionKey, queues: impl Iterator<Item = &'a mut Queue>) {
        let before = self.sessions.note(key, |_| ());
        queues.filter(|queue| queue.knows_relays).for_each(|queue| queue.sessions.noted(before));
    }

    /// Likewise.
    pub(crate) fn sessions_due(&mut self) {
        self.sessions_due = self.sessions.last();
    }

    /// Persistence sessions that wait for somebody.
    pub(crate) fn sessions_len(&self) -> usize {
        self.sessions.len()
    }

    /// Lets the changes noted so far be sent.
    pub(crate) fn rtts_due(&mut self) {
        self.rtts_due = self.rtts.last();
        self.withdrawn_due = self.withdrawn.last();
    }

    /// Likewise.
    pub(crate) fn sightings_due(&mut self) {
        self.sightings_due = self.sightings.last();
    }

    /// Takes new site metrics. Returns whether the state of a service changed.
    pub(crate) fn set_metrics(&mut self, now: Timestamp, services: Vec<ServiceMetric>) -> bool {
        let states = |services: &[ServiceMetric]| -> Vec<_> {
            services.iter().map(|service| (service.name.clone(), service.state)).collect()
        };
        let changed = states(&self.metrics) != states(&services);
        self.metrics = services;
        self.metrics_taken = now;
        changed
    }

    /// Entries that wait for somebody.
    pub(crate) fn len(&self) -> usize {
        self.rtts.len() + self.sightings.len() + self.heard.len()
    }

    /// Ends a turn: what was packed is out of date, and what all of these queues have read is forgotten.
    pub(crate) fn end_turn<'a>(&mut self, queues: impl Iterator<Item = &'a Queue>) {
        self.packed.clear();
        let (mut rtts, mut sightings) = (self.rtts.last(), self.sightings.last());
        let mut sessions = self.sessions.last();
        let (mut withdrawn, mut wanted) = (self.withdrawn.last(), self.wanted.last());
        let mut relayed: BTreeMap<&SiteName, u64> = BTreeMap::new();
        for queue in queues {
            rtts = rtts.min(queue.rtts.at);
            sightings = sightings.min(queue.sightings.at);
            withdrawn = withdrawn.min(queue.withdrawn_read);
            wanted = queue.wanted.map_or(wanted, |cursor| wanted.min(cursor.at));
            if queue.knows_relays {
                sessions = sessions.min(queue.sessions.at);
            }
            for (site, stream) in &queue.streams {
                let least = relayed.entry(site).or_insert(stream.rtts.at);
                *least = stream.rtts.at.min(*least);
            }
        }
        self.rtts.forget(rtts);
        self.sightings.forget(sightings);
        self.sessions.forget(sessions);
        self.withdrawn.forget(withdrawn);
        self.wanted.forget(wanted);
        self.heard.forget(&relayed);
    }

    /// Takes a queue that fell too far behind back to the beginning: everything anew, newest values.
    /// Its withdrawals wait on: a snapshot does not tell them.
    pub(crate) fn resync(&mut self, now: Timestamp, queue: &mut Queue) {
        queue.rtts = Cursor::new(self.rtts.last());
        queue.sightings = Cursor::new(self.sightings.last());
        queue.sessions = Cursor::new(self.sessions.last());
        queue.snapshot = Snapshot::NotBegun;
        for (site, stream) in &mut queue.streams {
            self.heard.restart(now, site, stream);
        }
    }
}
