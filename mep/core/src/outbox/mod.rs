//! What waits to be told, and in which order.
//!
//! The changes are kept once for all peers; a peer's queue is its places in them. Values are read when they are sent.

mod queue;
mod relaying;
mod streams;

pub(crate) use queue::Queue;

use crate::log::{ChangeLog, Cursor};
use crate::proto::frame::Body;
use crate::wire::{self, CHUNK};
use crate::{KnownLdns, KnownSession, RttRow, ServiceMetric, SessionKey, Sighting, Values};
use bytes::Bytes;
use gslb_types::{Ldns, Reach, SiteName, Timestamp};
use queue::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use streams::Heard;

/// From one chunk of a snapshot to the next: at most 200,000 rows a second to one peer, and others get a word in between.
const SNAPSHOT_PACE: Duration = Duration::from_millis(5);

/// The changes that not every peer has been told.
pub(crate) struct Outbox {
    rtts: ChangeLog<Ldns, RttNote>,
    rtts_due: u64,
    sightings: ChangeLog<IpAddr, SightingNote>,
    sightings_due: u64,
    metrics: Vec<ServiceMetric>,
    metrics_taken: Timestamp,
    /// Pieces of changes that were packed, by the number they begin after: other peers are most likely at the same places.
    /// Valid for one turn, since values change between turns.
    packed: BTreeMap<u64, Packed>,
    /// LDNS that were new to somebody although this node has a value of them.
    missed: Vec<Ldns>,
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

/// The body of one frame.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) body: Bytes,
    /// RTT rows in it.
    pub(crate) rows: u64,
    /// RTT rows of another site in it.
    pub(crate) relayed: u64,
    pub(crate) ends_snapshot: bool,
}

impl Part {
    pub(crate) fn new(body: Body) -> Self {
        Part { body: wire::body(body), rows: 0, relayed: 0, ends_snapshot: false }
    }

    fn rtts(rows: &[RttRow]) -> Self {
        Part { rows: rows.len() as u64, ..Part::new(wire::rtts(rows)) }
    }
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
            wanted: BTreeSet::new(),
            metrics: Some(0),
            snapshot: Snapshot::NotBegun,
            snapshot_began: Timestamp::ZERO,
            snapshot_again: false,
            knows_relays,
            sessions: Cursor::new(self.sessions.last()),
            streams: BTreeMap::new(),
            walk_next: Timestamp::ZERO,
        }
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

    /// The next frames for a peer; empty when it has been told all that is due.
    pub(crate) fn next(&mut self, now: Timestamp, queue: &mut Queue, values: &dyn Values) -> Vec<Part> {
        loop {
            let parts = if let Some(from) = queue.metrics {
                self.metrics(now, from, queue)
            } else if queue.sightings.pending > 0 && queue.sightings.at < self.sightings_due {
                self.sightings(now, queue)
            } else if !queue.wanted.is_empty() {
                let wanted: Vec<Ldns> = std::iter::from_fn(|| queue.wanted.pop_first()).take(CHUNK).collect();
                vec![Part::new(wire::wanted(&wanted))]
            } else if !queue.asked.is_empty() {
                self.answers(now, queue, values)
            } else if queue.rtts.pending > 0 && queue.rtts.at < self.rtts_due {
                self.changes(queue, values)
            } else if queue.sessions.pending > 0 && queue.sessions.at < self.sessions_due {
                self.uses(queue, values)
            } else {
                let relayed = self.relayed(now, queue, values);
                return if relayed.is_empty() { queue.snapshot(now, values) } else { relayed };
            };
            if !parts.is_empty() {
                return parts;
            }
        }
    }

    /// Ends a turn: what was packed is out of date, and what all of these queues have read is forgotten.
    pub(crate) fn end_turn<'a>(&mut self, queues: impl Iterator<Item = &'a Queue>) {
        self.packed.clear();
        let (mut rtts, mut sightings) = (self.rtts.last(), self.sightings.last());
        let mut sessions = self.sessions.last();
        let mut relayed: BTreeMap<&SiteName, u64> = BTreeMap::new();
        for queue in queues {
            rtts = rtts.min(queue.rtts.at);
            sightings = sightings.min(queue.sightings.at);
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
        self.heard.forget(&relayed);
    }

    /// Takes a queue that fell too far behind back to the beginning: everything anew, newest values.
    pub(crate) fn resync(&mut self, queue: &mut Queue) {
        queue.rtts = Cursor::new(self.rtts.last());
        queue.sightings = Cursor::new(self.sightings.last());
        queue.sessions = Cursor::new(self.sessions.last());
        queue.snapshot = Snapshot::NotBegun;
        for (site, stream) in &mut queue.streams {
            self.heard.restart(site, stream);
        }
    }

    fn metrics(&self, now: Timestamp, from: usize, queue: &mut Queue) -> Vec<Part> {
        let rest = self.metrics.get(from..).unwrap_or_default();
        let chunk = rest.get(..CHUNK).unwrap_or(rest);
        queue.metrics = (rest.len() > chunk.len()).then_some(from + chunk.len());
        if chunk.is_empty() {
            return Vec::new();
        }
        vec![Part::new(wire::metrics(chunk, now.since(self.metrics_taken)))]
    }

    fn sightings(&self, now: Timestamp, queue: &mut Queue) -> Vec<Part> {
        let mut upto = self.sightings_due;
        let mut told = Vec::new();
        for (number, address, note) in self.sightings.between(queue.sightings.at, self.sightings_due) {
            if told.len() == CHUNK {
                break;
            }
            told.push(Sighting { address, age: now.since(note.seen), fresh: note.fresh });
            upto = number;
        }
        if told.len() < CHUNK {
            upto = self.sightings_due;
        }
        queue.sightings.read(upto, told.len());
        if told.is_empty() { Vec::new() } else { vec![Part::new(wire::sightings(&told))] }
    }

    /// An LDNS that was new to a peer was new to those it told, too: the value is told to all of them.
    fn answers(&mut self, now: Timestamp, queue: &mut Queue, values: &dyn Values) -> Vec<Part> {
        let mut rows = Vec::new();
        let asked: Vec<(Ldns, bool)> = std::iter::from_fn(|| queue.asked.pop_first()).take(CHUNK).collect();
        for &(ldns, fresh) in &asked {
            if let Some(known) = values.known(ldns).filter(|known| known.reach != Reach::Pending) {
                rows.push(row(&known));
                self.missed.extend(fresh.then_some(ldns));
            }
        }
        let own = (!rows.is_empty()).then(|| Part::rtts(&rows));
        let asked: Vec<Ldns> = asked.into_iter().map(|(ldns, _)| ldns).collect();
        let heard = &self.heard;
        let relayed = queue
            .streams
            .iter_mut()
            .filter_map(|(site, stream)| heard.answer(now, site, stream, &asked, values));
        own.into_iter().chain(relayed).collect()
    }

    fn uses(&self, queue: &mut Queue, values: &dyn Values) -> Vec<Part> {
        let (mut upto, mut entries) = (self.sessions_due, 0);
        let mut told: Vec<KnownSession> = Vec::new();
        for (number, key, ()) in self.sessions.between(queue.sessions.at, self.sessions_due).take(CHUNK) {
            entries += 1;
            if entries == CHUNK {
                upto = number;
            }
            told.extend(values.session(&key));
        }
        queue.sessions.read(upto, entries);
        if told.is_empty() { Vec::new() } else { vec![Part::new(wire::sessions(&told))] }
    }

    fn changes(&mut self, queue: &mut Queue, values: &dyn Values) -> Vec<Part> {
        let from = queue.rtts.at;
        let packed = match self.packed.remove(&from) {
            Some(packed) => packed,
            None => self.pack(from, values),
        };
        queue.rtts.read(packed.upto, packed.entries);
        let parts = packed.parts.clone();
        self.packed.insert(from, packed);
        parts
    }

    fn pack(&self, from: u64, values: &dyn Values) -> Packed {
        let (mut upto, mut entries) = (self.rtts_due, 0);
        let (mut firsts, mut rows) = (Vec::new(), Vec::new());
        for (number, ldns, note) in self.rtts.between(from, self.rtts_due) {
            upto = number;
            entries += 1;
            match values.known(ldns) {
                Some(known) if note.changed || known.reach != Reach::Pending => {
                    rows.push(row(&known));
                    firsts.extend(note.first.then(|| sighting(&known)));
                }
                // The entry is gone, and what was told of it with it.
                None if note.changed => {
                    rows.push(RttRow { ldns, reach: Reach::Pending, kind: None, age: Duration::ZERO });
                }
                Some(_) | None => {}
            }
            if entries == CHUNK {
                break;
            }
        }
        if entries < CHUNK {
            upto = self.rtts_due;
        }
        let sightings = (!firsts.is_empty()).then(|| Part::new(wire::sightings(&firsts)));
        let rtts = (!rows.is_empty()).then(|| Part::rtts(&rows));
        Packed { upto, entries, parts: sightings.into_iter().chain(rtts).collect() }
    }
}

fn row(known: &KnownLdns) -> RttRow {
    RttRow { ldns: known.ldns, reach: known.reach, kind: known.kind, age: known.age }
}

fn sighting(known: &KnownLdns) -> Sighting {
    Sighting { address: known.address, age: known.seen, fresh: false }
}
