//! From counters that only grow to what was counted in a window.

use super::reading::Counts;
use gslb_types::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// The bandwidth window of least bandwidth (behaviour 5), which these numbers are compared in with others.
const WINDOW: Duration = Duration::from_secs(14);

/// Counters that are read now and then.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    last: Counts,
    /// What was counted since the first reading.
    total: u64,
    /// The total at each reading within the window, and at one before it.
    readings: VecDeque<(Timestamp, u64)>,
}

impl Counter {
    /// Takes a reading. One that is new begins to count here; one that fell has begun anew with its process, so all of it came
    /// since.
    pub(super) fn note(&mut self, now: Timestamp, counts: &Counts) {
        let grown = counts.iter().filter_map(|(name, count)| {
            let before = self.last.get(name)?;
            Some(count.checked_sub(*before).unwrap_or(*count))
        });
        self.total = grown.fold(self.total, u64::saturating_add);
        self.last.clone_from(counts);
        self.readings.push_back((now, self.total));
        let begin = now.before(WINDOW);
        while self.readings.get(1).is_some_and(|(at, _)| *at <= begin) {
            self.readings.pop_front();
        }
    }

    /// What was counted since the first reading.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// What was counted in the window that ends with the last reading; `None` until there are two. Where it begins between two
    /// readings, what was counted between them is taken to have come evenly.
    pub(super) fn in_window(&self) -> Option<u64> {
        let ((last, total), (first, base)) = (*self.readings.back()?, *self.readings.front()?);
        let (second, next) = *self.readings.get(1)?;
        let begin = last.before(WINDOW);
        if first >= begin {
            return Some(total - base);
        }
        let (passed, between) = (begin.since(first).as_micros(), second.since(first).as_micros().max(1));
        let outside = u128::from(next - base) * passed.min(between) / between;
        Some(total - base - u64::try_from(outside).unwrap_or(next - base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn counts<const N: usize>(counts: [(&str, u64); N]) -> Counts {
        counts.map(|(name, count)| (name.to_owned(), count)).into()
    }

    fn read(readings: &[(u64, u64)]) -> Counter {
        let mut counter = Counter::default();
        readings.iter().for_each(|(s, n)| counter.note(at(*s), &counts([("bin", *n)])));
        counter
    }

    #[test]
    fn what_came_before_the_first_reading_is_not_counted() {
        assert_eq!(read(&[]).in_window(), None);
        assert_eq!(read(&[(1, 500)]).in_window(), None);
        assert_eq!(read(&[(1, 500), (2, 500)]).in_window(), Some(0));
        assert_eq!(read(&[(1, 500), (2, 700), (3, 800)]).in_window(), Some(300));
    }

    #[test]
    fn the_window_is_fourteen_seconds() {
        let every_second: Vec<_> = (1..=40).map(|s| (s, s * 100)).collect();
        let counter = read(&every_second);
        assert_eq!((counter.in_window(), counter.total()), (Some(1400), 3900));
        assert_eq!(counter.readings.len(), 15, "no more is kept than is needed");
        // Read every 10 s: the window begins 6 s into the first span, whose other 4 s count.
        assert_eq!(read(&[(0, 0), (10, 1000), (20, 3000)]).in_window(), Some(400 + 2000));
        assert_eq!(read(&[(0, 0), (60, 6000)]).in_window(), Some(1400));
    }

    #[test]
    fn a_counter_that_fell_began_anew_and_the_others_did_not() {
        assert_eq!(read(&[(1, 5000), (2, 5100), (3, 40)]).in_window(), Some(140));
        let mut counter = Counter::default();
        counter.note(at(1), &counts([("bin", 5000), ("bout", 9000)]));
        counter.note(at(2), &counts([("bin", 7), ("bout", 9010)]));
        assert_eq!(counter.in_window(), Some(17));
        // One that is gone takes nothing back, and one that comes begins at nothing.
        counter.note(at(3), &counts([("bout", 9011), ("other", 1 << 60)]));
        assert_eq!(counter.in_window(), Some(18));
        counter.note(at(4), &counts([("bin", u64::MAX), ("bout", 0), ("other", u64::MAX)]));
        counter.note(at(5), &counts([("other", u64::MAX - 1)]));
        assert_eq!(counter.total(), u64::MAX, "absurd counters end at the largest number");
    }
}
