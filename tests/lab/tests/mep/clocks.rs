//! Clocks that are wrong, and that jump (faults I-47, bar R13).

use crate::Test;
use crate::sites::{LDNS, NODES, Settings, config, first, lines, map, pairs, seconds, settle, start, until};
use lab::gslb::Group;
use lab::{Lab, Signal};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("clocks_an_hour_off_and_stepped_by_an_hour_change_nothing", wrong_clocks),
    ("a_process_stopped_for_30_s_neither_expires_nor_probes_in_a_burst", suspended),
];

fn wrong_clocks() {
    let Some(library) = lab::faketime() else { return };
    let lab = map("clocks").up().expect("up");
    let settings =
        Settings::new().mep("keepalive = \"3s\"\ndown_delay = \"3s\"\nmetrics_interval = \"500ms\"");
    let mut group = Group::prepare("lab", &config(&settings), &NODES).expect("certificates");
    let clock = group.folder().join("clock");
    fs::write(&clock, "+0\n").expect("a file");
    let library = library.to_string_lossy();
    let fake =
        [("LD_PRELOAD", &*library), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("DONT_FAKE_MONOTONIC", "1")];
    let [ahead, behind] = ["+1h", "-1h"].map(|by| [&fake[..], &[("FAKETIME", by)]].concat());
    let file = clock.to_string_lossy().into_owned();
    let stepped = [&fake[..], &[("FAKETIME_TIMESTAMP_FILE", &*file), ("FAKETIME_NO_CACHE", "1")]].concat();
    group.start_nodes(&lab, &[("fra/1", "fra")], &ahead).expect("a node");
    group.start_nodes(&lab, &[("iad/1", "iad")], &behind).expect("a node");
    group.start_nodes(&lab, &[("sin/1", "sin")], &stepped).expect("a node");
    let watch = settle(&lab, &group);
    let begun = Instant::now();
    println!("R13: fra/1 at +1 h, iad/1 at -1 h: {}", pairs(&group));
    assert_eq!(seen_clocks(&group), [1, -1, 0], "the clocks are really off");

    let at_rest = probes(&lab, seconds(10));
    for (step, hours) in [("+1h\n", 1), ("-1h\n", -1), ("+0\n", 0)] {
        fs::write(&clock, step).expect("a file");
        let during = probes(&lab, seconds(10));
        println!(
            "R13: sin/1 stepped to {}: probes of each site in 10 s {during:?}, at rest {at_rest:?}",
            step.trim()
        );
        assert_eq!(seen_clocks(&group)[2], hours);
        for (during, at_rest) in during.iter().zip(&at_rest) {
            assert!(*during <= at_rest + at_rest / 2 + 2 && *during * 2 >= *at_rest, "no burst, no pause");
        }
    }
    let downs: u64 = group
        .nodes()
        .iter()
        .flat_map(|node| node.peers().unwrap_or_default())
        .filter_map(|p| p["downs"].as_u64())
        .sum();
    let changes = watch.changes_since(begun);
    println!(
        "R13: {} queries over {:.0?}, {} failed, {} answers changed, {downs} sessions lost",
        watch.asked(),
        begun.elapsed(),
        watch.failed(),
        changes.len()
    );
    assert!(changes.is_empty(), "{}", lines(&changes));
    assert_eq!((watch.failed(), downs), (0, 0));
}

/// How many hours each node's clock is off, by how long it takes a certificate to be valid still.
fn seen_clocks(group: &Group<'_>) -> Vec<i64> {
    let unix =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
            as i64;
    let offset = |node: &lab::gslb::Node<'_>| {
        let peer = node.peers().unwrap_or_default().first().cloned().unwrap_or_default();
        let (at, left) = (peer["certificate_expires"].as_i64(), peer["certificate_expires_in_s"].as_i64());
        let now = at.zip(left).map(|(at, left)| at - left).unwrap_or_default();
        // To the nearest hour.
        (now - unix + 1800).div_euclid(3600)
    };
    group.nodes().iter().map(offset).collect()
}

/// Probes of each site to all LDNS within this time.
fn probes(lab: &Lab, within: Duration) -> Vec<u64> {
    let count = || {
        crate::sites::SITES.map(|site| {
            LDNS.iter()
                .map(|ldns| lab.stats(site, ldns))
                .map(|seen| seen.pings + seen.requests + seen.connects)
                .sum::<u64>()
        })
    };
    let before = count();
    thread::sleep(within);
    count().iter().zip(before).map(|(after, before)| after - before).collect()
}

fn suspended() {
    let lab = map("suspended").up().expect("up");
    // Words, rounds and batches fall due many times meanwhile; values of sin stay usable elsewhere, being younger than 60 s.
    let settings = Settings {
        more: "[ldns]\nidle_timeout = \"45s\"",
        ..Settings::new().mep("keepalive = \"3s\"\nmetrics_interval = \"500ms\"\ndown_delay = \"60s\"")
    };
    let (group, watch) = start(&lab, &settings);
    let at_rest = probes(&lab, seconds(10))[2];
    let (packets_at_rest, begun) = (lab.stats("sin", "fra").packets, Instant::now());
    until(begun, seconds(2));
    let packets_at_rest = lab.stats("sin", "fra").packets - packets_at_rest;
    group.node("sin/1").signal(Signal::SIGSTOP).expect("stopped");
    let stopped = Instant::now();
    until(stopped, seconds(30));
    group.node("sin/1").signal(Signal::SIGCONT).expect("goes on");
    let resumed = Instant::now();
    let packets_before = lab.stats("sin", "fra").packets;
    let two_seconds = probes(&lab, seconds(2))[2];
    let packets_after = lab.stats("sin", "fra").packets - packets_before;
    println!(
        "R13: after 30 s of SIGSTOP sin/1 sends {two_seconds} probes in the first 2 s, at rest {at_rest} in 10 s; packets to \
         fra {packets_after} in 2 s, at rest {packets_at_rest}"
    );
    // Each LDNS has one round at once; nothing is made up for.
    assert!(two_seconds <= 2 * LDNS.len() as u64 + 2, "no burst");
    assert!(packets_after <= 60 + 2 * packets_at_rest, "no burst");
    let rows = || group.node("sin/1").metric("gslb_ldns_rows");
    assert!(rows().is_some_and(|rows| rows >= 3.0), "nothing expired: {:?}", rows());
    let up = first(resumed, seconds(15), || {
        group.node("sin/1").peers().is_ok_and(|peers| peers.iter().all(|p| p["state"] == "up"))
    });
    println!("R13: meshed {up:.1?} after SIGCONT");
    assert!(up.is_some_and(|up| up <= seconds(8)), "{}", pairs(&group));
    until(resumed, seconds(10));
    let others: Vec<_> =
        watch.changes_since(stopped).into_iter().filter(|change| change.server != "sin").collect();
    assert!(others.is_empty(), "{}", lines(&others));
    assert!(crate::sites::all_near(&lab, &watch), "{:?}", watch.last());
}
