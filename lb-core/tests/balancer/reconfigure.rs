//! A change of the configuration under traffic.

use crate::fixture::{LRTM, Played, at, member, service, settings};
use gslb_types::{LbMethod, ServiceState};
use lb_core::{BalancerSettings, MemberSettings};

fn of(members: &[usize]) -> BalancerSettings {
    BalancerSettings {
        members: members.iter().map(|n| member(*n)).collect(),
        ..settings(LbMethod::RoundRobin, 0)
    }
}

#[test]
fn what_is_known_of_a_service_that_stays_stays() {
    let mut lb = Played::up(of(&[0, 1, 2]));
    let picks = [lb.pick(), lb.pick(), lb.pick()];
    lb.lb.reconfigure(at(1), of(&[2, 0, 3]));
    let view = lb.lb.view(at(1));
    let known: Vec<_> = view.members.iter().map(|m| (m.name.to_string(), m.active, m.state)).collect();
    let (up, learning) = (ServiceState::Up, ServiceState::Learning);
    assert_eq!(known, [("s2".into(), 1, up), ("s0".into(), 1, up), ("s3".into(), 0, learning)]);
    assert_eq!((view.retired_active, view.active()), (1, 3));
    for pick in picks {
        lb.lb.ended(at(1), pick.member);
    }
    assert_eq!((lb.lb.view(at(1)).active(), lb.lb.view(at(1)).retired_active), (0, 0));
}

#[test]
fn a_transaction_is_never_counted_at_another_service_and_returns_with_its_own() {
    let mut lb = Played::up(of(&[0, 1]));
    let old = lb.pick();
    lb.lb.reconfigure(at(1), of(&[1]));
    lb.lb.reconfigure(at(1), of(&[1, 0]));
    let view = lb.lb.view(at(1));
    assert_eq!(view.members.iter().map(|m| m.active).collect::<Vec<_>>(), [0, 1]);
    lb.lb.ended(at(1), old.member);
    assert_eq!(lb.lb.view(at(1)).active(), 0);
}

#[test]
fn the_pointer_stays_at_its_service_or_at_the_one_before_it() {
    let mut lb = Played::up(BalancerSettings { method: LRTM, ..of(&[0, 1, 2, 3]) });
    lb.serve(3);
    assert_eq!(lb.lb.view(at(0)).pointer, Some(service(2)));
    lb.lb.reconfigure(at(0), BalancerSettings { method: LRTM, ..of(&[3, 2, 1, 0]) });
    assert_eq!((lb.lb.view(at(0)).pointer, lb.serve(2)), (Some(service(2)), vec![2, 3]));
    // s1 and s0 had the last ones; without s0 the pointer goes to s1, the last before it.
    lb.lb.reconfigure(at(0), BalancerSettings { method: LRTM, ..of(&[3, 2, 1]) });
    assert_eq!((lb.lb.view(at(0)).pointer, lb.serve(1)), (Some(service(1)), vec![0]));
}

#[test]
fn what_the_operator_said_holds_until_the_configuration_itself_changes() {
    let mut lb = Played::up(of(&[0, 1]));
    lb.lb.handle_enabled(at(0), &service(0), false);
    lb.lb.reconfigure(at(1), of(&[0, 1]));
    assert!(!lb.lb.view(at(1)).members[0].enabled);
    let mut disabled = of(&[0, 1]);
    disabled.members[0] = MemberSettings { enabled: false, ..member(0) };
    lb.lb.reconfigure(at(1), disabled);
    lb.lb.reconfigure(at(1), of(&[0, 1]));
    assert!(lb.lb.view(at(1)).members[0].enabled);
}
