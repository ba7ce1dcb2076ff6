//! A group of four `gslb-dns` nodes, one of which is measured: it decides by the RTTs that all four have measured.

use crate::process::{Process, Role};
use crate::round::Server;
use crate::start::Starter;
use crate::{Cpus, Failure, Interrupt, NAME, SOURCES, Tally, http, ldns, ports};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The group's configuration; words in capitals stand for ports.
const GROUP: &str = include_str!("group.toml");

/// The nodes, each the only one of its site.
pub(crate) const NODES: [&str; 4] = ["s1/1", "s2/1", "s3/1", "s4/1"];

/// How long starting and measuring may take: sessions, one round of probes, and the patience with pending sites.
const WARM_UP: Duration = Duration::from_secs(40);

/// Replies without a decision by RTT that are no fault: those between two looks at the counters.
const SLACK: u64 = 1000;

/// A running group.
pub struct Gslb {
    measured: Process,
    /// They end before the measured one.
    _beside: Vec<Process>,
    ports: Ports,
    decisions: Decisions,
}

/// The same on the address of each node.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) dns: u16,
    pub(crate) mep: u16,
    pub(crate) admin: u16,
    pub(crate) closed: u16,
}

impl Gslb {
    /// Writes a group's files to `folder`; how to start its first node, alone.
    pub fn starter(program: &Path, folder: &Path) -> Result<Starter, Failure> {
        let ports = Ports::free().map_err(Failure::system("a free port"))?;
        let file = prepare(program, folder, ports)?;
        let words = ["--log", "warn", "run", &file.to_string_lossy(), "--node", NODES[0]];
        Ok(Starter {
            name: Self::NAME,
            program: program.to_owned(),
            arguments: words.map(str::to_owned).into(),
            folder: folder.to_owned(),
            address: SocketAddrV4::new(address(0), ports.dns),
        })
    }

    /// Starts the group with files in `folder`, and waits until every source of the load is measured by every site.
    pub fn start(program: &Path, folder: &Path, cpus: Cpus, interrupt: &Interrupt) -> Result<Self, Failure> {
        let ports = Ports::free().map_err(Failure::system("a free port"))?;
        let file = prepare(program, folder, ports)?;
        let start = |index: usize, node: &str| {
            let own = folder.join(node.replace('/', "-"));
            fs::create_dir_all(&own).map_err(Failure::system(own.display().to_string()))?;
            let mut command = Command::new(program);
            command.args(["--log", "warn", "run"]).arg(&file).args(["--node", node]);
            let role = if index == 0 { Role::Measured } else { Role::Beside };
            Process::start("gslb-dns", &mut command, &own, cpus, role)
        };
        let mut nodes = NODES.iter().enumerate().map(|(index, node)| start(index, node));
        let measured = nodes.next().transpose()?.ok_or(Failure::Silent("gslb-dns"))?;
        let beside = nodes.collect::<Result<_, _>>()?;
        let mut group = Gslb { measured, _beside: beside, ports, decisions: Decisions::default() };
        group.warm(interrupt)?;
        group.decisions = group.count()?;
        Ok(group)
    }

    /// Asks from every source until the answers are decided by the RTTs of all sites.
    fn warm(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let (dns, admin) = (self.address(), self.admin());
        self.measured.wait_until(WARM_UP, interrupt, || {
            (0..SOURCES).find_map(|source| {
                let why = ask(source, dns).and_then(|()| sites_unknown(source, admin));
                match why {
                    Ok(0) => None,
                    Ok(sites) => Some(format!("{sites} sites don't know {}", ldns(source))),
                    Err(error) => Some(error.to_string()),
                }
            })
        })
    }

    fn admin(&self) -> SocketAddrV4 {
        SocketAddrV4::new(address(0), self.ports.admin)
    }

    fn count(&self) -> Result<Decisions, Failure> {
        let metrics = http::get(self.admin(), "/metrics").map_err(Failure::system("the admin API"))?;
        Ok(Decisions { by_rtt: decisions(&metrics, "rtt"), by_backup: decisions(&metrics, "backup") })
    }
}

impl Server for Gslb {
    const NAME: &str = "gslb-dns";

    fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(address(0), self.ports.dns)
    }

    fn process(&mut self) -> &mut Process {
        &mut self.measured
    }

    /// Every answer was decided by RTT: nothing cheaper was measured.
    fn check(&mut self, tally: &Tally) -> Result<(), Failure> {
        let now = self.count()?;
        let before = std::mem::replace(&mut self.decisions, now);
        let by_rtt = now.by_rtt.saturating_sub(before.by_rtt);
        if now.by_backup == before.by_backup && by_rtt + SLACK >= tally.received {
            Ok(())
        } else {
            Err(Failure::NotByRtt { by_rtt, answers: tally.received })
        }
    }
}

/// How often the measured node has decided.
#[derive(Clone, Copy, Debug, Default)]
struct Decisions {
    by_rtt: u64,
    by_backup: u64,
}

impl Ports {
    fn free() -> std::io::Result<Self> {
        let nodes: Vec<Ipv4Addr> = (0..NODES.len()).map(address).collect();
        let sources: Vec<Ipv4Addr> = (0..SOURCES).filter_map(|source| v4(ldns(source))).collect();
        let mut taken: Vec<u16> = Vec::new();
        let mut next = |addresses: &[Ipv4Addr]| loop {
            let port = ports::free(addresses)?;
            if !taken.contains(&port) {
                taken.push(port);
                return std::io::Result::Ok(port);
            }
        };
        Ok(Ports { dns: next(&nodes)?, mep: next(&nodes)?, admin: next(&nodes)?, closed: next(&sources)? })
    }
}

/// The configuration of the group, with these ports.
pub(crate) fn group(ports: Ports) -> String {
    let put = |text: String, (word, port): (&str, u16)| text.replace(word, &port.to_string());
    let words = [
        ("DNS_PORT", ports.dns),
        ("MEP_PORT", ports.mep),
        ("ADMIN_PORT", ports.admin),
        ("CLOSED_PORT", ports.closed),
    ];
    words.into_iter().fold(GROUP.to_owned(), put)
}

/// The address of a node, as in group.toml.
fn address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 61, 0, u8::try_from(index + 1).unwrap_or(u8::MAX))
}

fn v4(address: std::net::IpAddr) -> Option<Ipv4Addr> {
    match address {
        std::net::IpAddr::V4(v4) => Some(v4),
        std::net::IpAddr::V6(_) => None,
    }
}

/// The configuration's file, with the certificates beside it.
fn prepare(program: &Path, folder: &Path, ports: Ports) -> Result<PathBuf, Failure> {
    let file = folder.join("group.toml");
    fs::write(&file, group(ports)).map_err(Failure::system(file.display().to_string()))?;
    certificates(program, folder, &NODES)?;
    Ok(file)
}

/// Certificates for these nodes of a group, in the folder `pki`.
pub(crate) fn certificates(program: &Path, folder: &Path, nodes: &[&str]) -> Result<(), Failure> {
    let pki = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        let output = command.output().map_err(Failure::system(program.display().to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Failure::System(arguments.join(" "), std::io::Error::other(why)))
    };
    pki(&["pki", "init", "pki", "--group", "bench"])?;
    nodes.iter().try_for_each(|node| pki(&["pki", "issue", "pki", node]))
}

/// One query from a source, so that it becomes an LDNS.
fn ask(source: usize, dns: SocketAddrV4) -> std::io::Result<()> {
    let socket = UdpSocket::bind(SocketAddr::new(ldns(source), 0))?;
    socket.send_to(&crate::query(NAME, crate::Query::Plain), dns)?;
    Ok(())
}

/// How many sites have no RTT to a source, as the decision sees it.
fn sites_unknown(source: usize, admin: SocketAddrV4) -> std::io::Result<usize> {
    let path = format!("/v1/explain?name={NAME}&type=A&ldns={}", ldns(source));
    Ok(NODES.len().saturating_sub(known_sites(&http::get(admin, &path)?)))
}

fn known_sites(explanation: &str) -> usize {
    let explanation: Value = serde_json::from_str(explanation).unwrap_or_default();
    let reasons = explanation["reasons"].as_array().map(Vec::as_slice).unwrap_or_default();
    reasons.iter().filter(|r| r["reason"] == "site" && r["state"] == "known").count()
}

fn decisions(metrics: &str, by: &str) -> u64 {
    let line = format!("gslb_decisions_total{{by=\"{by}\"}} ");
    metrics.lines().find_map(|l| l.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_takes_the_configuration() {
        let text = group(Ports { dns: 1053, mep: 2053, admin: 3053, closed: 4053 });
        for (index, node) in NODES.into_iter().enumerate() {
            let loaded = config::load(Path::new("group.toml"), &mut |_| Ok(text.clone().into()), Some(node));
            let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(loaded.dns.listen, [SocketAddr::from((address(index), 1053))]);
            assert_eq!((loaded.dns.udp_threads, loaded.probe.port), (1, 4053));
            for source in 0..SOURCES {
                let source = ldns(source);
                assert!(loaded.ldns.include.iter().any(|net| net.contains(&source)), "{source}");
            }
        }
    }

    #[test]
    fn known_sites_are_counted_in_an_explanation() {
        let text = r#"{"reasons": [{"reason": "up"}, {"reason": "site", "state": "known"},
            {"reason": "site", "state": "pending"}, {"reason": "nearest", "state": "known"}]}"#;
        assert_eq!(known_sites(text), 1);
        assert_eq!(known_sites("no JSON"), 0);
    }

    #[test]
    fn decisions_are_read_from_the_metrics() {
        let metrics =
            "# TYPE x\ngslb_decisions_total{by=\"rtt\"} 800\ngslb_decisions_total{by=\"backup\"} 40\n";
        assert_eq!((decisions(metrics, "rtt"), decisions(metrics, "backup")), (800, 40));
        assert_eq!(decisions("", "rtt"), 0);
    }
}
