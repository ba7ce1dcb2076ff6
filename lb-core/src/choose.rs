//! The choice itself: one candidate, and why.

use crate::Candidate;
use crate::hash::rendezvous;
use crate::rotation::turn;
use crate::score::{Measure, Score};
use gslb_types::LbMethod;
use std::cmp::Ordering;
use std::net::IpAddr;

/// The service chosen among the candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Its index among the candidates.
    pub index: usize,
    /// Its score, where scores decided.
    pub score: Option<Score>,
    /// How many candidates had this score, itself included; 1 where scores did not decide.
    pub tied: usize,
    /// What decided.
    pub why: Why,
    /// Whether the choice depended on the round, so that the next one must have another.
    pub took_turn: bool,
}

/// What decided a choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// Its score was the lowest.
    Lowest,
    /// Its score was one of several lowest, and it was the first of them after the service that got the last request.
    Tie,
    /// The method is round robin, and it was its turn.
    Turn,
    /// What the method needs is not known of it yet, and it was its turn in the round robin of all.
    SlowStart,
    /// It has the best hash with the client's address.
    Hash,
}

impl Why {
    /// The words for it in explanations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Why::Lowest => "lowest score",
            Why::Tie => "first of the tied after the last one chosen",
            Why::Turn => "its turn",
            Why::SlowStart => "its turn, as it is not measured yet",
            Why::Hash => "hash of the client's address",
        }
    }
}

/// Chooses a service by `method`; `None` only if there are no candidates. Equal arguments, equal choice.
///
/// The candidates stand in configuration order. `pointer` is the position of the service that got the last request of this
/// virtual server, whether there was a tie or not, and whether it takes part in this choice or not. `round` counts the
/// choices that took a turn; `client` is the address that source-IP hash hashes.
///
/// A candidate whose metric is not known yet is in slow start: it gets the turns that weighted round robin over all
/// candidates would give it, and in the remaining rounds the measured ones compete by the method. So it neither wins
/// everything as if its response time were zero, nor starves, nor does a single service that can't be measured (no monitor
/// is bound to it) turn the method into round robin for all the others. While none is measured this is plain weighted round
/// robin.
pub fn choose(
    method: LbMethod,
    candidates: &[Candidate],
    pointer: Option<usize>,
    round: u64,
    client: IpAddr,
) -> Option<Choice> {
    match method {
        LbMethod::RoundRobin => Some(Choice::by_turn(whose_turn(candidates, round)?, Why::Turn)),
        LbMethod::SourceIpHash => {
            let index = rendezvous(candidates, |c| (c.id, c.weight), client)?;
            Some(Choice { index, score: None, tied: 1, why: Why::Hash, took_turn: false })
        }
        LbMethod::LeastResponseTimeMonitors
        | LbMethod::LeastResponseTime
        | LbMethod::LeastBandwidth
        | LbMethod::LeastPackets
        | LbMethod::LeastConnections
        | LbMethod::CustomLoad => by_score(Measure::of(method, candidates)?, candidates, pointer, round),
    }
}

impl Choice {
    const fn by_turn(index: usize, why: Why) -> Self {
        Choice { index, score: None, tied: 1, why, took_turn: true }
    }
}

fn whose_turn(candidates: &[Candidate], round: u64) -> Option<usize> {
    turn(candidates, |c| c.weight, round)
}

fn by_score(
    measure: Measure,
    candidates: &[Candidate],
    pointer: Option<usize>,
    round: u64,
) -> Option<Choice> {
    let unmeasured = |c: &Candidate| measure.score(c).is_none();
    let slow_start = candidates.iter().any(unmeasured);
    if slow_start {
        let index = whose_turn(candidates, round)?;
        if candidates.get(index).is_some_and(unmeasured) {
            return Some(Choice::by_turn(index, Why::SlowStart));
        }
    }
    let lowest = lowest(measure, candidates, pointer)?;
    Some(Choice { took_turn: slow_start, ..lowest })
}

/// The lowest score, and on a tie the first of the tied strictly after the pointer, wrapping round: the one rule that
/// reproduces every row of the articles' tables (behaviour 5).
fn lowest(measure: Measure, candidates: &[Candidate], pointer: Option<usize>) -> Option<Choice> {
    let mut best: Option<(Choice, (bool, usize))> = None;
    for (index, candidate) in candidates.iter().enumerate() {
        let Some(score) = measure.score(candidate) else { continue };
        let wrapped = pointer.is_some_and(|last| candidate.position <= last);
        let place = (wrapped, candidate.position);
        let alone = Choice { index, score: Some(score), tied: 1, why: Why::Lowest, took_turn: false };
        best = Some(match best {
            None => (alone, place),
            Some((holder, held)) => match Some(score).cmp(&holder.score) {
                Ordering::Less => (alone, place),
                Ordering::Greater => (holder, held),
                Ordering::Equal => {
                    let (index, place) = if place < held { (index, place) } else { (holder.index, held) };
                    (Choice { index, tied: holder.tied + 1, why: Why::Tie, ..holder }, place)
                }
            },
        });
    }
    best.map(|(choice, _)| choice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceId;
    use gslb_types::{Rtt, ServiceName, Weight};
    use proptest::prelude::*;

    const LRTM: LbMethod = LbMethod::LeastResponseTimeMonitors;
    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const METRIC_METHODS: [LbMethod; 6] = [
        LbMethod::LeastResponseTimeMonitors,
        LbMethod::LeastResponseTime,
        LbMethod::LeastBandwidth,
        LbMethod::LeastPackets,
        LbMethod::LeastConnections,
        LbMethod::CustomLoad,
    ];

    fn blank(position: usize) -> Candidate {
        let name = ServiceName::new(&format!("s{position}")).unwrap();
        Candidate::new(position, ServiceId::of(&name), Weight::ONE)
    }

    fn measured(position: usize, response_ms: u32) -> Candidate {
        Candidate { response_time: Some(Rtt::from_micros(response_ms * 1_000)), ..blank(position) }
    }

    /// The positions chosen by a caller that keeps pointer and round as it should.
    fn run(method: LbMethod, candidates: &[Candidate], requests: usize) -> Vec<usize> {
        let (mut pointer, mut round) = (None, 0);
        let mut chosen = Vec::new();
        for _ in 0..requests {
            let choice = choose(method, candidates, pointer, round, CLIENT).unwrap();
            pointer = Some(candidates[choice.index].position);
            round += u64::from(choice.took_turn);
            chosen.extend(pointer);
        }
        chosen
    }

    #[test]
    fn nothing_is_chosen_among_no_candidates_and_the_only_one_always() {
        for method in METRIC_METHODS.into_iter().chain([LbMethod::RoundRobin, LbMethod::SourceIpHash]) {
            assert_eq!(choose(method, &[], Some(0), 0, CLIENT), None);
            for only in [blank(4), measured(4, 5)] {
                assert_eq!(
                    choose(method, &[only], Some(9), 3, CLIENT).map(|c| c.index),
                    Some(0),
                    "{method:?}"
                );
            }
        }
    }

    #[test]
    fn the_lowest_response_time_answers_where_nobody_counts_transactions() {
        let all = [measured(0, 20), measured(1, 5), measured(2, 7)];
        let choice = choose(LRTM, &all, None, 0, CLIENT).unwrap();
        let score = Some(Score::new(5_000, Weight::ONE));
        assert_eq!(choice, Choice { index: 1, score, tied: 1, why: Why::Lowest, took_turn: false });
    }

    #[test]
    fn a_tie_goes_to_the_first_strictly_after_the_pointer() {
        let all = [measured(0, 5), measured(1, 9), measured(2, 5), measured(3, 5)];
        for (pointer, index) in
            [(None, 0), (Some(0), 2), (Some(1), 2), (Some(2), 3), (Some(3), 0), (Some(99), 0)]
        {
            let choice = choose(LRTM, &all, pointer, 0, CLIENT).unwrap();
            assert_eq!((choice.index, choice.tied, choice.why), (index, 3, Why::Tie), "{pointer:?}");
        }
    }

    #[test]
    fn the_pointer_counts_positions_and_not_who_takes_part_today() {
        let without_the_last = [measured(2, 5), measured(5, 5), measured(9, 5)];
        let chosen = |pointer| choose(LRTM, &without_the_last, Some(pointer), 0, CLIENT).map(|c| c.index);
        assert_eq!([4, 5, 8, 9].map(chosen), [Some(1), Some(2), Some(2), Some(0)]);
    }

    /// Faults I-58: 3000 requests to three equals are 1000 each, and a fourth that is down doubles nobody.
    #[test]
    fn equals_share_exactly() {
        let equals = [measured(0, 5), measured(2, 5), measured(3, 5)];
        for method in [LRTM, LbMethod::RoundRobin] {
            let chosen = run(method, &equals, 3_000);
            for position in [0, 2, 3] {
                assert_eq!(chosen.iter().filter(|p| **p == position).count(), 1_000, "{method:?}");
            }
        }
    }

    #[test]
    fn a_service_not_measured_yet_gets_its_turns_and_no_more() {
        let all = [measured(0, 20), measured(1, 5), blank(2)];
        assert_eq!(run(LRTM, &all, 6), [1, 1, 2, 1, 1, 2]);
        let choice = choose(LRTM, &all, None, 2, CLIENT).unwrap();
        assert_eq!((choice.why, choice.score, choice.took_turn), (Why::SlowStart, None, true));
        let beside = choose(LRTM, &all, None, 0, CLIENT).unwrap();
        assert_eq!((beside.why, beside.took_turn), (Why::Lowest, true));
    }

    #[test]
    fn slow_start_goes_by_weight() {
        let heavy = Candidate { weight: Weight::new(3).unwrap(), ..blank(1) };
        let chosen = run(LRTM, &[measured(0, 1), heavy], 400);
        assert_eq!(chosen.iter().filter(|p| **p == 1).count(), 300);
    }

    #[test]
    fn while_nothing_is_measured_every_metric_method_goes_round() {
        let all = [blank(0), blank(1), blank(2)];
        for method in METRIC_METHODS {
            assert_eq!(run(method, &all, 6), [0, 1, 2, 0, 1, 2], "{method:?}");
        }
    }

    #[test]
    fn an_idle_service_wins_whatever_its_weight() {
        let busy = Candidate { active: Some(1), weight: Weight::new(100).unwrap(), ..measured(0, 1) };
        let idle = Candidate { active: Some(0), ..measured(1, 9_000) };
        assert_eq!(choose(LRTM, &[busy, idle], Some(1), 0, CLIENT).map(|c| c.index), Some(1));
    }

    #[test]
    fn the_least_load_for_its_weight_gets_all_and_one_that_is_unknown_gets_its_turn() {
        let loaded = |position, load, w| Candidate {
            load: Some(load),
            weight: Weight::new(w).unwrap(),
            ..blank(position)
        };
        let load = LbMethod::CustomLoad;
        assert_eq!(run(load, &[loaded(0, 1_500, 1), loaded(1, 1_499, 1)], 4), [1, 1, 1, 1]);
        assert_eq!(
            run(load, &[loaded(0, 1_500, 1), loaded(1, 4_400, 3)], 4),
            [1, 1, 1, 1],
            "1466 for each of 3"
        );
        assert_eq!(run(load, &[loaded(0, 1_500, 1), loaded(1, 4_500, 3)], 4), [0, 1, 0, 1], "a tie");
        assert_eq!(run(load, &[loaded(0, 0, 1), loaded(1, 1, 1)], 3), [0, 0, 0], "0 is known, and the least");
        let unknown = run(load, &[loaded(0, 9, 1), loaded(1, 5, 1), blank(2)], 6);
        assert_eq!(unknown, [1, 1, 2, 1, 1, 2], "its own turns, and the others' by their loads");
        assert_eq!(run(load, &[blank(0), blank(1)], 4), [0, 1, 0, 1], "none known: round robin");
    }

    #[test]
    fn each_method_looks_at_its_own_metric() {
        let base = |p| Candidate {
            active: Some(2),
            response_time: Some(Rtt::from_micros(500)),
            ttfb: Some(Rtt::from_micros(500)),
            bytes: Some(500),
            packets: Some(500),
            load: Some(500),
            ..blank(p)
        };
        let best_at = [
            Candidate { response_time: Some(Rtt::from_micros(499)), ..base(0) },
            Candidate { ttfb: Some(Rtt::from_micros(499)), ..base(1) },
            Candidate { bytes: Some(499), ..base(2) },
            Candidate { packets: Some(499), ..base(3) },
            // Fewer connections, at the price of response times so long that LRTM and LRT are not fooled.
            Candidate { active: Some(1), response_time: Some(Rtt::MAX), ttfb: Some(Rtt::MAX), ..base(4) },
            Candidate { load: Some(499), active: Some(9), ..base(5) },
        ];
        for (index, method) in METRIC_METHODS.into_iter().enumerate() {
            assert_eq!(choose(method, &best_at, None, 0, CLIENT).map(|c| c.index), Some(index), "{method:?}");
        }
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let one = (1u64..=100, 0u32..50, 1u32..2_000, prop::bool::weighted(0.9));
        prop::collection::vec(one, 1..10).prop_map(|all| {
            let build = |(position, (w, active, micros, known)): (usize, (u64, u32, u32, bool))| Candidate {
                weight: Weight::new(w).unwrap(),
                active: Some(active),
                response_time: known.then(|| Rtt::from_micros(micros)),
                bytes: Some(u64::from(micros) * 77),
                ..blank(position)
            };
            all.into_iter().enumerate().map(build).collect()
        })
    }

    proptest! {
        #[test]
        fn nobody_has_a_lower_score_than_the_one_chosen_by_score(
            all in candidates(), pointer in prop::option::of(0usize..12), round in any::<u64>(),
        ) {
            let choice = choose(LRTM, &all, pointer, round, CLIENT).unwrap();
            let measure = Measure::of(LRTM, &all).unwrap();
            let scores: Vec<_> = all.iter().map(|c| measure.score(c)).collect();
            prop_assert_eq!(choice.score, scores[choice.index]);
            if let Some(score) = choice.score {
                prop_assert!(scores.iter().flatten().all(|s| *s >= score));
                prop_assert_eq!(choice.tied, scores.iter().filter(|s| **s == choice.score).count());
            } else {
                prop_assert_eq!(choice.why, Why::SlowStart);
            }
        }

        /// Bytes, kilobytes or any other unit: the choice is the same.
        #[test]
        fn the_unit_of_a_metric_does_not_matter(
            all in candidates(), by in 1u64..1_000_000, pointer in prop::option::of(0usize..12),
        ) {
            let scaled: Vec<_> = all.iter().map(|c| Candidate { bytes: c.bytes.map(|b| b * by), ..*c }).collect();
            let index = |of: &[Candidate]| choose(LbMethod::LeastBandwidth, of, pointer, 0, CLIENT).map(|c| c.index);
            prop_assert_eq!(index(&all), index(&scaled));
        }

        #[test]
        fn equal_arguments_make_equal_choices_and_only_turns_depend_on_the_round(
            all in candidates(), rounds in any::<(u64, u64)>(),
        ) {
            let at = |round| choose(LRTM, &all, None, round, CLIENT).unwrap();
            prop_assert_eq!(at(rounds.0), at(rounds.0));
            prop_assert!(at(rounds.0).took_turn || at(rounds.0) == at(rounds.1));
        }
    }
}
