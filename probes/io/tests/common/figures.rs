//! Measured spans against injected delays.

use super::{LONG, Running};
use gslb_types::Check;
use probes_core::wire::CheckOutcome;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs of which the median counts: a busy machine disturbs some, not most.
const RUNS: usize = 11;

/// How often the runs are made anew on a machine that is busy throughout.
const TRIES: usize = 5;

/// How far a measured span may lie from the injected delay.
pub(crate) const WITHIN: Duration = Duration::from_millis(2);

/// Sleeps, and keeps count of how much longer that took than it should have: a busy machine's part of a delay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Late(Arc<AtomicU64>);

impl Late {
    pub(crate) fn sleep(&self, span: Duration) {
        let began = Instant::now();
        std::thread::sleep(span);
        self.0.fetch_add(began.elapsed().saturating_sub(span).as_micros() as u64, Ordering::Relaxed);
    }

    fn take(&self) -> Duration {
        Duration::from_micros(self.0.swap(0, Ordering::Relaxed))
    }
}

/// A check of a server, and how late that is.
pub(crate) struct Measured {
    pub(crate) target: SocketAddr,
    pub(crate) check: Check,
    pub(crate) late: Late,
}

impl Measured {
    /// What the check measures, less what the server was late.
    async fn once(&self, running: &mut Running) -> Duration {
        self.late.take();
        match running.check(self.target, self.check.clone(), LONG).await {
            CheckOutcome::Passed(rtt) => rtt.as_duration().saturating_sub(self.late.take()),
            CheckOutcome::Reported { response_time, .. } => response_time.as_duration(),
            outcome => panic!("{:?}: {outcome:?}", self.check),
        }
    }

    /// The median of several runs; anew if it is not the injected delay, as a machine may be busy for some of them.
    pub(crate) async fn median(&self, running: &mut Running, injected: Duration) -> Duration {
        let mut median = Duration::ZERO;
        for _ in 0..TRIES {
            let mut spans = Vec::new();
            for _ in 0..RUNS {
                spans.push(self.once(running).await);
            }
            median = middle(spans);
            if median.abs_diff(injected) <= WITHIN {
                break;
            }
        }
        median
    }

    /// How much longer it takes than another, by the quickest of either: what has work to do may be late, and is never early.
    pub(crate) async fn beyond(
        &self,
        other: &Measured,
        running: &mut Running,
        injected: Duration,
    ) -> Duration {
        let (mut without, mut with) = (Duration::MAX, Duration::MAX);
        for run in 0..TRIES * RUNS {
            without = without.min(other.once(running).await);
            with = with.min(self.once(running).await);
            if run >= RUNS && with.saturating_sub(without).abs_diff(injected) <= WITHIN {
                break;
            }
        }
        with.saturating_sub(without)
    }
}

fn middle(mut spans: Vec<Duration>) -> Duration {
    spans.sort_unstable();
    spans[spans.len() / 2]
}

/// Whether the span is the delay; says both.
pub(crate) fn is_near(what: &str, measured: Duration, injected: Duration) -> bool {
    let off = measured.abs_diff(injected);
    println!("{what:28} injected {injected:>9.2?}  measured {measured:>9.2?}  off by {off:.2?}");
    off <= WITHIN
}
