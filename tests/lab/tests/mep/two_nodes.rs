//! A site with two nodes: they share its LDNS out, and one takes the other's over.

use crate::Test;
use crate::sites::{NAME, PATIENCE, first, ms, pairs, pool, seconds, wait_until_meshed};
use lab::gslb::{Group, eventually, volley};
use lab::{Lab, Topology};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] =
    &[("each_ldns_is_probed_by_one_node_of_a_site_and_by_the_other_within_the_dead_interval", shared_out)];

const KEEPALIVE: Duration = Duration::from_secs(3);

/// From one probe round to the next.
const INTERVAL: Duration = Duration::from_secs(2);

const LDNS: u32 = 120;

const NODES: [(&str, &str); 3] = [("fra/1", "fra"), ("fra/2", "fra-2"), ("iad/1", "iad")];

fn config() -> String {
    "version = 1\n[group]\nname = \"lab\"\n[mep]\nkeepalive = \"3s\"\nmetrics_interval = \"500ms\"\nrtt_interval = \"500ms\"\n\
     [probe]\ninterval = \"2s\"\ntimeout = \"600ms\"\nnew_per_second = 1000\nper_prefix = 1000\n\
     [[sites]]\nname = \"fra\"\n[[sites]]\nname = \"iad\"\n\
     [[nodes]]\nname = \"fra/1\"\nmep = \"198.18.1.1:4353\"\n\
     [[nodes]]\nname = \"fra/2\"\nmep = \"198.18.2.1:4353\"\n\
     [[nodes]]\nname = \"iad/1\"\nmep = \"198.18.3.1:4353\"\n\
     [[services]]\nname = \"web-fra\"\nsite = \"fra\"\naddress = \"198.18.1.80\"\nport = 80\n\
     [[services]]\nname = \"web-iad\"\nsite = \"iad\"\naddress = \"198.18.3.80\"\nport = 80\n\
     [[vservers]]\nname = \"www\"\nservices = [\"web-fra\", \"web-iad\"]\n\
     [[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n\
     [[zones]]\nname = \"gslb.test\"\nrecords = '''\n\
     @   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\nns1 A   198.18.1.1\n'''\n"
        .to_owned()
}

/// Whom both nodes of the site ping within this time.
fn probed(lab: &Lab, within: Duration) -> [BTreeSet<IpAddr>; 2] {
    let places = ["fra", "fra-2"];
    places.iter().for_each(|place| lab.tap(place, "pool"));
    thread::sleep(within);
    places.map(|place| lab.take_tapped(place, "pool").iter().filter_map(|packet| pinged(packet)).collect())
}

/// The destination of an echo request over IPv4.
fn pinged(packet: &[u8]) -> Option<IpAddr> {
    let [version, protocol, icmp] = [0, 9, 20].map(|at| packet.get(at).copied());
    let destination: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (version? == 0x45 && protocol? == 1 && icmp? == 8).then(|| IpAddr::from(destination))
}

/// How many LDNS a node knows both sites' RTT of.
fn known(group: &Group<'_>, node: &str) -> usize {
    let page =
        group.node(node).get("/v1/ldns?limit=1000").and_then(|answer| answer.json()).unwrap_or_default();
    let rows = page["ldns"].as_array().cloned().unwrap_or_default();
    let whole = |row: &serde_json::Value| {
        row["sites"].as_array().is_some_and(|cells| cells.iter().all(|c| c["state"] == "known"))
    };
    rows.iter().filter(|row| whole(row)).count()
}

fn shared_out() {
    let plan = Topology::new("two-nodes").site("fra").host("fra-2").site("iad").pool("pool");
    let plan = plan.link("fra", "fra-2", ms(1)).link("fra", "iad", ms(40)).link("fra-2", "iad", ms(40));
    // Both nodes of the site are as far from everybody.
    let plan = plan.link("fra", "pool", ms(10)).link("fra-2", "pool", ms(10)).link("iad", "pool", ms(30));
    let lab = plan.up().expect("up");
    let ids: Vec<_> = NODES.iter().map(|(id, _)| *id).collect();
    let mut group = Group::prepare("lab", &config(), &ids).expect("certificates");
    group.start_nodes(&lab, &NODES, &[]).expect("three nodes");
    wait_until_meshed(&group);
    let ldns = pool(&lab, LDNS);
    let ask = |place: &str| {
        let server = IpAddr::V4(lab.v4(place));
        lab.in_namespace("pool", || volley(&ldns, server, NAME, seconds(2)))
            .expect("namespace")
            .expect("sockets")
    };
    ask("fra");
    for id in &ids {
        eventually(&format!("{id} knows all RTTs of both sites"), PATIENCE, || {
            (known(&group, id) == LDNS as usize).then_some(())
        });
    }

    // Past the first rounds, in which a node may still have been alone.
    thread::sleep(INTERVAL);
    let [one, two] = probed(&lab, INTERVAL * 2 + ms(500));
    let both: Vec<_> = one.intersection(&two).collect();
    println!(
        "two nodes: fra/1 probes {} LDNS, fra/2 {}, both of them {}; of {LDNS}",
        one.len(),
        two.len(),
        both.len()
    );
    assert!(both.is_empty(), "{both:?}");
    assert_eq!(one.len() + two.len(), LDNS as usize, "each is probed");
    assert!(one.len() > LDNS as usize / 4 && two.len() > LDNS as usize / 4);
    // All three nodes answer alike, whoever measured.
    let answers = ["fra", "fra-2", "iad"].map(&ask);
    assert!(answers[0] == answers[1] && answers[1] == answers[2]);

    group.node_mut("fra/2").kill().expect("killed");
    let killed = Instant::now();
    lab.tap("fra", "pool");
    let mut seen = BTreeSet::new();
    let taken = first(killed, seconds(20), || {
        seen.extend(lab.take_tapped("fra", "pool").iter().filter_map(|packet| pinged(packet)));
        lab.tap("fra", "pool");
        two.is_subset(&seen)
    });
    println!(
        "kill -9 of fra/2: all {} of its LDNS probed by fra/1 after {taken:.2?}; {}",
        two.len(),
        pairs(&group)
    );
    // A round may have been due just before, and the machine may be busy.
    let bound = KEEPALIVE + INTERVAL * 2;
    assert!(taken.is_some_and(|taken| taken <= bound), "{bound:?}");
    assert!(ask("iad") == answers[2], "nothing changes for anybody");

    let node = group.node_mut("fra/2");
    node.restart().expect("restarted");
    node.wait_until_ready();
    wait_until_meshed(&group);
    let back = Instant::now();
    let again = first(back, seconds(30), || {
        let [one, two] = probed(&lab, INTERVAL * 2 + ms(200));
        one.is_disjoint(&two) && one.len() + two.len() == LDNS as usize
    });
    println!("fra/2 back: shared out again after {again:.1?}");
    assert!(again.is_some());
}
