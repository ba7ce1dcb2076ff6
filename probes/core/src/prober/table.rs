//! The entries, and the orders in which they go.

use super::Settings;
use super::entry::{Entry, Seen};
use super::order::Order;
use foldhash::fast::FixedState;
use gslb_types::{Ldns, LdnsMasks, Timestamp};
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::time::Duration;

/// Entries that are allocated together. A list that doubles would stand half empty, at a hundred bytes each.
const CHUNK: usize = 1_024;

/// All entries, found by LDNS or by index, with the orders of idleness and of eviction.
///
/// Whoever changes what [`Entry::is_proven`] depends on calls [`Table::reprove`].
pub(super) struct Table {
    /// Indices, found by the LDNS of their entries: an address is kept once.
    by_ldns: HashTable<u32>,
    hasher: FixedState,
    /// What makes an LDNS of an entry's address.
    masks: LdnsMasks,
    slots: Slots,
    free: Vec<u32>,
    /// Each entry once, at a moment when it cannot have been idle for longer than the timeout. Sightings leave it alone;
    /// it is put right when its moment comes.
    idle: Order<Timestamp>,
    /// Those a newcomer may push out, the one seen longest ago first.
    unproven: Order<Seen>,
}

impl Table {
    /// An empty table. The seed keeps strangers from choosing addresses that collide (threat T12).
    pub(super) fn new(seed: u64, masks: LdnsMasks) -> Self {
        Table {
            by_ldns: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            masks,
            slots: Slots::default(),
            free: Vec::new(),
            idle: Order::new(),
            unproven: Order::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_ldns.len()
    }

    pub(super) fn proven(&self) -> usize {
        self.by_ldns.len() - self.unproven.len()
    }

    /// Other masks for entries to come. The table must be empty: those it has would not be found.
    pub(super) fn set_masks(&mut self, masks: LdnsMasks) {
        debug_assert!(self.len() == 0, "entries have other keys");
        self.masks = masks;
    }

    pub(super) fn find(&self, ldns: Ldns) -> Option<u32> {
        let is_it = |index: &u32| self.ldns(*index) == Some(ldns);
        self.by_ldns.find(self.hasher.hash_one(ldns), is_it).copied()
    }

    pub(super) fn get(&self, index: u32) -> Option<&Entry> {
        self.slots.get(index)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.slots.get_mut(index)
    }

    /// The LDNS of an entry.
    pub(super) fn ldns(&self, index: u32) -> Option<Ldns> {
        self.get(index).map(|entry| self.ldns_of(entry))
    }

    /// The LDNS of one of these entries.
    pub(super) fn ldns_of(&self, entry: &Entry) -> Ldns {
        Ldns::of(entry.address, self.masks)
    }

    /// The entries, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().flatten()
    }

    /// The indices in use. Walks the whole table: for changes of the configuration only.
    pub(super) fn indices(&self) -> Vec<u32> {
        (0..).zip(self.slots.iter()).filter(|(_, slot)| slot.is_some()).map(|(index, _)| index).collect()
    }

    /// Adds an unproven entry.
    pub(super) fn insert(&mut self, mut entry: Entry, idle_timeout: Duration) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| self.slots.add());
        self.unproven.insert(entry.seen, index);
        entry.reviewed = entry.seen.plus(idle_timeout);
        self.idle.insert(entry.reviewed, index);
        let hash = self.hasher.hash_one(self.ldns_of(&entry));
        self.slots.put(index, Some(entry));
        let Table { by_ldns, hasher, masks, slots, .. } = self;
        let rehashed =
            |index: &u32| slots.get(*index).map_or(0, |e| hasher.hash_one(Ldns::of(e.address, *masks)));
        by_ldns.insert_unique(hash, index, rehashed);
        index
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Entry> {
        let hash = self.hasher.hash_one(self.ldns(index)?);
        let entry = self.slots.put(index, None)?;
        if let Ok(place) = self.by_ldns.find_entry(hash, |known| *known == index) {
            place.remove();
        }
        self.unproven.remove(entry.seen, index);
        self.idle.remove(entry.reviewed, index);
        self.free.push(index);
        Some(entry)
    }

    /// Notes a sighting; one that is older than the last changes nothing.
    pub(super) fn see(&mut self, index: u32, seen: Seen) {
        let Some(entry) = self.slots.get_mut(index) else { return };
        if seen > entry.seen {
            if self.unproven.remove(entry.seen, index) {
                self.unproven.insert(seen, index);
            }
            entry.seen = seen;
        }
    }

    /// Puts the entry among those that newcomers may push out, or takes it out of them.
    pub(super) fn reprove(&mut self, index: u32, settings: &Settings) {
        let Some(entry) = self.slots.get(index) else { return };
        if entry.is_proven(settings) {
            self.unproven.remove(entry.seen, index);
        } else {
            self.unproven.insert(entry.seen, index);
        }
    }

    /// The unproven entry seen longest ago, and when.
    pub(super) fn weakest(&self) -> Option<(Seen, u32)> {
        self.unproven.first()
    }

    /// The entry that goes first when even proven ones must. Exact after [`Table::review_idle`] of all.
    pub(super) fn idlest(&self) -> Option<u32> {
        self.idle.first().map(|(_, index)| index)
    }

    /// When an entry may next have been idle for too long.
    pub(super) fn next_idle(&self) -> Option<Timestamp> {
        self.idle.first().map(|(at, _)| at)
    }

    /// An entry whose moment has come; it is removed or reviewed next.
    pub(super) fn maybe_idle(&self, now: Timestamp) -> Option<u32> {
        self.idle.first().filter(|(at, _)| *at <= now).map(|(_, index)| index)
    }

    /// Sets the moment of an entry anew, and says when that is.
    pub(super) fn review_idle(&mut self, index: u32, idle_timeout: Duration) -> Option<Timestamp> {
        let entry = self.slots.get_mut(index)?;
        self.idle.remove(entry.reviewed, index);
        entry.reviewed = entry.seen.plus(idle_timeout);
        self.idle.insert(entry.reviewed, index);
        Some(entry.reviewed)
    }
}

/// Places of entries, some of them empty.
#[derive(Default)]
struct Slots {
    chunks: Vec<Box<[Option<Entry>]>>,
    used: u32,
}

impl Slots {
    fn get(&self, index: u32) -> Option<&Entry> {
        self.chunks.get(index as usize / CHUNK)?.get(index as usize % CHUNK)?.as_ref()
    }

    fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.place(index)?.as_mut()
    }

    /// Puts something into a place, and takes out what was there.
    fn put(&mut self, index: u32, entry: Option<Entry>) -> Option<Entry> {
        std::mem::replace(self.place(index)?, entry)
    }

    /// Another place, empty.
    fn add(&mut self) -> u32 {
        let index = self.used;
        if index as usize == self.chunks.len() * CHUNK {
            self.chunks.push(std::iter::repeat_with(|| None).take(CHUNK).collect());
        }
        self.used += 1;
        index
    }

    fn iter(&self) -> impl Iterator<Item = &Option<Entry>> {
        self.chunks.iter().flatten()
    }

    fn place(&mut self, index: u32) -> Option<&mut Option<Entry>> {
        self.chunks.get_mut(index as usize / CHUNK)?.get_mut(index as usize % CHUNK)
    }
}
