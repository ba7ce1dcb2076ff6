//! Changed keys in the order of their last change, shared by all peers.
//!
//! A peer's outbox is a place in this log, not a queue of its own: thirty-one peers cost no more memory than one. A key
//! that changes again moves to the end, so the log never holds more than one entry for a key, and whoever reads late finds
//! each key once.

use std::collections::BTreeMap;

/// Keys with a note each, in the order of their last change.
#[derive(Clone, Debug)]
pub(crate) struct ChangeLog<K, N> {
    by_number: BTreeMap<u64, (K, N)>,
    numbers: BTreeMap<K, u64>,
    last: u64,
}

impl<K: Ord + Copy, N> ChangeLog<K, N> {
    /// A log without entries.
    pub(crate) fn new() -> Self {
        ChangeLog { by_number: BTreeMap::new(), numbers: BTreeMap::new(), last: 0 }
    }

    /// Moves a key to the end; `merge` makes its note from the one it had. Returns the number it had.
    pub(crate) fn note(&mut self, key: K, merge: impl FnOnce(Option<N>) -> N) -> Option<u64> {
        self.last += 1;
        let before = self.numbers.insert(key, self.last);
        let old = before.and_then(|number| self.by_number.remove(&number)).map(|(_, note)| note);
        self.by_number.insert(self.last, (key, merge(old)));
        before
    }

    /// The number of the latest change.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The entries after one number up to another.
    pub(crate) fn between(&self, after: u64, upto: u64) -> impl Iterator<Item = (u64, K, &N)> {
        // A range that ends before it begins would panic.
        let upto = upto.max(after);
        let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Included(upto));
        let entries = (after < upto).then(|| self.by_number.range(range));
        entries.into_iter().flatten().map(|(number, (key, note))| (*number, *key, note))
    }

    /// Forgets the entries up to a number: everybody has read them.
    pub(crate) fn forget(&mut self, upto: u64) {
        while let Some(entry) = self.by_number.first_entry()
            && *entry.key() <= upto
        {
            let (key, _) = entry.remove();
            self.numbers.remove(&key);
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }
}

/// How far one peer has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// The number it has read up to.
    pub(crate) at: u64,
    /// How many entries lie behind that.
    pub(crate) pending: usize,
}

impl Cursor {
    /// A cursor that has read everything up to a number.
    pub(crate) fn new(at: u64) -> Self {
        Cursor { at, pending: 0 }
    }

    /// Notes that a key moved to the end, from the number it had.
    pub(crate) fn noted(&mut self, before: Option<u64>) {
        if before.is_none_or(|number| number <= self.at) {
            self.pending += 1;
        }
    }

    /// Reads up to a number, past so many entries.
    pub(crate) fn read(&mut self, upto: u64, entries: usize) {
        self.at = self.at.max(upto);
        self.pending = self.pending.saturating_sub(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(log: &ChangeLog<char, u8>, after: u64) -> String {
        log.between(after, log.last()).map(|(_, key, _)| key).collect()
    }

    #[test]
    fn a_key_that_changes_again_moves_to_the_end() {
        let mut log = ChangeLog::new();
        for key in ['a', 'b', 'c', 'a'] {
            log.note(key, |old| old.unwrap_or(0) + 1);
        }
        assert_eq!(keys(&log, 0), "bca");
        assert_eq!(log.between(0, 4).map(|(_, _, note)| *note).collect::<Vec<_>>(), [1, 1, 2]);
        assert_eq!(log.len(), 3);
    }

    #[test]
    fn a_cursor_counts_what_it_has_not_read() {
        let mut log = ChangeLog::new();
        let mut early = Cursor::new(log.last());
        for key in ['a', 'b', 'a'] {
            early.noted(log.note(key, |_| 0));
        }
        let mut late = Cursor::new(log.last());
        for cursor in [&mut early, &mut late] {
            cursor.noted(Some(3));
        }
        assert_eq!(early.pending, 2);
        assert_eq!(late.pending, 1);
        early.read(3, 2);
        assert_eq!((early.at, early.pending), (3, 0));
    }

    #[test]
    fn what_everybody_has_read_is_forgotten() {
        let mut log = ChangeLog::new();
        for key in ['a', 'b', 'c'] {
            log.note(key, |_| 0);
        }
        log.forget(2);
        assert_eq!((keys(&log, 0).as_str(), log.len()), ("c", 1));
        assert_eq!(log.note('a', |_| 0), None);
        assert_eq!(log.between(9, 2).count(), 0);
    }
}
