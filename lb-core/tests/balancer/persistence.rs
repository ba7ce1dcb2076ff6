//! Persistence by source IP and by cookie.

use crate::fixture::{LRTM, Played, at, from, seconds, service, settings};
use gslb_types::{LbMethod, ServiceState};
use lb_core::{BalancerSettings, Client, LocalPersistence, PickedBy, ServiceId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn by_source(cap: usize) -> BalancerSettings {
    let persistence = LocalPersistence::SourceIp { mask_v4: 24, mask_v6: 56, timeout: seconds(120), cap };
    BalancerSettings { persistence, ..settings(LbMethod::RoundRobin, 3) }
}

fn position(lb: &mut Played, address: impl Into<IpAddr>) -> usize {
    let pick = lb.lb.pick(lb.now, &from(address), &[]).unwrap();
    lb.lb.ended(lb.now, pick.member);
    pick.position
}

fn v4(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, last)
}

#[test]
fn a_network_stays_at_its_service_and_another_one_gets_the_next() {
    let mut lb = Played::up(by_source(100));
    assert_eq!(
        (position(&mut lb, v4(1)), position(&mut lb, v4(200)), position(&mut lb, v4(1).to_ipv6_mapped())),
        (0, 0, 0)
    );
    assert_eq!(position(&mut lb, Ipv4Addr::new(198, 51, 101, 1)), 1);
    let v6 = |low| Ipv6Addr::new(0x2001, 0xdb8, 0, low, 0, 0, 0, 1);
    assert_eq!(
        (position(&mut lb, v6(0x11)), position(&mut lb, v6(0x1f)), position(&mut lb, v6(0x111))),
        (2, 2, 0)
    );
    assert_eq!(lb.lb.view(lb.now).sessions, 4);
}

#[test]
fn a_session_lives_for_the_idle_timeout_after_its_last_use() {
    let mut lb = Played::up(by_source(100));
    assert_eq!((position(&mut lb, v4(1)), lb.lb.poll_timeout()), (0, Some(at(120))));
    lb.now = at(119);
    assert_eq!(position(&mut lb, v4(1)), 0);
    lb.go_to(at(120));
    assert_eq!((lb.lb.view(lb.now).sessions, lb.lb.poll_timeout()), (1, Some(at(239))));
    lb.now = at(238);
    assert_eq!(position(&mut lb, v4(1)), 0);
    lb.now = at(358);
    // Over, even before anybody called handle_timeout; the next in turn gets it.
    assert_eq!(position(&mut lb, v4(1)), 1);
    lb.go_to(at(600));
    assert_eq!((lb.lb.view(lb.now).sessions, lb.lb.poll_timeout()), (0, None));
}

/// As NetScaler has it: a service that drains keeps its sessions, one that is down loses them for good.
#[test]
fn sessions_stay_at_a_service_that_drains_and_leave_one_that_is_down() {
    let mut lb = Played::up(by_source(100));
    assert_eq!(position(&mut lb, v4(1)), 0);
    lb.lb.handle_drain(at(0), &service(0), Some(seconds(60)));
    let stranger = Ipv4Addr::new(203, 0, 113, 1);
    assert_eq!((position(&mut lb, v4(1)), position(&mut lb, stranger)), (0, 2));
    lb.go_to(at(60));
    let moved = position(&mut lb, v4(1));
    assert_ne!(moved, 0);
    lb.lb.handle_drain(at(60), &service(0), None);
    assert_eq!(position(&mut lb, v4(1)), moved);

    lb.health(moved, ServiceState::Down);
    let next = position(&mut lb, v4(1));
    assert_ne!(next, moved);
    lb.health(moved, ServiceState::Up);
    assert_eq!(position(&mut lb, v4(1)), next);
}

#[test]
fn persistence_outranks_the_method_but_not_the_limits() {
    let mut settings = BalancerSettings { method: LRTM, ..by_source(100) };
    settings.members[0].max_clients = Some(3);
    let mut lb = Played::up(settings);
    let ask = |lb: &mut Played| lb.lb.pick(lb.now, &from(v4(1)), &[]).unwrap();
    let picks: Vec<_> =
        (0..3).map(|_| ask(&mut lb)).map(|p| (p.position, p.why == PickedBy::SourceIp)).collect();
    assert_eq!(picks, [(0, false), (0, true), (0, true)]);
    assert_ne!(ask(&mut lb).position, 0);
}

#[test]
fn a_client_whose_service_refused_the_request_moves() {
    let mut lb = Played::up(by_source(100));
    let first = lb.lb.pick(lb.now, &from(v4(1)), &[]).unwrap();
    lb.lb.unsent(lb.now, first.member);
    let second = lb.lb.pick(lb.now, &from(v4(1)), &[first.member]).unwrap();
    assert_ne!(second.position, first.position);
    assert_eq!(position(&mut lb, v4(1)), second.position);
}

#[test]
fn the_table_never_grows_beyond_its_cap_and_those_in_use_stay() {
    let mut lb = Played::up(by_source(100));
    let regular = v4(1);
    let home = position(&mut lb, regular);
    for n in 0..20_000u32 {
        lb.go_to(at(u64::from(n) / 1_000));
        position(&mut lb, Ipv4Addr::from(0x0a00_0000 + (n << 8)));
        if n % 50 == 0 {
            assert_eq!(position(&mut lb, regular), home, "after {n}");
        }
        assert!(lb.lb.view(lb.now).sessions <= 100);
    }
    assert_eq!(lb.lb.view(lb.now).sessions, 100);
}

#[test]
fn a_cookie_names_the_service_and_a_forged_one_nothing() {
    let persistence = LocalPersistence::Cookie;
    let mut lb = Played::up(BalancerSettings { persistence, ..settings(LbMethod::RoundRobin, 3) });
    let with = |cookie: &str| Client { cookie: cookie.parse().ok(), ..from(v4(1)) };
    let first = lb.lb.pick(lb.now, &with(""), &[]).unwrap();
    let cookie = first.id.to_string();
    assert_eq!(first.id, ServiceId::of(&service(0)));
    for _ in 0..5 {
        let pick = lb.lb.pick(lb.now, &with(&cookie), &[]).unwrap();
        assert_eq!((pick.position, pick.why), (0, PickedBy::Cookie));
    }
    assert_eq!(lb.lb.pick(lb.now, &with("0000000000000000"), &[]).unwrap().position, 1);
    lb.health(0, ServiceState::Down);
    assert_ne!(lb.lb.pick(lb.now, &with(&cookie), &[]).unwrap().position, 0);
}

/// A restart: the cookies are there, and the first check has passed at one member only.
#[test]
fn a_client_stays_at_a_service_that_is_not_checked_yet() {
    let persistence = LocalPersistence::Cookie;
    let mut lb = Played::unchecked(BalancerSettings { persistence, ..settings(LbMethod::RoundRobin, 3) });
    lb.health(1, ServiceState::Up);
    let cookie = ServiceId::of(&service(2)).to_string();
    let client = Client { cookie: cookie.parse().ok(), ..from(v4(1)) };
    let pick = lb.lb.pick(lb.now, &client, &[]).unwrap();
    assert_eq!((pick.position, pick.why), (2, PickedBy::Cookie));
    assert_eq!(lb.lb.pick(lb.now, &client, &[pick.member]).unwrap().position, 1, "it could not be reached");
    assert_eq!(
        lb.lb.pick(lb.now, &from(v4(2)), &[]).unwrap().position,
        1,
        "new clients go where it is known"
    );
    lb.health(2, ServiceState::Down);
    assert_eq!(lb.lb.pick(lb.now, &client, &[]).unwrap().position, 1);
}
