//! A group of three nodes on loopback, each a process of its own.

use super::{Process, free_ports};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

pub(crate) const SITES: [&str; 3] = ["fra", "ams", "sin"];

/// What each node takes: DNS, MEP, admin.
const PORTS: u16 = 3;

/// The nodes fra/1, ams/1 and sin/1; killed when it is dropped.
pub(crate) struct Group {
    pub(crate) nodes: Vec<Process>,
    port: u16,
    folder: tempfile::TempDir,
}

impl Group {
    /// Starts all of them, with certificates of one CA, and awaits that every node has a session with both others.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// The same with these lines in the table `mep`.
    pub(crate) fn start_with(mep: &str) -> Self {
        let mut group =
            Group { nodes: Vec::new(), port: free_ports(3 * PORTS), folder: tempfile::tempdir().unwrap() };
        let pki = group.path("pki");
        let pki = pki.to_str().unwrap();
        assert!(Process::start(&["pki", "init", pki, "--group", "test"]).wait(SOON).success());
        for (index, site) in SITES.iter().enumerate() {
            let node = format!("{site}/1");
            assert!(Process::start(&["pki", "issue", pki, &node]).wait(SOON).success());
            std::fs::write(group.path(site), group.text(index, mep)).unwrap();
        }
        group.nodes = (0..SITES.len()).map(|index| group.run(index)).collect();
        for node in 0..SITES.len() {
            group.await_peers(node, "two sessions", |peers| {
                peers.len() == 2
                    && peers.iter().all(|peer| peer["state"] == "up" && !peer["snapshot_in_ms"].is_null())
            });
        }
        group
    }

    /// Starts one of them, again if it has ended.
    pub(crate) fn run(&self, index: usize) -> Process {
        Process::start(&["--log", "error", "run", self.path(SITES[index]).to_str().unwrap()])
    }

    pub(crate) fn dns(&self, index: usize) -> SocketAddr {
        self.address(index, 0)
    }

    pub(crate) fn mep(&self, index: usize) -> SocketAddr {
        self.address(index, 1)
    }

    pub(crate) fn admin(&self, index: usize) -> SocketAddr {
        self.address(index, 2)
    }

    /// A command of the command line, asked of this node.
    pub(crate) fn ask(&self, index: usize, command: &[&str]) -> Process {
        let admin = self.admin(index).to_string();
        Process::start(&[&["--admin", &admin], command].concat())
    }

    /// What a node says of its peers; nothing while it does not answer.
    pub(crate) fn peers(&self, index: usize) -> Vec<Value> {
        self.exchange(index)["peers"].as_array().cloned().unwrap_or_default()
    }

    /// All that a node says of the exchange; null while it does not answer.
    pub(crate) fn exchange(&self, index: usize) -> Value {
        let mut asked = self.ask(index, &["--json", "peers"]);
        asked.wait(SOON);
        serde_json::from_str(&asked.stdout()).unwrap_or_default()
    }

    /// Waits until what a node says of its peers is so.
    pub(crate) fn await_peers(&self, index: usize, what: &str, is_so: impl Fn(&[Value]) -> bool) {
        let end = Instant::now() + SOON;
        loop {
            let peers = self.peers(index);
            if is_so(&peers) {
                return;
            }
            assert!(Instant::now() < end, "no {what} at {} within {SOON:?}: {peers:#?}", SITES[index]);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn address(&self, index: usize, service: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port + PORTS * u16::try_from(index).unwrap() + service).into()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, index: usize, more: &str) -> String {
        let (site, dns, mep, admin) = (SITES[index], self.dns(index), self.mep(index), self.admin(index));
        let mut text = format!(
            r#"version = 1
node = "{site}/1"
[group]
name = "test"
[dns]
listen = ["{dns}"]
[mep]
listen = "{mep}"
{more}
[admin]
listen = "{admin}"
[[zones]]
name = "gslb.test"
records = '''
@   SOA ns1 hostmaster 1 1h 15m 1w 5s
    NS  ns1
ns1 A   127.0.0.1
'''
"#
        );
        for (index, site) in SITES.iter().enumerate() {
            let mep = self.mep(index);
            text +=
                &format!("[[sites]]\nname = \"{site}\"\n[[nodes]]\nname = \"{site}/1\"\nmep = \"{mep}\"\n");
        }
        text
    }
}
