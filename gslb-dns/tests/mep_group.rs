//! Sixteen real nodes on one machine: how they meet, and what one of them does to the others when it restarts (faults I-49).
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use process::{Process, ask, free_ports};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const NODES: u16 = 16;

/// LDNS in the tables.
const LDNS: u16 = 500;

/// For what must happen at some time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// DNS, MEP and admin of each node, and a port on which nobody listens, so that probes find out at once.
const PORTS: u16 = 3 * NODES + 1;

struct Group {
    port: u16,
    folder: tempfile::TempDir,
    nodes: Vec<Process>,
}

impl Group {
    fn start() -> Self {
        let (port, folder) = (free_ports(PORTS), tempfile::tempdir().unwrap());
        let mut group = Group { port, folder, nodes: Vec::new() };
        let pki = group.path("pki");
        let pki = pki.to_str().unwrap();
        assert!(Process::start(&["pki", "init", pki, "--group", "test"]).wait(PATIENCE).success());
        for index in 0..NODES {
            assert!(Process::start(&["pki", "issue", pki, &id(index)]).wait(PATIENCE).success());
        }
        std::fs::write(group.path("gslb.toml"), group.text()).unwrap();
        group.nodes = (0..NODES).map(|index| group.run(index)).collect();
        group
    }

    fn run(&self, index: u16) -> Process {
        let file = self.path("gslb.toml");
        Process::start(&["--log", "error", "run", file.to_str().unwrap(), "--node", &id(index)])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self, index: u16, service: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port + 3 * index + service).into()
    }

    fn text(&self) -> String {
        let closed = self.port + PORTS - 1;
        let mut text = format!(
            "version = 1\n[group]\nname = \"test\"\n[dns]\nudp_threads = 1\n\
             [probe]\norder = [\"dns-tcp\"]\nport = {closed}\ninterval = \"20s\"\nper_second = 200\nper_prefix = 1000\n\
             new_per_second = 1000\n[ldns]\ninclude = [\"127.0.0.0/8\"]\n\
             [[zones]]\nname = \"gslb.test\"\nrecords = '''\n@   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\n\
             ns1 A   127.0.0.1\n'''\n"
        );
        let mut services = Vec::new();
        for index in 0..NODES {
            let [dns, mep, admin] = [0, 1, 2].map(|service| self.address(index, service));
            write!(
                text,
                "[[sites]]\nname = \"s{index}\"\n\
                 [[nodes]]\nname = \"s{index}/1\"\nmep = \"{mep}\"\nmep_listen = \"{mep}\"\ndns_listen = [\"{dns}\"]\n\
                 admin_listen = \"{admin}\"\n\
                 [[services]]\nname = \"web{index}\"\nsite = \"s{index}\"\naddress = \"192.0.2.{}\"\nport = 80\n",
                index + 1
            )
            .unwrap();
            services.push(format!("\"web{index}\""));
        }
        text + &format!(
            "[[vservers]]\nname = \"www\"\nservices = [{}]\n[[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n",
            services.join(", ")
        )
    }

    /// The body of an answer of a node's admin API; nothing while there is none.
    fn get(&self, index: u16, path: &str) -> String {
        let asked = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.address(index, 2))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
        };
        asked().unwrap_or_default()
    }

    fn peers(&self, index: u16) -> Vec<Value> {
        let answer: Value = serde_json::from_str(&self.get(index, "/v1/peers")).unwrap_or_default();
        answer["peers"].as_array().cloned().unwrap_or_default()
    }

    /// Whether a node has whole sessions with all others.
    fn is_synced(&self, index: u16) -> bool {
        let peers = self.peers(index);
        let whole = |peer: &Value| peer["state"] == "up" && !peer["snapshot_in_ms"].is_null();
        peers.len() == usize::from(NODES) - 1 && peers.iter().all(whole)
    }

    /// Waits until it is so of every node; how long that took.
    fn wait(&self, what: &str, is_so: impl Fn(u16) -> bool) -> Duration {
        let begun = Instant::now();
        for index in 0..NODES {
            while !is_so(index) {
                assert!(
                    begun.elapsed() < PATIENCE,
                    "{what}: not at {} within {PATIENCE:?}: {:#?}",
                    id(index),
                    self.peers(index)
                );
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        begun.elapsed()
    }

    /// How many sites a node knows the RTT of, all LDNS together.
    fn known(&self, index: u16) -> usize {
        let page: Value = serde_json::from_str(&self.get(index, "/v1/ldns?limit=1000")).unwrap_or_default();
        let cells = page["ldns"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|row| row["sites"].as_array().cloned().unwrap_or_default());
        cells.filter(|cell| cell["state"] == "known").count()
    }

    /// Memory that is really there for each node, in MiB.
    fn resident(&self) -> Vec<u64> {
        let of = |process: &Process| {
            let status =
                std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
            line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
        };
        self.nodes.iter().map(of).collect()
    }
}

fn id(index: u16) -> String {
    format!("s{index}/1")
}

/// Of each pair that has more or fewer than one dialler: how many ends say that they dialled.
fn odd_pairs(group: &Group) -> BTreeMap<(String, String), usize> {
    let mut diallers = BTreeMap::new();
    for index in 0..NODES {
        for peer in group.peers(index) {
            let mut ends = [id(index), peer["peer"].as_str().unwrap_or_default().to_owned()];
            ends.sort();
            let dialled = peer["reason"].as_str().unwrap_or_default().contains("this node dialled");
            let [a, b] = ends;
            *diallers.entry((a, b)).or_default() += usize::from(dialled);
        }
    }
    diallers.retain(|_, count| *count != 1);
    diallers
}

#[test]
fn sixteen_nodes_meet_once_each_and_one_that_restarts_is_dialled_by_few_at_a_time() {
    let begun = Instant::now();
    let mut group = Group::start();
    let meshed = group.wait("whole sessions", |index| group.is_synced(index));
    println!(
        "I-49: {NODES} nodes on loopback meshed after {:.1?} ({meshed:.1?} of waiting)",
        begun.elapsed()
    );

    let source = |n: u16| Ipv4Addr::new(127, 1, (n >> 8) as u8, n as u8);
    for n in 0..LDNS {
        assert_eq!(ask(source(n), group.address(n % NODES, 0), "www.gslb.test").len(), 1);
    }
    // A row of 16 cells each; one late probe in a hundred is none of this test's business.
    let whole = usize::from(LDNS) * usize::from(NODES) * 99 / 100;
    let learnt = group.wait("RTTs of all sites", |index| group.known(index) >= whole);
    let before = group.resident();
    println!(
        "I-49: {LDNS} LDNS known everywhere {learnt:.1?} after they asked; MiB of each node: {before:?}"
    );
    let odd = odd_pairs(&group);
    assert!(odd.is_empty(), "one connection per pair, dialled by one end: {odd:?}");
    let downs = |index: u16| group.peers(index).iter().filter_map(|peer| peer["downs"].as_u64()).sum::<u64>();
    let lost: u64 = (0..NODES).map(downs).sum();
    assert_eq!(lost, 0, "no session was lost while they met");

    // Kill -9, and again at once.
    group.nodes.pop();
    let restarted = Instant::now();
    let last = group.run(NODES - 1);
    group.nodes.push(last);
    let synced = group.wait("whole sessions", |index| group.is_synced(index) && boots(&group, index));
    let table = group.wait("the table", |index| group.known(index) >= whole);
    // When each of the others was up again, by the clock of the restarted node.
    let now = restarted.elapsed();
    let ages = group
        .peers(NODES - 1)
        .iter()
        .filter_map(|peer| peer["state_age_ms"].as_u64())
        .map(Duration::from_millis)
        .collect::<Vec<_>>();
    let mut met: Vec<Duration> = ages.iter().map(|age| now.saturating_sub(*age)).collect();
    met.sort();
    let spread = met[met.len() - 1] - met[0];
    let after = group.resident();
    println!(
        "I-49: one restarted: sessions established {:.2?} to {:.2?} after its start, spread over {spread:.2?}; all whole after \
         {synced:.1?}, its table {table:.1?} later; MiB {after:?}",
        met[0],
        met[met.len() - 1]
    );
    let closest = met.windows(5).map(|five| five[4] - five[0]).min().unwrap();
    println!("I-49: the closest five of {} came within {closest:.2?}", met.len());
    assert!(spread >= Duration::from_millis(500), "not all at once: {met:.2?}");
    assert!(odd_pairs(&group).is_empty(), "{:?}", odd_pairs(&group));
    // Syncing with fifteen at once costs what the table costs, not fifteen of them.
    let most = before.iter().max().unwrap();
    assert!(after.iter().all(|now| *now <= most + 24), "{before:?} to {after:?} MiB");
}

/// Whether a node has sessions with the process of the last node that runs now.
fn boots(group: &Group, index: u16) -> bool {
    index == NODES - 1 || group.peers(index).last().is_some_and(|peer| peer["sessions"].as_u64() >= Some(2))
}
