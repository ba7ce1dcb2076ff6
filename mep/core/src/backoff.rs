//! How long to wait before the next dial.

use rand_core::Rng;
use std::time::Duration;

/// The first wait is drawn from this span. A whole second, so that the peers of a restarted node do not come back all at
/// once (faults I-49).
const FIRST: Duration = Duration::from_secs(1);

/// The longest span while the peer can't be reached: a healed path is found within seconds (reliability R11), and one dial
/// in a few seconds loads nobody.
const LONGEST: Duration = Duration::from_secs(5);

/// The longest span while the peer or this node refuses the session: only an operator can change that.
const LONGEST_REFUSED: Duration = Duration::from_secs(30);

/// Never sooner than this, whatever is drawn.
const LEAST: Duration = Duration::from_millis(50);

/// Exponential back-off with full jitter.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Backoff {
    failures: u32,
    refused: bool,
}

impl Backoff {
    /// Notes that an attempt came to nothing.
    pub(crate) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.refused = false;
    }

    /// Notes that an attempt reached the peer and was turned away by either end.
    pub(crate) fn refused(&mut self) {
        self.failed();
        self.refused = true;
    }

    /// Notes that a session was stable, or ended in good order.
    pub(crate) fn reset(&mut self) {
        *self = Backoff::default();
    }

    /// Draws the wait before the next attempt.
    pub(crate) fn wait(self, rng: &mut impl Rng) -> Duration {
        let longest = if self.refused { LONGEST_REFUSED } else { LONGEST };
        let span = FIRST.saturating_mul(1 << self.failures.saturating_sub(1).min(16)).min(longest);
        LEAST + draw(span, rng)
    }
}

/// A duration between zero and `span`, all alike likely.
pub(crate) fn draw(span: Duration, rng: &mut impl Rng) -> Duration {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let scaled = (u128::from(rng.next_u64()) * (u128::from(micros) + 1)) >> 64;
    Duration::from_micros(u64::try_from(scaled).unwrap_or(micros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;
    use rand_pcg::Pcg32;

    fn waits(backoff: Backoff) -> (Duration, Duration) {
        let mut rng = Pcg32::seed_from_u64(7);
        let waits: Vec<Duration> = (0..1000).map(|_| backoff.wait(&mut rng)).collect();
        (waits.iter().min().copied().unwrap(), waits.iter().max().copied().unwrap())
    }

    #[test]
    fn the_first_retries_spread_over_a_second() {
        let mut backoff = Backoff::default();
        for _ in 0..2 {
            let (least, most) = waits(backoff);
            assert!(least < Duration::from_millis(100) && least >= LEAST, "{least:?}");
            assert!(most > Duration::from_millis(950) && most <= LEAST + FIRST, "{most:?}");
            backoff.failed();
        }
    }

    #[test]
    fn the_span_doubles_up_to_the_longest() {
        let mut backoff = Backoff::default();
        for (failures, span) in [(2, 2), (3, 4), (4, 5), (100, 5)] {
            backoff.failures = failures;
            let most = waits(backoff).1;
            assert!(most <= LEAST + Duration::from_secs(span), "{failures}: {most:?}");
            assert!(most > Duration::from_secs(span) * 9 / 10, "{failures}: {most:?}");
        }
    }

    #[test]
    fn a_refused_peer_is_tried_less_often_than_an_unreachable_one() {
        let mut backoff = Backoff::default();
        for _ in 0..10 {
            backoff.refused();
        }
        assert!(waits(backoff).1 > Duration::from_secs(27));
        backoff.reset();
        assert!(waits(backoff).1 <= LEAST + FIRST);
    }
}
