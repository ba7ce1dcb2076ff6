//! Two sites, each a real node with an LB virtual server before two real HTTP services: what clients, resolvers and operators
//! see when the services behind a VIP die (faults I-54, I-55, I-72).
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod process;

use process::{Process, ask, free_ports, try_ask};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

/// A site's DNS, MEP, admin and VIP; then two services each.
const PORTS: u16 = 12;

/// An HTTP service that says its name; it stops listening when dropped.
struct Service {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Service {
    fn start(address: SocketAddr, name: &'static str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                std::thread::spawn(move || answer(stream, name));
            }
        });
        Service { address, stop, thread: Some(thread) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// One request a connection; a body of its name.
fn answer(mut stream: TcpStream, name: &str) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let length = name.len();
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{name}");
}

/// Status and body of a request.
fn http(address: SocketAddr, request: &str) -> (u16, String) {
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = asked().unwrap_or_default();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

struct Group {
    port: u16,
    folder: tempfile::TempDir,
    nodes: Vec<Process>,
}

impl Group {
    fn start() -> Self {
        let mut group = Group::prepared("200ms");
        group.nodes = (0..2).map(|site| group.run(site)).collect();
        group
    }

    /// With so long between two checks.
    fn prepared(interval: &str) -> Self {
        let group =
            Group { port: free_ports(PORTS), folder: tempfile::tempdir().unwrap(), nodes: Vec::new() };
        let pki = group.folder.path().join("pki");
        let pki = pki.to_str().unwrap();
        assert!(Process::start(&["pki", "init", pki, "--group", "test"]).wait(SOON).success());
        for site in ["a", "b"] {
            assert!(Process::start(&["pki", "issue", pki, &format!("{site}/1")]).wait(SOON).success());
        }
        std::fs::write(group.folder.path().join("gslb.toml"), group.text(interval)).unwrap();
        group
    }

    fn run(&self, site: usize) -> Process {
        let file = self.folder.path().join("gslb.toml");
        let node = ["a/1", "b/1"][site];
        Process::start(&["--log", "error", "run", file.to_str().unwrap(), "--node", node])
    }

    fn at(&self, site: usize, which: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port + 4 * u16::try_from(site).unwrap() + which).into()
    }

    fn dns(&self, site: usize) -> SocketAddr {
        self.at(site, 0)
    }

    fn admin(&self, site: usize) -> SocketAddr {
        self.at(site, 2)
    }

    /// Where clients go that were answered it.
    fn vip(&self, site: usize) -> SocketAddr {
        (vip(site), self.at(site, 3).port()).into()
    }

    fn service(&self, site: usize, n: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port + 8 + 2 * u16::try_from(site).unwrap() + n).into()
    }

    fn text(&self, interval: &str) -> String {
        let mut text = "version = 1\n[group]\nname = \"test\"\n[dns]\nudp_threads = 1\n[probe]\norder = [\"dns-tcp\"]\n\
             [[monitors]]\nname = \"web\"\nkind = \"http\"\ninterval = \"INTERVAL\"\ntimeout = \"150ms\"\nfall = 2\n\
             [[zones]]\nname = \"gslb.test\"\nrecords = '''\n@   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\n\
             ns1 A   127.0.0.1\n'''\n"
            .replace("INTERVAL", interval);
        for (site, name) in ["a", "b"].iter().enumerate() {
            let (dns, mep, admin) = (self.dns(site), self.at(site, 1), self.admin(site));
            let (vip, port) = (vip(site), self.vip(site).port());
            write!(
                text,
                "[[sites]]\nname = \"{name}\"\n\
                 [[nodes]]\nname = \"{name}/1\"\nmep = \"{mep}\"\nmep_listen = \"{mep}\"\ndns_listen = [\"{dns}\"]\n\
                 admin_listen = \"{admin}\"\n\
                 [[lb_vservers]]\nname = \"front-{name}\"\nsite = \"{name}\"\nlisten = [\"{vip}:{port}\"]\n\
                 method = \"least_connections\"\nservices = [\"{name}1\", \"{name}2\"]\n\
                 [[services]]\nname = \"vip-{name}\"\nsite = \"{name}\"\naddress = \"{vip}\"\nport = {port}\n\
                 lb_vserver = \"front-{name}\"\n"
            )
            .unwrap();
            for n in 0..2 {
                write!(
                    text,
                    "[[services]]\nname = \"{name}{}\"\nsite = \"{name}\"\naddress = \"127.0.0.1\"\nport = {}\nmonitors = [\"web\"]\n",
                    n + 1,
                    self.service(site, n).port()
                )
                .unwrap();
            }
        }
        text + "[[vservers]]\nname = \"www\"\nmethod = \"source_ip_hash\"\nservices = [\"vip-a\", \"vip-b\"]\n\
                [[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n"
    }

    fn services(&self, site: usize) -> [Service; 2] {
        let names = [["a1", "a2"], ["b1", "b2"]][site];
        [0, 1].map(|n| Service::start(self.service(site, n), names[usize::from(n)]))
    }

    /// What a node says of a service.
    fn seen(&self, site: usize, service: &str) -> Value {
        let (_, body) = http(self.admin(site), "GET /v1/services");
        let all: Value = serde_json::from_str(&body).unwrap_or_default();
        let found = all["services"].as_array().and_then(|all| all.iter().find(|s| s["service"] == service));
        found.cloned().unwrap_or_default()
    }

    fn answer(&self, site: usize, from: Ipv4Addr) -> Option<Ipv4Addr> {
        ask(from, self.dns(site), "www.gslb.test").first().copied()
    }
}

fn vip(site: usize) -> Ipv4Addr {
    [Ipv4Addr::new(127, 8, 0, 1), Ipv4Addr::new(127, 8, 0, 2)][site]
}

/// Waits until it is so; how long that took.
fn until(what: &str, limit: Duration, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

#[test]
fn a_site_whose_services_die_behind_its_vip_is_answered_nowhere_within_seconds() {
    let group = Group::start();
    let mut behind_a = group.services(0).map(Some);
    let _behind_b = group.services(1);
    for site in 0..2 {
        for service in ["vip-a", "vip-b"] {
            until("up everywhere", SOON, || group.seen(site, service)["state"] == "up");
        }
    }
    assert_eq!(group.seen(0, "vip-a")["judge"], "lb_vserver");

    // A resolver that is sent to a by both nodes.
    let mut resolvers = (1..200).map(|n| Ipv4Addr::new(127, 9, 0, n));
    let resolver = resolvers.find(|r| group.answer(1, *r) == Some(vip(0))).unwrap();
    assert_eq!(group.answer(0, resolver), Some(vip(0)));
    let names: Vec<String> = (0..20).map(|_| http(group.vip(0), "GET /").1).collect();
    assert_eq!(["a1", "a2"].map(|name| names.iter().filter(|n| *n == name).count()), [10, 10], "{names:?}");
    let told = |site: usize| group.seen(site, "vip-a")["traffic"]["requests"].as_u64();
    until("the peer knows the traffic", SOON, || told(1) >= Some(20) && told(0) >= Some(20));

    // One of two dies: nobody is sent elsewhere, nobody sees an error.
    behind_a[0] = None;
    assert!((0..20).all(|_| http(group.vip(0), "GET /") == (200, "a2".to_owned())));
    assert_eq!(group.answer(1, resolver), Some(vip(0)));

    behind_a[1] = None;
    let killed = Instant::now();
    let there =
        until("b answers itself", Duration::from_secs(5), || group.answer(1, resolver) == Some(vip(1)));
    let here = killed.elapsed();
    until("a answers b", Duration::from_secs(5), || group.answer(0, resolver) == Some(vip(1)));
    println!(
        "I-72: all behind the VIP of a dead: b answers its own VIP after {there:?} ({here:?} since the last died)"
    );
    assert_eq!(group.seen(1, "vip-a")["state"], "down");
    let reason = group.seen(0, "vip-a")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("no service is up"), "{reason}");
    assert_eq!(http(group.vip(0), "GET /").0, 503);

    let again = Service::start(group.service(0, 1), "a2");
    let back = until("a again", SOON, || group.answer(1, resolver) == Some(vip(0)));
    println!("I-72: one of them back: a is answered again after {back:?}");
    assert_eq!(http(group.vip(0), "GET /"), (200, "a2".to_owned()));
    drop(again);
}

/// Faults I-54: after a restart nothing is taken for up or down before the first check, which runs at once and not after an
/// interval; a dead site is not offered after it, and every query is answered meanwhile.
#[test]
fn a_node_that_is_restarted_before_dead_services_offers_them_to_nobody_once_checked() {
    let mut group = Group::prepared("5s");
    let _behind_b = group.services(1);
    group.nodes = (0..2).map(|site| group.run(site)).collect();
    for site in 0..2 {
        until("b is up", SOON, || group.seen(site, "vip-b")["state"] == "up");
        until("a is down", SOON, || group.seen(site, "vip-a")["state"] == "down");
    }
    group.nodes.remove(0);
    group.nodes.insert(0, group.run(0));
    // 20 queries a second from the first bind on, each from another resolver.
    let (mut bound, mut answers) = (None, Vec::new());
    let begun = Instant::now();
    for n in (0u8..=255).cycle() {
        let asked = Instant::now();
        let answer = try_ask(Ipv4Addr::new(127, 9, 1, n), group.dns(0), "www.gslb.test");
        if answer.is_some() || bound.is_some() {
            let first = *bound.get_or_insert(asked);
            answers.push((asked - first, answer));
        }
        if bound.is_some_and(|first| first.elapsed() > Duration::from_secs(4)) {
            break;
        }
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(50).saturating_sub(asked.elapsed()));
    }
    let of = |address: Ipv4Addr| answers.iter().filter(move |(_, a)| a.as_deref() == Some(&[address][..]));
    let last_dead = of(vip(0)).next_back().map(|(at, _)| *at);
    println!(
        "I-54: checks 5 s apart, 20 q/s from the first bind: {} answers, {} of the dead site, the last after {last_dead:?}",
        answers.len(),
        of(vip(0)).count()
    );
    assert!(
        answers.len() > 40 && answers.iter().all(|(_, a)| a.as_ref().is_some_and(|a| !a.is_empty())),
        "{answers:?}"
    );
    assert!(last_dead.is_none_or(|at| at < Duration::from_secs(1)), "{last_dead:?}");
    assert!(of(vip(1)).count() > 20, "{answers:?}");
}

/// A service of the API that something was asked of.
fn change(group: &Group, site: usize, service: &str, what: &str) {
    let (status, body) = http(group.admin(site), &format!("POST /v1/services/{service}/{what}"));
    assert_eq!(status, 200, "{service} {what}: {body}");
}

#[test]
fn a_service_is_drained_and_taken_away_under_load_without_a_failed_request_and_a_site_goes_to_maintenance() {
    let group = Group::start();
    let mut behind_a = group.services(0).map(Some);
    let _behind_b = group.services(1);
    for site in 0..2 {
        until("up everywhere", SOON, || group.seen(site, "vip-a")["state"] == "up");
    }
    let (vip, stop) = (group.vip(0), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut statuses = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    statuses.push(http(vip, "GET /").0);
                }
                statuses
            })
        })
        .collect();
    let live = |service: &str| group.seen(0, service)["behind"][0]["live"].clone();
    until("load", SOON, || live("a1")["requests"].as_u64() >= Some(50));
    change(&group, 0, "a1", "drain?seconds=30");
    until("drained", SOON, || live("a1")["out"] == "draining" && live("a1")["active"] == 0);
    let drained = live("a1");
    behind_a[0] = None;
    let more = live("a2")["requests"].as_u64().unwrap() + 50;
    until("the other has it all", SOON, || live("a2")["requests"].as_u64() >= Some(more));
    assert!(drained["drain_left_ms"].as_u64().is_some_and(|left| (1..=30_000).contains(&left)), "{drained}");
    assert_eq!(live("a1")["requests"], drained["requests"]);
    stop.store(true, Ordering::Relaxed);
    let statuses: Vec<u16> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    let failed = statuses.iter().filter(|status| **status != 200).count();
    println!("drain under load: {} requests, {failed} failed", statuses.len());
    assert_eq!(failed, 0);

    // Faults I-72: in maintenance.
    change(&group, 0, "a2", "disable");
    let down = until("the peer knows", Duration::from_secs(3), || group.seen(1, "vip-a")["state"] == "down");
    println!("I-72: all disabled: down at the peer after {down:?}");
    assert_eq!(http(vip, "GET /").0, 503);
    change(&group, 0, "a2", "enable");
    until("the peer knows", Duration::from_secs(3), || group.seen(1, "vip-a")["state"] == "up");
    assert_eq!(http(vip, "GET /"), (200, "a2".to_owned()));
    // What is published waits for company; peers are told at once.
    let is_up = "gslb_lb_up{lb_vserver=\"front-a\"} 1.0";
    until("metrics", SOON, || http(group.admin(0), "GET /metrics").1.contains(is_up));
}
