//! Traffic of the last 14 seconds: what least bandwidth and least packets compare.

use gslb_types::Timestamp;
use std::fmt;

/// How many one-second buckets are summed up ([S-BW]: the traffic of the last 14 seconds).
pub const WINDOW_SECONDS: u64 = 14;

const BUCKETS: usize = WINDOW_SECONDS as usize;

/// Bytes and packets, both ways, of one service in the second under way and the thirteen before it.
///
/// A ring of one-second buckets: adding and summing cost the same whatever the traffic, and no timer is needed, since
/// a bucket too old is recognised by the second it stands for.
#[derive(Clone, Debug, Default)]
pub struct ByteWindow {
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    second: u64,
    bytes: u64,
    packets: u64,
}

impl ByteWindow {
    /// A window in which nothing was sent or received.
    pub fn new() -> Self {
        ByteWindow::default()
    }

    /// Counts traffic that passed at `now`.
    ///
    /// A report that comes late counts for its own second, unless that second has been displaced by a newer one.
    pub fn add(&mut self, now: Timestamp, bytes: u64, packets: u64) {
        let second = now.as_secs();
        let Some(bucket) =
            usize::try_from(second % WINDOW_SECONDS).ok().and_then(|i| self.buckets.get_mut(i))
        else {
            return;
        };
        if bucket.second > second {
            return;
        }
        if bucket.second < second {
            *bucket = Bucket { second, bytes: 0, packets: 0 };
        }
        bucket.bytes = bucket.bytes.saturating_add(bytes);
        bucket.packets = bucket.packets.saturating_add(packets);
    }

    /// Bytes in the window that ends at `now`.
    pub fn bytes(&self, now: Timestamp) -> u64 {
        self.within(now).fold(0, |sum, b| sum.saturating_add(b.bytes))
    }

    /// Packets in the window that ends at `now`.
    pub fn packets(&self, now: Timestamp) -> u64 {
        self.within(now).fold(0, |sum, b| sum.saturating_add(b.packets))
    }

    /// The window's mean rate, to be shown to people.
    pub fn mbps(&self, now: Timestamp) -> Mbps {
        Mbps::of_window(self.bytes(now))
    }

    fn within(&self, now: Timestamp) -> impl Iterator<Item = &Bucket> {
        let newest = now.as_secs();
        self.buckets.iter().filter(move |b| b.second <= newest && newest - b.second < WINDOW_SECONDS)
    }
}

/// A rate in megabits per second, for display: decisions compare the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Mbps {
    bits_per_second: u64,
}

impl Mbps {
    /// The mean rate of so many bytes in one window.
    pub fn of_window(bytes: u64) -> Self {
        let bits = u128::from(bytes) * 8 / u128::from(WINDOW_SECONDS);
        Mbps { bits_per_second: u64::try_from(bits).unwrap_or(u64::MAX) }
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.bits_per_second
    }
}

impl fmt::Display for Mbps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.bits_per_second / 1_000;
        write!(f, "{}.{:03} Mbps", thousandths / 1_000, thousandths % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    #[test]
    fn traffic_counts_for_fourteen_seconds_and_then_no_more() {
        let mut w = ByteWindow::new();
        w.add(at(0), 100, 2);
        w.add(at(999), 10, 1);
        assert_eq!((w.bytes(at(999)), w.packets(at(999))), (110, 3));
        assert_eq!((w.bytes(at(13_999)), w.packets(at(13_999))), (110, 3));
        assert_eq!((w.bytes(at(14_000)), w.packets(at(14_000))), (0, 0));
    }

    #[test]
    fn each_second_leaves_by_itself() {
        let mut w = ByteWindow::new();
        for s in 0..20 {
            w.add(at(s * 1_000), 1 << s, 1);
        }
        let last_fourteen: u64 = (6..20).map(|s| 1 << s).sum();
        assert_eq!((w.bytes(at(19_500)), w.packets(at(19_500))), (last_fourteen, 14));
        assert_eq!(w.bytes(at(21_000)), (8..20).map(|s| 1 << s).sum());
        assert_eq!(w.bytes(at(1_000_000)), 0);
    }

    #[test]
    fn a_late_report_counts_for_its_own_second_or_not_at_all() {
        let mut w = ByteWindow::new();
        w.add(at(20_000), 1, 1);
        w.add(at(15_000), 10, 1);
        w.add(at(6_000), 100, 1);
        assert_eq!(w.bytes(at(20_000)), 11);
        assert_eq!(w.bytes(at(29_000)), 1);
    }

    #[test]
    fn what_has_not_happened_yet_does_not_count() {
        let mut w = ByteWindow::new();
        w.add(at(20_000), 1, 1);
        w.add(at(15_000), 10, 1);
        assert_eq!(w.bytes(at(15_500)), 10);
    }

    #[test]
    fn full_counters_stay_full() {
        let mut w = ByteWindow::new();
        w.add(at(0), u64::MAX, u64::MAX);
        w.add(at(0), 1, 1);
        w.add(at(1_000), 1, 1);
        assert_eq!((w.bytes(at(1_000)), w.packets(at(1_000))), (u64::MAX, u64::MAX));
        w.add(Timestamp::MAX, 5, 1);
        assert_eq!(w.bytes(Timestamp::MAX), 5);
    }

    #[test]
    fn the_rate_is_the_mean_of_the_window() {
        assert_eq!(Mbps::of_window(14_000_000).to_string(), "8.000 Mbps");
        assert_eq!(Mbps::of_window(1_750).to_string(), "0.001 Mbps");
        assert_eq!(Mbps::of_window(0).to_string(), "0.000 Mbps");
        assert!(Mbps::of_window(u64::MAX).bits_per_second() > 0);
    }

    proptest! {
        /// Against the definition: the sum over what lies in the fourteen seconds up to the one under way.
        #[test]
        fn the_window_is_what_its_definition_says(
            mut reports in prop::collection::vec((0u64..60_000, 0u64..1_000), 0..80), end in 0u64..20_000,
        ) {
            reports.sort_unstable();
            let mut w = ByteWindow::new();
            for (millis, bytes) in &reports {
                w.add(at(*millis), *bytes, 1);
            }
            let now = reports.last().map_or(0, |r| r.0) + end;
            let inside = reports.iter().filter(|(t, _)| now / 1_000 - t / 1_000 < 14);
            prop_assert_eq!(w.packets(at(now)), inside.clone().count() as u64);
            prop_assert_eq!(w.bytes(at(now)), inside.map(|(_, b)| b).sum::<u64>());
        }
    }
}
