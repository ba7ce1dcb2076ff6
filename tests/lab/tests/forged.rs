//! Queries with forged sources: 200,000 of them eat no memory beyond the cap, make no reflector of the node, and keep nobody
//! else from being answered and measured (faults I-67, bar R4, threat T3).
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use lab::gslb::{Group, Node, Resolver, Transport, dig, eventually};
use lab::{Counts, Flood, Kind, Lab, Topology, can_run};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Entries of the LDNS table at most.
const CAP: u64 = 50_000;

/// Octets that the node may grow by for each entry of a full table: what the example configuration promises for four sites,
/// and a table that has just doubled its space.
const PER_ENTRY: u64 = 400;

/// Octets that may come on top, for queues and buffers.
const BESIDES: u64 = 16 << 20;

/// Probes a second, all kinds together; new LDNS a second; probes a second towards a /24 or a /56.
const PER_SECOND: u64 = 300;
const NEW_PER_SECOND: u64 = 100;
const PER_PREFIX: u64 = 2;

/// Forged queries in all, and how many are sent at once: as many as the queues on the way hold, so that a slow machine loses
/// few.
const QUERIES: u64 = 200_000;
const VOLLEY: u64 = 5_000;

/// Queries a second within a volley.
const RATE: u32 = 50_000;

/// From one probe round to the next.
const INTERVAL: Duration = Duration::from_secs(2);

/// For what must happen at some time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// A site, an honest LDNS beside it, and a pool whose addresses an attacker puts into his packets.
fn lab() -> Lab {
    let ms = Duration::from_millis;
    let plan =
        Topology::new("forged").site("fra").ldns("honest").pool("pool").host("mallory").default_link(ms(5));
    plan.link("fra", "honest", ms(10)).up().expect("up")
}

fn config() -> String {
    format!(
        "version = 1\n\
         [group]\nname = \"lab\"\n\
         [dns]\nudp_threads = 1\nudp_receive_buffer = 8388608\n\
         [probe]\ninterval = \"{}s\"\ntimeout = \"500ms\"\nper_second = {PER_SECOND}\nnew_per_second = {NEW_PER_SECOND}\n\
         per_prefix = {PER_PREFIX}\n\
         [ldns]\ncap = {CAP}\n\
         [[sites]]\nname = \"fra\"\n\
         [[nodes]]\nname = \"fra/1\"\nmep = \"198.18.1.1:4353\"\n\
         [[services]]\nname = \"web\"\nsite = \"fra\"\naddress = \"198.18.1.80\"\nport = 80\n\
         [[services]]\nname = \"web6\"\nsite = \"fra\"\naddress = \"2001:db8:1::80\"\nport = 80\n\
         [[vservers]]\nname = \"www\"\nservices = [\"web\", \"web6\"]\n\
         [[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n\
         [[zones]]\nname = \"gslb.test\"\nrecords = '''\n\
         @   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\nns1 A   198.18.1.1\n'''\n",
        INTERVAL.as_secs()
    )
}

/// The memory that is really there for the node, in octets.
fn resident(lab: &Lab) -> u64 {
    let [pid] = lab.process_ids("fra")[..] else { panic!("one process: {:?}", lab.process_ids("fra")) };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    1024 * line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
}

/// A number of `/metrics`, as it is named there.
fn metric(node: &Node<'_>, name: &str) -> u64 {
    let text = node.get("/metrics").expect("/metrics").body;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok());
    value.unwrap_or_else(|| panic!("no metric {name}")) as u64
}

/// UDP queries the node has read.
fn read(node: &Node<'_>) -> u64 {
    metric(node, "gslb_dns_requests_total{transport=\"udp\"}")
}

/// The RTT to the honest LDNS, if one is known.
fn honest_rtt(lab: &Lab, node: &Node<'_>) -> Option<Duration> {
    let row = node.get(&format!("/v1/ldns/{}", lab.v4("honest"))).ok()?.json().ok()?;
    let cell = &row["sites"][0];
    cell["rtt_us"].as_u64().filter(|_| cell["state"] == "known").map(Duration::from_micros)
}

/// Whether the honest LDNS is answered.
fn is_answered(lab: &Lab) -> bool {
    let answer = dig(lab, "honest", lab.v4("fra").into(), "www.gslb.test", "A", Transport::Udp);
    answer.is_ok_and(|data| data == ["198.18.1.80"])
}

/// Floods until the node has read `count` forged queries, and meanwhile asks honestly. Returns what went from the node to
/// the pool, and how long it took.
fn under_flood(lab: &Lab, node: &Node<'_>, flood: &Flood, count: u64) -> (Counts, Duration) {
    lab.reset_stats();
    let begun = Instant::now();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let honest = scope.spawn(|| {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                // A query may be lost in a full queue; a resolver asks again.
                assert!((0..3).any(|_| is_answered(lab)), "query {asked}");
                asked += 1;
                thread::sleep(Duration::from_millis(100));
            }
            asked
        });
        let until = read(node) + count;
        let mut volley = 0;
        while read(node) < until && !honest.is_finished() {
            volley += 1;
            let report = lab.flood("mallory", &flood.clone().count(VOLLEY).seed(volley)).expect("a flood");
            assert_eq!((report.sent, report.refused), (VOLLEY, 0));
            wait_until_read(node);
        }
        over.store(true, Ordering::Relaxed);
        assert!(honest.join().expect("honest answers") > 0);
    });
    (lab.stats("fra", "pool"), begun.elapsed())
}

/// Waits until nothing more comes: a volley is in no queue any more.
fn wait_until_read(node: &Node<'_>) {
    let mut last = 0;
    eventually("the node has read what came", PATIENCE, || {
        let now = read(node);
        (std::mem::replace(&mut last, now) == now).then_some(())
    });
}

/// No second sees more than the rate, so that many seconds begun see no more than so many times it.
fn most(per_second: u64, within: Duration) -> u64 {
    per_second * (within.as_secs() + 2)
}

#[test]
fn a_flood_of_forged_queries_costs_neither_memory_nor_probes_beyond_their_caps() {
    if !can_run(&["dig"]) {
        return;
    }
    let lab = lab();
    let group = Group::start(&lab, "lab", &config(), &["fra/1"]).expect("a node");
    let node = group.node("fra/1");
    let _resolver = Resolver::udp(&lab, "honest", 5).expect("resolver");
    let wait_for_honest = || {
        eventually("the honest LDNS is measured", PATIENCE, || {
            assert!(is_answered(&lab));
            honest_rtt(&lab, node)
        })
    };
    wait_for_honest();
    let before = resident(&lab);
    let [v4, v6] = [IpAddr::V4(lab.v4("fra")), IpAddr::V6(lab.v6("fra"))].map(|fra| SocketAddr::new(fra, 53));
    let flood = |sources, target| Flood::new(sources, target, "www.gslb.test").rate(RATE);

    // One network: it gets no more than its share, however many of its addresses are forged.
    let one_network = lab.prefix_v4("pool").to_string().replace("/16", "/24").parse().expect("a prefix");
    let (counts, took) = under_flood(&lab, node, &flood(one_network, v4), QUERIES / 10);
    assert!(counts.pings <= most(PER_PREFIX, took), "{counts:?} in {took:?}");

    // Everybody: first victims that answer pings, then, over IPv6, victims that answer nothing.
    for (sources, target, silent) in [(lab.prefix_v4("pool"), v4, false), (lab.prefix_v6("pool"), v6, true)] {
        lab.drop_kinds("pool", if silent { &[Kind::Icmp, Kind::Udp, Kind::Tcp] } else { &[] });
        let sent = || metric(node, "gslb_probes_sent_total{kind=\"ping\"}");
        let pings_before = sent();
        let (counts, took) = under_flood(&lab, node, &flood(sources, target), QUERIES / 2);
        // Probes of all kinds: queries go to port 53, replies to ports above 1023.
        let probes = counts.pings + counts.requests + counts.connects;
        assert!(probes > 0 && probes <= most(PER_SECOND, took), "{counts:?} in {took:?}");
        // The node counts what it sends, here and to the honest LDNS, and what was under way when counting began.
        assert!(counts.pings.abs_diff(sent() - pings_before) <= 2 * PER_SECOND, "{counts:?}");
        assert!(metric(node, "gslb_ldns_rows") <= CAP && metric(node, "gslb_probed_ldns") <= CAP);
    }

    let grown = resident(&lab).saturating_sub(before);
    assert!(grown <= CAP * PER_ENTRY + BESIDES, "{} MiB", grown >> 20);
    assert!(metric(node, "gslb_probed_ldns") > CAP / 2, "the table was really filled");
    // The honest LDNS was pushed out by none of them.
    let known = honest_rtt(&lab, node).expect("still measured");
    assert!(known >= Duration::from_millis(19), "{known:?}");
    assert_eq!(node.get("/ready").expect("/ready").status, 200);
    assert!(!node.log_tail().contains("panick"), "{}", node.log_tail());
}
