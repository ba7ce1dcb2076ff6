//! Orders of preference, and virtual servers that stand in for others.

use crate::fixture::{A1, A2, B1, Bench, C1, C2};
use gslb_core::Reason;
use gslb_core::decide::Verdict;
use gslb_types::AllDown;
use gslb_types::ServiceState::{Disabled, Down, Learning};
use std::collections::BTreeMap;

const ORDERED: &str = "method = \"round_robin\"
services = [\"a1\", \"a2\", { service = \"b1\", order = 2 }, { service = \"c1\", order = 7 }]";

fn ordered(more: &str) -> Bench {
    Bench::new(&format!("{ORDERED}\n{more}"))
}

/// Virtual server www with a1 and a2, its backup with b1, and that one's with c1 and c2.
fn chain(last: &str) -> Bench {
    Bench::new(&format!(
        "method = \"round_robin\"\nservices = [\"a1\", \"a2\"]\nbackup_vserver = \"second\"
all_down = \"empty\"
[[vservers]]
name = \"second\"
services = [\"b1\"]
backup_vserver = \"last\"
all_down = \"empty\"
[[vservers]]
name = \"last\"
local_method = \"source_ip_hash\"
services = [\"c1\", \"c2\"]
{last}"
    ))
}

#[test]
fn the_lowest_order_answers_while_one_of_it_is_up() {
    assert_eq!(ordered("").shares(10), BTreeMap::from([(A1, 5), (A2, 5)]));
    assert_eq!(ordered("").are(Down, &[A1]).shares(10), BTreeMap::from([(A2, 10)]));
    assert_eq!(ordered("").are(Down, &[A1, A2]).shares(10), BTreeMap::from([(B1, 10)]));
    let third = ordered("").are(Down, &[A1, A2, B1]);
    assert_eq!(third.decide().reasons[..2], [Reason::Up(1), Reason::Order(7, 1)]);
}

#[test]
fn an_order_with_fewer_up_than_the_threshold_gives_way_to_the_next_that_has_enough() {
    let mut both = ordered("order_threshold = 2");
    assert_eq!(both.shares(10), BTreeMap::from([(A1, 5), (A2, 5)]));
    let one = ordered("order_threshold = 1").are(Down, &[A2]);
    assert_eq!(one.verdict(), Verdict::Service(A1));
    let vserver = "method = \"round_robin\"\norder_threshold = 2\nservices = [\"a1\", \"a2\", { service = \"c1\", order = 2 }, { service = \"c2\", order = 2 }]";
    let mut second = Bench::new(vserver).are(Down, &[A2]);
    assert_eq!(second.decide().reasons[1..3], [Reason::TooFewOfOrder(1, 1), Reason::Order(2, 2)]);
    assert_eq!(second.shares(10), BTreeMap::from([(C1, 5), (C2, 5)]));
}

#[test]
fn if_no_order_has_enough_the_first_that_has_one_answers() {
    let b = ordered("order_threshold = 2").are(Down, &[A1, A2]);
    assert_eq!(b.verdict(), Verdict::Service(B1));
    assert_eq!(
        b.decide().reasons[1..4],
        [Reason::TooFewOfOrder(2, 1), Reason::TooFewOfOrder(7, 1), Reason::Order(2, 1)]
    );
}

#[test]
fn with_all_down_the_order_is_as_if_all_were_up() {
    let mut b = ordered("").are(Down, &[A1, A2, B1, C1]);
    assert_eq!(b.shares(10), BTreeMap::from([(A1, 5), (A2, 5)]));
}

#[test]
fn a_service_of_a_lower_order_that_is_not_checked_yet_does_not_come_before_one_that_is_up() {
    assert_eq!(ordered("").are(Learning, &[A1, A2]).verdict(), Verdict::Service(B1));
    assert_eq!(chain("").are(Learning, &[A1, A2]).verdict(), Verdict::Service(B1));
    let mut none_up = chain("").are(Learning, &[A1, A2, B1]).are(Down, &[C1, C2]);
    assert_eq!(none_up.shares(10), BTreeMap::from([(A1, 5), (A2, 5)]), "in the order of the chain");
}

#[test]
fn a_backup_answers_by_its_own_method_while_nothing_before_it_is_up() {
    let mut first = chain("");
    assert_eq!(first.shares(10), BTreeMap::from([(A1, 5), (A2, 5)]));
    let second = chain("").are(Down, &[A1, A2]).decide();
    assert_eq!((second.verdict, second.vserver), (Verdict::Service(B1), 1));
    assert_eq!(second.reasons[..2], [Reason::Backup(1), Reason::Up(1)]);
    let last = chain("").are(Down, &[A1, B1]).are(Disabled, &[A2]).decide();
    assert_eq!((last.vserver, last.took_turn), (2, false), "the last one hashes");
    assert_eq!(last.reasons[..2], [Reason::Backup(2), Reason::Up(2)]);
}

#[test]
fn of_a_chain_only_the_last_ones_all_down_counts() {
    let all = [A1, A2, B1, C1, C2];
    let last = chain("").are(Down, &all).decide();
    assert_eq!(last.reasons[..2], [Reason::Backup(2), Reason::AllDown(AllDown::All)]);
    assert!(matches!(last.verdict, Verdict::Service(C1 | C2)));
    assert_eq!(chain("all_down = \"empty\"").are(Down, &all).verdict(), Verdict::Empty);
    let backup_ip = chain("all_down = \"backup_ip\"\nbackup_ip = [\"192.0.2.99\"]").are(Down, &all).decide();
    assert_eq!((backup_ip.verdict, backup_ip.vserver), (Verdict::BackupIp, 2), "the addresses are its own");
    let mut good = chain("all_down = \"last_good\"").are(Down, &all);
    good.published.last_good[2] = vec![false, true];
    assert_eq!(good.verdict(), Verdict::Service(C2));
}

#[test]
fn a_virtual_server_whose_services_are_all_disabled_has_a_backup_too() {
    assert_eq!(chain("").are(Disabled, &[A1, A2]).verdict(), Verdict::Service(B1));
}
