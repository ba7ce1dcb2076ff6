//! The one clock of the process: monotonic, counted from the start.

use gslb_types::Timestamp;
use std::time::Instant;

/// Turns the operating system's monotonic clock into [`Timestamp`]s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts at zero, now.
    pub(crate) fn start() -> Self {
        Clock { start: Instant::now() }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    /// The instant of a timestamp, for the runtime's sleeps.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.start + at.since(Timestamp::ZERO)
    }
}
