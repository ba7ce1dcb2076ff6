//! Peers that are gone although the network says otherwise, and ways that carry in one direction only (faults I-44, I-45).

use crate::Test;
use crate::sites::{NODES, Settings, first, lines, map, ms, pairs, seconds, start, until, word};
use lab::gslb::{Group, Transport, dig};
use lab::{Lab, Signal};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("a_stopped_process_is_down_within_the_keepalive_and_resyncs_when_it_goes_on", || stopped("quic")),
    ("a_stopped_process_is_down_although_its_kernel_still_acknowledges_over_grpc", || stopped("grpc")),
    ("a_silent_cut_is_noticed_although_nothing_is_offered_and_the_table_is_whole_after_it", || {
        silent_cut("quic")
    }),
    ("a_silent_cut_is_noticed_over_grpc_as_well", || silent_cut("grpc")),
    ("a_one_way_cut_is_down_at_both_ends_and_does_not_flap", one_way),
];

const KEEPALIVE: Duration = Duration::from_secs(3);

fn settings(over: &str) -> Settings {
    let node = if over == "grpc" { "transport = \"grpc\"" } else { "transport = \"quic\"" };
    Settings { node, ..Settings::new() }
        .mep("keepalive = \"3s\"\nmetrics_interval = \"500ms\"\nrtt_interval = \"500ms\"")
}

/// How many sites a node knows the RTT of to an LDNS.
fn known(group: &Group<'_>, node: &str, lab: &Lab, ldns: &str) -> usize {
    let row = group.node(node).get(&format!("/v1/ldns/{}", lab.v4(ldns))).and_then(|answer| answer.json());
    let row = row.unwrap_or_default();
    row["sites"].as_array().into_iter().flatten().filter(|cell| cell["state"] == "known").count()
}

/// Waits until all nodes know all three RTTs to an LDNS that asks only now; how long that took.
fn learnt_everywhere(lab: &Lab, group: &Group<'_>, ldns: &str, asked: &str) -> Option<Duration> {
    let begun = Instant::now();
    let ask = || dig(lab, ldns, lab.v4(asked).into(), crate::sites::NAME, "A", Transport::Udp);
    first(begun, seconds(30), || ask().is_ok() && NODES.iter().all(|node| known(group, node, lab, ldns) == 3))
}

fn stopped(over: &'static str) {
    let plan = map("stopped").ldns("late").link("late", "fra", ms(20)).link("late", "iad", ms(30)).link(
        "late",
        "sin",
        ms(40),
    );
    let lab = plan.up().expect("up");
    let (group, watch) = start(&lab, &settings(over));
    assert_eq!(group.node("fra/1").peer("sin/1")["over"], over);
    let begun = Instant::now();
    group.node("sin/1").signal(Signal::SIGSTOP).expect("stopped");
    let down = ["fra/1", "iad/1"]
        .map(|node| first(begun, KEEPALIVE * 3, || group.node(node).peer("sin/1")["state"] == "down"));
    println!("SIGSTOP of sin/1 over {over}: down after {down:.2?} with a keepalive of {KEEPALIVE:?}");
    for after in down {
        assert!(after.is_some_and(|after| after <= KEEPALIVE + seconds(1)), "{}", pairs(&group));
    }
    // An LDNS that sin/1 can't have heard of.
    let asked = dig(&lab, "late", lab.v4("fra").into(), crate::sites::NAME, "A", Transport::Udp);
    assert!(asked.is_ok(), "{asked:?}");
    until(begun, seconds(8));
    group.node("sin/1").signal(Signal::SIGCONT).expect("goes on");
    let resumed = Instant::now();
    let up = first(resumed, seconds(15), || {
        NODES
            .iter()
            .all(|node| group.node(node).peers().is_ok_and(|peers| peers.iter().all(|p| p["state"] == "up")))
    });
    let whole =
        first(resumed, seconds(30), || NODES.iter().all(|node| known(&group, node, &lab, "late") == 3));
    println!(
        "SIGCONT of sin/1 over {over}: meshed after {up:.2?}, and all know what it missed after {whole:.2?}"
    );
    assert!(up.is_some_and(|up| up <= seconds(8)), "{}", pairs(&group));
    assert!(whole.is_some(), "{}", group.node("sin/1").log_tail());
    until(resumed, seconds(5));
    // The stopped node answered nobody; nobody else's answers changed.
    let others: Vec<_> =
        watch.changes_since(begun).into_iter().filter(|change| change.server != "sin").collect();
    assert!(others.is_empty(), "{}", lines(&others));
}

fn silent_cut(over: &'static str) {
    let plan = map("silent").ldns("late").link("late", "fra", ms(20)).link("late", "iad", ms(30)).link(
        "late",
        "sin",
        ms(40),
    );
    let lab = plan.up().expect("up");
    let (group, watch) = start(&lab, &settings(over));
    let begun = Instant::now();
    for other in ["fra", "iad"] {
        lab.cut("sin", other);
    }
    let pairs_cut = [("fra/1", "sin/1"), ("sin/1", "fra/1"), ("iad/1", "sin/1"), ("sin/1", "iad/1")];
    let down = pairs_cut
        .map(|(node, peer)| first(begun, KEEPALIVE * 3, || group.node(node).peer(peer)["state"] == "down"));
    println!("silent cut of sin over {over}: down after {down:.2?} with a keepalive of {KEEPALIVE:?}");
    for after in down {
        assert!(after.is_some_and(|after| after <= KEEPALIVE + seconds(1)), "{}", pairs(&group));
    }
    lab.heal_all();
    let healed = Instant::now();
    let up = first(healed, seconds(15), || {
        pairs_cut.iter().all(|(node, peer)| group.node(node).peer(peer)["state"] == "up")
    });
    let learnt = learnt_everywhere(&lab, &group, "late", "fra");
    println!(
        "healed, over {over}: meshed after {up:.2?}; a new LDNS is known everywhere {learnt:.2?} after its first query"
    );
    assert!(up.is_some_and(|up| up <= seconds(8)), "{}", pairs(&group));
    assert!(learnt.is_some());
    let changes = watch.changes_since(begun);
    assert!(changes.is_empty(), "{}", lines(&changes));
    assert_eq!(watch.failed(), 0);
}

fn one_way() {
    let lab = map("one-way").up().expect("up");
    let (group, watch) = start(&lab, &settings("quic"));
    let begun = Instant::now();
    for (from, to) in [("iad", "fra"), ("fra", "iad")] {
        let cut = Instant::now();
        let ends = [("fra/1", "iad/1"), ("iad/1", "fra/1")];
        let downs_of = |(node, peer): (&str, &str)| group.node(node).peer(peer)["downs"].as_u64();
        let before = ends.map(downs_of);
        lab.cut_one_way(from, to);
        let down = ends
            .map(|(node, peer)| first(cut, KEEPALIVE * 3, || group.node(node).peer(peer)["state"] == "down"));
        // No flip-flop: nothing more happens for several dead intervals, while dials fail.
        until(cut, KEEPALIVE * 7);
        let after = ends.map(downs_of);
        let reasons = ends.map(|(node, peer)| word(&group.node(node).peer(peer)["reason"]).to_owned());
        println!("cut {from}->{to}: down at fra, iad after {down:.2?}: {reasons:?}; {}", pairs(&group));
        for after in down {
            assert!(after.is_some_and(|after| after <= KEEPALIVE + seconds(2)), "{}", pairs(&group));
        }
        for (before, after) in before.iter().zip(after) {
            assert_eq!(after, before.map(|before| before + 1), "down once");
        }
        for node in ["fra/1", "iad/1"] {
            assert_eq!(group.node(node).peer("sin/1")["state"], "up");
            assert_eq!(group.node("sin/1").peer(node)["state"], "up");
        }
        lab.heal_all();
        let healed = Instant::now();
        let up = first(healed, seconds(20), || {
            ends.iter().all(|(node, peer)| group.node(node).peer(peer)["state"] == "up")
        });
        println!("healed {from}->{to}: up after {up:.2?}");
        assert!(up.is_some_and(|up| up <= seconds(15)), "{}", pairs(&group));
    }
    let changes = watch.changes_since(begun);
    println!(
        "one-way cuts: {} answers changed, {} of {} queries failed",
        changes.len(),
        watch.failed(),
        watch.asked()
    );
    assert!(changes.is_empty(), "{}", lines(&changes));
    assert_eq!(watch.failed(), 0);
}
