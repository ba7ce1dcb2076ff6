//! When LDNS that have no entry any more may be probed again.

use foldhash::fast::FixedState;
use gslb_types::{Ldns, Timestamp};
use std::hash::BuildHasher;

/// Slots: half a megabyte.
const SLOTS: usize = 32_768;

/// The mark of a slot that several share; those of single LDNS are odd.
const SHARED: u32 = 0;

/// A memory of the LDNS removed last, in a table of fixed size. Two in one slot share it: whoever belongs there waits until
/// the later of both may be probed. That costs a stranger a short wait now and then, and forgets nobody.
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

    /// Notes that an LDNS goes that was probed at `probed`, and that it may not be probed again before `at`.
    pub(super) fn note(&mut self, ldns: Ldns, probed: Timestamp, at: Timestamp) {
        let (index, tag) = self.place(ldns);
        let (noted, before) = self.slots[index];
        let is_free = noted == tag || before <= probed;
        self.slots[index] = if is_free { (tag, at) } else { (SHARED, at.max(before)) };
    }

    /// When an LDNS that comes may be probed; it need not wait if it is not remembered.
    pub(super) fn not_before(&self, ldns: Ldns) -> Timestamp {
        let (index, tag) = self.place(ldns);
        let (noted, at) = self.slots[index];
        if noted == tag || noted == SHARED { at } else { Timestamp::ZERO }
    }

    /// The slot of an LDNS, and what tells it from nearly all others there.
    fn place(&self, ldns: Ldns) -> (usize, u32) {
        let hash = self.hasher.hash_one(ldns);
        ((hash % SLOTS as u64) as usize, (hash >> 32) as u32 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_is_remembered_and_a_stranger_does_not_wait_for_it() {
        let mut recent = Recent::new(1);
        let (a, b) = (Ldns::exact([192, 0, 2, 1].into()), Ldns::exact([192, 0, 2, 2].into()));
        recent.note(a, Timestamp::ZERO, Timestamp::from_micros(9));
        assert_eq!(recent.not_before(a), Timestamp::from_micros(9));
        assert_eq!(recent.not_before(b), Timestamp::ZERO);
    }
    #[test]
    fn two_in_one_slot_both_wait_until_it_has_expired() {
        let (mut recent, at) = (Recent::new(1), Timestamp::from_micros);
        let nth = |n: u32| Ldns::exact(std::net::Ipv4Addr::from_bits(n).into());
        let a = nth(0);
        let b = (1..).map(nth).find(|b| recent.place(*b).0 == recent.place(a).0).unwrap();
        recent.note(a, at(0), at(9));
        recent.note(b, at(2), at(7));
        assert_eq!((recent.not_before(a), recent.not_before(b)), (at(9), at(9)));
        recent.note(b, at(10), at(15));
        assert_eq!((recent.not_before(a), recent.not_before(b)), (at(0), at(15)));
    }
}
