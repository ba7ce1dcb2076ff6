//! The main job, end to end: three sites, three resolvers, real probes, and `dig` gets the nearest site.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use lab::gslb::Resolver;
use lab::{Kind, Lab, Topology, can_run};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

const SITES: [&str; 3] = ["fra", "iad", "sin"];
const NODES: [&str; 3] = ["fra/1", "iad/1", "sin/1"];
const LDNS: [&str; 3] = ["ldns-eu", "ldns-us", "ldns-as"];

/// From one probe round to the next.
const INTERVAL: Duration = Duration::from_secs(2);

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

const POLICIES: [Policy; 5] = [
    Policy { name: "answers ping", drops: &[], serves: Serves::Nothing, measured_by: "ping" },
    Policy {
        name: "answers DNS over UDP",
        drops: &[Kind::Icmp],
        serves: Serves::Udp(REFUSED),
        measured_by: "dns-udp",
    },
    Policy {
        name: "answers DNS over TCP",
        drops: &[Kind::Icmp, Kind::Udp],
        serves: Serves::Tcp,
        measured_by: "dns-tcp",
    },
    Policy {
        name: "says port unreachable",
        drops: &[Kind::Icmp],
        serves: Serves::Nothing,
        measured_by: "dns-udp",
    },
    Policy {
        name: "resets",
        drops: &[Kind::Icmp, Kind::Udp],
        serves: Serves::Nothing,
        measured_by: "dns-tcp",
    },
];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The sites as far from each other as on the map; every LDNS is far from all of them.
fn map() -> Topology {
    let sites = SITES.iter().fold(Topology::new("three-sites"), |map, site| map.site(site));
    let all = LDNS.iter().fold(sites, |map, ldns| map.ldns(ldns));
    all.link("fra", "iad", ms(42)).link("fra", "sin", ms(80)).link("iad", "sin", ms(110)).default_link(FAR)
}

/// Moves every LDNS next to another site, `turn` by `turn`, and gives it this policy. The resolvers serve while they
/// are kept.
fn set(lab: &Lab, turn: usize, policy: &Policy) -> Vec<Resolver> {
    let mut resolvers = Vec::new();
    for (i, ldns) in LDNS.iter().enumerate() {
        for site in SITES {
            let near = ms(6 + 3 * i as u64);
            lab.set_link(ldns, site, if site == nearest(turn, i) { near } else { FAR });
        }
        lab.drop_kinds(ldns, policy.drops);
        resolvers.extend(match policy.serves {
            Serves::Nothing => None,
            Serves::Udp(rcode) => Some(Resolver::udp(lab, ldns, rcode).expect("resolver")),
            Serves::Tcp => Some(Resolver::tcp(lab, ldns).expect("resolver")),
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
         [mep]\nrtt_interval = \"1s\"\n\
         [probe]\ninterval = \"{}s\"\ntimeout = \"400ms\"\nper_prefix = 10\n",
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
