//! Timers as one table, so that a machine's next deadline is a look-up and not a search through its parts.

use crate::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Deadlines by key: each key has at most one.
#[derive(Clone, Debug)]
pub struct Timers<K> {
    by_key: BTreeMap<K, Timestamp>,
    by_time: BTreeSet<(Timestamp, K)>,
}

impl<K: Ord + Copy> Timers<K> {
    /// A table without deadlines.
    pub fn new() -> Self {
        Timers { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    /// Sets the deadline of `key`, in place of the one it had.
    pub fn set(&mut self, key: K, at: Timestamp) {
        if let Some(old) = self.by_key.insert(key, at) {
            self.by_time.remove(&(old, key));
        }
        self.by_time.insert((at, key));
    }

    /// Takes the deadline of `key` away, if it has one.
    pub fn stop(&mut self, key: K) {
        if let Some(old) = self.by_key.remove(&key) {
            self.by_time.remove(&(old, key));
        }
    }

    /// The deadline of `key`.
    pub fn get(&self, key: K) -> Option<Timestamp> {
        self.by_key.get(&key).copied()
    }

    /// The earliest deadline of all.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out one key whose deadline has come; the earliest first.
    pub fn expired(&mut self, now: Timestamp) -> Option<K> {
        let (at, key) = self.by_time.first().copied()?;
        if at > now {
            return None;
        }
        self.stop(key);
        Some(key)
    }

    /// How many keys have a deadline.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether no key has a deadline.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

impl<K: Ord + Copy> Default for Timers<K> {
    fn default() -> Self {
        Timers::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    #[test]
    fn a_key_has_one_deadline_and_the_last_one_counts() {
        let mut t = Timers::new();
        t.set('a', at(5));
        t.set('a', at(9));
        assert_eq!((t.len(), t.next()), (1, Some(at(9))));
        assert_eq!(t.expired(at(8)), None);
        assert_eq!(t.expired(at(9)), Some('a'));
        assert!(t.is_empty());
    }

    #[test]
    fn deadlines_come_out_in_order_of_time() {
        let mut t = Timers::new();
        t.set('b', at(2));
        t.set('a', at(3));
        t.set('c', at(1));
        t.stop('b');
        assert_eq!((t.expired(at(10)), t.expired(at(10)), t.expired(at(10))), (Some('c'), Some('a'), None));
    }
}
