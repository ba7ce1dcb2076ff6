//! Round-trip times, and what is known of a site's way to an LDNS.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

/// A round-trip time in microseconds: 1 µs to 10 s.
///
/// Never zero: a reply that seems to have taken no time at all is a near one, not an absent one (faults I-37). "Absent"
/// is [`Reach::Pending`] or an `Option`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rtt(NonZeroU32);

impl Rtt {
    /// The shortest: what a measured 0 is taken for.
    pub const MIN: Rtt = Rtt(NonZeroU32::MIN);
    /// The longest that is believed: 10 s, far beyond any response timeout.
    pub const MAX: Rtt = match NonZeroU32::new(10_000_000) {
        Some(n) => Rtt(n),
        None => Rtt::MIN,
    };

    /// The RTT of `micros` microseconds, brought into the range 1 µs to 10 s.
    pub const fn from_micros(micros: u32) -> Self {
        match NonZeroU32::new(micros) {
            Some(n) if n.get() > Rtt::MAX.0.get() => Rtt::MAX,
            Some(n) => Rtt(n),
            None => Rtt::MIN,
        }
    }

    /// The RTT that lasted this long, brought into the range.
    pub fn from_duration(d: Duration) -> Self {
        Rtt::from_micros(u32::try_from(d.as_micros()).unwrap_or(u32::MAX))
    }

    /// Microseconds.
    pub const fn as_micros(self) -> u32 {
        self.0.get()
    }

    /// As a duration.
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.0.get() as u64)
    }

    /// Whether the two lie farther apart than the tolerance; exactly the tolerance is not farther (behaviour 3, [S-RTT]).
    pub fn differs(self, other: Rtt, tolerance: Duration) -> bool {
        u128::from(self.0.get().abs_diff(other.0.get())) > tolerance.as_micros()
    }
}

impl fmt::Display for Rtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.get();
        write!(f, "{}.{:03}ms", us / 1000, us % 1000)
    }
}

impl fmt::Debug for Rtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is known of one site's way to one LDNS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Not measured yet, or measured too long ago.
    #[default]
    Pending,
    /// The advertised RTT.
    Known(Rtt),
    /// Every kind of probe timed out in the last rounds.
    Unreachable,
}

impl Reach {
    /// The RTT, if one is known.
    pub fn rtt(self) -> Option<Rtt> {
        match self {
            Reach::Known(rtt) => Some(rtt),
            Reach::Pending | Reach::Unreachable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u32) -> Rtt {
        Rtt::from_micros(n * 1000)
    }

    #[test]
    fn a_difference_of_exactly_the_tolerance_is_within_it() {
        let five = Duration::from_millis(5);
        for (sample, differs) in [
            (27, false),
            (25, false),
            (29, false),
            (32, false),
            (33, true),
            (35, true),
            (22, false),
            (21, true),
        ] {
            assert_eq!(ms(27).differs(ms(sample), five), differs, "{sample}");
        }
    }

    #[test]
    fn nothing_is_shorter_than_a_microsecond_or_longer_than_ten_seconds() {
        assert_eq!(Rtt::from_duration(Duration::ZERO), Rtt::MIN);
        assert_eq!(Rtt::from_duration(Duration::from_secs(3600)), Rtt::MAX);
        assert_eq!(Rtt::from_micros(10_000_001), Rtt::MAX);
        assert_eq!(Rtt::from_micros(12_345).to_string(), "12.345ms");
    }
}
