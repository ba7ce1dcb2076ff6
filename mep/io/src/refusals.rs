//! Keeps reports about strangers few, however many strangers come.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reports at once, before the pace sets in.
const BURST: u32 = 10;

/// One report per this long after that.
const PACE: Duration = Duration::from_secs(1);

/// A token bucket that counts what it held back.
pub(crate) struct Refusals(Mutex<Bucket>);

struct Bucket {
    tokens: u32,
    refilled: Instant,
    held_back: u64,
}

impl Refusals {
    pub(crate) fn new(now: Instant) -> Self {
        Refusals(Mutex::new(Bucket { tokens: BURST, refilled: now, held_back: 0 }))
    }

    /// The reason to report, with what was held back since the last one; `None` if this one is held back.
    pub(crate) fn report(&self, now: Instant, reason: String) -> Option<String> {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.refill(now);
        if bucket.tokens == 0 {
            bucket.held_back += 1;
            return None;
        }
        bucket.tokens -= 1;
        match std::mem::take(&mut bucket.held_back) {
            0 => Some(reason),
            more => Some(format!("{reason} (and {more} more refusals not shown)")),
        }
    }
}

impl Bucket {
    fn refill(&mut self, now: Instant) {
        while self.tokens < BURST && now.saturating_duration_since(self.refilled) >= PACE {
            self.tokens += 1;
            self.refilled += PACE;
        }
        if self.tokens == BURST {
            self.refilled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_strangers_makes_few_reports() {
        let start = Instant::now();
        let refusals = Refusals::new(start);
        let report = |millis| refusals.report(start + Duration::from_millis(millis), "unknown CA".into());
        assert_eq!((0..1000).filter_map(|_| report(0)).count(), BURST as usize);
        assert_eq!(report(999), None);
        assert_eq!(report(1000), Some("unknown CA (and 991 more refusals not shown)".into()));
        assert_eq!(report(1001), None);
        assert_eq!((0..1000).filter_map(|_| report(3_600_000)).count(), BURST as usize);
    }
}
