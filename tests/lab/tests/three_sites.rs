//! The main job, end to end: three sites, three resolvers, real probes, and `dig` gets the nearest site.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use lab::gslb::{Group, Node, Resolver, Transport, dig, eventually};
use lab::{Kind, Lab, Topology, can_run};
use serde_json::Value;
use std::io::ErrorKind;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SITES: [&str; 3] = ["fra", "iad", "sin"];
const NODES: [&str; 3] = ["fra/1", "iad/1", "sin/1"];
const LDNS: [&str; 3] = ["ldns-eu", "ldns-us", "ldns-as"];

/// From one probe round to the next.
const INTERVAL: Duration = Duration::from_secs(2);

/// For what must happen at some time: many rounds, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// How far a recorded round trip may be from the injected one.
const EXACT: Duration = Duration::from_millis(2);

/// The way between an LDNS and a site that is not its nearest, one way.
const FAR: Duration = Duration::from_millis(45);

/// What an LDNS answers, and by which kind of probe it is measured then (behaviour 3: probes in order, accepted errors).
struct Policy {
    name: &'static str,
    drops: &'static [Kind],
    serves: Serves,
    measured_by: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Serves {
    Nothing,
    /// DNS over UDP, every query with this rcode.
    Udp(u8),
    /// TCP connections.
    Tcp,
}

const REFUSED: u8 = 5;

/// In an order in which the kind that measured before never measures after, unless it shall: the kind that works is kept.
const POLICIES: [Policy; 5] = [
    Policy { name: "answers ping", drops: &[], serves: Serves::Nothing, measured_by: "ping" },
    Policy {
        name: "answers DNS over UDP",
        drops: &[Kind::Icmp],
        serves: Serves::Udp(REFUSED),
        measured_by: "dns-udp",
    },
    Policy {
        name: "says port unreachable",
        drops: &[Kind::Icmp],
        serves: Serves::Nothing,
        measured_by: "dns-udp",
    },
    Policy {
        name: "answers DNS over TCP",
        drops: &[Kind::Icmp, Kind::Udp],
        serves: Serves::Tcp,
        measured_by: "dns-tcp",
    },
    Policy {
        name: "resets",
        drops: &[Kind::Icmp, Kind::Udp],
        serves: Serves::Nothing,
        measured_by: "dns-tcp",
    },
];

/// Timing comes first: one group of nodes at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The sites as far from each other as on the map; every LDNS is far from all of them.
fn map() -> Topology {
    let sites = SITES.iter().fold(Topology::new("three-sites"), |map, site| map.site(site));
    let all = LDNS.iter().fold(sites, |map, ldns| map.ldns(ldns));
    all.link("fra", "iad", ms(42)).link("fra", "sin", ms(80)).link("iad", "sin", ms(110)).default_link(FAR)
}

/// Gives every LDNS this policy, and then moves it next to another site, `turn` by `turn`. The resolvers serve while
/// they are kept.
fn set(lab: &Lab, turn: usize, policy: &Policy) -> Vec<Resolver> {
    let mut resolvers = Vec::new();
    for ldns in LDNS {
        lab.drop_kinds(ldns, policy.drops);
        resolvers.extend(match policy.serves {
            Serves::Nothing => None,
            Serves::Udp(rcode) => Some(Resolver::udp(lab, ldns, rcode).expect("resolver")),
            Serves::Tcp => Some(Resolver::tcp(lab, ldns).expect("resolver")),
        });
    }
    for (i, ldns) in LDNS.iter().enumerate() {
        let near = ms(6 + 3 * i as u64);
        SITES.iter().for_each(|site| {
            lab.set_link(ldns, site, if *site == nearest(turn, i) { near } else { FAR });
        });
    }
    resolvers
}

fn nearest(turn: usize, ldns: usize) -> &'static str {
    SITES[(turn + ldns) % SITES.len()]
}

/// The same text for all nodes. Services without monitors are up.
fn config(tolerance: Duration) -> String {
    let mut text = format!(
        "version = 1\n\
         [group]\nname = \"lab\"\nrtt_tolerance = \"{}ms\"\n\
         [mep]\nrtt_interval = \"500ms\"\n\
         [probe]\ninterval = \"{}s\"\ntimeout = \"400ms\"\nretry_order = \"4s\"\nper_prefix = 10\n",
        tolerance.as_millis(),
        INTERVAL.as_secs()
    );
    for (i, site) in SITES.iter().enumerate() {
        let n = i + 1;
        text += &format!(
            "[[sites]]\nname = \"{site}\"\n\
             [[nodes]]\nname = \"{site}/1\"\nmep = \"198.18.{n}.1:4353\"\n\
             [[services]]\nname = \"web-{site}\"\nsite = \"{site}\"\naddress = \"198.18.{n}.80\"\nport = 80\n\
             [[services]]\nname = \"web6-{site}\"\nsite = \"{site}\"\naddress = \"2001:db8:{n}::80\"\nport = 80\n"
        );
    }
    text + "[[vservers]]\nname = \"www\"\n\
            services = [\"web-fra\", \"web-iad\", \"web-sin\", \"web6-fra\", \"web6-iad\", \"web6-sin\"]\n\
            [[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n\
            [[zones]]\nname = \"gslb.test\"\nrecords = '''\n\
            @   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\nns1 A   198.18.1.1\n'''\n"
}

/// Starts the three nodes, and waits until each hears both others.
fn start<'lab>(lab: &'lab Lab, tolerance: Duration) -> Group<'lab> {
    let group = Group::start(lab, "lab", &config(tolerance), &NODES).expect("three nodes");
    for node in group.nodes() {
        let meshed = || peers(node).iter().all(|peer| peer["state"] == "up").then_some(());
        eventually(&format!("{} hears its peers", node.id()), PATIENCE, meshed);
    }
    group
}

fn peers(node: &Node<'_>) -> Vec<Value> {
    let answer = node.get("/v1/peers").and_then(|answer| answer.json()).expect("JSON of /v1/peers");
    let peers = answer["peers"].as_array().expect("a list").clone();
    assert_eq!(peers.len(), NODES.len() - 1, "{answer}");
    peers
}

/// RTT rows that a node has sent to both its peers.
fn rows_sent(node: &Node<'_>) -> u64 {
    peers(node).iter().map(|peer| peer["rows_out"].as_u64().expect("a number")).sum()
}

/// What a node records of an LDNS, by site: the RTT if it is known, and the kind of probe if it says so.
fn recorded(node: &Node<'_>, ldns: IpAddr) -> Vec<(String, Option<Duration>, Option<String>)> {
    let Some(row) = node.get(&format!("/v1/ldns/{ldns}")).ok().and_then(|answer| answer.json().ok()) else {
        return Vec::new();
    };
    let cell = |cell: &Value| {
        let known = cell["state"] == "known";
        let rtt = cell["rtt_us"].as_u64().filter(|_| known).map(Duration::from_micros);
        (cell["site"].as_str().unwrap_or_default().to_owned(), rtt, cell["kind"].as_str().map(str::to_owned))
    };
    row["sites"].as_array().into_iter().flatten().map(cell).collect()
}

/// What each of the three nodes answers an LDNS that asks over its family.
fn answers(lab: &Lab, ldns: &str, family: Family) -> Vec<String> {
    let ask = |site: &&str| {
        let (server, rtype) = (family.address(lab, site), family.record_type());
        let answer = dig(lab, ldns, server, "www.gslb.test", rtype, Transport::Udp);
        answer.unwrap_or_else(|error| panic!("{ldns} asks {site}: {error}")).join(" ")
    };
    SITES.iter().map(ask).collect()
}

/// Waits until all three nodes answer an LDNS with this site.
fn wait_for_site(lab: &Lab, ldns: &str, family: Family, site: &str) {
    let wanted = family.service(lab, site);
    let mut last = Vec::new();
    let what = format!("{ldns} gets {wanted} ({site}) from every node");
    eventually(&what, PATIENCE, || {
        last = answers(lab, ldns, family);
        last.iter().all(|answer| *answer == wanted).then_some(())
    });
}

/// Waits until every node records every site's RTT to the LDNS as injected, and its own measured by this kind.
fn wait_for_record(lab: &Lab, group: &Group<'_>, ldns: IpAddr, kind: &str) {
    for node in group.nodes() {
        let what = format!("{} records {ldns} as {:?} by {kind}", node.id(), lab.truth(ldns));
        eventually(&what, PATIENCE, || {
            let recorded = recorded(node, ldns);
            let exact = recorded.iter().all(|(site, rtt, measured_by)| {
                let injected = lab.round_trip(site, ldns).expect("not cut");
                let right_kind = site != node.place() || measured_by.as_deref() == Some(kind);
                right_kind && rtt.is_some_and(|rtt| rtt.abs_diff(injected) <= EXACT)
            });
            (recorded.len() == SITES.len() && exact).then_some(())
        });
    }
}

/// The family an LDNS asks over, and what it asks for.
#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn address(self, lab: &Lab, node: &str) -> IpAddr {
        match self {
            Family::V4 => lab.v4(node).into(),
            Family::V6 => lab.v6(node).into(),
        }
    }

    /// The service of a site.
    fn service(self, lab: &Lab, site: &str) -> String {
        match self {
            Family::V4 => lab.nth_v4(site, 80).to_string(),
            Family::V6 => lab.nth_v6(site, 0x80).to_string(),
        }
    }

    fn record_type(self) -> &'static str {
        match self {
            Family::V4 => "A",
            Family::V6 => "AAAA",
        }
    }
}

/// Each LDNS is moved next to another site under every policy, so that nothing can be right from before.
fn nearest_site_by_every_kind_of_probe(family: Family) {
    let _alone = alone();
    let lab = map().up().expect("up");
    // The dead-band lets an advertised value be off by the tolerance: the smallest shows how exact the probes are.
    let group = start(&lab, ms(1));
    for (turn, policy) in POLICIES.iter().enumerate() {
        let _resolvers = set(&lab, turn, policy);
        for (i, ldns) in LDNS.iter().enumerate() {
            wait_for_site(&lab, ldns, family, nearest(turn, i));
            wait_for_record(&lab, &group, family.address(&lab, ldns), policy.measured_by);
            assert_eq!(answers(&lab, ldns, family), vec![family.service(&lab, nearest(turn, i)); 3]);
        }
    }
}

#[test]
fn each_ldns_gets_its_nearest_site_by_every_kind_of_probe_over_ipv4() {
    if can_run(&["dig"]) {
        nearest_site_by_every_kind_of_probe(Family::V4);
    }
}

#[test]
fn each_ldns_gets_its_nearest_site_by_every_kind_of_probe_over_ipv6() {
    if can_run(&["dig"]) {
        nearest_site_by_every_kind_of_probe(Family::V6);
    }
}

#[test]
fn answers_follow_a_change_of_distance_within_two_probe_intervals() {
    if !can_run(&["dig"]) {
        return;
    }
    let _alone = alone();
    let lab = map().up().expect("up");
    let group = start(&lab, ms(5));
    let _resolvers = set(&lab, 0, &POLICIES[0]);
    let ldns = LDNS[0];
    lab.set_link(ldns, "iad", ms(30));
    wait_for_site(&lab, ldns, Family::V4, "fra");
    wait_for_record(&lab, &group, lab.v4(ldns).into(), "ping");

    lab.set_link(ldns, "fra", ms(60));
    let changed = Instant::now();
    wait_for_site(&lab, ldns, Family::V4, "iad");
    let followed = changed.elapsed();
    assert!(followed <= 2 * INTERVAL, "after {followed:?}");
}

#[test]
fn a_change_within_the_tolerance_sends_no_row_and_one_beyond_it_does() {
    if !can_run(&["dig"]) {
        return;
    }
    let _alone = alone();
    let lab = map().up().expect("up");
    let group = start(&lab, ms(20));
    let _resolvers = set(&lab, 0, &POLICIES[0]);
    let ldns = LDNS[0];
    wait_for_site(&lab, ldns, Family::V4, "fra");
    wait_for_record(&lab, &group, lab.v4(ldns).into(), "ping");
    // What was still to be told is told: three rounds, and the rows that they might send.
    let three_rounds = || {
        lab.reset_stats();
        let replies = || lab.stats(ldns, "fra").icmp;
        eventually("three rounds of probes", PATIENCE, || (replies() >= 3).then_some(()));
    };
    three_rounds();
    let sent = || group.nodes().iter().map(rows_sent).collect::<Vec<_>>();
    let before = sent();

    lab.set_link(ldns, "fra", ms(13));
    three_rounds();
    assert_eq!(sent(), before, "12 ms to 26 ms differ by less than 20 ms");

    lab.set_link(ldns, "fra", ms(17));
    let fra = || rows_sent(group.node("fra/1"));
    eventually("12 ms to 34 ms are told to both peers", PATIENCE, || (fra() == before[0] + 2).then_some(()));
    assert_eq!(sent()[1..], before[1..], "the others have nothing to tell");
}

#[test]
fn the_configuration_is_right_for_every_node() {
    for id in NODES {
        let mut read = |_: &Path| Ok(config(ms(5)).into_bytes());
        let loaded = config::load(Path::new("gslb.toml"), &mut read, Some(id));
        let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(loaded.this_node().id.to_string(), id);
        assert_eq!(loaded.probe.interval, INTERVAL);
    }
}

#[test]
fn every_policy_lets_its_kind_of_probe_through_and_none_before_it() {
    if !can_run(&[]) {
        return;
    }
    let lab = map().up().expect("up");
    for (turn, policy) in POLICIES.iter().enumerate() {
        let _resolvers = set(&lab, turn, policy);
        for (i, ldns) in LDNS.iter().enumerate() {
            for address in [IpAddr::V4(lab.v4(ldns)), IpAddr::V6(lab.v6(ldns))] {
                let truth = lab.truth(address);
                assert_eq!(truth[0].0, nearest(turn, i));
                assert!(truth[1].1 > truth[0].1.map(|nearest| nearest + ms(50)), "{truth:?}");
                let measured = first_answer(&lab, &truth[0].0, address);
                assert_eq!(measured, policy.measured_by, "{ldns} {}", policy.name);
            }
        }
    }
}

/// The first kind of probe that is answered, by hand: what the product must find as well.
fn first_answer(lab: &Lab, site: &str, ldns: IpAddr) -> &'static str {
    let inside = |probe: &(dyn Fn() -> bool + Sync)| lab.in_namespace(site, probe).expect("namespace");
    if inside(&|| lab::ping(ldns, ms(400)).expect("no error").is_some()) {
        return "ping";
    }
    if inside(&|| udp_answers(ldns)) {
        return "dns-udp";
    }
    if inside(&|| tcp_answers(ldns)) { "dns-tcp" } else { "nothing" }
}

/// Whether a query for ". NS" gets a reply or a port unreachable.
fn udp_answers(ldns: IpAddr) -> bool {
    let any: IpAddr = if ldns.is_ipv6() { [0u16; 8].into() } else { [0u8; 4].into() };
    let socket = UdpSocket::bind((any, 0)).expect("bind");
    socket.set_read_timeout(Some(ms(400))).expect("timeout");
    socket.connect((ldns, 53)).expect("connect");
    socket.send(b"\x47\x11\0\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01").expect("sent");
    let mut reply = [0; 512];
    match socket.recv(&mut reply) {
        Ok(length) => reply[..2] == *b"\x47\x11" && length >= 12 && reply[3] & 15 == REFUSED,
        Err(error) => error.kind() == ErrorKind::ConnectionRefused,
    }
}

/// Whether a SYN gets a SYN+ACK or an RST.
fn tcp_answers(ldns: IpAddr) -> bool {
    match TcpStream::connect_timeout(&(ldns, 53).into(), ms(400)) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionRefused,
    }
}
