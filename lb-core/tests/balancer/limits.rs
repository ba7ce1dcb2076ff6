//! max_clients and max_bandwidth.

use crate::fixture::{LRTM, Played, at, at_ms, member, settings};
use gslb_types::ServiceState;
use lb_core::{BalancerSettings, MemberSettings, NoService, Out};

#[test]
fn a_service_gets_no_more_than_max_clients_at_once() {
    let few = MemberSettings { max_clients: Some(2), ..member(0) };
    let mut lb = Played::up(BalancerSettings { members: vec![few, member(1)], ..settings(LRTM, 0) });
    let picks: Vec<_> = (0..10).map(|_| lb.pick()).collect();
    let mine: Vec<_> = picks.iter().filter(|p| p.position == 0).collect();
    assert_eq!(mine.len(), 2);
    assert_eq!(lb.lb.view(lb.now).members[0].out, Some(Out::MaxClients));
    lb.lb.ended(lb.now, mine[0].member);
    assert_eq!(lb.lb.view(lb.now).members[0].out, None);
    assert_eq!((lb.pick().position, lb.pick().position), (0, 1));
}

/// Faults I-72: up, and yet unable to serve.
#[test]
fn a_virtual_server_whose_services_are_all_full_is_down_until_one_has_room() {
    let few = |n| MemberSettings { max_clients: Some(1), ..member(n) };
    let mut lb = Played::up(BalancerSettings { members: vec![few(0), few(1)], ..settings(LRTM, 0) });
    let (first, _second) = (lb.pick(), lb.pick());
    assert_eq!(lb.refusal(), NoService::AllFull);
    let view = lb.lb.view(lb.now);
    assert_eq!((view.state, view.reason), (ServiceState::Down, Some(NoService::AllFull)));
    assert_eq!(view.refused, [(NoService::AllFull, 1)]);
    lb.lb.ended(lb.now, first.member);
    assert_eq!(lb.lb.view(lb.now).state, ServiceState::Up);
    assert_eq!(lb.pick().position, 0);
}

#[test]
fn bandwidth_is_the_mean_of_fourteen_seconds_and_exactly_the_limit_is_full() {
    let slow = MemberSettings { max_bandwidth: Some(8_000), ..member(0) };
    let mut lb = Played::up(BalancerSettings { members: vec![slow], ..settings(LRTM, 0) });
    let pick = lb.pick();
    lb.lb.traffic(lb.now, pick.member, 13_999, 10);
    assert_eq!(lb.lb.availability(lb.now), Ok(()));
    lb.lb.traffic(lb.now, pick.member, 1, 1);
    let view = lb.lb.view(lb.now);
    assert_eq!((view.members[0].bits_per_second, view.members[0].out), (8_000, Some(Out::MaxBandwidth)));
    assert_eq!((view.state, lb.refusal()), (ServiceState::Down, NoService::AllFull));
}

#[test]
fn a_service_over_its_bandwidth_comes_back_as_a_second_ends_and_not_before() {
    let slow = MemberSettings { max_bandwidth: Some(8_000), ..member(0) };
    let mut lb = Played::up(BalancerSettings { members: vec![slow], ..settings(LRTM, 0) });
    let pick = lb.pick();
    lb.lb.traffic(at_ms(300), pick.member, 14_000, 10);
    let full = |ms| lb.lb.availability(at_ms(ms)).is_err();
    assert_eq!([300, 999, 13_999, 14_000].map(full), [true, true, true, false]);
}

#[test]
fn traffic_is_counted_for_good_and_for_the_window() {
    let mut lb = Played::up(settings(LRTM, 1));
    let pick = lb.pick();
    lb.lb.traffic(at(0), pick.member, 1_000, 7);
    lb.lb.traffic(at(20), pick.member, 500, 3);
    let view = &lb.lb.view(at(20)).members[0];
    assert_eq!((view.bytes, view.packets, view.window_bytes, view.window_packets), (1_500, 10, 500, 3));
}
