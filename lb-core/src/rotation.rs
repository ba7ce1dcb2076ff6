//! Whose turn it is: weighted round robin by the number of the round alone.

use gslb_types::Weight;

/// The index of the item whose turn round `round` is; `None` if there are no items.
///
/// A cycle is as many rounds as the weights add up to (divided by what all of them share), and each item gets exactly its
/// weight's worth of rounds in it: with equal weights, each item once, in order. Turns are spread over the cycle instead of
/// handed out in bursts: the list is cut where both parts weigh most nearly the same, the parts alternate as evenly as their
/// weights allow, and so on within the part, so no item is ever more than two turns from its exact share.
///
/// Nothing is remembered: equal arguments, equal answer. And it counts over the items given, not over slots of absent ones,
/// so that an item that leaves is not replaced by its neighbour taking twice as many turns (faults I-58).
pub fn turn<T>(items: &[T], weight: impl Fn(&T) -> Weight, round: u64) -> Option<usize> {
    let first = weight(items.first()?);
    if items.iter().all(|item| weight(item) == first) {
        return usize::try_from(round % items.len() as u64).ok();
    }
    let sum = |part: &[T]| part.iter().map(|item| u64::from(weight(item).get())).sum::<u64>();

    let (mut part, mut start, mut total) = (items, 0, sum(items));
    let mut at = round % total;
    while part.len() > 1 {
        let (cut, left_total) = balance(part, &weight, total);
        let (left, right) = part.split_at_checked(cut)?;
        // How many of the first `rounds` rounds are the left part's: its exact share, rounded to the nearest.
        let left_of = |rounds: u64| (2 * rounds * left_total + total) / (2 * total);
        let before = left_of(at);
        if left_of(at + 1) > before {
            (part, total, at) = (left, left_total, before);
        } else {
            (part, total, at) = (right, total - left_total, at - before);
            start += cut;
        }
    }
    Some(start)
}

/// Where to cut the items so that both parts weigh most nearly the same, and what the left one weighs. Neither is empty.
fn balance<T>(items: &[T], weight: impl Fn(&T) -> Weight, total: u64) -> (usize, u64) {
    let (mut best, mut left) = ((1, 0, u64::MAX), 0);
    for (index, item) in items.iter().enumerate().take(items.len().saturating_sub(1)) {
        left += u64::from(weight(item).get());
        let lopsided = (2 * left).abs_diff(total);
        if lopsided < best.2 {
            best = (index + 1, left, lopsided);
        }
    }
    (best.0, best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weights(ws: &[u64]) -> Vec<Weight> {
        ws.iter().map(|w| Weight::new(*w).unwrap()).collect()
    }

    fn cycle(ws: &[u64]) -> Vec<usize> {
        let items = weights(ws);
        (0..ws.iter().sum()).map(|round| turn(&items, |w| *w, round).unwrap()).collect()
    }

    #[test]
    fn nobody_has_a_turn_among_no_items() {
        assert_eq!(turn(&[] as &[Weight], |w| *w, 7), None);
    }

    #[test]
    fn equal_weights_take_turns_in_order_once_each() {
        assert_eq!(cycle(&[1, 1, 1, 1]), [0, 1, 2, 3]);
        assert_eq!(cycle(&[3, 3])[..4], [0, 1, 0, 1]);
    }

    #[test]
    fn a_heavy_item_is_spread_between_the_light_ones() {
        assert_eq!(cycle(&[3, 2, 1]), [0, 1, 0, 2, 0, 1]);
        assert_eq!(cycle(&[5, 1, 1]), [0, 1, 0, 0, 0, 2, 0]);
        assert_eq!(cycle(&[1, 1, 2]), [0, 2, 1, 2]);
        assert_eq!(cycle(&[10, 1, 1, 1, 1, 1]), [0, 4, 0, 0, 1, 0, 0, 3, 0, 0, 2, 0, 0, 5, 0]);
    }

    #[test]
    fn the_sequence_goes_round_to_the_largest_round_number() {
        let items = weights(&[3, 2, 1]);
        assert!(turn(&items, |w| *w, u64::MAX).is_some());
        assert_eq!(turn(&items, |w| *w, 6_000_000), turn(&items, |w| *w, 0));
    }

    /// Faults I-58: the one that leaves must not leave its turns to the next in line.
    #[test]
    fn an_item_that_leaves_does_not_double_its_neighbour() {
        let mut got = [0; 4];
        for round in 0..3_000 {
            let present = [0, 2, 3];
            got[present[turn(&present, |_| Weight::ONE, round).unwrap()]] += 1;
        }
        assert_eq!(got, [1_000, 0, 1_000, 1_000]);
    }

    proptest! {
        #[test]
        fn one_cycle_gives_each_exactly_its_weight(ws in prop::collection::vec(1u64..=100, 1..12)) {
            let got = cycle(&ws);
            for (index, w) in ws.iter().enumerate() {
                prop_assert_eq!(got.iter().filter(|i| **i == index).count() as u64, *w);
            }
        }

        #[test]
        fn nobody_is_ever_two_turns_from_the_exact_share(ws in prop::collection::vec(1u64..=100, 1..12)) {
            let total = ws.iter().sum::<u64>() as f64;
            let mut got = vec![0.0; ws.len()];
            for (round, index) in cycle(&ws).into_iter().enumerate() {
                got[index] += 1.0;
                for (w, n) in ws.iter().zip(&got) {
                    let share = *w as f64 * (round + 1) as f64 / total;
                    prop_assert!((n - share).abs() < 2.0, "{n} turns of {share} after {round}");
                }
            }
        }
    }
}
