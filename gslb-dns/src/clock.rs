//! The one clock of the process: monotonic, begun with the start.

use gslb_types::Timestamp;
use std::time::{Duration, Instant};

/// What the clock shows at the start. Peers tell of things that happened before it, and their ages need room: a value of a minute
/// ago would else be as old as the process.
const AT_START: Duration = Duration::from_secs(86_400);

/// Turns the operating system's monotonic clock into [`Timestamp`]s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Clock { start: Instant::now() }
    }

    /// What it shows now.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO + AT_START + self.start.elapsed()
    }

    /// The instant of a timestamp, for the runtime's sleeps.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.start + at.since(Timestamp::ZERO + AT_START)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_before_the_start_keeps_its_age() {
        let (clock, age) = (Clock::start(), Duration::from_secs(3600));
        let now = clock.now();
        assert_eq!(now.since(now.before(age)), age);
    }

    #[test]
    fn an_instant_is_where_the_clock_shows_it() {
        let clock = Clock::start();
        let later = clock.now() + Duration::from_secs(5);
        let ahead = clock.instant(later) - Instant::now();
        assert!(ahead <= Duration::from_secs(5) && ahead > Duration::from_secs(4), "{ahead:?}");
    }
}
