//! What one peer has still to be told: its places in what all are told, what it asked for, and how far everything is.

use super::streams::Stream;
use super::{Part, SNAPSHOT_PACE, row, sighting};
use crate::log::Cursor;
use crate::proto::{self, frame::Body};
use crate::wire::{self, CHUNK};
use crate::{RttRow, SessionKey, Sighting, Values};
use gslb_types::{Ldns, Reach, SiteName, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// From one snapshot to the next at least, however often a peer asks for it.
const SNAPSHOT_REST: Duration = Duration::from_secs(5);

/// What one peer has still to be told.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) rtts: Cursor,
    pub(super) sightings: Cursor,
    /// LDNS the peer asked for, and whether they were new to it.
    pub(super) asked: BTreeMap<Ldns, bool>,
    /// LDNS this node asks for.
    pub(super) wanted: BTreeSet<Ldns>,
    /// The first service that is still to be told.
    pub(super) metrics: Option<usize>,
    pub(super) snapshot: Snapshot,
    /// When the last snapshot began, and whether the peer asks for another.
    pub(super) snapshot_began: Timestamp,
    pub(super) snapshot_again: bool,
    /// Whether the peer understands what version 1.1 brought: relays, persistence sessions.
    pub(super) knows_relays: bool,
    pub(super) sessions: Cursor,
    /// The sites it wants relayed.
    pub(super) streams: BTreeMap<SiteName, Stream>,
    /// When the next chunk of a walk over one of them may be told, however often they begin.
    pub(super) walk_next: Timestamp,
}

/// How far the telling of everything has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Snapshot {
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

    pub(super) fn snapshot(&mut self, now: Timestamp, values: &dyn Values) -> Vec<Part> {
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
