//! Ways that carry less than they should: large packets vanish, or UDP does (faults I-53).

use crate::Test;
use crate::sites::{
    NAME, NODES, PATIENCE, SITES, Settings, config, first, lines, map, ms, pairs, seconds, settle, start,
    until, word,
};
use lab::gslb::{Group, Node, eventually};
use lab::{Flood, Kind, Lab, Rejection};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("a_table_of_20000_rows_syncs_over_a_path_that_begins_to_drop_large_packets", small_packets),
    ("with_quic_alone_a_blocked_port_is_named_within_seconds", quic_alone),
    ("with_auto_the_session_stands_over_grpc_while_udp_is_blocked_and_goes_back_unseen", auto),
];

/// Rows that a node begins with.
const ROWS: u64 = 20_000;

/// A datagram of QUIC beyond this, with its UDP header, is dropped.
const LARGE: (&str, Rejection) = ("udp length > 1250", Rejection::Silence);

/// All UDP of the exchange.
const EXCHANGE: (&str, Rejection) = ("udp dport 4353", Rejection::Silence);

fn block(lab: &Lab, rules: &[(&str, Rejection)]) {
    SITES.iter().for_each(|site| lab.reject(site, rules).expect("nft"));
}

fn small_packets() {
    let _busy = crate::busy();
    let lab =
        map("small-packets").pool("pool").host("mallory").link("mallory", "fra", ms(1)).up().expect("up");
    lab.drop_kinds("pool", &[Kind::Icmp, Kind::Udp, Kind::Tcp]);
    let probe =
        "interval = \"5s\"\ntimeout = \"600ms\"\nper_second = 50\nnew_per_second = 20\nper_prefix = 20";
    let settings = Settings { probe: Some(probe), ..Settings::new() };
    let (mut group, watch) = start(&lab, &settings);
    // The path is known to carry large packets by now; from here on they vanish.
    block(&lab, &[LARGE]);
    let blocked = Instant::now();
    let flood = Flood::new(lab.prefix_v4("pool"), SocketAddr::new(lab.v4("fra").into(), 53), NAME);
    let rows = |node: &Node<'_>| node.metric("gslb_ldns_rows").unwrap_or_default() as u64;
    let mut seed = 0;
    while rows(group.node("fra/1")) < ROWS {
        seed += 1;
        lab.flood("mallory", &flood.clone().rate(10_000).count(5_000).seed(seed)).expect("a flood");
    }
    let told = |group: &Group<'_>, since: Instant| {
        let whole = || NODES.iter().all(|node| rows(group.node(node)) >= ROWS);
        first(since, seconds(60), whole)
    };
    let deltas = told(&group, blocked);
    println!(
        "I-53: {ROWS} LDNS told as changes over a path without large packets: everywhere after {deltas:.1?}"
    );
    assert!(deltas.is_some(), "{}", pairs(&group));

    // The same as a snapshot, to a node that knows nothing.
    let node = group.node_mut("sin/1");
    node.kill().expect("killed");
    let started = Instant::now();
    node.restart().expect("restarted");
    let snapshot = told(&group, started);
    let status = group.node("sin/1").peer("fra/1");
    println!(
        "I-53: as a snapshot to a new process: after {snapshot:.1?}; from fra/1 in {} ms, {} bytes",
        status["snapshot_in_ms"], status["bytes_in"]
    );
    assert!(snapshot.is_some_and(|snapshot| snapshot < seconds(40)), "{}", pairs(&group));
    let downs: u64 = ["fra/1", "iad/1"]
        .iter()
        .filter_map(|node| {
            let peer = if *node == "fra/1" { "iad/1" } else { "fra/1" };
            group.node(node).peer(peer)["downs"].as_u64()
        })
        .sum();
    assert_eq!(downs, 0, "the session between fra and iad has not been lost");
    // Packets really were dropped: what shows is that the paths got smaller.
    let octets = lab.stats("fra", "sin").octets;
    println!("I-53: {octets} octets fra -> sin, {} queries failed", watch.failed());
}

fn quic_alone() {
    let lab = map("quic-alone").up().expect("up");
    block(&lab, &[EXCHANGE]);
    let settings = Settings { node: "transport = \"quic\"", ..Settings::new() };
    let group = Group::start(&lab, "lab", &config(&settings), &NODES).expect("three nodes");
    let begun = Instant::now();
    let named = first(begun, seconds(20), || {
        let peer = group.node("fra/1").peer("iad/1");
        word(&peer["last_attempt"]).contains("UDP") || word(&peer["reason"]).contains("UDP")
    });
    let peer = group.node("fra/1").peer("iad/1");
    println!("UDP blocked, transport quic: after {named:.1?}: {} ({})", peer["last_attempt"], peer["reason"]);
    assert!(named.is_some_and(|named| named <= seconds(10)), "{peer}");
    // And it stays so: nothing falls back.
    until(begun, seconds(15));
    assert_ne!(group.node("fra/1").peer("iad/1")["state"], "up");
    block(&lab, &[]);
    let up = first(Instant::now(), PATIENCE, || group.node("fra/1").peer("iad/1")["state"] == "up");
    println!("unblocked: up after {up:.1?}");
    assert!(up.is_some_and(|up| up <= seconds(35)));
}

fn auto() {
    let lab = map("auto").up().expect("up");
    block(&lab, &[EXCHANGE]);
    let begun = Instant::now();
    let group = Group::start(&lab, "lab", &config(&Settings::new()), &NODES).expect("three nodes");
    let watch = settle(&lab, &group);
    let over = |word: &str| {
        group.nodes().iter().all(|node| {
            node.peers()
                .is_ok_and(|peers| peers.iter().all(|peer| peer["state"] == "up" && peer["over"] == word))
        })
    };
    println!(
        "UDP blocked from the start, transport auto: meshed after {:.1?}: {}",
        begun.elapsed(),
        pairs(&group)
    );
    assert!(over("grpc"), "{}", group.node("fra/1").peer("iad/1"));

    block(&lab, &[]);
    let unblocked = Instant::now();
    let back = first(unblocked, seconds(100), || over("quic"));
    let downs: u64 = group
        .nodes()
        .iter()
        .flat_map(|node| node.peers().unwrap_or_default())
        .filter_map(|p| p["downs"].as_u64())
        .sum();
    println!("unblocked: all over QUIC after {back:.1?}, {downs} sessions lost; {}", pairs(&group));
    assert!(back.is_some());
    assert_eq!(downs, 0);

    // And the other way: UDP goes while the session stands.
    block(&lab, &[EXCHANGE]);
    let blocked = Instant::now();
    eventually("all over gRPC", seconds(60), || over("grpc").then_some(()));
    println!("blocked again: all over gRPC after {:.1?}", blocked.elapsed());
    assert!(blocked.elapsed() <= Duration::from_secs(40));
    let changes = watch.changes_since(unblocked);
    println!(
        "carriers changed twice: {} answers changed, {} of {} queries failed",
        changes.len(),
        watch.failed(),
        watch.asked()
    );
    assert!(changes.is_empty(), "{}", lines(&changes));
    assert_eq!(watch.failed(), 0);
}
