//! Snapshots, changes, sightings, metrics.

use crate::net::{Net, address, known, ldns, ms, node, secs, settings};
use gslb_types::{Reach, ServiceName, ServiceState};
use mep_core::{Output, ServiceMetric, Sighting};
use std::time::Duration;

fn pair() -> Net {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(1));
    net
}

fn trio() -> Net {
    let mut net = Net::of(&["ber/1", "fra/1", "par/1"]);
    net.run_until(secs(5), |net| net.is_up(0, 1) && net.is_up(0, 2) && net.is_up(1, 2));
    net.run(secs(1));
    net
}

fn synced(net: &Net, at: usize, of: &str) -> bool {
    net.hosts[at].outputs.iter().any(|(_, o)| *o == Output::Synced { peer: node(of) })
}

fn up(name: &str) -> ServiceMetric {
    ServiceMetric::new(ServiceName::new(name).unwrap(), ServiceState::Up)
}

#[test]
fn a_snapshot_of_fifty_thousand_rows_comes_in_chunks_with_changes_in_between() {
    let mut net = Net::new();
    for id in ["fra/1", "par/1"] {
        net.add(id);
    }
    for n in 0..50_000 {
        net.fill(0, n, known(10 + n % 200));
    }
    net.start(0, settings(&["fra/1", "par/1"]));
    net.start(1, settings(&["fra/1", "par/1"]));
    net.run_until(secs(2), |net| net.status(1, 0).rows_in >= 5_000);
    net.sight(0, 60_000);
    net.measure(0, 60_000, known(33));
    net.measure(0, 17, known(77));
    let new = net.run_until(secs(1), |net| net.column(1, 0, 60_000) == Some(known(33)));
    assert!(net.status(1, 0).rows_in < 40_000, "the new one did not wait for the rest");
    let rest = net.run_until(secs(2), |net| synced(net, 1, "fra/1"));
    println!("new LDNS after {new:?}, everything after {:?}", new + rest);
    assert_eq!(net.hosts[1].table.columns.len(), 50_001);
    assert_eq!(net.column(1, 0, 49_999), Some(known(10 + 49_999 % 200)));
    let frames = net.status(0, 1);
    assert!(frames.snapshot_out.is_some() && net.status(1, 0).snapshot_in.is_some());
    assert!(frames.bytes_out < 50_000 * 13, "{} bytes for sightings and rows", frames.bytes_out);
    net.run(secs(6));
    assert_eq!(net.column(1, 0, 17), Some(known(77)));
}

#[test]
fn a_chunk_of_rows_costs_less_than_seven_bytes_a_row() {
    let mut net = Net::new();
    for id in ["fra/1", "par/1"] {
        net.add(id);
    }
    for n in 0..10_000 {
        net.fill(0, n * 997, Reach::Known(gslb_types::Rtt::from_micros(2_000 + n * 7_919 % 298_000)));
    }
    net.start(0, settings(&["fra/1", "par/1"]));
    net.start(1, settings(&["fra/1", "par/1"]));
    net.run_until(secs(3), |net| synced(net, 1, "fra/1"));
    let longest = net.sent.iter().map(|(_, _, _, frame)| frame.len()).max().unwrap();
    println!("{longest} bytes for 1000 rows");
    assert!(longest <= 7_000);
}

#[test]
fn nothing_noted_sends_no_rows_but_words_go_on() {
    let mut net = pair();
    net.sight(0, 1);
    net.measure(0, 1, known(27));
    net.run(secs(10));
    let before = net.status(0, 1);
    net.run(secs(60));
    let after = net.status(0, 1);
    assert_eq!((before.rows_out, after.rows_out), (1, 1));
    assert!(after.frames_out >= before.frames_out + 15, "{} frames", after.frames_out - before.frames_out);
    assert!(after.frames_out <= before.frames_out + 40, "{} frames", after.frames_out - before.frames_out);
}

#[test]
fn a_first_value_is_told_at_once_and_changes_at_most_once_an_interval() {
    let mut net = pair();
    net.sight(0, 1);
    net.measure(0, 1, known(27));
    let first = net.run_until(secs(1), |net| net.column(1, 0, 1) == Some(known(27)));
    assert!(first <= ms(16), "{first:?}");
    net.measure(0, 1, known(40));
    let changed = net.run_until(secs(6), |net| net.column(1, 0, 1) == Some(known(40)));
    assert_eq!(changed, secs(5), "five seconds after the batch before, not after the change");
    net.measure(0, 1, known(60));
    net.run(ms(4_000));
    assert_eq!(net.column(1, 0, 1), Some(known(40)), "it waits for company");
    net.run(secs(60));
    net.measure(0, 1, known(80));
    let quiet = net.run_until(secs(6), |net| net.column(1, 0, 1) == Some(known(80)));
    assert!(quiet <= ms(16), "after a quiet interval it waits for nobody: {quiet:?}");
}

#[test]
fn a_withdrawn_and_an_unreachable_value_are_told_as_such() {
    let mut net = pair();
    net.sight(0, 1);
    net.measure(0, 1, known(27));
    net.run(secs(1));
    net.measure(0, 1, Reach::Unreachable);
    net.run(secs(6));
    assert_eq!(net.column(1, 0, 1), Some(Reach::Unreachable));
    net.measure(0, 1, Reach::Pending);
    net.run(secs(6));
    assert_eq!(net.column(1, 0, 1), Some(Reach::Pending));
}

#[test]
fn an_ldns_is_told_to_all_peers_at_once_and_no_row_for_what_nobody_has_measured() {
    let mut net = trio();
    net.sight(0, 1);
    let told =
        net.run_until(secs(1), |net| (1..3).all(|n| net.hosts[n].table.entries.contains_key(&ldns(1))));
    assert!(told <= ms(16), "{told:?}");
    let fresh = Sighting { address: address(1), age: ms(5), fresh: true };
    for n in 1..3 {
        let expected = Output::Sightings { peer: node("ber/1"), sightings: vec![fresh] };
        assert!(net.hosts[n].outputs.iter().any(|(_, o)| *o == expected));
    }
    net.run(secs(20));
    for (a, b) in [(0, 1), (1, 0), (1, 2), (2, 0)] {
        assert_eq!(net.status(a, b).rows_out, 0);
    }
}

#[test]
fn the_age_of_an_ldns_travels_without_a_common_clock() {
    let mut net = pair();
    net.sight(0, 1);
    net.run(secs(100));
    net.sight(0, 1);
    net.run(secs(2));
    let ages: Vec<(Duration, bool)> = net.hosts[1]
        .outputs
        .iter()
        .filter_map(|(_, o)| match o {
            Output::Sightings { sightings, .. } => Some((sightings[0].age, sightings[0].fresh)),
            _ => None,
        })
        .collect();
    assert_eq!(ages, [(ms(5), true), (secs(1), false)]);
}

#[test]
fn many_changes_at_once_reach_every_peer_in_several_frames() {
    let mut net = trio();
    for n in 0..3_500 {
        net.sight(0, n);
    }
    net.run(secs(1));
    let before = net.now;
    for n in 0..3_500 {
        net.measure(0, n, known(10 + n % 90));
    }
    net.run(ms(100));
    for peer in 1..3 {
        assert!((0..3_500).all(|n| net.column(peer, 0, n) == Some(known(10 + n % 90))));
        let frames = net.sent.iter().filter(|(at, from, to, _)| *at >= before && *from == 0 && *to == peer);
        assert!(frames.count() <= 10);
        assert_eq!(net.status(0, peer).rows_out, 3_500);
    }
}

/// An entry that one node has lost (expired a moment too early, pushed out by the cap) gets its values back although they
/// do not change any more; otherwise nodes would answer differently (faults I-51).
#[test]
fn values_told_before_there_was_an_entry_are_told_again() {
    let mut net = trio();
    net.sight(0, 1);
    net.run(secs(1));
    for n in 0..3 {
        net.measure(n, 1, known(10 + n as u32));
    }
    net.run(secs(6));
    let forget = |net: &mut Net, n: usize| {
        net.hosts[n].table.entries.clear();
        net.hosts[n].table.columns.clear();
    };
    forget(&mut net, 0);
    forget(&mut net, 1);
    net.sight(0, 1);
    let own = net.run_until(secs(1), |net| net.column(0, 2, 1) == Some(known(12)));
    let other = net.run_until(secs(6), |net| net.column(1, 2, 1) == Some(known(12)));
    println!("at the asked node after {own:?}, at the other after {other:?} more");
    assert!(own <= ms(40), "{own:?}");
    forget(&mut net, 1);
    net.sight(0, 1);
    net.run(secs(3));
    assert_eq!(net.column(1, 2, 1), Some(known(12)), "a refresh made the entry, and it asked");
}

#[test]
fn a_node_cut_off_from_who_was_asked_learns_of_the_ldns_from_the_others() {
    let mut net = trio();
    net.cuts.extend([(0, 2), (2, 0)]);
    net.sight(0, 1);
    net.run(ms(50));
    net.measure(1, 1, known(50));
    net.measure(1, 1, known(20));
    let took = net.run_until(secs(1), |net| net.column(2, 1, 1) == Some(known(20)));
    assert!(took <= ms(30), "{took:?}");
    net.measure(2, 1, known(30));
    net.run(secs(3));
    net.heal();
    net.run(secs(3));
    assert_eq!(net.column(0, 2, 1), Some(known(30)));
}

/// Behaviour 4: values age out or are withdrawn; an empty table wipes nothing.
#[test]
fn a_restarted_peer_wipes_nothing_and_learns_everything() {
    let mut net = pair();
    for n in 0..2_500 {
        net.sight(0, n);
        net.measure(0, n, known(10));
    }
    net.run(secs(1));
    for n in 0..2_500 {
        net.measure(1, n, known(20));
    }
    net.run(secs(6));
    let again = net.now;
    net.kill(1);
    net.start(1, settings(&["fra/1", "par/1"]));
    net.run_until(secs(5), |net| {
        net.is_up(0, 1)
            && net.outputs_since(0, again).any(|o| *o == Output::Synced { peer: node("par/1") })
            && net.outputs_since(1, again).any(|o| *o == Output::Synced { peer: node("fra/1") })
    });
    assert_eq!(net.column(0, 1, 2_499), Some(known(20)));
    assert_eq!(net.hosts[1].table.entries.len(), 2_500);
    assert_eq!(net.column(1, 0, 2_499), Some(known(10)));
    net.measure(1, 7, known(30));
    net.run(secs(1));
    assert_eq!((net.column(0, 1, 7), net.column(0, 1, 8)), (Some(known(30)), Some(known(20))));
}

/// What a slow peer gets late is the newest, and each key once.
#[test]
fn a_slow_peer_gets_the_newest_values_and_not_all_of_them() {
    let mut net = pair();
    for n in 0..5_000 {
        net.sight(0, n);
    }
    net.run(secs(2));
    net.bandwidth = Some(20_000);
    let rounds = 60;
    for round in 0..rounds {
        for n in 0..5_000 {
            net.measure(0, n, known(10 + (round + n) % 200));
        }
        net.run(secs(1));
    }
    let backlog = net.status(0, 1).outbox;
    assert!(backlog <= 5_000, "{backlog}");
    net.bandwidth = None;
    net.run(secs(70));
    let rows = net.status(0, 1).rows_out;
    println!("{rows} rows sent for {} changes", rounds * 5_000);
    assert!(rows < 300_000 / 2);
    for n in 0..5_000 {
        assert_eq!(net.column(1, 0, n), Some(known(10 + (rounds - 1 + n) % 200)));
    }
    assert_eq!((net.is_up(0, 1), net.status(0, 1).downs), (true, 0));
}

#[test]
fn a_peer_that_falls_behind_the_cap_gets_a_new_snapshot() {
    let mut net = Net::new();
    for id in ["fra/1", "par/1"] {
        net.add(id);
    }
    let mut small = settings(&["fra/1", "par/1"]);
    small.outbox_cap = 4_000;
    net.start(0, small);
    net.start(1, settings(&["fra/1", "par/1"]));
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.bandwidth = Some(20_000);
    for n in 0..60_000 {
        net.sight(0, n);
        net.measure(0, n, known(10));
        assert!(net.status(0, 1).outbox <= 4_000);
    }
    assert!(net.status(0, 1).resyncs > 0);
    net.bandwidth = None;
    net.run(secs(120));
    assert_eq!((net.status(0, 1).outbox, net.status(0, 1).downs), (0, 0));
    assert_eq!(net.hosts[1].table.entries.len(), 60_000);
    assert_eq!(net.hosts[1].table.columns.len(), 60_000);
}

fn metrics(net: &Net, at: usize) -> Vec<Vec<ServiceMetric>> {
    let told = |o: &Output| match o {
        Output::Metrics { services, .. } => Some(services.clone()),
        _ => None,
    };
    net.hosts[at].outputs.iter().filter_map(|(_, o)| told(o)).collect()
}

#[test]
fn metrics_are_told_every_interval_and_a_change_of_state_at_once() {
    let mut net = pair();
    net.set_metrics(0, vec![up("web")]);
    net.run(ms(11));
    assert_eq!(metrics(&net, 1), [vec![up("web")]]);
    net.run(secs(10));
    let told = metrics(&net, 1).len();
    assert!((10..=12).contains(&told), "{told}");
    let busy = ServiceMetric { active: Some(9), ..up("web") };
    let down = ServiceMetric { state: ServiceState::Down, ..busy.clone() };
    net.run_until(secs(2), |net| metrics(net, 1).len() > told);
    net.set_metrics(0, vec![busy.clone()]);
    net.run(ms(11));
    assert_eq!(metrics(&net, 1).last(), Some(&vec![up("web")]), "a number waits for the interval");
    net.run(secs(1));
    assert_eq!(metrics(&net, 1).last(), Some(&vec![busy]));
    net.set_metrics(0, vec![down.clone()]);
    net.run(ms(11));
    assert_eq!(metrics(&net, 1).last(), Some(&vec![down]));
}

#[test]
fn a_site_of_very_many_services_is_told_in_several_frames() {
    let mut net = pair();
    let services: Vec<ServiceMetric> = (0..2_500).map(|n| up(&format!("web-{n}"))).collect();
    net.set_metrics(0, services.clone());
    net.run(ms(11));
    assert_eq!(metrics(&net, 1).concat(), services);
}

/// Faults I-46: this node's words go on confirming what it said, so it must say that it holds no longer.
#[test]
fn a_value_whose_entry_was_pushed_out_is_withdrawn() {
    let mut net = pair();
    net.sight(0, 1);
    net.measure(0, 1, known(27));
    net.run(secs(6));
    assert_eq!(net.column(1, 0, 1), Some(known(27)));
    let rows = net.status(1, 0).rows_in;
    net.push_out(0, 1);
    net.run(secs(6));
    assert_eq!(net.column(1, 0, 1), Some(Reach::Pending));
    assert_eq!(net.status(1, 0).rows_in, rows + 1);
}

/// An entry that goes everywhere by itself is not worth a word.
#[test]
fn a_value_whose_entry_has_expired_is_not() {
    let mut net = pair();
    net.sight(0, 1);
    net.measure(0, 1, known(27));
    net.run(secs(6));
    let rows = net.status(1, 0).rows_in;
    net.forget(0, 1);
    net.run(secs(6));
    assert_eq!(net.status(1, 0).rows_in, rows);
}
