//! How long a check may take.

use super::{Fault, failed};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the check may take, and until when.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    length: Duration,
    end: Option<Instant>,
}

/// The limit has passed.
pub(super) struct Passed;

impl Limit {
    /// From now on.
    pub(super) fn of(length: Duration) -> Self {
        // A limit beyond the clock's range is none.
        Limit { length, end: Instant::now().checked_add(length) }
    }

    pub(super) fn length(self) -> Duration {
        self.length
    }

    /// Waits for what is awaited until the end; `missing` is what there is not then.
    pub(super) async fn hold<T>(self, missing: &str, awaited: impl Future<Output = T>) -> Result<T, Fault> {
        match self.wait(awaited).await {
            Ok(awaited) => Ok(awaited),
            Err(Passed) => failed(self.missing(missing)),
        }
    }

    /// The same in other words.
    pub(super) async fn wait<T>(self, awaited: impl Future<Output = T>) -> Result<T, Passed> {
        match self.end {
            None => Ok(awaited.await),
            Some(end) => timeout_at(end, awaited).await.map_err(|_| Passed),
        }
    }

    /// "no answer within 2s".
    pub(super) fn missing(self, what: &str) -> String {
        format!("{what} within {:?}", self.length)
    }
}
