//! Neighbours that come, go, flap and restart, and what that costs.

use super::*;
use crate::cell::Cell;
use crate::node::own_column::OwnColumn;
use crate::table::RttTable;
use gslb_types::{Reach, Rtt, SiteIndex};

fn ms(n: u64) -> Timestamp {
    Timestamp::from_micros(n * 1000)
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn neighbours() -> Neighbours {
    Neighbours::new(node("a/1"))
}

impl Neighbours {
    fn up(&mut self, now: u64, peer: &str) {
        self.peer_up(ms(now), &node(peer), Some(1));
    }

    /// Another process of it.
    fn restarts(&mut self, now: u64, peer: &str, boot: u64) {
        self.peer_down(ms(now), &node(peer), false);
        self.peer_up(ms(now), &node(peer), Some(boot));
    }

    fn down(&mut self, now: u64, peer: &str) {
        self.peer_down(ms(now), &node(peer), false);
    }

    fn sharing(&self) -> Vec<String> {
        self.share().nodes().map(ToString::to_string).collect()
    }

    /// How often the LDNS are shared out until then.
    fn walks(&mut self, until: u64) -> usize {
        let mut walks = 0;
        while let Some(due) = self.poll_timeout().filter(|due| *due <= ms(until)) {
            walks += usize::from(self.settle(due).is_some());
        }
        walks
    }
}

#[test]
fn a_newcomer_shares_at_once_and_the_ldns_are_walked_once_for_all_that_come_together() {
    let mut n = neighbours();
    n.up(0, "a/2");
    assert_eq!((n.sharing(), n.poll_timeout()), (vec!["a/1".to_owned(), "a/2".to_owned()], Some(ms(1000))));
    n.up(900, "a/3");
    assert!(n.settle(ms(999)).is_none());
    assert_eq!((n.walks(999), n.walks(60_000)), (0, 1));
    assert_eq!(n.sharing(), ["a/1", "a/2", "a/3"]);
}

#[test]
fn one_that_dies_shares_until_the_others_take_over() {
    let mut n = neighbours();
    n.up(0, "a/2");
    n.walks(1000);
    n.down(50_000, "a/2");
    assert_eq!((n.walks(50_999), n.sharing().len()), (0, 2));
    assert_eq!((n.walks(51_000), n.sharing(), n.poll_timeout()), (1, vec!["a/1".to_owned()], None));
}

/// Issue "MEP as operators trust it", 7: a death moves the share within the dead interval.
#[test]
fn one_that_was_silent_for_the_dead_interval_is_gone_at_once() {
    let mut n = neighbours();
    n.up(0, "a/2");
    n.up(0, "a/3");
    n.walks(1000);
    n.peer_down(ms(50_000), &node("a/2"), true);
    assert_eq!((n.poll_timeout(), n.walks(50_000)), (Some(ms(50_000)), 1));
    n.peer_down(ms(50_400), &node("a/3"), true);
    assert_eq!((n.walks(50_999), n.walks(51_000), n.sharing()), (0, 1, vec!["a/1".to_owned()]));
}

#[test]
fn a_session_that_stands_again_soon_was_never_gone() {
    let mut n = neighbours();
    n.up(0, "a/2");
    n.walks(1000);
    for reconnect in 1..=1000 {
        n.down(reconnect * 2000, "a/2");
        n.up(reconnect * 2000 + 999, "a/2");
        assert_eq!((n.walks(reconnect * 2000 + 1999), n.sharing().len()), (0, 2));
    }
    assert_eq!(n.told_since(&node("a/2")), Some(ms(0)));
    assert_eq!(n.confirmed(), Some(Confirmed::new(ms(0), ms(2_000_999))));
}

/// A neighbour that flaps as fast as it likes, or as unluckily as it can.
#[test]
fn flapping_costs_one_walk_a_second_at_most() {
    for period in [1, 7, 100, 333, 501, 999, 1001, 1500] {
        let mut n = neighbours();
        let mut walks = 0;
        for turn in 0..60_000 / period {
            let now = turn * period;
            walks += n.walks(now);
            if turn % 2 == 0 { n.up(now, "a/2") } else { n.down(now, "a/2") }
        }
        println!("T8: a session that turns every {period} ms for a minute: {walks} walks");
        assert!(walks <= 60, "{period}: {walks}");
    }
}

#[test]
fn the_words_of_one_that_is_gone_confirm_nothing() {
    let mut n = neighbours();
    n.up(0, "a/2");
    n.up(0, "a/3");
    n.down(10_000, "a/2");
    assert_eq!(n.confirmed(), Some(Confirmed::new(ms(0), ms(0))));
    n.walks(11_000);
    n.up(20_000, "a/2");
    assert_eq!(n.told_since(&node("a/2")), Some(ms(20_000)), "another time, in which it tells anew");
}

fn ldns(n: u8) -> Ldns {
    Ldns::exact([192, 0, 2, n].into())
}

/// Faults I-46: the words of the new process do not confirm what the old one said.
#[test]
fn what_a_process_told_is_nobody_s_once_another_has_taken_its_place() {
    let mut n = neighbours();
    n.up(0, "a/2");
    n.up(0, "a/3");
    n.walks(1000);
    n.restarts(50_000, "a/2", 2);
    let settled = n.settle(ms(50_000)).unwrap();
    assert_eq!((settled.asked.len(), n.sharing().len(), n.poll_timeout()), (0, 3, None));
    for l in (0..99).map(ldns) {
        assert_eq!(settled.is_orphaned(l), n.share().owner(l).to_string() == "a/2", "{l}");
    }
    assert_eq!(n.told_since(&node("a/2")), Some(ms(50_000)));
}

/// Faults I-46: whoever has the share of a dead neighbour now may never have heard of what that one told.
#[test]
fn who_inherits_a_share_confirms_only_what_it_has_told_itself() {
    let (mut n, site) = (neighbours(), SiteIndex::new(0).unwrap());
    n.up(0, "a/2");
    n.up(0, "a/3");
    n.walks(1000);
    let table = RttTable::new(1, 1);
    let mut column = OwnColumn::new(site, Duration::from_millis(5), Duration::from_secs(60));
    let rtt = Reach::Known(Rtt::from_micros(27_000));
    for l in (0..99).map(ldns) {
        table.sighted(l, ms(0));
        column.admitted(l);
        column.told(ms(10_000), l, Cell::new(rtt, None, ms(10_000)), &table);
    }
    let owner = |n: &Neighbours, l| n.share().owner(l).to_string();
    let before: Vec<String> = (0..99).map(|l| owner(&n, ldns(l))).collect();
    for (peer, word) in [("a/2", 40_000), ("a/3", 49_000)] {
        n.heard.get_mut(&node(peer)).unwrap().last_word = ms(word);
    }
    n.peer_down(ms(50_000), &node("a/2"), true);
    let confirmed = n.confirmed();
    let settled = n.settle(ms(50_000)).unwrap();
    assert_eq!(settled.asked, [node("a/3")].into());
    column.shared_out(confirmed, |l| n.is_ours(l) || settled.is_inherited(l), &table);
    // The heir goes on to speak, of everything but this.
    n.heard.get_mut(&node("a/3")).unwrap().last_word = ms(500_000);
    let last_true = |n: &Neighbours, l| table.cell(ldns(l), site).unwrap().last_true(n.confirmed());
    let mut inherited = None;
    for (l, before) in (0..99).zip(&before) {
        let now = owner(&n, ldns(l));
        let kept = before == "a/3" && now == "a/3";
        inherited = inherited.or((before == "a/2" && now == "a/3").then_some(l));
        assert_eq!(last_true(&n, l), ms(if kept { 500_000 } else { 40_000 }), "{l}: {before}, then {now}");
    }
    // What it tells of it counts as its own.
    let l = inherited.unwrap();
    column.told(ms(51_000), ldns(l), Cell::new(rtt, None, ms(51_000)), &table);
    assert_eq!(last_true(&n, l), ms(500_000));
}

#[test]
fn a_neighbour_that_restarts_again_at_once_is_listened_to_a_second_later_and_asked_to_tell_again() {
    let mut n = neighbours();
    n.up(0, "a/2");
    n.walks(1000);
    n.restarts(50_000, "a/2", 2);
    assert_eq!(n.walks(50_000), 1);
    n.restarts(50_300, "a/2", 3);
    assert_eq!((n.told_since(&node("a/2")), n.poll_timeout()), (None, Some(ms(51_000))));
    assert_eq!(n.settle(ms(51_000)).unwrap().asked, [node("a/2")].into());
    assert_eq!(n.told_since(&node("a/2")), Some(ms(51_000)));
}

#[test]
fn new_processes_without_end_cost_one_walk_a_second_at_most() {
    let mut n = neighbours();
    n.up(0, "a/2");
    let mut walks = 0;
    for turn in 0..6000 {
        walks += n.walks(turn * 10);
        n.restarts(turn * 10, "a/2", turn + 2);
    }
    println!("T8: a neighbour that restarts 100 times a second for a minute: {walks} walks");
    assert!((59..=60).contains(&walks), "{walks}");
}
