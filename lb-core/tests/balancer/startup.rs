//! Startup round robin, and times to the first byte that are not known yet.

use crate::fixture::{LRT, LRTM, Played, at, from, seconds, service, settings, us};
use gslb_types::{LbMethod, ServiceState};
use lb_core::{BalancerSettings, LocalPersistence, PickedBy, Why};

fn with_factor(method: LbMethod, members: usize, factor: u32) -> BalancerSettings {
    BalancerSettings { startup_rr_factor: factor, ..settings(method, members) }
}

#[test]
fn a_metric_method_goes_round_for_the_factor_per_service_and_then_decides() {
    let mut lb = Played::up(with_factor(LRTM, 3, 10));
    lb.lb.handle_health(at(0), &service(2), ServiceState::Up, Some(us(1)));
    assert_eq!(lb.lb.view(at(0)).startup_left, 30);
    for _ in 0..3 {
        lb.pick();
    }
    let rest: Vec<_> = (0..27).map(|_| lb.pick().position).collect();
    assert_eq!(rest, [0, 1, 2].repeat(9));
    assert_eq!(lb.lb.view(at(0)).startup_left, 0);
    let next = lb.pick();
    assert_eq!((next.position, next.why), (2, PickedBy::Method(Why::Lowest)));
}

#[test]
fn it_begins_again_when_a_service_comes_up_and_when_the_method_changes() {
    let mut lb = Played::up(with_factor(LRTM, 2, 10));
    lb.serve(20);
    lb.health(1, ServiceState::Down);
    assert_eq!(lb.lb.view(at(0)).startup_left, 0);
    lb.health(1, ServiceState::Up);
    assert_eq!(lb.lb.view(at(0)).startup_left, 20);
    lb.serve(20);
    lb.lb.handle_enabled(at(0), &service(0), false);
    lb.lb.handle_enabled(at(0), &service(0), true);
    assert_eq!(lb.lb.view(at(0)).startup_left, 20);
    lb.serve(20);
    lb.lb.reconfigure(at(0), with_factor(LRT, 2, 10));
    assert_eq!(lb.lb.view(at(0)).startup_left, 20);
    lb.lb.reconfigure(at(0), with_factor(LRT, 2, 3));
    assert_eq!(lb.lb.view(at(0)).startup_left, 6);
}

/// They say nothing of who would have had a turn.
#[test]
fn requests_kept_by_persistence_and_second_tries_do_not_shorten_the_round_robin() {
    let persistence = LocalPersistence::SourceIp { mask_v4: 32, mask_v6: 128, timeout: seconds(60), cap: 9 };
    let mut lb = Played::up(BalancerSettings { persistence, ..with_factor(LRTM, 3, 10) });
    let left = |lb: &Played| lb.lb.view(at(0)).startup_left;
    lb.serve(5);
    assert_eq!(left(&lb), 29, "the first had a turn, the others stay with it");
    let stranger = from([192, 0, 2, 9]);
    let refused = lb.lb.pick(at(0), &stranger, &[]).unwrap();
    lb.lb.unsent(at(0), refused.member);
    lb.lb.pick(at(0), &stranger, &[refused.member]).unwrap();
    assert_eq!(left(&lb), 28);
}

#[test]
fn a_time_to_first_byte_not_known_yet_is_not_zero() {
    let mut lb = Played::up(settings(LRT, 2));
    let ids = lb.ids();
    lb.lb.first_byte(at(0), ids[0], us(9_000));
    let picks: Vec<_> = (0..8).map(|_| lb.pick().position).collect();
    assert_eq!(picks.iter().filter(|p| **p == 1).count(), 4, "{picks:?}");
}

/// A service that was down may be another one now.
#[test]
fn a_service_that_comes_back_has_its_first_bytes_measured_anew() {
    let mut lb = Played::up(settings(LRT, 2));
    let ids = lb.ids();
    lb.lb.first_byte(at(0), ids[0], us(9_000));
    lb.health(0, ServiceState::Down);
    assert_eq!(lb.lb.view(at(0)).members[0].ttfb, Some(us(9_000)));
    lb.health(0, ServiceState::Up);
    assert_eq!(lb.lb.view(at(0)).members[0].ttfb, None);
}

#[test]
fn times_to_first_byte_are_smoothed_by_eighths_and_not_rounded_away() {
    let mut lb = Played::up(settings(LRT, 1));
    let id = lb.ids()[0];
    let mut after = |micros| {
        lb.lb.first_byte(at(0), id, us(micros));
        lb.lb.view(at(0)).members[0].ttfb.unwrap().as_micros()
    };
    assert_eq!((after(8_000), after(16_000), after(16_000)), (8_000, 9_000, 9_875));
    let mut last = 0;
    for _ in 0..200 {
        last = after(10);
    }
    assert_eq!(last, 10);
}
