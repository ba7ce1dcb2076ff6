//! The clock of one proxy: monotonic time as lb-core wants it.
//!
//! It is the runtime's clock, here and wherever this crate looks at the time, so that a test may stop it and hold times exactly.

use gslb_types::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

/// What the clock shows at the start. Windows of the last 14 s begin before it.
const AT_START: Duration = Duration::from_secs(3600);

/// Turns the operating system's monotonic clock into [`Timestamp`]s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    pub(crate) fn at(&self, instant: Instant) -> Timestamp {
        Timestamp::ZERO + AT_START + instant.saturating_duration_since(self.start)
    }
}
