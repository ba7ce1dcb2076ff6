//! Links and sites that fail: who is judged by whom, when, and what no answer may see (faults I-43 to I-46).

use crate::net::{Net, ldns, ms, secs, text};
use gslb_core::{Judge, PeerState, decide::Verdict};
use gslb_types::{Reach, ServiceState, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

const NODES: [&str; 3] = ["a/1", "b/1", "c/1"];

/// Three sites; b is nearest to all LDNS.
fn group(more: &str) -> Net {
    let mut net = Net::of(&NODES, more);
    for (node, millis) in [("a/1", 60), ("b/1", 20), ("c/1", 90)] {
        net.rtt(node, millis);
    }
    net.run(secs(5));
    for n in 0..20 {
        net.ask(NODES[n as usize % 3], ldns(n));
        net.run(Duration::from_millis(50));
    }
    net.run(secs(20));
    net
}

fn all() -> Vec<IpAddr> {
    (0..20).map(ldns).collect()
}

/// The service of b.
const B: usize = 1;

fn answers(net: &Net, host: usize) -> Vec<Verdict> {
    all().into_iter().map(|ldns| net.decision(host, ldns).verdict).collect()
}

/// Lets time pass until a node judges b so; when that is.
fn until(net: &mut Net, node: &str, state: ServiceState, most: u64) -> Option<Timestamp> {
    for _ in 0..most * 20 {
        if net.state(node, "b") == state {
            return Some(net.now);
        }
        net.run(Duration::from_millis(50));
    }
    None
}

#[test]
fn with_one_link_of_three_cut_no_answer_changes_anywhere() {
    let mut net = group("");
    net.watch_answers(all());
    net.cut("a/1", "b/1");
    net.run(secs(15));
    assert_eq!(net.site("a/1", "b").relayed_via, Some("c/1".parse().unwrap()));
    assert_eq!(net.site("b/1", "a").relayed_via, Some("c/1".parse().unwrap()));
    net.run(secs(285));
    assert_eq!((net.site("a/1", "b").silent_since, net.site("a/1", "b").taken_down), (None, None));
    net.heal("a/1", "b/1");
    net.run(secs(60));
    assert_eq!(net.changes(), [] as [String; 0]);
    assert_eq!(net.site("a/1", "b").relayed_via, None);
}

/// An operator who watches sees the doubt at once, and not with the next look.
#[test]
fn a_session_in_doubt_is_published_at_that_moment() {
    let mut net = group("");
    net.run(Duration::from_millis(333));
    net.cut("a/1", "b/1");
    let seen = |net: &Net| {
        let published = net.hosts[net.place("a/1")].shared.published.load_full();
        let peer = published.peers.iter().find(|peer| peer.peer.to_string() == "b/1").cloned();
        (published.at, peer.map(|peer| (peer.state, peer.since)))
    };
    for _ in 0..1_500 {
        net.run(Duration::from_millis(5));
        if let (at, Some((PeerState::Suspect, since))) = seen(&net) {
            assert_eq!(at, since, "published {:?} late", at.since(since));
            return;
        }
    }
    panic!("not in doubt: {:?}", seen(&net));
}

#[test]
fn what_changes_at_a_relayed_site_reaches_the_other_side() {
    let mut net = group("");
    net.cut("a/1", "b/1");
    net.run(secs(20));
    net.rtt("b/1", 70);
    net.ask("c/1", ldns(50));
    net.run(secs(20));
    for n in [0, 50] {
        assert_eq!((net.reach("a/1", "b", ldns(n)), net.reach("b/1", "a", ldns(n))), (ms(70), ms(60)), "{n}");
    }
    net.set_service("b/1", "b", false);
    net.run(secs(20));
    assert_eq!(NODES.map(|node| net.state(node, "b")), [ServiceState::Down; 3]);
    net.set_service("b/1", "b", true);
    net.run(secs(10));
    assert_eq!(NODES.map(|node| net.state(node, "b")), [ServiceState::Up; 3]);
}

/// Faults I-43: not before `down_delay`, and then at once.
#[test]
fn an_isolated_site_is_down_for_the_others_exactly_after_the_delay() {
    for node in ["a/1", "c/1"] {
        let mut net = group("");
        net.isolate("b/1");
        assert_eq!(net.site(node, "b").silent_since, None);
        // By then both have lost it, and neither hears it for the other.
        net.run(secs(13));
        let since = net.site(node, "b").silent_since.unwrap();
        net.run((since + secs(15)).since(net.now) - Duration::from_millis(1));
        assert_eq!(net.state(node, "b"), ServiceState::Up, "{node} before the delay");
        net.run(Duration::from_millis(1));
        assert_eq!(net.state(node, "b"), ServiceState::Down, "{node} after the delay");
        assert_eq!(net.published(node).services[B].judge, Judge::Silence);
        println!("{node}: silent since {since:?}, down at {:?}", net.now);
        net.run(secs(2));
        let others = [answers(&net, 0), answers(&net, 2)].concat();
        assert!(others.iter().all(|verdict| *verdict != Verdict::Service(B)));
        // b goes on by itself: the others are down for it.
        assert!(answers(&net, 1).iter().all(|verdict| *verdict == Verdict::Service(B)));
    }
}

/// Done when: after healing it is back within 15 s.
#[test]
fn a_site_that_heals_is_back_within_the_delay_and_not_before_its_hold() {
    for down_for in [1, 8, 60] {
        let mut net = group("");
        net.isolate("b/1");
        let down = until(&mut net, "a/1", ServiceState::Down, 60).unwrap();
        net.run(secs(down_for));
        net.rejoin("b/1");
        let healed = net.now;
        let back = until(&mut net, "a/1", ServiceState::Up, 60).unwrap();
        println!("down for {:?} when it heals, back after {:?}", healed.since(down), back.since(healed));
        assert!(back.since(healed) <= secs(15), "{down_for}: {:?}", back.since(healed));
        assert!(back.since(down) >= secs(15), "{down_for}: {:?}", back.since(down));
    }
}

#[test]
fn a_glitch_of_three_seconds_changes_no_answer() {
    let mut net = group("");
    net.watch_answers(all());
    net.isolate("b/1");
    net.run(secs(3));
    net.rejoin("b/1");
    net.run(secs(60));
    assert_eq!(net.changes(), [] as [String; 0]);
}

/// Faults I-43: whatever the period of a link that flaps, a hold lies between two changes.
#[test]
fn a_flapping_site_moves_answers_once_per_hold_time_at_most() {
    for period in [4, 11, 20, 33, 50] {
        let mut net = group("");
        net.watch_answers(vec![ldns(0)]);
        for _ in 0..6 {
            net.isolate("b/1");
            net.run(secs(period));
            net.rejoin("b/1");
            net.run(secs(period));
        }
        let changes: Vec<String> = net.changes().into_iter().filter(|c| c.contains(" a/1 ")).collect();
        let seconds = |change: &String| change[2..change.find('s').unwrap()].parse::<f64>().unwrap();
        let times: Vec<f64> = changes.iter().map(seconds).collect();
        println!("period {period} s: {} changes at a/1", times.len());
        assert!(times.windows(2).all(|w| w[1] - w[0] >= 14.9), "period {period}: {changes:?}");
    }
}

/// Behaviour 4: an answer for an LDNS goes on from the last known RTTs, and values of a site that is gone age out.
#[test]
fn values_of_a_site_that_nobody_hears_age_out_by_their_maximum() {
    let mut net = group("");
    net.isolate("b/1");
    net.run(secs(55));
    assert_eq!(net.reach("a/1", "b", ldns(0)), ms(20));
    net.run(secs(20));
    assert_eq!(net.reach("a/1", "b", ldns(0)), Reach::Pending);
}

/// Issue: restart B, and answers for LDNS whose best site is B change less than 1 %.
#[test]
fn a_restarted_site_keeps_its_users() {
    let mut net = group("");
    net.watch_answers(all());
    net.restart("b/1");
    net.run(secs(120));
    let elsewhere: Vec<String> = net.changes().into_iter().filter(|c| !c.contains(" b/1 ")).collect();
    assert_eq!(elsewhere, [] as [String; 0]);
    assert!((0..3).all(|host| answers(&net, host).iter().all(|verdict| *verdict == Verdict::Service(B))));
}

/// A site that nobody hears stays up where this node's own monitors reach it.
#[test]
fn remote_monitors_keep_a_silent_site_that_works() {
    let mut net = group_with_remote("mep_down");
    net.watch_answers(all());
    net.isolate("b/1");
    net.run(secs(40));
    assert_eq!(
        (net.state("a/1", "b"), net.published("a/1").services[B].judge),
        (ServiceState::Up, Judge::RemoteMonitors)
    );
    assert_eq!(net.changes(), [] as [String; 0]);
    net.set_service("a/1", "b", false);
    net.run(secs(20));
    assert_eq!((net.state("a/1", "b"), net.state("c/1", "b")), (ServiceState::Down, ServiceState::Up));
}

/// b's service has the monitor "web" for the other sites as well.
fn group_with_remote(trigger: &str) -> Net {
    let mut net = Net::edited(&NODES, |text| {
        let text =
            text.replace("name = \"b\"\n", &format!("name = \"b\"\ntrigger_monitor = \"{trigger}\"\n"));
        text.replace("name = \"web-b\"\n", "name = \"web-b\"\nremote_monitors = [\"web\"]\n")
    });
    for (node, millis) in [("a/1", 60), ("b/1", 20), ("c/1", 90)] {
        net.rtt(node, millis);
    }
    net.run(secs(5));
    for n in 0..20 {
        net.ask(NODES[n as usize % 3], ldns(n));
    }
    net.run(secs(20));
    net
}

/// Faults I-46: a node whose table is full pushes an LDNS out that it can't reach, and can't tell any more when it can.
#[test]
fn what_a_full_table_pushes_out_counts_as_unknown_elsewhere() {
    const PAIR: [&str; 2] = ["a/1", "b/1"];
    let small = |node: &str| match node {
        "b/1" => text(&PAIR).replace("[ldns]", "[ldns]\ncap = 10"),
        _ => text(&PAIR),
    };
    let mut net = Net::each(&PAIR, small);
    net.rtt("a/1", 60);
    net.rtt("b/1", 20);
    net.run(secs(5));
    for n in 0..10 {
        net.rtt_to("b/1", ldns(n), None);
        net.ask("a/1", ldns(n));
    }
    net.run(secs(60));
    assert!((0..10).all(|n| net.reach("a/1", "b", ldns(n)) == Reach::Unreachable));
    for n in 10..20 {
        net.ask("b/1", ldns(n));
    }
    net.run(secs(20));
    assert!((10..20).all(|n| net.reach("a/1", "b", ldns(n)) == ms(20)));
    assert!((0..10).all(|n| net.reach("a/1", "b", ldns(n)) == Reach::Pending), "nobody measures them at b");
    assert!((0..10).all(|n| net.reach("a/1", "a", ldns(n)) == ms(60)));
}
