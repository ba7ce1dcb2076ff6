//! Time as a value: pure crates take `now` as an argument and never ask a clock.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A point in time, in microseconds since some moment before the node started.
///
/// `std::time::Instant` cannot be built in a test, so the pure crates count for themselves. It is monotonic: the wall
/// clock may jump without moving it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Before everything else.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than everything else.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// The point `micros` microseconds after [`Timestamp::ZERO`].
    pub const fn from_micros(micros: u64) -> Self {
        Timestamp(micros)
    }

    /// Microseconds since [`Timestamp::ZERO`].
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds since [`Timestamp::ZERO`].
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// How long `earlier` is past; zero if it is not past.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The point `age` before this one; [`Timestamp::ZERO`] if that lies before it, so a clock begins well after it.
    pub fn before(self, age: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(micros(age)))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, by: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(micros(by)))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_below_the_start_or_past_the_end() {
        assert_eq!(Timestamp::ZERO.before(Duration::from_secs(1)), Timestamp::ZERO);
        assert_eq!(Timestamp::MAX + Duration::from_secs(1), Timestamp::MAX);
        assert_eq!(Timestamp::from_micros(3).since(Timestamp::from_micros(5)), Duration::ZERO);
    }
}
