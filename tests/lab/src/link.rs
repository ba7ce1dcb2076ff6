//! One direction between two nodes: when, and whether, a packet that enters it comes out.

use gslb_types::Timestamp;
use rand_core::Rng;
use std::time::Duration;

/// Octets that may wait for a link with a rate, if not set: a quarter of a mebibyte, a common home router's.
const QUEUE: u64 = 256 * 1024;

/// What a link does to packets. One way: a round trip takes both directions.
///
/// ```
/// # use {lab::{Link, spread}, std::time::Duration};
/// let dsl = Link::from(Duration::from_millis(9)).jitter(Duration::from_millis(2)).loss(10).rate(16_000_000);
/// let pool = Link::from(spread(Duration::from_millis(2), Duration::from_millis(140)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    pub(crate) delay: Delay,
    jitter: Duration,
    loss_per_mille: u32,
    rate: Option<u64>,
    queue: u64,
}

/// How long the way is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delay {
    /// The same for every packet.
    Fixed(Duration),
    /// Each address of a pool has its own, evenly spread from the first to the second, always the same for the same
    /// seed, and the same in both directions.
    Spread(Duration, Duration),
}

/// The delay of a link to a pool whose addresses are from `nearest` to `farthest` away.
pub fn spread(nearest: Duration, farthest: Duration) -> Delay {
    Delay::Spread(nearest, farthest)
}

impl From<Duration> for Delay {
    fn from(delay: Duration) -> Delay {
        Delay::Fixed(delay)
    }
}

impl<D: Into<Delay>> From<D> for Link {
    fn from(delay: D) -> Link {
        Link { delay: delay.into(), jitter: Duration::ZERO, loss_per_mille: 0, rate: None, queue: QUEUE }
    }
}

impl Link {
    /// Adds up to this much, and takes as much away, evenly; packets stay in order all the same.
    pub fn jitter(self, jitter: Duration) -> Link {
        Link { jitter, ..self }
    }

    /// Loses this many of a thousand packets.
    pub fn loss(self, per_mille: u32) -> Link {
        Link { loss_per_mille: per_mille, ..self }
    }

    /// Lets so many bits a second through; the rest waits.
    pub fn rate(self, bits_per_second: u64) -> Link {
        Link { rate: Some(bits_per_second.max(1)), ..self }
    }

    /// How many octets may wait for the rate; what comes beyond is lost.
    pub fn queue(self, octets: u64) -> Link {
        Link { queue: octets, ..self }
    }
}

/// Why a packet does not come out of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    Chance,
    Overflow,
}

/// The state a link keeps from packet to packet.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Line {
    /// Until when the rate is used up by packets before.
    busy_until: Timestamp,
    /// When the last packet comes out: none may overtake it.
    last_out: Timestamp,
}

impl Line {
    /// When a packet of `length` octets that enters `link` at `now`, and is `delay` under way, comes out.
    pub(crate) fn admit(
        &mut self,
        now: Timestamp,
        link: &Link,
        delay: Duration,
        length: usize,
        rng: &mut impl Rng,
    ) -> Result<Timestamp, Loss> {
        if below(rng, 1000) < u64::from(link.loss_per_mille) {
            return Err(Loss::Chance);
        }
        let sent = self.transmit(now, link, length as u64).ok_or(Loss::Overflow)?;
        let out = sent + jittered(delay, link.jitter, rng);
        Ok(match link.delay {
            Delay::Fixed(_) => {
                self.last_out = self.last_out.max(out);
                self.last_out
            }
            // Each address has a way of its own, so that a near one is not held up by a far one.
            Delay::Spread(..) => out,
        })
    }

    /// Forgets the packets before: a link that was set anew holds nothing back for them.
    pub(crate) fn reset(&mut self) {
        *self = Line::default();
    }

    fn transmit(&mut self, now: Timestamp, link: &Link, length: u64) -> Option<Timestamp> {
        let Some(rate) = link.rate else { return Some(now) };
        let waiting = octets_in(self.busy_until.since(now), rate);
        if waiting.saturating_add(length) > link.queue {
            return None;
        }
        self.busy_until = self.busy_until.max(now) + time_for(length, rate);
        Some(self.busy_until)
    }
}

fn jittered(delay: Duration, jitter: Duration, rng: &mut impl Rng) -> Duration {
    let width = u64::try_from(jitter.as_micros()).unwrap_or(u64::MAX).saturating_mul(2);
    if width == 0 {
        return delay;
    }
    (delay + Duration::from_micros(below(rng, width.saturating_add(1)))).saturating_sub(jitter)
}

/// A number below `bound`, which is not zero. The bias of the remainder is far below what a test could see.
fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    rng.next_u64() % bound
}

fn time_for(octets: u64, rate: u64) -> Duration {
    Duration::from_micros(octets.saturating_mul(8_000_000) / rate)
}

fn octets_in(time: Duration, rate: u64) -> u64 {
    u64::try_from(time.as_micros() * u128::from(rate) / 8_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1000)
    }

    /// Sends a packet of `length` octets at each of `times` (ms) through a link; when each comes out.
    fn through(
        link: Link,
        length: usize,
        times: impl IntoIterator<Item = u64>,
    ) -> Vec<Result<Timestamp, Loss>> {
        let (mut line, mut rng) = (Line::default(), Pcg64Mcg::seed_from_u64(1));
        let Delay::Fixed(delay) = link.delay else { panic!("a fixed delay") };
        times.into_iter().map(|t| line.admit(at(t), &link, delay, length, &mut rng)).collect()
    }

    #[test]
    fn a_packet_takes_the_delay() {
        assert_eq!(through(ms(7).into(), 100, [0, 5]), [Ok(at(7)), Ok(at(12))]);
    }

    #[test]
    fn jitter_stays_within_its_width_and_order_is_kept() {
        let out = through(Link::from(ms(50)).jitter(ms(10)), 100, (0..1000).map(|n| n / 10));
        let times: Vec<_> = out.into_iter().map(|t| t.expect("no loss")).collect();
        assert!(times.is_sorted());
        assert!(times.iter().all(|t| (at(40)..=at(159)).contains(t)));
        assert!(times.windows(2).any(|w| w[0] != w[1]));
    }

    #[test]
    fn jitter_beyond_the_delay_does_not_go_back_in_time() {
        let out = through(Link::from(ms(1)).jitter(ms(10)), 100, [20; 100]);
        assert!(out.iter().all(|t| t.expect("no loss") >= at(20)));
    }

    #[test]
    fn loss_is_about_the_share_that_was_set() {
        let lost = |link| through(link, 100, 0..10_000).iter().filter(|t| **t == Err(Loss::Chance)).count();
        assert_eq!(lost(Link::from(ms(1))), 0);
        assert_eq!(lost(Link::from(ms(1)).loss(1000)), 10_000);
        assert!((900..1100).contains(&lost(Link::from(ms(1)).loss(100))));
    }

    #[test]
    fn a_rate_spaces_packets_out() {
        // 1000 octets are 8000 bits: 8 ms at 1 Mbit/s.
        let link = Link::from(ms(5)).rate(1_000_000);
        assert_eq!(through(link, 1000, [0, 0, 100]), [Ok(at(13)), Ok(at(21)), Ok(at(113))]);
    }

    #[test]
    fn what_does_not_fit_into_the_queue_is_lost() {
        let link = Link::from(ms(5)).rate(1_000_000).queue(2000);
        assert_eq!(through(link, 1000, [0, 0, 0]), [Ok(at(13)), Ok(at(21)), Err(Loss::Overflow)]);
        assert_eq!(through(link, 1000, [0, 0, 8]), [Ok(at(13)), Ok(at(21)), Ok(at(29))]);
    }
}
