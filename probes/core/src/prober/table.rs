//! The entries, and the orders in which they go.

use super::Settings;
use super::entry::{Entry, Seen};
use foldhash::fast::FixedState;
use gslb_types::{Ldns, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// All entries, found by LDNS or by index, with the orders of idleness and of eviction.
///
/// Whoever changes what [`Entry::is_proven`] depends on calls [`Table::reprove`].
pub(super) struct Table {
    by_ldns: HashMap<Ldns, u32, FixedState>,
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Each entry once, at a moment when it cannot have been idle for longer than the timeout. Sightings leave it alone;
    /// it is put right when its moment comes.
    idle: BTreeSet<(Timestamp, u32)>,
    idle_keys: Vec<Timestamp>,
    /// Those a newcomer may push out, the one seen longest ago first.
    unproven: BTreeSet<(Seen, u32)>,
}

impl Table {
    /// An empty table. The seed keeps strangers from choosing addresses that collide (threat T12).
    pub(super) fn new(seed: u64) -> Self {
        Table {
            by_ldns: HashMap::with_hasher(FixedState::with_seed(seed)),
            slots: Vec::new(),
            free: Vec::new(),
            idle: BTreeSet::new(),
            idle_keys: Vec::new(),
            unproven: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_ldns.len()
    }

    pub(super) fn proven(&self) -> usize {
        self.by_ldns.len() - self.unproven.len()
    }

    pub(super) fn find(&self, ldns: Ldns) -> Option<u32> {
        self.by_ldns.get(&ldns).copied()
    }

    pub(super) fn get(&self, index: u32) -> Option<&Entry> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// The entries, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().flatten()
    }

    /// The indices in use. Walks the whole table: for changes of the configuration only.
    pub(super) fn indices(&self) -> Vec<u32> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.is_some()).map(|(index, _)| index).collect()
    }

    /// Adds an unproven entry.
    pub(super) fn insert(&mut self, entry: Entry, idle_timeout: Duration) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.idle_keys.push(Timestamp::ZERO);
            (self.slots.len() - 1) as u32
        });
        self.by_ldns.insert(entry.ldns, index);
        self.unproven.insert((entry.seen, index));
        let expires = entry.seen.plus(idle_timeout);
        self.slots[index as usize] = Some(entry);
        self.idle_keys[index as usize] = expires;
        self.idle.insert((expires, index));
        index
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Entry> {
        let entry = self.slots.get_mut(index as usize)?.take()?;
        self.by_ldns.remove(&entry.ldns);
        self.unproven.remove(&(entry.seen, index));
        self.idle.remove(&(self.idle_keys[index as usize], index));
        self.free.push(index);
        Some(entry)
    }

    /// Notes a sighting; one that is older than the last changes nothing.
    pub(super) fn see(&mut self, index: u32, seen: Seen) {
        let Some(entry) = self.slots.get_mut(index as usize).and_then(Option::as_mut) else { return };
        if seen > entry.seen {
            if self.unproven.remove(&(entry.seen, index)) {
                self.unproven.insert((seen, index));
            }
            entry.seen = seen;
        }
    }

    /// Puts the entry among those that newcomers may push out, or takes it out of them.
    pub(super) fn reprove(&mut self, index: u32, settings: &Settings) {
        let Some(entry) = self.get(index) else { return };
        let key = (entry.seen, index);
        if entry.is_proven(settings) {
            self.unproven.remove(&key);
        } else {
            self.unproven.insert(key);
        }
    }

    /// The unproven entry seen longest ago, and when.
    pub(super) fn weakest(&self) -> Option<(Seen, u32)> {
        self.unproven.first().copied()
    }

    /// The entry that goes first when even proven ones must. Exact after [`Table::review_idle`] of all.
    pub(super) fn idlest(&self) -> Option<u32> {
        self.idle.first().map(|(_, index)| *index)
    }

    /// When an entry may next have been idle for too long.
    pub(super) fn next_idle(&self) -> Option<Timestamp> {
        self.idle.first().map(|(at, _)| *at)
    }

    /// An entry whose moment has come; it is removed or reviewed next.
    pub(super) fn maybe_idle(&self, now: Timestamp) -> Option<u32> {
        self.idle.first().filter(|(at, _)| *at <= now).map(|(_, index)| *index)
    }

    /// Sets the moment of an entry anew, and says when that is.
    pub(super) fn review_idle(&mut self, index: u32, idle_timeout: Duration) -> Option<Timestamp> {
        let expires = self.get(index)?.seen.plus(idle_timeout);
        let key = self.idle_keys.get_mut(index as usize)?;
        self.idle.remove(&(*key, index));
        *key = expires;
        self.idle.insert((expires, index));
        Some(expires)
    }
}
