//! When LDNS that have no entry any more may be probed again.

use foldhash::fast::FixedState;
use gslb_types::{Ldns, Timestamp};
use std::hash::BuildHasher;

/// Slots: half a megabyte.
const SLOTS: usize = 32_768;

/// A memory of the LDNS removed last, in a table of fixed size where the newer takes the place of the older.
///
/// Without it an LDNS that is pushed out, or forgotten, and asks again would be probed at once, and so more often than its
/// interval: the flood that fills the table would also speed up the probes of its victims (threat T3).
pub(super) struct Recent {
    slots: Vec<(u32, Timestamp)>,
    hasher: FixedState,
}

impl Recent {
    pub(super) fn new(seed: u64) -> Self {
        Recent { slots: vec![(0, Timestamp::ZERO); SLOTS], hasher: FixedState::with_seed(seed) }
    }

    /// Notes that an LDNS goes, and that it may not be probed before `at`.
    pub(super) fn note(&mut self, ldns: Ldns, at: Timestamp) {
        let (index, tag) = self.place(ldns);
        self.slots[index] = (tag, at);
    }

    /// When an LDNS that comes may be probed; it need not wait if it is not remembered.
    pub(super) fn not_before(&self, ldns: Ldns) -> Timestamp {
        let (index, tag) = self.place(ldns);
        let (noted, at) = self.slots[index];
        if noted == tag { at } else { Timestamp::ZERO }
    }

    /// The slot of an LDNS, and what tells it from nearly all others there.
    fn place(&self, ldns: Ldns) -> (usize, u32) {
        let hash = self.hasher.hash_one(ldns);
        ((hash % SLOTS as u64) as usize, (hash >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_is_remembered_and_a_stranger_does_not_wait_for_it() {
        let mut recent = Recent::new(1);
        let (a, b) = (Ldns::exact([192, 0, 2, 1].into()), Ldns::exact([192, 0, 2, 2].into()));
        recent.note(a, Timestamp::from_micros(9));
        assert_eq!(recent.not_before(a), Timestamp::from_micros(9));
        assert_eq!(recent.not_before(b), Timestamp::ZERO);
    }
}
