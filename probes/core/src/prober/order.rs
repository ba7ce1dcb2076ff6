//! Entries in the order of a moment each, in little space.

use super::entry::Seen;
use gslb_types::Timestamp;
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// A moment, as bits that sort as it does.
pub(super) trait Moment: Copy {
    fn bits(self) -> u64;
    fn of(bits: u64) -> Self;
}

impl Moment for Timestamp {
    fn bits(self) -> u64 {
        self.as_micros()
    }

    fn of(bits: u64) -> Self {
        Timestamp::from_micros(bits)
    }
}

impl Moment for Seen {
    fn bits(self) -> u64 {
        self.micros().cast_unsigned() ^ SIGN
    }

    fn of(bits: u64) -> Self {
        Seen::at((bits ^ SIGN).cast_signed())
    }
}

/// Flipped, negative numbers sort before the others.
const SIGN: u64 = 1 << 63;

/// The earliest comes first; of one moment the least index. An entry stands in several of these, and there may be hundreds of
/// thousands: a pair of a moment and an index takes 16 bytes, these halves of the moment and the index 12.
pub(super) struct Order<M>(BTreeSet<[u32; 3]>, PhantomData<M>);

impl<M: Moment> Order<M> {
    pub(super) fn new() -> Self {
        Order(BTreeSet::new(), PhantomData)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn insert(&mut self, at: M, index: u32) {
        self.0.insert(place(at, index));
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, at: M, index: u32) -> bool {
        self.0.remove(&place(at, index))
    }

    pub(super) fn first(&self) -> Option<(M, u32)> {
        let [high, low, index] = *self.0.first()?;
        Some((M::of(u64::from(high) << 32 | u64::from(low)), index))
    }
}

fn place<M: Moment>(at: M, index: u32) -> [u32; 3] {
    let bits = at.bits();
    [(bits >> 32) as u32, bits as u32, index]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What comes out, first to last.
    fn drained<M: Moment>(mut order: Order<M>) -> Vec<(M, u32)> {
        let next =
            |order: &mut Order<M>| order.first().inspect(|(at, index)| assert!(order.remove(*at, *index)));
        std::iter::from_fn(|| next(&mut order)).collect()
    }

    #[test]
    fn moments_sort_by_all_of_their_bits_and_come_out_as_they_went_in() {
        let at = Timestamp::from_micros;
        let sorted =
            [(at(0), 9), (at(7), 1), (at(7), 2), (at(1 << 31), 4), (at(1 << 32), 0), (at((1 << 32) + 1), 0)];
        let mut order = Order::new();
        sorted.iter().rev().for_each(|(at, index)| order.insert(*at, *index));
        assert_eq!((order.len(), order.remove(at(7), 3)), (6, false));
        assert_eq!(drained(order), sorted);
    }

    #[test]
    fn queries_from_before_our_start_come_before_those_after_it() {
        let now = Timestamp::from_micros(5_000_000);
        let seen = [9000, 6, 5, 4, 0].map(|age| Seen::before(now, Duration::from_secs(age)));
        let mut order = Order::new();
        seen.iter().rev().for_each(|seen| order.insert(*seen, 1));
        assert_eq!(drained(order), seen.map(|seen| (seen, 1)));
    }
}
