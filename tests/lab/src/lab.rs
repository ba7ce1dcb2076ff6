//! A laboratory that stands.

use crate::error::LabError;
use crate::firewall::{Rejection, ruleset};
use crate::flood::{Flood, FloodReport};
use crate::link::Link;
use crate::namespace::{self, Namespace};
use crate::netem::{Counts, Netem, NodeIndex, Passage};
use crate::packet::Kind;
use crate::ping::median_ping;
use crate::router::Router;
use crate::topology::{Node, Role, Topology, nth_v4, nth_v6};
use crate::unreachable::Unreachable;
use ipnet::IpNet;
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// The device of each node.
const DEVICE: &str = "lab0";

/// Packets the kernel keeps for the router before it drops some: a flood's worth.
const DEVICE_QUEUE: u32 = 10_000;

/// How long one ping waits, longer than the farthest round trip a test sets.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// What the kernel must do in each node: no duplicate address detection, ping sockets for everybody, any address of the
/// prefix can be bound, and no limits on ICMP, which would look like loss. Files that a kernel lacks are no harm.
const SETTINGS: [(&str, &str); 8] = [
    ("ipv6/conf/lab0/accept_dad", "0"),
    ("ipv4/ping_group_range", "0 2147483647"),
    ("ipv4/ip_nonlocal_bind", "1"),
    ("ipv6/ip_nonlocal_bind", "1"),
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv4/icmp_msgs_per_sec", "1000000"),
    ("ipv4/icmp_msgs_burst", "1000000"),
];

/// Tells the laboratories of one process apart.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Nodes in network namespaces of their own, joined by a router with a delay for each pair.
///
/// Its whole prefix is local to a node: a process can bind any address of it. A node without a server on a port answers
/// as a real host: port unreachable for UDP, RST for TCP. When it is dropped, by panic too, its processes are ended and
/// nothing is left.
///
/// Methods that take the name of a node panic if there is none of that name: that is a mistake of the test.
pub struct Lab {
    topology: Topology,
    // Dropped in this order: processes may say goodbye over a network that still stands.
    spaces: Spaces,
    router: Router,
}

/// Ends the processes of all namespaces together before each removes itself.
struct Spaces(Vec<Namespace>);

impl Topology {
    /// Builds it.
    pub fn up(self) -> Result<Lab, LabError> {
        self.check()?;
        namespace::sweep();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut spaces = Spaces(Vec::new());
        let mut netem = Netem::new(self.seed);
        let mut devices = Vec::new();
        for node in &self.nodes {
            let space = Namespace::create(number, &node.name)?;
            devices.push(space.enter(|| furnish(self.mtu))??);
            space.ip(&addressing(node))?;
            spaces.0.push(space);
            let prefixes = vec![IpNet::V4(node.v4), IpNet::V6(node.v6)];
            netem.add_node(prefixes, node.role == Role::Pool, self.default_link);
        }
        let router = Router::start(netem, devices)?;
        let lab = Lab { topology: self, spaces, router };
        for (from, to, link) in &lab.topology.links {
            lab.router.netem().set_link(lab.index(from), lab.index(to), *link);
        }
        Ok(lab)
    }
}

/// Who is where.
impl Lab {
    /// The IPv4 address of a node: .1 of its prefix.
    pub fn v4(&self, node: &str) -> Ipv4Addr {
        self.node(node).v4()
    }

    /// The IPv6 address of a node: ::1 of its prefix.
    pub fn v6(&self, node: &str) -> Ipv6Addr {
        self.node(node).v6()
    }

    /// The n-th IPv4 address of a node.
    pub fn nth_v4(&self, node: &str, n: u32) -> Ipv4Addr {
        nth_v4(self.node(node).v4, n)
    }

    /// The n-th IPv6 address of a node.
    pub fn nth_v6(&self, node: &str, n: u128) -> Ipv6Addr {
        nth_v6(self.node(node).v6, n)
    }

    /// The IPv4 prefix of a node.
    pub fn prefix_v4(&self, node: &str) -> IpNet {
        IpNet::V4(self.node(node).v4)
    }

    /// The IPv6 prefix of a node.
    pub fn prefix_v6(&self, node: &str) -> IpNet {
        IpNet::V6(self.node(node).v6)
    }

    /// The round trip from a node to an address, as set, without jitter; `None` if the way is closed or leads nowhere.
    pub fn round_trip(&self, node: &str, address: IpAddr) -> Option<Duration> {
        self.netem().round_trip(self.index(node), address)
    }

    /// Every site with its round trip to an address, nearest first; sites that are cut off come last.
    pub fn truth(&self, address: IpAddr) -> Vec<(String, Option<Duration>)> {
        let sites = self.topology.nodes.iter().filter(|node| node.role == Role::Site);
        let mut truth: Vec<_> =
            sites.map(|site| (site.name.clone(), self.round_trip(&site.name, address))).collect();
        truth.sort_by_key(|(_, round_trip)| (round_trip.is_none(), *round_trip));
        truth
    }
}

/// What can be changed while it runs. Packets under way keep their time.
impl Lab {
    /// Sets the way between two nodes anew, in both directions.
    pub fn set_link(&self, a: &str, b: &str, link: impl Into<Link>) {
        let link = link.into();
        self.set_one_way(a, b, link);
        self.set_one_way(b, a, link);
    }

    /// Sets one direction anew.
    pub fn set_one_way(&self, from: &str, to: &str, link: impl Into<Link>) {
        let (from, to) = self.ends(from, to);
        self.netem().set_link(from, to, link.into());
    }

    /// No packet between two nodes comes through.
    pub fn cut(&self, a: &str, b: &str) {
        self.set_passages(a, b, Passage::Cut);
    }

    /// No packet from one node to another comes through; those back do.
    pub fn cut_one_way(&self, from: &str, to: &str) {
        let (from, to) = self.ends(from, to);
        self.netem().set_passage(from, to, Passage::Cut);
    }

    /// No packet to or from a node comes through.
    pub fn isolate(&self, node: &str) {
        self.topology.node_names().filter(|other| *other != node).for_each(|other| self.cut(node, other));
    }

    /// A router between two nodes answers every packet with an ICMP error of its own address.
    pub fn reject_on_the_way(&self, a: &str, b: &str, why: Unreachable) {
        self.set_passages(a, b, Passage::Rejecting(why));
    }

    /// Undoes cuts and rejections between two nodes.
    pub fn heal(&self, a: &str, b: &str) {
        self.set_passages(a, b, Passage::Open);
    }

    /// Undoes all cuts and rejections.
    pub fn heal_all(&self) {
        let names: Vec<_> = self.topology.node_names().collect();
        for (i, a) in names.iter().enumerate() {
            names.iter().skip(i + 1).for_each(|b| self.heal(a, b));
        }
    }

    /// A filter at the node that drops what asks something of it: echo requests, UDP to ports below 1024, TCP SYN. What
    /// answers its own questions comes in. Replaces what was dropped before; nothing for an empty list.
    pub fn drop_kinds(&self, node: &str, kinds: &[Kind]) {
        self.netem().set_drops(self.index(node), kinds);
    }

    /// Makes the node's own kernel turn packets away, by nftables matches such as `udp dport 53`. Replaces the rules
    /// before; an empty list takes them away.
    pub fn reject(&self, node: &str, rules: &[(&str, Rejection)]) -> Result<(), LabError> {
        namespace::run(self.command(node, "nft").args(["-f", "-"]), &ruleset(rules))
    }

    fn set_passages(&self, a: &str, b: &str, passage: Passage) {
        let (a, b) = self.ends(a, b);
        let mut netem = self.netem();
        netem.set_passage(a, b, passage);
        netem.set_passage(b, a, passage);
    }
}

/// What can be counted.
impl Lab {
    /// What one direction saw since the last [`Lab::reset_stats`].
    pub fn stats(&self, from: &str, to: &str) -> Counts {
        let (from, to) = self.ends(from, to);
        self.netem().counts(from, to)
    }

    /// Packets for addresses of no node.
    pub fn unroutable(&self) -> u64 {
        self.netem().unroutable()
    }

    /// Counts from zero again.
    pub fn reset_stats(&self) {
        self.netem().reset_counts();
    }

    /// Keeps from now on, up to 64 MiB, the packets from one node to another, as a capture on the way would.
    pub fn tap(&self, from: &str, to: &str) {
        let (from, to) = self.ends(from, to);
        self.netem().tap(from, to);
    }

    /// The packets kept since [`Lab::tap`], IP header and all. The tap ends.
    pub fn take_tapped(&self, from: &str, to: &str) -> Vec<Vec<u8>> {
        let (from, to) = self.ends(from, to);
        self.netem().take_tapped(from, to)
    }

    /// The processes on a node.
    pub fn process_ids(&self, node: &str) -> Vec<i32> {
        self.space(node).processes().into_iter().map(nix::unistd::Pid::as_raw).collect()
    }

    /// The median round trip of several pings from a node; `None` if none came back.
    pub fn ping(&self, node: &str, address: IpAddr, times: u16) -> Result<Option<Duration>, LabError> {
        self.in_namespace(node, || median_ping(address, times, PING_TIMEOUT))?
            .map_err(LabError::system(format!("ping {address}")))
    }
}

/// What can be run.
impl Lab {
    /// A command on a node. It is ended with the laboratory at the latest.
    pub fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Command {
        self.space(node).command(Path::new(program.as_ref()))
    }

    /// Runs `work` on a thread on a node: sockets opened there stay there, threads spawned there are there too.
    pub fn in_namespace<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.space(node).enter(work)
    }

    /// Sends a flood from a node, and returns when it is sent.
    ///
    /// # Panics
    /// If the target is no address of this laboratory, or the sources are of another family.
    pub fn flood(&self, from: &str, flood: &Flood) -> Result<FloodReport, LabError> {
        let target = flood.target.ip();
        let inside = self.topology.nodes.iter().any(|node| node.has(target));
        assert!(inside, "{target} is no address of the laboratory: floods stay inside");
        assert!(flood.is_of_one_family(), "sources and target of a flood are of one family");
        self.in_namespace(from, || flood.send())?.map_err(LabError::system("flood"))
    }
}

impl Lab {
    fn netem(&self) -> std::sync::MutexGuard<'_, Netem> {
        assert!(self.router.is_running(), "the router of laboratory {} has ended", self.topology.name);
        self.router.netem()
    }

    fn index(&self, name: &str) -> NodeIndex {
        let found = self.topology.node_names().position(|node| node == name);
        assert!(
            found.is_some(),
            "no node {name}; there are {:?}",
            self.topology.node_names().collect::<Vec<_>>()
        );
        found.unwrap_or_default()
    }

    fn ends(&self, from: &str, to: &str) -> (NodeIndex, NodeIndex) {
        assert_ne!(from, to, "a link has two ends");
        (self.index(from), self.index(to))
    }

    fn node(&self, name: &str) -> &Node {
        &self.topology.nodes[self.index(name)]
    }

    fn space(&self, name: &str) -> &Namespace {
        &self.spaces.0[self.index(name)]
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        namespace::end_processes(&self.0);
    }
}

/// Makes the device and the kernel's settings in the namespace of the calling thread.
fn furnish(mtu: u16) -> Result<SyncDevice, LabError> {
    let device = DeviceBuilder::new()
        .name(DEVICE)
        .layer(Layer::L3)
        .mtu(mtu)
        .tx_queue_len(DEVICE_QUEUE)
        .enable(false)
        .build_sync()
        .map_err(LabError::system("TUN device"))?;
    for (file, value) in SETTINGS {
        // See SETTINGS: not every kernel has them all.
        let _ = fs::write(Path::new("/proc/sys/net").join(file), value);
    }
    Ok(device)
}

fn addressing(node: &Node) -> String {
    let (v4, v6) = (node.v4(), node.v6());
    format!(
        "link set lo up\n\
         link set {DEVICE} addrgenmode none\n\
         link set {DEVICE} up\n\
         addr add {v4}/32 dev {DEVICE}\n\
         route add local {} dev lo\n\
         route add default dev {DEVICE} src {v4}\n\
         addr add {v6}/128 dev {DEVICE} nodad\n\
         route add local {} dev lo\n\
         route add ::/0 dev {DEVICE} src {v6}\n",
        node.v4, node.v6
    )
}
