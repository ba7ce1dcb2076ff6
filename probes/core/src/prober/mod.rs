//! The LDNS probe machine: which LDNS is probed when, with what, and what the replies mean (behaviour 3).
//!
//! A query makes an LDNS known here ([`Prober::handle_sighting`]); from then on it is probed in rounds until nobody has
//! heard of it for the idle timeout. A round tries the kinds one after the other until one measures. Because the source of a
//! query can be forged, every packet is drawn from budgets: of the node, of newcomers, and of the prefix it goes to; whoever
//! finds a budget used up waits for its turn (threat T3, faults I-39 and I-67).
//!
//! Nothing here walks all entries, except a change of the settings.

mod admission;
mod entry;
mod order;
mod permission;
mod queues;
mod recent;
mod reload;
mod rounds;
mod settings;
mod sharing;
mod table;
#[cfg(test)]
mod tests;
mod view;

pub use crate::share::Share;
pub use settings::Settings;
pub use view::{EntryView, LdnsState};

use crate::budget::{Bucket, Prefixes};
use crate::chance::{Chance, Ids};
use crate::stats::ProberStats;
use crate::wire::{ProbeId, ProbeReply, ProbeRequest};
use entry::{Awaited, Entry, Phase, Seen};
use gslb_types::{Ldns, ProbeKind, Rtt, Timestamp};
use permission::Permission;
use queues::Queues;
use recent::Recent;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use table::Table;

/// How many idle entries one call removes, and when the next may: a node that slept for longer than the idle timeout
/// answers queries in between (reliability R13).
const IDLE_BATCH: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// Room for outputs that is kept. A node task that takes over a table admits all of it in one go.
const KEPT_OUTPUTS: usize = 4_096;

/// Two queries at least this far apart came in different seconds, even if a peer that speaks of one of them errs by the
/// way to it.
const SECOND: Duration = Duration::from_secs(1);

/// Who heard the query that a sighting speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// This node.
    Own,
    /// Another node of the group.
    Peer,
}

/// What a sighting did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sighting {
    /// There is a new entry.
    Admitted,
    /// The entry was there; the query is its last one now, unless a later one was known.
    Refreshed,
    /// The address is never probed, so it has no entry.
    NeverProbed,
    /// The query is older than the idle timeout: no entry is worth making.
    TooOld,
    /// The table is full of entries that are better proven.
    TurnedAway,
}

/// What the machine wants done, or wants known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send this, and report what became of it.
    Send(ProbeRequest),
    /// A new entry.
    Admitted {
        /// The entry.
        ldns: Ldns,
        /// Who asked, and will be probed.
        address: IpAddr,
    },
    /// One RTT of ours.
    Sample {
        /// The entry.
        ldns: Ldns,
        /// What was measured.
        rtt: Rtt,
        /// The kind that measured it.
        kind: ProbeKind,
    },
    /// So many rounds failed in a row that the value no longer holds. Said again after each further failed round, so that
    /// it does not age out.
    Unreachable {
        /// The entry.
        ldns: Ldns,
    },
    /// The entry is gone: idle, pushed out by a newcomer, or excluded by new settings.
    Removed {
        /// The entry.
        ldns: Ldns,
        /// Whether it is gone because it was idle, as it will be everywhere at about the same time. Otherwise others go on
        /// using what was told of it, and must hear that it holds no longer.
        was_idle: bool,
    },
}

/// Probes the LDNS of one node.
pub struct Prober {
    settings: Settings,
    table: Table,
    recent: Recent,
    /// Entries in [`Phase::Due`] and [`Phase::PutOff`].
    queues: Queues,
    /// Entries in [`Phase::Probing`].
    deadlines: BTreeSet<(Timestamp, u32)>,
    awaited: BTreeMap<ProbeId, Awaited>,
    probes: Bucket,
    newcomers: Bucket,
    prefixes: Prefixes,
    permission: Permission,
    /// `None`: all LDNS are this node's.
    share: Option<Share>,
    /// Entries in [`Phase::Resting`].
    resting: usize,
    idle_not_before: Timestamp,
    ids: Ids,
    chance: Chance,
    outputs: VecDeque<Output>,
    stats: ProberStats,
}

impl Prober {
    /// A prober that knows no LDNS. The seed gives jitter, the first probe's number and the hashes: random in production.
    pub fn new(settings: Settings, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        Prober {
            table: Table::new(seed, settings.masks),
            recent: Recent::new(seed),
            queues: Queues::new(),
            deadlines: BTreeSet::new(),
            awaited: BTreeMap::new(),
            probes: Bucket::new(settings.per_second),
            newcomers: Bucket::new(settings.new_per_second),
            prefixes: Prefixes::new(seed, settings.per_prefix),
            permission: Permission::default(),
            share: None,
            resting: 0,
            idle_not_before: Timestamp::ZERO,
            ids: Ids::of_probes(&mut chance),
            chance,
            outputs: VecDeque::new(),
            stats: ProberStats::default(),
            settings,
        }
    }

    /// Notes that `address` asked somebody in the group `age` ago. A new LDNS is probed at once, as far as the budgets go.
    pub fn handle_sighting(
        &mut self,
        now: Timestamp,
        address: IpAddr,
        age: Duration,
        origin: Origin,
    ) -> Sighting {
        let address = address.to_canonical();
        let ldns = Ldns::of(address, self.settings.masks);
        let seen = Seen::before(now, age);
        let sighting = match self.table.find(ldns) {
            Some(index) => self.refresh(index, address, seen, origin),
            None => self.admit(now, ldns, address, seen),
        };
        self.send_due(now);
        sighting
    }

    /// Takes in what became of a probe. A reply to no probe that is awaited is counted and otherwise ignored.
    pub fn handle_reply(&mut self, now: Timestamp, reply: ProbeReply) {
        match self.awaited.get(&reply.id).copied() {
            Some(awaited) => {
                self.learn_permission(now, awaited, reply.outcome);
                self.settle(now, awaited.index, reply.outcome);
            }
            None => self.stats.late += 1,
        }
        self.send_due(now);
    }

    /// Does what time has come for.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.give_up_overdue(now);
        self.remove_idle(now);
        self.send_due(now);
    }

    /// The next thing to do or to know. To be called after each `handle_…` until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() && self.outputs.capacity() > KEPT_OUTPUTS {
            self.outputs = VecDeque::new();
        }
        output
    }

    /// When [`Prober::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let idle = self.table.next_idle().map(|at| at.max(self.idle_not_before));
        let due = self.queues.next(self.probes.opens(), self.newcomers.opens());
        [deadline, idle, due].into_iter().flatten().min()
    }

    fn refresh(&mut self, index: u32, address: IpAddr, seen: Seen, origin: Origin) -> Sighting {
        let Some(entry) = self.table.get(index) else { return Sighting::NeverProbed };
        if entry.address != address && !admission::is_probed(&self.settings, address) {
            return Sighting::NeverProbed;
        }
        let is_latest = seen > entry.seen || (seen == entry.seen && origin == Origin::Own);
        let returns = !entry.has_returned && seen.apart(entry.first_seen) >= SECOND;
        self.table.see(index, seen);
        if returns {
            self.dequeue(index);
        }
        if let Some(entry) = self.table.get_mut(index) {
            if is_latest {
                entry.address = address;
            }
            entry.has_returned |= returns;
        }
        if returns {
            self.enqueue(index);
            self.table.reprove(index, &self.settings);
        }
        Sighting::Refreshed
    }

    fn admit(&mut self, now: Timestamp, ldns: Ldns, address: IpAddr, seen: Seen) -> Sighting {
        if !admission::is_probed(&self.settings, address) {
            return Sighting::NeverProbed;
        }
        if seen.plus(self.settings.idle_timeout) <= now {
            return Sighting::TooOld;
        }
        if self.table.len() >= self.settings.cap && !self.make_room(seen) {
            self.stats.turned_away += 1;
            return Sighting::TurnedAway;
        }
        let due = now.max(self.recent.not_before(ldns));
        let index = self.table.insert(Entry::new(due, address, seen), self.settings.idle_timeout);
        self.enqueue(index);
        if !self.is_ours(ldns) {
            self.hand_over(index);
        }
        self.outputs.push_back(Output::Admitted { ldns, address });
        Sighting::Admitted
    }

    /// Pushes out the unproven entry seen longest ago, if that is longer ago than `seen`.
    fn make_room(&mut self, seen: Seen) -> bool {
        match self.table.weakest() {
            Some((weakest, index)) if weakest <= seen => {
                self.stats.evicted += 1;
                self.remove(index, false);
                true
            }
            Some(_) | None => false,
        }
    }

    fn remove_idle(&mut self, now: Timestamp) {
        if now < self.idle_not_before {
            return;
        }
        for _ in 0..IDLE_BATCH {
            let Some(index) = self.table.maybe_idle(now) else { return };
            if self.table.review_idle(index, self.settings.idle_timeout).is_none_or(|at| at <= now) {
                self.remove(index, true);
            }
        }
        self.idle_not_before = now + PAUSE;
    }

    fn remove(&mut self, index: u32, was_idle: bool) {
        self.leave_queue(index);
        let Some(entry) = self.table.remove(index) else { return };
        let ldns = self.table.ldns_of(&entry);
        if entry.was_probed {
            let again = entry.started + self.settings.period(entry.failed_rounds);
            self.recent.note(ldns, entry.started, again);
        }
        self.resting -= usize::from(!entry.ours);
        self.expect_no_more(entry.phase);
        self.outputs.push_back(Output::Removed { ldns, was_idle });
    }

    /// The probe that is out, if one is, is awaited no longer.
    fn expect_no_more(&mut self, phase: Phase) -> Option<Awaited> {
        let Phase::Probing(id) = phase else { return None };
        let awaited = self.awaited.remove(&id)?;
        self.deadlines.remove(&(awaited.deadline, awaited.index));
        Some(awaited)
    }
}
