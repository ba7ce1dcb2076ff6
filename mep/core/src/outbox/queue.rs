//! What one peer has still to be told: its places in what all are told, what it asked for, and how far everything is.

use super::snapshot::{SNAPSHOT_REST, Snapshot};
use super::streams::Stream;
use crate::log::Cursor;
use crate::wire;
use gslb_types::{Ldns, SiteName, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// LDNS that a peer asks for and that wait to be looked at, at most: eight frames full. The others are counted and dropped, since
/// whoever still misses them asks again.
const MOST_ASKED: usize = 8 * wire::MOST_ITEMS;

/// What one peer has still to be told.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) rtts: Cursor,
    pub(super) sightings: Cursor,
    /// LDNS the peer asked for, and whether they were new to it.
    pub(super) asked: BTreeMap<Ldns, bool>,
    /// When the next of them are looked at.
    pub(super) asked_next: Timestamp,
    /// The LDNS this node wants; `None` while the peer is still telling all it knows.
    pub(super) wanted: Option<Cursor>,
    pub(super) withdrawn: Cursor,
    /// Up to which withdrawal the peer has acknowledged, and what is on its way: number of the frame, and of its last one.
    pub(super) withdrawn_read: u64,
    pub(super) withdrawn_sent: VecDeque<(u64, u64)>,
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
    /// When each site last began to be relayed.
    pub(super) began: BTreeMap<SiteName, Timestamp>,
    /// When the next chunk of a walk over one of them may be told, however often they begin.
    pub(super) walk_next: Timestamp,
}

impl Queue {
    /// Keys that wait to be told; what a snapshot has still before it is not known.
    pub(crate) fn len(&self) -> usize {
        self.lag() + self.withdrawn.pending + self.asked.len() + self.wants()
    }

    /// When there will be something to say though nothing happens until then.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let snapshot = match self.snapshot {
            Snapshot::Walking { next, .. } | Snapshot::Sessions { next, .. } => Some(next),
            Snapshot::Done if self.snapshot_again => Some(self.snapshot_began + SNAPSHOT_REST),
            Snapshot::NotBegun | Snapshot::Done => None,
        };
        let walk = self.streams.values().any(Stream::walks).then_some(self.walk_next);
        let answers = (!self.asked.is_empty()).then_some(self.asked_next);
        let begins = self.streams.values().filter_map(Stream::begins_at);
        snapshot.into_iter().chain(walk).chain(answers).chain(begins).min()
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

    /// Notes that the peer asks for an LDNS, which may be new to it. Returns whether there was room: too many may wait.
    pub(crate) fn asked(&mut self, ldns: Ldns, fresh: bool) -> bool {
        let has_room = self.asked.len() < MOST_ASKED;
        if has_room {
            *self.asked.entry(ldns).or_default() |= fresh;
        }
        has_room
    }

    /// Notes that a frame which tells withdrawals up to a number was sent.
    pub(crate) fn withdrew(&mut self, frame: u64, upto: u64) {
        self.withdrawn_sent.push_back((frame, upto));
    }

    /// Notes that the peer has read so far. What it has not read is told again if the session goes on over another connection.
    pub(crate) fn acknowledged(&mut self, ack: u64) {
        while let Some((frame, upto)) = self.withdrawn_sent.front().copied()
            && frame <= ack
        {
            self.withdrawn_sent.pop_front();
            self.withdrawn_read = self.withdrawn_read.max(upto);
        }
        if self.withdrawn_sent.is_empty() && self.withdrawn.pending == 0 {
            self.withdrawn_read = self.withdrawn_read.max(self.withdrawn.at);
        }
    }

    /// Up to which withdrawal it has acknowledged all: those after it are kept for it.
    pub(crate) fn withdrawn_read(&self) -> u64 {
        self.withdrawn_read
    }

    /// The peer begins to tell all it knows: it is asked for nothing.
    pub(crate) fn wants_nothing(&mut self) {
        self.wanted = None;
    }

    /// How many LDNS this node has still to ask it for.
    pub(super) fn wants(&self) -> usize {
        self.wanted.map_or(0, |wanted| wanted.pending)
    }

    /// How many changes it keeps from being forgotten, and would not if everything were told anew.
    pub(crate) fn lag(&self) -> usize {
        let relayed: usize = self.streams.values().map(|stream| stream.rtts.pending).sum();
        self.rtts.pending + self.sightings.pending + self.sessions.pending + relayed
    }

    /// Whether something may wait for room, or to become due.
    pub(crate) fn has_waiting(&self) -> bool {
        let walking = !matches!(self.snapshot, Snapshot::Done) || self.snapshot_again;
        walking || self.metrics.is_some() || self.len() > 0 || self.streams.values().any(Stream::has_waiting)
    }
}
