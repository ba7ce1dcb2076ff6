//! The front of a site at its limits, with many services behind it, and after its node task failed (behaviour 5, faults I-55, I-72).

use crate::local::{A, B, PLACES, Site, WEB_A};
use crate::net::{Net, secs};
use gslb_core::{LocalView, NodeStats};
use gslb_types::{LbMethod, LbVserverName, ServiceName, ServiceState, Timestamp, Weight};
use lb_core::{Balancer, BalancerSettings, LocalPersistence, MemberSettings};
use std::fmt::Write as _;
use std::time::Duration;

/// The states of web-a at the peer, sampled each 100 ms while something is done once a second.
fn watched(site: &mut Site, seconds: u64, mut each: impl FnMut(u64, &mut Site)) -> Vec<ServiceState> {
    let mut states = Vec::new();
    for second in 0..seconds {
        each(second, site);
        for _ in 0..10 {
            site.run(Duration::from_millis(100));
            states.push(site.judged(B, WEB_A).0);
        }
    }
    states
}

fn turns(states: &[ServiceState]) -> usize {
    states.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Faults I-72: the services behind have room, and no client can get to them.
#[test]
fn a_front_whose_places_for_clients_are_all_taken_is_down_until_there_has_been_room_for_a_while() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    site.idle = PLACES - 1;
    site.run(secs(3));
    assert_eq!(site.judged(B, WEB_A).0, ServiceState::Up, "one place is left");
    site.idle = PLACES;
    let down = site.until(B, ServiceState::Down);
    let reason = site.net.published(A).services[WEB_A].reason.clone();
    println!("I-72: all places taken: down at the peer after {down:?}: {reason}");
    assert!(down <= secs(2), "{down:?}");
    assert_eq!(reason, "all its 100 places for client connections are taken");
    assert_eq!(site.net.published(A).local[0].as_ref().unwrap().state, ServiceState::Down);
    site.idle = 0;
    let up = site.until(B, ServiceState::Up);
    assert!((secs(2)..=secs(4)).contains(&up), "{up:?}");
}

/// Faults I-72: coming back obeys a threshold. A client leaves, and the next one comes, once a second.
#[test]
fn a_site_at_its_limits_is_down_and_does_not_flap() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    while site.request() {}
    site.until(B, ServiceState::Down);
    let states = watched(&mut site, 60, |second, site| match second % 2 {
        0 => site.answer(),
        _ => while site.request() {},
    });
    println!(
        "I-72: full in every other second for a minute: {} changes of state at the peer",
        turns(&states)
    );
    assert_eq!((turns(&states), states[0]), (0, ServiceState::Down));
    // It fills up again at the third look: not three in a row with room.
    let states = watched(&mut site, 60, |second, site| match second % 3 {
        0 => while site.request() {},
        1 => site.answer(),
        _ => (),
    });
    assert_eq!((turns(&states), states[0]), (0, ServiceState::Down));
    while site.request() {}
    site.run(secs(1));
    site.answer();
    let reason = |site: &Site| site.net.published(A).services[WEB_A].reason.clone();
    site.run(secs(1));
    assert_eq!(reason(&site), "it was at its limits less than 2.5s ago");
    let up = site.until(B, ServiceState::Up);
    assert!(up <= Duration::from_millis(3_500), "{up:?}");
}

/// What monitors say has its own threshold, theirs.
#[test]
fn a_site_whose_services_were_down_is_up_with_the_first_check_that_passes() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    for name in ["web-91", "web-92"] {
        site.set(name, false);
    }
    site.until(B, ServiceState::Down);
    site.set("web-91", true);
    let up = site.until(B, ServiceState::Up);
    assert!(up <= Duration::from_millis(5_300), "checks are 5 s apart: {up:?}");
}

/// Why it is down is news although it stays so.
#[test]
fn the_reason_follows_what_is_wrong() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    let reason = |site: &Site| site.net.published(A).services[WEB_A].reason.clone();
    for name in ["web-91", "web-92"] {
        site.balancer.handle_drain(site.net.now, &ServiceName::new(name).unwrap(), Some(secs(60)));
    }
    site.until(A, ServiceState::Down);
    assert_eq!(reason(&site), "every service that is up is draining");
    for name in ["web-91", "web-92"] {
        site.set(name, false);
    }
    site.run(secs(20));
    assert_eq!((site.judged(A, WEB_A).0, reason(&site)), (ServiceState::Down, "no service is up".to_owned()));
}

/// A node task that is replaced knows at once what the data plane showed to the one before.
#[test]
fn traffic_is_not_unseen_for_a_moment_when_a_node_task_is_replaced() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    assert!(site.request());
    site.run(secs(2));
    let before = site.net.published(B).services[WEB_A].traffic;
    assert_eq!(before.unwrap().active, Some(1));
    site.net.task_fails(A);
    assert_eq!(site.net.published(A).services[WEB_A].traffic, before);
    assert!(site.net.published(A).local[0].as_ref().unwrap().is_heard);
    for _ in 0..20 {
        site.run(Duration::from_millis(100));
        assert_eq!(site.net.published(B).services[WEB_A].traffic, before, "{:?}", site.net.now);
    }
}

/// Behaviour 4: site metrics every second. The numbers change ten times as often.
#[test]
fn numbers_reach_the_peers_once_a_second_and_no_more_often() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    let connections = |site: &Site| site.net.published(B).services[WEB_A].traffic.unwrap().connections;
    let (mut last, mut changed, mut gaps) = (connections(&site), site.net.now, Vec::new());
    for _ in 0..300 {
        site.idle = (site.idle + 1) % 90;
        site.show();
        site.net.run(Duration::from_millis(100));
        if connections(&site) != last {
            gaps.push(site.net.now.since(changed));
            (last, changed) = (connections(&site), site.net.now);
        }
    }
    let (shortest, longest) = (gaps[1..].iter().min().unwrap(), gaps[1..].iter().max().unwrap());
    println!("behaviour 4: {} changes in 30 s, {shortest:?} to {longest:?} apart", gaps.len());
    assert!((29..=31).contains(&gaps.len()), "{gaps:?}");
    assert!(*shortest >= Duration::from_millis(900) && *longest <= Duration::from_millis(1_100), "{gaps:?}");
}

const MANY: usize = 250;

/// 250 services behind one virtual server, each checked every 5 s: what a second of the node task costs, counted.
#[test]
fn what_many_members_cost_grows_with_their_number_and_not_with_its_square() {
    let name = |n: usize| format!("m{n:03}");
    let mut net = Net::edited(&[A, B], |plain| {
        let plain = plain.replace(
            "address = \"198.18.0.80\"\nport = 80\nmonitors = [\"web\"]",
            "address = \"198.18.0.80\"\nport = 80\nlb_vserver = \"front\"",
        );
        let mut text = plain;
        for n in 0..MANY {
            write!(
                text,
                "[[services]]\nname = \"{}\"\nsite = \"a\"\naddress = \"198.20.0.{}\"\nport = 80\nmonitors = [\"web\"]\n",
                name(n),
                n + 1
            )
            .unwrap();
        }
        let all: Vec<String> = (0..MANY).map(|n| format!("\"{}\"", name(n))).collect();
        write!(
            text,
            "[[lb_vservers]]\nname = \"front\"\nsite = \"a\"\nlisten = [\"198.18.0.80:80\"]\nservices = [{}]\n",
            all.join(", ")
        )
        .unwrap();
        text
    });
    let member = |n| MemberSettings {
        name: ServiceName::new(&name(n)).unwrap(),
        weight: Weight::ONE,
        max_clients: None,
        max_bandwidth: None,
        enabled: true,
    };
    let mut balancer = Balancer::new(
        net.now,
        BalancerSettings {
            method: LbMethod::LeastConnections,
            startup_rr_factor: 0,
            slow_start: Duration::ZERO,
            persistence: LocalPersistence::None,
            members: (0..MANY).map(member).collect(),
        },
    );
    let mut views = 0;
    // The data plane as it is: it shows itself once a second, and soon after a state turned.
    let mut run = |net: &mut Net, seconds: u64| {
        let begun: Timestamp = net.now;
        while net.now.since(begun) < secs(seconds) {
            net.run(Duration::from_millis(20));
            let mut has_turned = net.now.as_micros().is_multiple_of(1_000_000);
            for health in net.hosts[0].told.split_off(0) {
                let before = balancer.view(net.now).state;
                balancer.handle_health(net.now, &health.service, health.state, health.response_time);
                has_turned |= balancer.view(net.now).state != before;
            }
            if has_turned {
                views += 1;
                let vserver = LbVserverName::new("front").unwrap();
                let balancer = balancer.view(net.now);
                net.show(A, vec![LocalView { vserver, connections: 0, max_connections: 1, balancer }]);
            }
        }
    };
    run(&mut net, 20);
    let stats = |net: &Net| net.hosts[0].node.as_ref().unwrap().stats();
    let before = stats(&net);
    run(&mut net, 60);
    let after = stats(&net);
    let per_second = |of: fn(&NodeStats) -> u64| (of(&after) - of(&before)) / 60;
    let (judged, told, members) =
        (per_second(|s| s.services_judged), per_second(|s| s.metrics_told), per_second(|s| s.members_judged));
    println!(
        "{MANY} members, 50 checks a second: {judged} services judged, {told} put into words, {members} members looked at a second"
    );
    assert!((250..=275).contains(&members), "once a second each: {members}");
    assert!(judged <= 60, "one for each check, and what stands for them: {judged}");
    // Peers are told once a second; frames to a peer may be due a few times more.
    assert!(told <= 4 * 253, "{told}");
    assert!(net.published(A).services.iter().filter(|s| s.response_time.is_some()).count() >= MANY);
    let front = &net.published(B).services[WEB_A];
    assert_eq!((front.state, front.traffic.and_then(|t| t.connections)), (ServiceState::Up, Some(0)));
}
