//! What a peer is told next: one step at a time, of about a chunk each, however much waits.

use super::part::{Part, row, sighting};
use super::{Outbox, PACE, Packed, Queue};
use crate::wire::{self, CHUNK};
use crate::{KnownSession, RttRow, Sighting, Values};
use gslb_types::{Ldns, Reach, Timestamp};
use std::time::Duration;

/// What came of a step.
pub(crate) enum Step {
    /// Everything that is due has been told.
    Idle,
    /// Something was looked at. There may be more.
    Went(Vec<Part>),
}

impl Outbox {
    /// Takes the next step for a peer: about a chunk of look-ups at most, of which nothing to tell may come.
    pub(crate) fn next(&mut self, now: Timestamp, queue: &mut Queue, values: &dyn Values) -> Step {
        Step::Went(if let Some(from) = queue.metrics {
            self.metrics(now, from, queue)
        } else if queue.sightings.pending > 0 && queue.sightings.at < self.sightings_due {
            self.sightings(now, queue)
        } else if queue.wants() > 0 {
            self.wishes(queue)
        } else if !queue.asked.is_empty() && queue.asked_next <= now {
            self.answers(now, queue, values)
        } else if queue.withdrawn.pending > 0 && queue.withdrawn.at < self.withdrawn_due {
            self.withdrawals(queue, values)
        } else if queue.rtts.pending > 0 && queue.rtts.at < self.rtts_due {
            self.changes(queue, values)
        } else if queue.sessions.pending > 0 && queue.sessions.at < self.sessions_due {
            self.uses(queue, values)
        } else {
            return match self.relayed(now, queue, values) {
                Step::Idle => queue.snapshot(now, values),
                went @ Step::Went(_) => went,
            };
        })
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

    fn wishes(&self, queue: &mut Queue) -> Vec<Part> {
        let Some(cursor) = queue.wanted.as_mut() else { return Vec::new() };
        let wanted: Vec<(u64, Ldns)> = self
            .wanted
            .between(cursor.at, self.wanted.last())
            .take(CHUNK)
            .map(|(number, ldns, ())| (number, ldns))
            .collect();
        let upto = wanted.last().filter(|_| wanted.len() == CHUNK).map_or(self.wanted.last(), |(n, _)| *n);
        cursor.read(upto, wanted.len());
        let wanted: Vec<Ldns> = wanted.into_iter().map(|(_, ldns)| ldns).collect();
        if wanted.is_empty() { Vec::new() } else { vec![Part::new(wire::wanted(&wanted))] }
    }

    /// An LDNS that was new to a peer was new to those it told, too: the value is told to all of them. With every site that is
    /// relayed an answer costs one more look-up, so there are fewer at a time; of an LDNS without an entry nothing is known of
    /// any site (threat T8).
    fn answers(&mut self, now: Timestamp, queue: &mut Queue, values: &dyn Values) -> Vec<Part> {
        queue.asked_next = now + PACE;
        let most = (CHUNK / (1 + queue.streams.len())).max(1);
        let (mut rows, mut entries) = (Vec::new(), Vec::new());
        for (ldns, fresh) in std::iter::from_fn(|| queue.asked.pop_first()).take(most) {
            let Some(known) = values.known(ldns) else { continue };
            entries.push(ldns);
            if known.reach != Reach::Pending {
                rows.push(row(&known));
                self.missed.extend(fresh.then_some(ldns));
            }
        }
        let own = (!rows.is_empty()).then(|| Part::rtts(&rows));
        let heard = &self.heard;
        let streams = queue.streams.iter_mut().filter(|_| !entries.is_empty());
        let relayed = streams.filter_map(|(site, stream)| heard.answer(now, site, stream, &entries, values));
        own.into_iter().chain(relayed).collect()
    }

    /// A value that is there again is told as a change.
    fn withdrawals(&self, queue: &mut Queue, values: &dyn Values) -> Vec<Part> {
        let (mut upto, mut entries) = (self.withdrawn_due, 0);
        let mut rows = Vec::new();
        for (number, ldns, ()) in self.withdrawn.between(queue.withdrawn.at, self.withdrawn_due).take(CHUNK) {
            entries += 1;
            if entries == CHUNK {
                upto = number;
            }
            if values.known(ldns).is_none_or(|known| known.reach == Reach::Pending) {
                rows.push(withdrawal(ldns));
            }
        }
        queue.withdrawn.read(upto, entries);
        let part = (!rows.is_empty()).then(|| Part { withdraws: Some(upto), ..Part::rtts(&rows) });
        part.into_iter().collect()
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
                    rows.push(withdrawal(ldns));
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

pub(super) fn withdrawal(ldns: Ldns) -> RttRow {
    RttRow { ldns, reach: Reach::Pending, kind: None, age: Duration::ZERO }
}
