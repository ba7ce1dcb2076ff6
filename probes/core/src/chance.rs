//! What is drawn by lot: jitter, and where the numbering of probes starts.

use crate::wire::ProbeId;
use gslb_types::Timestamp;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use std::time::Duration;

/// A seeded source of jitter. The same seed gives the same run, so that a run can be replayed.
pub(crate) struct Chance(Pcg32);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Chance(Pcg32::seed_from_u64(seed))
    }

    /// One of 0 to `most`.
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        let scaled = u64::from(self.0.next_u32()) * (u64::from(most) + 1);
        (scaled >> 32) as u32
    }

    /// A duration of 0 to `most`, in microseconds; beyond an hour it is cut off there.
    pub(crate) fn within(&mut self, most: Duration) -> Duration {
        Duration::from_micros(u64::from(self.up_to(u32::try_from(most.as_micros()).unwrap_or(u32::MAX))))
    }

    /// When the turn that follows the one begun at `started` begins: a whole number of periods later, the first that lies
    /// in the future, plus up to a twentieth of one. So nothing happens more often than its period, nothing is made up for
    /// after a sleep (reliability R13), and what began together drifts apart (faults I-39).
    pub(crate) fn next_turn(&mut self, now: Timestamp, started: Timestamp, period: Duration) -> Timestamp {
        let period = period.max(Duration::from_millis(1));
        let passed = now.since(started).as_micros() / period.as_micros();
        let periods = u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1);
        started + period.saturating_mul(periods) + self.within(period / 20)
    }
}

/// Numbers of probes, or of checks: the former even, the latter odd, so that both are unique in one node.
///
/// They start anywhere, so that a reply to a probe from before a restart of the machine names none of now.
pub(crate) struct Ids(u64);

impl Ids {
    pub(crate) fn of_probes(chance: &mut Chance) -> Self {
        Ids(chance.0.next_u64() & !1)
    }

    pub(crate) fn of_checks(chance: &mut Chance) -> Self {
        Ids(chance.0.next_u64() | 1)
    }

    /// Fetches are checks by another machine: their numbers need differ only among themselves.
    pub(crate) fn of_fetches(chance: &mut Chance) -> Self {
        Ids::of_checks(chance)
    }

    pub(crate) fn next(&mut self) -> ProbeId {
        let id = ProbeId(self.0);
        self.0 = self.0.wrapping_add(2);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_in_its_range_and_reaches_both_ends() {
        let mut chance = Chance::new(1);
        let drawn: Vec<u32> = (0..200).map(|_| chance.up_to(3)).collect();
        assert!((0..=3).all(|n| drawn.contains(&n)) && drawn.iter().all(|n| *n <= 3));
        assert_eq!(chance.up_to(0), 0);
        assert!(chance.within(Duration::MAX) <= Duration::from_secs(4295));
    }

    #[test]
    fn the_next_turn_is_a_period_later_and_skips_what_was_slept_through() {
        let at = |ms: u64| Timestamp::from_micros(ms * 1000);
        let mut chance = Chance::new(1);
        for (now, earliest) in [(10, 5010), (5009, 5010), (5010, 10_010), (3_600_000, 3_600_010)] {
            let next = chance.next_turn(at(now), at(10), Duration::from_secs(5));
            assert!(next >= at(earliest) && next <= at(earliest + 250), "{next:?} at {now}");
        }
        assert!(chance.next_turn(at(7), at(7), Duration::ZERO) > at(7));
    }

    #[test]
    fn a_probe_and_a_check_never_share_a_number() {
        let mut chance = Chance::new(1);
        let (mut probes, mut checks) = (Ids::of_probes(&mut chance), Ids::of_checks(&mut chance));
        let (a, b, c) = (probes.next(), probes.next(), checks.next());
        assert_eq!((a.0 % 2, b.0.wrapping_sub(a.0), c.0 % 2), (0, 2, 1));
        let other = Ids::of_probes(&mut Chance::new(2)).next();
        assert_ne!(a, other);
    }
}
