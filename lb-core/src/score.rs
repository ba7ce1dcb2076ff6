//! Scores: the N of the articles, divided by the weight, as exact integers.

use crate::Candidate;
use gslb_types::{LbMethod, Weight};

/// What N is multiplied with before it is divided by the weight ([S-LRTM]: Nw = N * 10000 / weight).
pub const SCORE_SCALE: u128 = 10_000;

/// How much a service has to do already: the lowest is chosen.
///
/// floor(N * 10000 / weight). Rounding down loses nothing as long as weights are 100 at most: two quotients that differ
/// do so by 10000 / (w1 * w2) >= 1, so their floors differ too, and true ties stay ties (behaviour 5). 128 bits hold the
/// largest N, u64::MAX bytes, times the scale.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Score(u128);

impl Score {
    /// The score of a service with this N and weight.
    pub fn new(n: u64, weight: Weight) -> Self {
        Score(u128::from(n) * SCORE_SCALE / u128::from(weight.get()))
    }

    /// Nw as the articles print it for weighted services; for a weight of 1 it is 10000 times their N.
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// What a metric method compares, for one set of candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measure {
    of: Metric,
    /// Whether open transactions of every candidate are counted.
    counted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Metric {
    MonitorTime,
    FirstByteTime,
    Bytes,
    Packets,
    Connections,
    Load,
}

impl Measure {
    /// What `method` compares among these candidates; `None` if it is not a metric method.
    ///
    /// LRTM and LRT multiply by the open transactions only if they are known of every candidate. Where nobody counts them
    /// (a DNS answer names the service itself, no proxy is in between) N is the response time alone: the articles' product
    /// with the same factor for all. Factors of some and not of others would compare unlike things.
    pub fn of(method: LbMethod, candidates: &[Candidate]) -> Option<Self> {
        let of = match method {
            LbMethod::LeastResponseTimeMonitors => Metric::MonitorTime,
            LbMethod::LeastResponseTime => Metric::FirstByteTime,
            LbMethod::LeastBandwidth => Metric::Bytes,
            LbMethod::LeastPackets => Metric::Packets,
            LbMethod::LeastConnections => Metric::Connections,
            LbMethod::CustomLoad => Metric::Load,
            LbMethod::RoundRobin | LbMethod::SourceIpHash => return None,
        };
        Some(Measure { of, counted: candidates.iter().all(|c| c.active.is_some()) })
    }

    /// The candidate's score; `None` while what the method needs is not known of it.
    pub fn score(self, candidate: &Candidate) -> Option<Score> {
        Some(Score::new(self.n(candidate)?, candidate.weight))
    }

    /// The candidate's N, in microseconds, bytes, packets, connections or thousandths of a load; `None` as for the score.
    pub fn n(self, candidate: &Candidate) -> Option<u64> {
        let n = match self.of {
            Metric::MonitorTime => self.work(candidate, candidate.response_time?.as_micros()),
            Metric::FirstByteTime => self.work(candidate, candidate.ttfb?.as_micros()),
            Metric::Bytes => candidate.bytes?,
            Metric::Packets => candidate.packets?,
            Metric::Connections => u64::from(candidate.active?),
            Metric::Load => candidate.load?,
        };
        Some(n)
    }

    /// Open transactions times microseconds. 32 bits times 32 bits cannot overflow 64.
    fn work(self, candidate: &Candidate, micros: u32) -> u64 {
        let active = candidate.active.filter(|_| self.counted).unwrap_or(1);
        u64::from(active) * u64::from(micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceId;
    use gslb_types::{Rtt, ServiceName};
    use proptest::prelude::*;

    fn weight(w: u64) -> Weight {
        Weight::new(w).unwrap()
    }

    fn candidate(w: u64) -> Candidate {
        Candidate::new(0, ServiceId::of(&ServiceName::new("s").unwrap()), weight(w))
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        assert_eq!(Score::new(u64::MAX, Weight::ONE).get(), u128::from(u64::MAX) * 10_000);
        let busiest = Candidate { active: Some(u32::MAX), response_time: Some(Rtt::MAX), ..candidate(1) };
        let measure = Measure::of(LbMethod::LeastResponseTimeMonitors, &[busiest]).unwrap();
        assert_eq!(
            measure.score(&busiest).map(Score::get),
            Some(u128::from(u32::MAX) * 10_000_000 * SCORE_SCALE)
        );
    }

    #[test]
    fn an_idle_service_scores_zero_whatever_its_weight_and_response_time() {
        for w in [1, 7, 100] {
            let idle = Candidate { active: Some(0), ttfb: Some(Rtt::MAX), ..candidate(w) };
            let measure = Measure::of(LbMethod::LeastResponseTime, &[idle]).unwrap();
            assert_eq!(measure.score(&idle).map(Score::get), Some(0));
        }
    }

    #[test]
    fn where_transactions_are_not_counted_the_response_time_alone_is_n() {
        let uncounted = Candidate { response_time: Some(Rtt::from_micros(1_500)), ..candidate(3) };
        let counted = Candidate { active: Some(8), ..uncounted };
        let score = |all: &[Candidate], c| {
            Measure::of(LbMethod::LeastResponseTimeMonitors, all).unwrap().score(c).map(Score::get)
        };
        assert_eq!(score(&[uncounted], &uncounted), Some(1_500 * 10_000 / 3));
        assert_eq!(score(&[counted], &counted), Some(8 * 1_500 * 10_000 / 3));
        // One candidate without a count takes the factor from all of them.
        assert_eq!(score(&[counted, uncounted], &counted), Some(1_500 * 10_000 / 3));
    }

    #[test]
    fn a_metric_nobody_has_is_no_score() {
        let blank = candidate(1);
        for method in [
            LbMethod::LeastResponseTimeMonitors,
            LbMethod::LeastResponseTime,
            LbMethod::LeastBandwidth,
            LbMethod::LeastPackets,
            LbMethod::LeastConnections,
            LbMethod::CustomLoad,
        ] {
            assert_eq!(Measure::of(method, &[blank]).unwrap().score(&blank), None, "{method:?}");
        }
        assert_eq!(Measure::of(LbMethod::RoundRobin, &[blank]), None);
        assert_eq!(Measure::of(LbMethod::SourceIpHash, &[blank]), None);
    }

    proptest! {
        /// The floors are in the very order of the exact fractions N1/w1 and N2/w2, ties included.
        #[test]
        fn scores_stand_in_the_order_of_the_exact_fractions(
            n1 in any::<u64>(), n2 in any::<u64>(), w1 in 1u64..=100, w2 in 1u64..=100,
        ) {
            let exact = (u128::from(n1) * u128::from(w2)).cmp(&(u128::from(n2) * u128::from(w1)));
            prop_assert_eq!(Score::new(n1, weight(w1)).cmp(&Score::new(n2, weight(w2))), exact);
        }

        /// The same close to each other, where rounding would do its harm.
        #[test]
        fn near_ties_are_told_from_ties(n in 0u64..1_000_000, w1 in 1u64..=100, w2 in 1u64..=100, off in 0u64..3) {
            let (n1, n2) = (n * w1, n * w2 + off);
            let exact = (u128::from(n1) * u128::from(w2)).cmp(&(u128::from(n2) * u128::from(w1)));
            prop_assert_eq!(Score::new(n1, weight(w1)).cmp(&Score::new(n2, weight(w2))), exact);
        }
    }
}
