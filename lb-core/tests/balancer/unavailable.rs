//! When nobody can take a request: which reason is said, and what is done while nothing is known.

use crate::fixture::{LRTM, Played, client, member, settings};
use gslb_types::{LbMethod, ServiceState};
use lb_core::{BalancerSettings, MemberSettings, NoService};

/// Faults I-72: the local core is empty.
#[test]
fn a_virtual_server_without_services_is_down() {
    let mut lb = Played::up(settings(LRTM, 0));
    let view = lb.lb.view(lb.now);
    assert_eq!(
        (view.state, view.reason, lb.refusal()),
        (ServiceState::Down, Some(NoService::Empty), NoService::Empty)
    );
}

/// Faults I-72: the listener stands and everything behind it is dead.
#[test]
fn a_virtual_server_whose_services_are_down_is_down_and_up_with_the_first_that_comes_back() {
    let mut lb = Played::up(settings(LRTM, 2));
    lb.health(0, ServiceState::Down);
    assert_eq!(lb.lb.view(lb.now).state, ServiceState::Up);
    lb.health(1, ServiceState::Down);
    let view = lb.lb.view(lb.now);
    assert_eq!(
        (view.state, view.reason, lb.refusal()),
        (ServiceState::Down, Some(NoService::AllDown), NoService::AllDown)
    );
    lb.health(1, ServiceState::Up);
    assert_eq!((lb.lb.view(lb.now).state, lb.pick().position), (ServiceState::Up, 1));
}

/// Faults I-54: neither all up nor all down after a start, and no request is refused for want of a check.
#[test]
fn services_not_checked_yet_serve_only_while_none_is_known_to_be_up() {
    let mut lb = Played::unchecked(settings(LbMethod::RoundRobin, 3));
    assert_eq!((lb.lb.view(lb.now).state, lb.shares(6)), (ServiceState::Learning, vec![2, 2, 2]));
    lb.health(0, ServiceState::Down);
    assert_eq!((lb.lb.view(lb.now).state, lb.shares(6)), (ServiceState::Learning, vec![0, 3, 3]));
    lb.health(2, ServiceState::Up);
    assert_eq!((lb.lb.view(lb.now).state, lb.shares(6)), (ServiceState::Up, vec![0, 0, 6]));
}

#[test]
fn a_limit_holds_for_a_service_not_checked_yet_too() {
    let few = MemberSettings { max_clients: Some(1), ..member(0) };
    let mut lb = Played::unchecked(BalancerSettings { members: vec![few], ..settings(LRTM, 0) });
    assert_eq!(lb.pick().position, 0);
    let view = lb.lb.view(lb.now);
    assert_eq!((view.state, view.reason), (ServiceState::Down, Some(NoService::AllFull)));
    assert_eq!(lb.refusal(), NoService::AllFull);
}

#[test]
fn a_service_that_refused_a_request_is_not_asked_again_for_the_same_one() {
    let mut lb = Played::up(settings(LRTM, 3));
    let mut tried = Vec::new();
    for n in 0..3 {
        let pick = lb.lb.pick(lb.now, &client(), &tried).unwrap();
        assert_eq!(pick.position, n);
        lb.lb.unsent(lb.now, pick.member);
        tried.push(pick.member);
    }
    assert_eq!(lb.lb.pick(lb.now, &client(), &tried), Err(NoService::AllTried));
    let members = lb.lb.view(lb.now).members;
    assert!(members.iter().all(|m| (m.active, m.requests) == (0, 0)));
}

#[test]
fn the_end_of_a_transaction_is_counted_once_and_never_below_zero() {
    let mut lb = Played::up(settings(LRTM, 1));
    let (first, second) = (lb.pick(), lb.pick());
    lb.lb.ended(lb.now, first.member);
    assert_eq!(lb.lb.view(lb.now).active(), 1);
    lb.lb.ended(lb.now, second.member);
    lb.lb.ended(lb.now, second.member);
    assert_eq!(lb.lb.view(lb.now).active(), 0);
}

/// It is exported as a counter, which must not go back.
#[test]
fn a_request_counts_at_a_service_as_soon_as_it_has_reached_it_and_is_never_taken_back() {
    let mut lb = Played::up(settings(LRTM, 1));
    let mut seen = Vec::new();
    let (lost, reached) = (lb.pick(), lb.pick());
    let mut look = |lb: &Played| seen.push(lb.lb.view(lb.now).members[0].requests);
    look(&lb);
    lb.lb.reached(lb.now, reached.member);
    look(&lb);
    lb.lb.unsent(lb.now, lost.member);
    look(&lb);
    lb.lb.ended(lb.now, reached.member);
    look(&lb);
    assert_eq!(seen, [0, 1, 1, 1]);
}
