//! Telling everything, in chunks, with words of others in between.

use super::part::{Part, row, sighting};
use super::steps::Step;
use super::{PACE, Queue};
use crate::proto::{self, frame::Body};
use crate::wire::{self, CHUNK};
use crate::{RttRow, SessionKey, Sighting, Values};
use gslb_types::{Ldns, Reach, Timestamp};
use std::time::Duration;

/// From one snapshot to the next at least, however often a peer asks for it.
pub(super) const SNAPSHOT_REST: Duration = Duration::from_secs(5);

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
    /// The next of it, unless that is to come later.
    pub(super) fn snapshot(&mut self, now: Timestamp, values: &dyn Values) -> Step {
        Step::Went(match self.snapshot {
            Snapshot::NotBegun => self.begin_snapshot(now),
            Snapshot::Walking { after, next } if next <= now => self.chunk(now, after, values),
            Snapshot::Sessions { after, next } if next <= now => self.session_chunk(now, after, values),
            Snapshot::Done if self.snapshot_again && self.snapshot_began + SNAPSHOT_REST <= now => {
                self.metrics = Some(0);
                self.begin_snapshot(now)
            }
            Snapshot::Walking { .. } | Snapshot::Sessions { .. } | Snapshot::Done => return Step::Idle,
        })
    }

    fn begin_snapshot(&mut self, now: Timestamp) -> Vec<Part> {
        self.snapshot = Snapshot::Walking { after: None, next: now };
        (self.snapshot_began, self.snapshot_again) = (now, false);
        vec![Part::new(Body::SnapshotBegin(proto::SnapshotBegin {}))]
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
            self.snapshot = Snapshot::Walking { after: last, next: now + PACE };
        } else if self.knows_relays {
            self.snapshot = Snapshot::Sessions { after: None, next: now };
        } else {
            parts.push(self.end_snapshot());
        }
        parts
    }

    fn session_chunk(&mut self, now: Timestamp, after: Option<SessionKey>, values: &dyn Values) -> Vec<Part> {
        let chunk = values.sessions_after(after.as_ref(), CHUNK);
        let mut parts = Vec::new();
        if !chunk.is_empty() {
            parts.push(Part::new(wire::sessions(&chunk)));
        }
        match chunk.last().map(|session| session.key).filter(|last| Some(*last) > after) {
            Some(last) => {
                self.snapshot = Snapshot::Sessions { after: Some(last), next: now + PACE };
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
