//! What waits to be told, and in which order.
//!
//! The changes are kept once for all peers; a peer's queue is its places in them. Values are read when they are sent.

mod streams;

use crate::log::{ChangeLog, Cursor};
use crate::proto::{self, frame::Body};
use crate::wire::{self, CHUNK};
use crate::{KnownLdns, KnownSession, RttRow, ServiceMetric, SessionKey, Sighting, Values};
use bytes::Bytes;
use gslb_types::{Ldns, NodeId, Reach, SiteName, Timestamp};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use streams::{Heard, Stream};

/// From one chunk of a snapshot to the next: at most 200,000 rows a second to one peer, and others get a word in between.
const SNAPSHOT_PACE: Duration = Duration::from_millis(5);

/// From one snapshot to the next at least, however often a peer asks for it.
const SNAPSHOT_REST: Duration = Duration::from_secs(5);

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

/// What one peer has still to be told.
#[derive(Debug)]
pub(crate) struct Queue {
    rtts: Cursor,
    sightings: Cursor,
    /// LDNS the peer asked for, and whether they were new to it.
    asked: BTreeMap<Ldns, bool>,
    /// LDNS this node asks for.
    wanted: BTreeSet<Ldns>,
    /// The first service that is still to be told.
    metrics: Option<usize>,
    snapshot: Snapshot,
    /// When the last snapshot began, and whether the peer asks for another.
    snapshot_began: Timestamp,
    snapshot_again: bool,
    /// Whether the peer understands what version 1.1 brought: relays, persistence sessions.
    knows_relays: bool,
    sessions: Cursor,
    /// The sites it wants relayed.
    streams: BTreeMap<SiteName, Stream>,
    /// When the next chunk of a walk over one of them may be told, however often they begin.
    walk_next: Timestamp,
}

/// How far the telling of everything has come.
#[derive(Clone, Copy, Debug)]
enum Snapshot {
    NotBegun,
    Walking {
        after: Option<Ldns>,
        next: Timestamp,
    },
    /// Persistence sessions come behind the LDNS.
    Sessions {
        after: Option<SessionKey>,
        next: Timestamp,
    },
    Done,
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

    /// A session with a node stands.
    pub(crate) fn node_up(&mut self, now: Timestamp, node: &NodeId) {
        self.heard.up(now, node);
    }

    /// The session with a node ended. Returns whether somebody must be told that its site is not heard any longer.
    pub(crate) fn node_down<'a>(
        &mut self,
        node: &NodeId,
        queues: impl Iterator<Item = &'a mut Queue>,
    ) -> bool {
        self.heard.down(node)
            && queues.filter_map(|queue| queue.streams.get_mut(&node.site)).map(Stream::lost).count() > 0
    }

    /// A word of a node came.
    pub(crate) fn node_word(&mut self, now: Timestamp, node: &NodeId) {
        self.heard.word(now, node);
    }

    /// A node told its services, as they were at `taken`. Returns whether somebody wants to know at once: a state changed.
    pub(crate) fn node_metrics<'a>(
        &mut self,
        taken: Timestamp,
        node: &NodeId,
        services: &[ServiceMetric],
        queues: impl Iterator<Item = &'a mut Queue>,
    ) -> bool {
        let changed = self.heard.metrics(taken, node, services);
        let streams = queues.filter_map(|queue| queue.streams.get_mut(&node.site));
        streams.map(|stream| stream.metrics_came(node, changed)).count() > 0 && changed
    }

    /// A node told values of its site. Returns whether somebody wants to know.
    pub(crate) fn node_rows<'a>(
        &mut self,
        site: &SiteName,
        rows: &[RttRow],
        queues: impl Iterator<Item = &'a mut Queue>,
    ) -> bool {
        let mut streams: Vec<&mut Stream> = queues.filter_map(|queue| queue.streams.get_mut(site)).collect();
        if streams.is_empty() {
            return false;
        }
        for row in rows {
            let before = self.heard.note(site, row.ldns);
            streams.iter_mut().for_each(|stream| stream.rtts.noted(before));
        }
        true
    }

    /// Lets the changes of other sites noted so far be sent.
    pub(crate) fn relayed_due(&mut self) {
        self.heard.due();
    }

    /// Relays these sites to a peer, and no others.
    pub(crate) fn relay(&mut self, queue: &mut Queue, sites: BTreeSet<SiteName>) {
        queue.streams.retain(|site, _| sites.contains(site));
        for site in sites {
            if let Entry::Vacant(place) = queue.streams.entry(site) {
                let stream = self.heard.stream(place.key());
                place.insert(stream);
            }
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

    /// The next of what is relayed to a peer: news before the walk over everything, which keeps its pace.
    fn relayed(&self, now: Timestamp, queue: &mut Queue, values: &dyn Values) -> Vec<Part> {
        let mut part = None;
        for (site, stream) in &mut queue.streams {
            part = part.or_else(|| self.heard.next(now, site, stream, values));
        }
        for (site, stream) in &mut queue.streams {
            if part.is_none() && queue.walk_next <= now {
                part = self.heard.walk(now, site, stream, values);
                queue.walk_next = if part.is_some() { now + SNAPSHOT_PACE } else { queue.walk_next };
            }
        }
        queue.streams.retain(|_, stream| !stream.is_over());
        part.into_iter().collect()
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
            if let Some(known) = values.known(ldns)
                && (note.changed || known.reach != Reach::Pending)
            {
                rows.push(row(&known));
                firsts.extend(note.first.then(|| sighting(&known)));
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

impl Queue {
    /// Keys that wait to be told; what a snapshot has still before it is not known.
    pub(crate) fn len(&self) -> usize {
        self.lag() + self.asked.len() + self.wanted.len()
    }

    /// When there will be something to say though nothing happens until then.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let snapshot = match self.snapshot {
            Snapshot::Walking { next, .. } | Snapshot::Sessions { next, .. } => Some(next),
            Snapshot::Done if self.snapshot_again => Some(self.snapshot_began + SNAPSHOT_REST),
            Snapshot::NotBegun | Snapshot::Done => None,
        };
        let walk = self.streams.values().any(Stream::walks).then_some(self.walk_next);
        snapshot.into_iter().chain(walk).min()
    }

    /// Notes that the peer asks for a snapshot. One that has begun does not count: the peer may have skipped its beginning.
    pub(crate) fn snapshot_again(&mut self) {
        self.snapshot_again = true;
    }

    /// Lets the ages of the sites that are relayed to the peer be told, and the numbers that came since.
    pub(crate) fn words_due(&mut self) -> bool {
        self.streams.values_mut().map(Stream::word_due).count() > 0
    }

    /// Lets the site metrics be told.
    pub(crate) fn metrics_due(&mut self) {
        self.metrics = Some(0);
    }

    /// Notes that the peer asks for an LDNS, which may be new to it; beyond the cap it is not heard, since it can ask again.
    pub(crate) fn asked(&mut self, ldns: Ldns, fresh: bool, cap: usize) {
        if self.asked.len() < cap {
            *self.asked.entry(ldns).or_default() |= fresh;
        }
    }

    /// Notes that this node asks for an LDNS.
    pub(crate) fn want(&mut self, ldns: Ldns, cap: usize) {
        if self.wanted.len() < cap {
            self.wanted.insert(ldns);
        }
    }

    /// How many changes it keeps from being forgotten.
    pub(crate) fn lag(&self) -> usize {
        let relayed: usize = self.streams.values().map(|stream| stream.rtts.pending).sum();
        self.rtts.pending + self.sightings.pending + self.sessions.pending + relayed
    }

    /// Whether something may wait for room, or to become due.
    pub(crate) fn has_waiting(&self) -> bool {
        let walking = !matches!(self.snapshot, Snapshot::Done) || self.snapshot_again;
        walking || self.metrics.is_some() || self.len() > 0 || self.streams.values().any(Stream::has_waiting)
    }

    fn snapshot(&mut self, now: Timestamp, values: &dyn Values) -> Vec<Part> {
        match self.snapshot {
            Snapshot::NotBegun => {
                self.snapshot = Snapshot::Walking { after: None, next: now };
                (self.snapshot_began, self.snapshot_again) = (now, false);
                vec![Part::new(Body::SnapshotBegin(proto::SnapshotBegin {}))]
            }
            Snapshot::Walking { after, next } if next <= now => self.chunk(now, after, values),
            Snapshot::Sessions { after, next } if next <= now => self.session_chunk(now, after, values),
            Snapshot::Done if self.snapshot_again && self.snapshot_began + SNAPSHOT_REST <= now => {
                self.snapshot = Snapshot::NotBegun;
                self.metrics = Some(0);
                self.snapshot(now, values)
            }
            Snapshot::Walking { .. } | Snapshot::Sessions { .. } | Snapshot::Done => Vec::new(),
        }
    }

    /// Sightings go before rows, so that the peer has entries to write the values into.
    fn chunk(&mut self, now: Timestamp, after: Option<Ldns>, values: &dyn Values) -> Vec<Part> {
        let chunk = values.known_after(after, CHUNK);
        let mut parts = Vec::new();
        if !chunk.is_empty() {
            let sightings: Vec<Sighting> = chunk.iter().map(sighting).collect();
            parts.push(Part::new(wire::sightings(&sightings)));
        }
        let rows: Vec<RttRow> = chunk.iter().filter(|k| k.reach != Reach::Pending).map(row).collect();
        if !rows.is_empty() {
            parts.push(Part::rtts(&rows));
        }
        // A chunk may be short because some of its entries have just gone; only an empty one is the end.
        let last = chunk.last().map(|known| known.ldns).filter(|last| Some(*last) > after);
        if last.is_some() {
            self.snapshot = Snapshot::Walking { after: last, next: now + SNAPSHOT_PACE };
        } else if self.knows_relays {
            self.snapshot = Snapshot::Sessions { after: None, next: now };
        } else {
            parts.push(self.end_snapshot());
        }
        if parts.is_empty() { self.snapshot(now, values) } else { parts }
    }

    fn session_chunk(&mut self, now: Timestamp, after: Option<SessionKey>, values: &dyn Values) -> Vec<Part> {
        let chunk = values.sessions_after(after.as_ref(), CHUNK);
        let mut parts = Vec::new();
        if !chunk.is_empty() {
            parts.push(Part::new(wire::sessions(&chunk)));
        }
        match chunk.last().map(|session| session.key).filter(|last| Some(*last) > after) {
            Some(last) => {
                self.snapshot = Snapshot::Sessions { after: Some(last), next: now + SNAPSHOT_PACE };
            }
            None => parts.push(self.end_snapshot()),
        }
        parts
    }

    fn end_snapshot(&mut self) -> Part {
        self.snapshot = Snapshot::Done;
        Part { ends_snapshot: true, ..Part::new(Body::SnapshotEnd(proto::SnapshotEnd {})) }
    }
}

fn row(known: &KnownLdns) -> RttRow {
    RttRow { ldns: known.ldns, reach: known.reach, kind: known.kind, age: known.age }
}

fn sighting(known: &KnownLdns) -> Sighting {
    Sighting { address: known.address, age: known.seen, fresh: false }
}
