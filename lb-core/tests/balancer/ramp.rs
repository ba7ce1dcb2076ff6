//! The ramp of slow_start.

use crate::fixture::{LRT, LRTM, Played, at, at_ms, from, seconds, service, settings, us};
use gslb_types::{LbMethod, ServiceState, Weight};
use lb_core::{BalancerSettings, PickedBy};
use std::net::Ipv4Addr;

fn ramped(method: LbMethod, members: usize) -> BalancerSettings {
    BalancerSettings { slow_start: seconds(100), ..settings(method, members) }
}

/// s1 of three went down and comes back at second 0.
fn back(method: LbMethod) -> Played {
    let mut lb = Played::up(ramped(method, 3));
    lb.health(1, ServiceState::Down);
    lb.health(1, ServiceState::Up);
    lb
}

#[test]
fn a_service_that_came_back_gets_a_share_that_grows_to_the_full_one() {
    let mut lb = back(LbMethod::RoundRobin);
    let mut got = Vec::new();
    for second in [0, 10, 25, 50, 75, 99, 100] {
        lb.now = at(second);
        got.push((lb.lb.view(lb.now).members[1].ramp_percent, lb.shares(3_000)[1]));
    }
    println!("percent of weight, requests of 3000: {got:?}");
    // Of 3000: its share p of the sum p + 100 + 100; a turn is saved up from one look to the next.
    let exact = [(1, 14), (10, 142), (25, 333), (50, 600), (75, 818), (99, 993), (100, 1_000)];
    for ((percent, requests), (expected, share)) in got.iter().zip(exact) {
        assert_eq!(*percent, expected);
        assert!(requests.abs_diff(share) <= 1, "{requests} of {share} at {percent} %");
    }
}

#[test]
fn the_others_share_the_rest_equally() {
    let mut lb = back(LbMethod::RoundRobin);
    lb.now = at(50);
    assert_eq!(lb.shares(3_000), [1_200, 600, 1_200].map(|n| n as usize));
}

/// N of a service with nothing open is 0 whatever it is divided by: the ramp must hold a burst off all the same.
#[test]
fn a_burst_does_not_fall_on_the_service_that_came_back() {
    for method in [LRTM, LbMethod::LeastConnections, LbMethod::LeastBandwidth] {
        let mut lb = back(method);
        lb.now = at(10);
        let mut open = [0usize; 3];
        for _ in 0..210 {
            open[lb.pick().position] += 1;
        }
        println!("{}: 210 at once with s1 at 10 %: {open:?}", method.as_str());
        // At most 10 of the 210 percent.
        assert!((9..=10).contains(&open[1]), "{open:?}");
        assert!(open[0].abs_diff(open[2]) <= 1, "{open:?}");
    }
}

#[test]
fn in_its_share_it_competes_and_gets_nothing_if_others_are_better() {
    let mut lb = back(LRTM);
    lb.lb.handle_health(at(0), &service(1), ServiceState::Up, Some(us(9_000_000)));
    lb.now = at(50);
    let kept_open = lb.lb.pick(lb.now, &from(Ipv4Addr::LOCALHOST), &[]).unwrap();
    assert_ne!(kept_open.position, 1);
    let mut picks = Vec::new();
    for _ in 0..40 {
        picks.push(lb.pick().position);
    }
    // Idle it may have one; with that one open its N is the highest by far.
    assert_eq!(picks.iter().filter(|p| **p == 1).count(), 1, "{picks:?}");
}

#[test]
fn a_service_whose_first_bytes_are_unknown_gets_its_whole_growing_share() {
    let mut lb = Played::up(ramped(LRT, 3));
    let ids = lb.ids();
    for id in &ids {
        lb.lb.first_byte(at(0), *id, us(5_000));
    }
    lb.health(1, ServiceState::Down);
    lb.health(1, ServiceState::Up);
    lb.now = at(50);
    let picks: Vec<_> = (0..500).map(|_| lb.pick()).collect();
    let mine: Vec<_> = picks.iter().filter(|p| p.position == 1).collect();
    assert!(mine.len().abs_diff(100) <= 1, "{}", mine.len());
    assert!(mine.iter().all(|p| p.why == PickedBy::Ramp));
}

#[test]
fn weights_count_in_the_ramp() {
    let mut settings = ramped(LbMethod::RoundRobin, 2);
    settings.members[1].weight = Weight::new(4).unwrap();
    let mut lb = Played::up(settings);
    lb.health(1, ServiceState::Down);
    lb.health(1, ServiceState::Up);
    lb.now = at(25);
    // 4 * 25 against 1 * 100.
    assert_eq!(lb.shares(1_000), [500, 500]);
}

/// s0 refuses every connection; s1 has its share of the requests, not of the tries.
#[test]
fn second_tries_save_up_no_turns() {
    let mut lb = back(LbMethod::RoundRobin);
    lb.now = at(50);
    let mut mine = 0;
    for _ in 0..3_000 {
        let pick = lb.pick();
        mine += usize::from(pick.position == 1);
        lb.lb.unsent(lb.now, pick.member);
        if pick.position == 0 {
            let again = lb.lb.pick(lb.now, &from(Ipv4Addr::LOCALHOST), &[pick.member]).unwrap();
            mine += usize::from(again.position == 1);
            lb.lb.unsent(lb.now, again.member);
        }
    }
    // 50 of 250.
    assert!(mine.abs_diff(600) <= 1, "{mine}");
}

#[test]
fn services_that_are_up_from_the_start_have_no_ramp() {
    let mut lb = Played::up(ramped(LbMethod::RoundRobin, 3));
    let percents: Vec<_> = lb.lb.view(at(0)).members.iter().map(|m| m.ramp_percent).collect();
    assert_eq!((percents, lb.shares(9)), (vec![100; 3], vec![3; 3]));
}

#[test]
fn nobody_stands_aside_for_services_that_are_no_warmer() {
    let mut lb = Played::up(ramped(LRTM, 2));
    for n in 0..2 {
        lb.health(n, ServiceState::Down);
    }
    lb.health(0, ServiceState::Up);
    assert_eq!(lb.shares(10), [10, 0]);
    lb.now = at(10);
    lb.health(1, ServiceState::Up);
    lb.now = at(20);
    // 10 % against 20 %: one in three, at most.
    let early = lb.shares(300);
    assert!(early[1].abs_diff(100) <= 1, "{early:?}");
    lb.now = at_ms(109_999);
    let late = lb.shares(1_000);
    assert!(late[1].abs_diff(497) <= 3, "{late:?}");
}

#[test]
fn by_hash_clients_are_won_back_one_by_one_and_stay() {
    let mut lb = back(LbMethod::SourceIpHash);
    let mut won = Vec::new();
    let mut before = vec![false; 3_000];
    for second in [1, 25, 50, 75, 100] {
        lb.now = at(second);
        let mine: Vec<_> = (0..3_000u32)
            .map(|n| lb.lb.pick(lb.now, &from(Ipv4Addr::from(0x0a00_0000 + n)), &[]).unwrap().position == 1)
            .collect();
        assert!(before.iter().zip(&mine).all(|(was, is)| !was || *is), "a client went back and forth");
        won.push(mine.iter().filter(|m| **m).count());
        before = mine;
    }
    println!("clients of 3000 at 1, 25, 50, 75, 100 %: {won:?}");
    for (got, share) in won.iter().zip([10, 250, 500, 750, 1_000]) {
        assert!(got.abs_diff(share) < 80, "{won:?}");
    }
}
