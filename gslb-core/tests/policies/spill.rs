//! What is full, and what has too much to do.

use crate::fixture::{A1, A2, B1, Bench, C1};
use gslb_core::Reason;
use gslb_core::decide::{Place, Verdict};
use gslb_types::ServiceState::Down;
use std::collections::BTreeMap;

/// a1 and a2, then b1, then c1, by virtual servers.
const CHAIN: &str = "method = \"round_robin\"\nlocal_method = \"round_robin\"\nservices = [\"a1\", \"a2\"]\nbackup_vserver = \"second\"
spillover_connections = 100
[[vservers]]\nname = \"second\"\nservices = [\"b1\"]\nbackup_vserver = \"last\"\nspillover_health = 50
[[vservers]]\nname = \"last\"\nservices = [\"c1\"]";

fn spilled(spilled: [bool; 3]) -> Bench {
    let mut b = Bench::new(CHAIN);
    b.published.spilled = spilled.to_vec();
    b
}

#[test]
fn what_has_spilled_over_is_passed_over() {
    let first = spilled([true, false, false]).decide();
    assert_eq!((first.verdict, first.vserver), (Verdict::Service(B1), 1));
    assert_eq!(first.reasons[..3], [Reason::Spilled(0), Reason::Backup(1), Reason::Up(1)]);
    assert_eq!(spilled([true, true, false]).verdict(), Verdict::Service(C1));
    let mut none = spilled([false; 3]);
    assert_eq!(none.shares(10), BTreeMap::from([(A1, 5), (A2, 5)]));
}

#[test]
fn if_nobody_can_take_what_is_too_much_it_is_answered_all_the_same() {
    let mut b = spilled([true, true, false]).are(Down, &[C1]);
    assert!(b.decide().reasons.contains(&Reason::NowhereToSpill));
    assert_eq!(b.shares(10), BTreeMap::from([(A1, 5), (A2, 5)]));
    let alone = spilled([true, true, false]).are(Down, &[A1, A2, C1]);
    assert_eq!(alone.verdict(), Verdict::Service(B1));
}

/// Clients of a1 and a2 with their limits, as `max_clients` of each says.
fn limited(backup: &str) -> Bench {
    let mut b = Bench::with(
        &format!(
            "method = \"round_robin\"\nlocal_method = \"round_robin\"\nservices = [\"a1\", {{ service = \"b1\", order = 2 }}]{backup}"
        ),
        &[("a1", "max_clients = 10\nmax_bandwidth = \"8kbps\""), ("b1", "max_clients = 20")],
    );
    (b.traffic(A1).active, b.traffic(B1).active) = (Some(9), Some(19));
    b
}

#[test]
fn a_full_service_is_passed_over_at_exactly_its_limit() {
    let mut b = limited("");
    assert_eq!(b.verdict(), Verdict::Service(A1));
    b.traffic(A1).active = Some(10);
    assert_eq!(b.verdict(), Verdict::Service(B1), "of the next order");
    assert_eq!(b.decide().reasons[0], Reason::Full(A1));
}

#[test]
fn a_rate_is_the_mean_of_fourteen_seconds() {
    let mut b = limited("");
    b.traffic(A1).bytes = Some(14 * 1000 - 1);
    assert_eq!(b.verdict(), Verdict::Service(A1));
    b.traffic(A1).bytes = Some(14 * 1000);
    assert_eq!(b.verdict(), Verdict::Service(B1), "8 kbit/s are 1000 bytes a second");
}

#[test]
fn when_all_are_full_the_backup_answers_and_without_one_they_all_do() {
    let full = |backup| {
        let mut b = limited(backup);
        (b.traffic(A1).active, b.traffic(B1).active) = (Some(11), Some(21));
        b
    };
    assert_eq!(full("").verdict(), Verdict::Service(A1));
    let to = "\nbackup_vserver = \"second\"\n[[vservers]]\nname = \"second\"\nservices = [\"c1\"]";
    let sent_on = full(to).decide();
    assert_eq!((sent_on.verdict, sent_on.reasons[2]), (Verdict::Service(C1), Reason::AllFull(0)));
    let nowhere = full(to).are(Down, &[C1]).decide();
    assert_eq!(nowhere.verdict, Verdict::Service(A1));
}

#[test]
fn the_place_that_stands_is_answered_while_something_there_is_up() {
    let stands = |link, order| {
        let mut b = Bench::new(CHAIN);
        b.published.standing = vec![[Some(Place { link, order }), None], [None; 2], [None; 2]];
        b
    };
    let second = stands(1, 1).decide();
    assert_eq!((second.verdict, second.place), (Verdict::Service(B1), Some(Place { link: 1, order: 1 })));
    assert_eq!(second.reasons[1], Reason::Standing(Place { link: 1, order: 1 }, 1));
    let best = stands(1, 1).are(Down, &[B1]).decide();
    assert_eq!((best.vserver, best.place), (0, Some(Place { link: 0, order: 1 })));
    for (link, order) in [(1, 2), (7, 1)] {
        assert_eq!(stands(link, order).decide().vserver, 0, "there is no such place");
    }
    let mut spilled = stands(1, 1);
    spilled.published.spilled = vec![false, true, false];
    assert_eq!(spilled.decide().vserver, 0);
}

#[test]
fn a_place_that_stands_takes_nobody_beyond_its_limits() {
    let mut b = limited("");
    b.published.standing = vec![[Some(Place { link: 0, order: 2 }), None]];
    assert_eq!(b.verdict(), Verdict::Service(B1));
    b.traffic(B1).active = Some(20);
    let full = b.decide();
    assert_eq!((full.verdict, full.place), (Verdict::Service(A1), Some(Place { link: 0, order: 1 })));
    assert_eq!(full.reasons[0], Reason::Full(B1));
}
