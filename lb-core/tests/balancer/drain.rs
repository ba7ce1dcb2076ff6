//! Draining, and taking out.

use crate::fixture::{LRTM, Played, at, seconds, service, settings};
use gslb_types::{LbMethod, ServiceState, Timestamp};
use lb_core::{NoService, Out, Output};

#[test]
fn a_draining_service_gets_nothing_new_and_what_runs_goes_on_until_the_deadline() {
    let mut lb = Played::up(settings(LRTM, 2));
    let (old, _) = (lb.pick(), lb.pick());
    lb.lb.handle_drain(at(10), &service(0), Some(seconds(30)));
    lb.now = at(10);
    assert_eq!(lb.shares(20), [0, 20]);
    assert_eq!((lb.lb.poll_timeout(), lb.lb.poll_output()), (Some(at(40)), None));
    let view = lb.lb.view(at(25));
    assert_eq!((view.members[0].active, view.members[0].drain_left), (1, Some(seconds(15))));
    lb.go_to(at(39));
    assert_eq!(lb.lb.poll_output(), None);
    lb.go_to(at(40));
    assert_eq!((lb.lb.poll_output(), lb.lb.poll_output()), (Some(Output::Cut(old.member)), None));
    assert_eq!((lb.lb.poll_timeout(), lb.lb.view(at(50)).members[0].drain_left), (None, Some(seconds(0))));
    assert_eq!(lb.shares(10), [0, 10]);
}

#[test]
fn the_deadline_holds_for_a_service_that_the_configuration_has_no_more() {
    let mut lb = Played::up(settings(LRTM, 2));
    let (old, _) = (lb.pick(), lb.pick());
    lb.lb.handle_drain(at(10), &service(0), Some(seconds(30)));
    let mut without = settings(LRTM, 2);
    without.members.remove(0);
    lb.lb.reconfigure(at(20), without);
    assert_eq!(lb.lb.poll_timeout(), Some(at(40)));
    lb.go_to(at(40));
    assert_eq!((lb.lb.poll_output(), lb.lb.poll_output()), (Some(Output::Cut(old.member)), None));
    assert_eq!((lb.lb.poll_timeout(), lb.lb.view(at(40)).retired_active), (None, 1));
}

#[test]
fn a_drain_taken_back_in_time_cuts_nothing() {
    let mut lb = Played::up(settings(LbMethod::RoundRobin, 2));
    lb.lb.handle_drain(at(0), &service(0), Some(seconds(30)));
    lb.lb.handle_drain(at(29), &service(0), None);
    lb.go_to(at(31));
    assert_eq!((lb.lb.poll_output(), lb.lb.poll_timeout()), (None, None::<Timestamp>));
    assert_eq!(lb.shares(10), [5, 5]);
}

#[test]
fn a_disabled_service_gets_nothing_until_it_is_enabled() {
    let mut lb = Played::up(settings(LbMethod::RoundRobin, 2));
    lb.lb.handle_enabled(at(0), &service(1), false);
    assert_eq!((lb.shares(10), lb.lb.view(at(0)).members[1].out), (vec![10, 0], Some(Out::Disabled)));
    lb.lb.handle_enabled(at(0), &service(1), true);
    assert_eq!(lb.shares(10), [5, 5]);
}

/// Faults I-72: in maintenance is not up.
#[test]
fn a_virtual_server_whose_services_all_drain_or_are_disabled_is_down() {
    let mut lb = Played::up(settings(LRTM, 2));
    lb.lb.handle_enabled(at(0), &service(0), false);
    assert_eq!(lb.lb.view(at(0)).state, ServiceState::Up);
    lb.lb.handle_drain(at(0), &service(1), Some(seconds(60)));
    let view = lb.lb.view(at(0));
    assert_eq!((view.state, view.reason), (ServiceState::Down, Some(NoService::AllDraining)));
    lb.lb.handle_enabled(at(0), &service(1), false);
    assert_eq!(
        (lb.lb.view(at(0)).reason, lb.refusal()),
        (Some(NoService::AllDisabled), NoService::AllDisabled)
    );
}
