//! Budgets: how many probes may leave in a second, in all and towards one prefix.
//!
//! A node that probes whoever asks can be made to send packets to strangers (threat T3). Integer arithmetic throughout,
//! so that a ceiling is a ceiling.

use crate::chance::Chance;
use foldhash::fast::FixedState;
use gslb_types::Timestamp;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

/// One token, in the millionths that a bucket counts: what a rate of one a second earns in a microsecond.
const TOKEN: u64 = 1_000_000;

/// A token bucket whose rate holds for every second one may look at, its burst included.
///
/// The burst is a twentieth of the rate, so that replies do not overflow socket buffers and a node that slept sends no
/// volley (reliability R13); what the burst adds is taken off the refill. An empty bucket stays closed until a hundredth
/// of a second's worth has come in: at high rates the machine wakes a hundred times a second, not once for each probe.
pub(crate) struct Bucket {
    per_second: u64,
    tokens: u64,
    updated: Timestamp,
    closed_until: Timestamp,
}

impl Bucket {
    /// A full bucket. A rate of zero lets nothing through.
    pub(crate) fn new(per_second: u32) -> Self {
        let mut bucket = Bucket {
            per_second: u64::from(per_second),
            tokens: 0,
            updated: Timestamp::ZERO,
            closed_until: Timestamp::ZERO,
        };
        bucket.tokens = bucket.burst() * TOKEN;
        if per_second == 0 {
            bucket.closed_until = Timestamp::MAX;
        }
        bucket
    }

    /// Another rate from `now` on. What was used up stays used up.
    pub(crate) fn set_rate(&mut self, now: Timestamp, per_second: u32) {
        if self.per_second == u64::from(per_second) {
            return;
        }
        self.refill(now);
        let kept = self.tokens;
        *self = Bucket::new(per_second);
        self.updated = now;
        self.tokens = self.tokens.min(kept);
        self.close_if_empty();
    }

    /// Whether a token can be taken.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        now >= self.closed_until
    }

    /// When it opens, or opened.
    pub(crate) fn opens(&self) -> Timestamp {
        self.closed_until
    }

    /// Keeps it closed until then.
    pub(crate) fn close_until(&mut self, at: Timestamp) {
        self.closed_until = self.closed_until.max(at);
    }

    /// Takes one token out of an open bucket.
    pub(crate) fn take(&mut self, now: Timestamp) {
        self.refill(now);
        self.tokens = self.tokens.saturating_sub(TOKEN);
        self.close_if_empty();
    }

    fn refill(&mut self, now: Timestamp) {
        let elapsed = u64::try_from(now.since(self.updated).as_micros()).unwrap_or(u64::MAX);
        let earned = elapsed.saturating_mul(self.refill_rate());
        self.tokens = self.tokens.saturating_add(earned).min(self.burst() * TOKEN);
        self.updated = self.updated.max(now);
    }

    fn close_if_empty(&mut self) {
        if self.tokens >= TOKEN {
            return;
        }
        let batch = (self.per_second / 100).clamp(1, self.burst());
        let missing = batch * TOKEN - self.tokens;
        self.close_until(match self.refill_rate() {
            0 => Timestamp::MAX,
            rate => self.updated + Duration::from_micros(missing.div_ceil(rate)),
        });
    }

    fn burst(&self) -> u64 {
        (self.per_second / 20).max(1)
    }

    /// Tokens a second. With the burst of a full bucket no second sees more than `per_second`.
    fn refill_rate(&self) -> u64 {
        (self.per_second + 1).saturating_sub(self.burst())
    }
}

/// Slots of [`Prefixes`]: half a megabyte. Two prefixes in one slot share a budget, which is rare enough to bear and, the
/// hash being seeded, cannot be arranged from outside.
const SLOTS: usize = 32_768;

/// The longest that one try of a crowded prefix is put off: the length of the longest back-off.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Which slot of [`Prefixes`] a probe was charged to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u32);

/// How many probes may leave towards one prefix: /24 or /56 (threat T3), in a table of fixed size.
///
/// Probes of one prefix are spaced evenly: two a second means 500 ms apart. Those who find it busy draw a lot for a later
/// time, out of a range half as wide as the crowd that waits would need. So a prefix full of forged addresses costs twice
/// as many tries as it may send probes, and nobody in it is passed over for ever. LDNS with a sample draw as if the others
/// were a third as many as they, so that a crowd of strangers does not stand in their way, nor they shut the others out.
pub(crate) struct Prefixes {
    slots: Vec<Load>,
    hasher: FixedState,
    spacing: Option<Duration>,
}

#[derive(Clone, Copy, Default)]
struct Load {
    free_at: Timestamp,
    /// How many wait for their lot, of those with a sample and of the others.
    measured: u32,
    others: u32,
}

impl Prefixes {
    /// All free.
    pub(crate) fn new(seed: u64, per_second: u32) -> Self {
        let mut prefixes = Prefixes {
            slots: vec![Load::default(); SLOTS],
            hasher: FixedState::with_seed(seed),
            spacing: None,
        };
        prefixes.set_rate(per_second);
        prefixes
    }

    /// Another rate; zero lets nothing through.
    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.spacing = 1_000_000_u64
            .checked_div(u64::from(per_second))
            .map(|_| Duration::from_micros(1_000_000_u64.div_ceil(u64::from(per_second))));
    }

    /// The slot of an address.
    pub(crate) fn slot(&self, address: IpAddr) -> Slot {
        let prefix: u64 = match address {
            IpAddr::V4(a) => u64::from(a.to_bits() >> 8),
            // The lowest 8 of these 64 bits lie beyond /56; a v6 prefix differs from every v4 one by the mark.
            IpAddr::V6(a) => ((a.to_bits() >> 64) as u64) | 0xff,
        };
        let mark = u8::from(address.is_ipv6());
        Slot((self.hasher.hash_one((mark, prefix)) % SLOTS as u64) as u32)
    }

    /// Whether a probe may leave; if so it is charged.
    pub(crate) fn take(&mut self, now: Timestamp, slot: Slot) -> bool {
        let Some(spacing) = self.spacing else { return false };
        match self.slots.get_mut(slot.0 as usize) {
            Some(load) if load.free_at <= now => {
                load.free_at = now + spacing;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Gives back what was charged then for a probe that never left, unless another was charged since.
    pub(crate) fn refund(&mut self, slot: Slot, charged: Timestamp) {
        if let (Some(load), Some(spacing)) = (self.slots.get_mut(slot.0 as usize), self.spacing)
            && load.free_at == charged + spacing
        {
            load.free_at = charged;
        }
    }

    /// Joins those who wait, and says until when to do so.
    pub(crate) fn join(&mut self, slot: Slot, measured: bool, chance: &mut Chance) -> Timestamp {
        let (Some(load), Some(spacing)) = (self.slots.get_mut(slot.0 as usize), self.spacing) else {
            return Timestamp::MAX;
        };
        let others = if measured { load.others.min(load.measured / 3 + 1) } else { load.others };
        let crowd = load.measured.saturating_add(others);
        let joined = if measured { &mut load.measured } else { &mut load.others };
        *joined = joined.saturating_add(1);
        load.free_at + chance.within((spacing.saturating_mul(crowd) / 2).min(LONGEST_WAIT))
    }

    /// Leaves those who wait.
    pub(crate) fn leave(&mut self, slot: Slot, measured: bool) {
        if let Some(load) = self.slots.get_mut(slot.0 as usize) {
            let left = if measured { &mut load.measured } else { &mut load.others };
            *left = left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Timestamp {
        Timestamp::from_micros(n)
    }

    /// Takes whatever is to be had over three seconds, at the moments the bucket itself names.
    fn drain(bucket: &mut Bucket) -> Vec<u64> {
        let mut taken = Vec::new();
        let mut now = us(0);
        while now < us(3_000_000) {
            while bucket.is_open(now) {
                bucket.take(now);
                taken.push(now.as_micros());
            }
            now = bucket.opens();
        }
        taken
    }

    #[test]
    fn no_second_sees_more_than_the_rate() {
        for rate in [1, 2, 3, 19, 20, 21, 100, 500, 777, 10_000] {
            let taken = drain(&mut Bucket::new(rate));
            for (i, start) in taken.iter().enumerate() {
                let seen = taken.partition_point(|t| *t < start + 1_000_000) - i;
                assert!(seen <= rate as usize, "{seen} from {start} at {rate}/s");
            }
            assert!(taken.len() as f64 >= 2.8 * f64::from(rate), "{} at {rate}/s", taken.len());
        }
    }

    #[test]
    fn a_long_sleep_saves_up_no_more_than_the_burst() {
        let mut bucket = Bucket::new(500);
        let now = us(3_600_000_000);
        let mut taken = 0;
        while bucket.is_open(now) {
            bucket.take(now);
            taken += 1;
        }
        assert_eq!(taken, 25);
    }

    #[test]
    fn an_empty_bucket_opens_with_a_batch_in_it() {
        let mut bucket = Bucket::new(1000);
        while bucket.is_open(us(0)) {
            bucket.take(us(0));
        }
        let opens = bucket.opens();
        assert!(!bucket.is_open(us(opens.as_micros() - 1)));
        let mut batch = 0;
        while bucket.is_open(opens) {
            bucket.take(opens);
            batch += 1;
        }
        assert_eq!(batch, 10);
    }

    #[test]
    fn a_rate_of_zero_lets_nothing_through() {
        assert!(!Bucket::new(0).is_open(us(1_000_000_000)));
        let mut bucket = Bucket::new(5);
        bucket.set_rate(us(7), 0);
        assert_eq!(bucket.opens(), Timestamp::MAX);
        bucket.set_rate(us(8), 5);
        assert!(bucket.is_open(us(8 + 1_000_000)));
        let mut prefixes = Prefixes::new(1, 0);
        assert!(!prefixes.take(us(9), Slot(0)));
    }

    #[test]
    fn another_rate_gives_no_second_burst() {
        let mut bucket = Bucket::new(500);
        while bucket.is_open(us(0)) {
            bucket.take(us(0));
        }
        bucket.set_rate(us(0), 1000);
        assert!(!bucket.is_open(us(0)));
        assert!(bucket.is_open(us(20_000)));
    }

    #[test]
    fn addresses_of_one_24_or_56_share_a_slot() {
        let prefixes = Prefixes::new(1, 2);
        let slot = |a: &str| prefixes.slot(a.parse().unwrap());
        assert_eq!(slot("192.0.2.1"), slot("192.0.2.254"));
        assert_ne!(slot("192.0.2.1"), slot("192.0.3.1"));
        assert_eq!(slot("2001:db8:0:100::1"), slot("2001:db8:0:1ff::1"));
        assert_ne!(slot("2001:db8:0:100::1"), slot("2001:db8:0:200::1"));
    }

    #[test]
    fn a_prefix_is_free_again_exactly_after_its_spacing() {
        let mut prefixes = Prefixes::new(1, 2);
        let slot = Slot(7);
        assert!(prefixes.take(us(0), slot));
        assert!(!prefixes.take(us(499_999), slot));
        assert!(prefixes.take(us(500_000), slot));
        prefixes.refund(slot, us(0));
        assert!(!prefixes.take(us(500_000), slot), "another was charged since");
        prefixes.refund(slot, us(500_000));
        assert!(prefixes.take(us(500_000), slot));
    }

    #[test]
    fn the_wait_is_as_wide_as_the_crowd_and_strangers_widen_that_of_the_measured_little() {
        let mut prefixes = Prefixes::new(1, 2);
        let (slot, mut chance) = (Slot(7), Chance::new(1));
        assert!(prefixes.take(us(0), slot));
        assert_eq!(prefixes.join(slot, false, &mut chance), us(500_000), "nobody waits yet");
        let strangers: Vec<_> = (0..1000).map(|_| prefixes.join(slot, false, &mut chance)).collect();
        assert!(strangers.iter().max() > Some(&us(40_000_000)));
        assert!(strangers.iter().max() <= Some(&us(60_500_000)));
        for _ in 0..100 {
            assert!(prefixes.join(slot, true, &mut chance) <= us(750_000));
            prefixes.leave(slot, true);
        }
        (0..12).for_each(|_| assert!(prefixes.join(slot, true, &mut chance) <= us(500_000 * 9)));
    }
}
