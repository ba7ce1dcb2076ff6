//! The configuration as the rest of the node sees it: after parsing, nothing in it can be wrong.
//!
//! References are indices into the vectors of [`Config`], in the order of the text; names stay for people.

use crate::lb::LbVserver;
use crate::location::{Location, Place};
use crate::policy::{Domain, Vserver};
use crate::source::{Feed, Source};
use gslb_types::{
    Check, LdnsMasks, NodeId, ProbeKind, ServiceName, SiteIndex, SiteName, Transport, TriggerMonitor, Weight,
};
use hickory_proto::rr::Name;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything one node is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which of [`Config::nodes`] this one is.
    pub me: usize,
    /// DNS listeners and limits of this node.
    pub dns: Dns,
    /// Admin API of this node.
    pub admin: Admin,
    /// Metric exchange: this node's files and the group's pace.
    pub mep: Mep,
    /// How LDNS are probed.
    pub probe: Probe,
    /// Which LDNS get an entry, and for how long.
    pub ldns: LdnsTable,
    /// What must be the same on every node.
    pub group: Group,
    /// The files of databases that say where addresses are, the first that knows something having the word.
    pub databases: Vec<PathBuf>,
    /// Where prefixes are, before any database.
    pub locations: Vec<Location>,
    /// The sites, in the order that gives each its [`SiteIndex`].
    pub sites: Vec<Site>,
    /// The nodes of all sites.
    pub nodes: Vec<Node>,
    /// Monitors that services name.
    pub monitors: Vec<Monitor>,
    /// Foreign load balancers that services name.
    pub sources: Vec<Source>,
    /// Services of all sites.
    pub services: Vec<Service>,
    /// LB virtual servers of all sites.
    pub lb_vservers: Vec<LbVserver>,
    /// GSLB virtual servers.
    pub vservers: Vec<Vserver>,
    /// GSLB domains.
    pub domains: Vec<Domain>,
    /// Zones and their static records.
    pub zones: Vec<Zone>,
}

impl Config {
    /// This node.
    pub fn this_node(&self) -> &Node {
        &self.nodes[self.me]
    }

    /// The site this node stands in.
    pub fn this_site(&self) -> SiteIndex {
        self.this_node().site
    }

    /// What this node and a peer speak over. Both ends must come to the same, so the stricter wish of the two counts: gRPC if
    /// either asks for it, since UDP does not reach it; else QUIC if either does.
    pub fn transport(&self, peer: &Node) -> Transport {
        let wishes = [self.this_node().transport, peer.transport];
        let asked = |wish| wishes.contains(&wish).then_some(wish);
        asked(Transport::Grpc).or(asked(Transport::Quic)).unwrap_or(Transport::Auto)
    }
}

/// DNS listeners and limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dns {
    /// Addresses for UDP and TCP alike. Wildcards are fine: a reply leaves from the address that was asked.
    pub listen: Vec<SocketAddr>,
    /// UDP threads per listen address; 0 means one for each core.
    pub udp_threads: usize,
    /// The largest UDP reply, in bytes, 512 to 1400 (RFC 9715); also the size announced in OPT.
    pub udp_payload: u16,
    /// SO_RCVBUF of each UDP socket, in bytes.
    pub udp_receive_buffer: usize,
    /// TCP and TLS connections at once; beyond it the idlest is closed.
    pub tcp_connections: usize,
    /// TCP and TLS connections at once from one address.
    pub tcp_connections_per_address: usize,
    /// A connection without a complete query for this long is closed.
    pub tcp_idle_timeout: Duration,
    /// The answer to CH TXT version.bind; REFUSED if `None`.
    pub version: Option<String>,
    /// The answer to CH TXT id.server and hostname.bind, and to NSID; REFUSED and no NSID if `None`.
    pub identity: Option<String>,
    /// DNS over TLS, if switched on.
    pub tls: Option<DnsTls>,
}

/// DNS over TLS (RFC 7858).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsTls {
    /// Addresses, port 853 by custom.
    pub listen: Vec<SocketAddr>,
    /// PEM file of the certificate chain.
    pub certificate: PathBuf,
    /// PEM file of its key.
    pub key: PathBuf,
}

/// Admin API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admin {
    /// Loopback only, until there is authentication (threat T9): anything else is a configuration error.
    pub listen: Option<SocketAddr>,
}

/// Metric exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mep {
    /// Where this node listens (UDP for QUIC, TCP for gRPC).
    pub listen: SocketAddr,
    /// PEM file of the group's CA certificate(s).
    pub ca: PathBuf,
    /// PEM file of this node's certificate chain.
    pub certificate: PathBuf,
    /// PEM file of its key.
    pub key: PathBuf,
    /// A peer that has not been heard for this long is down.
    pub keepalive: Duration,
    /// How often site metrics are sent.
    pub metrics_interval: Duration,
    /// How long changed RTTs may wait to be sent together. A new LDNS is sent at once.
    pub rtt_interval: Duration,
    /// How long after losing a peer its services are still taken as it last said.
    pub down_delay: Duration,
    /// RTTs not confirmed for this long count as pending.
    pub max_age: Duration,
}

/// How LDNS are probed (behaviour 3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The kinds, preferred first; none twice.
    pub order: Vec<ProbeKind>,
    /// From one round to the next.
    pub interval: Duration,
    /// How long one probe waits; less than the interval.
    pub timeout: Duration,
    /// The preferred order is tried from the top again after this long.
    pub retry_order: Duration,
    /// Failed rounds in a row before the value is withdrawn.
    pub failed_rounds: u32,
    /// UDP and TCP port of the LDNS: 53, but for demonstrations without privileges.
    pub port: u16,
    /// Source of IPv4 probes; the kernel's choice if `None`.
    pub source_v4: Option<Ipv4Addr>,
    /// Source of IPv6 probes; the kernel's choice if `None`.
    pub source_v6: Option<Ipv6Addr>,
    /// Probes a second at most, all kinds together.
    pub per_second: u32,
    /// LDNS a second that may be probed for the first time.
    pub new_per_second: u32,
    /// Probes a second towards one prefix (/24, /56).
    pub per_prefix: u32,
}

/// Which LDNS get an entry, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LdnsTable {
    /// How many leading bits make an entry.
    pub masks: LdnsMasks,
    /// An LDNS that has asked nobody in the group for this long is forgotten.
    pub idle_timeout: Duration,
    /// Entries at most; new ones push out the least proven.
    pub cap: usize,
    /// Whether LDNS in private ranges (RFC 1918, RFC 4193, RFC 6598) are probed.
    pub private: bool,
    /// Never probed, beside what is never probed anyway.
    pub exclude: Vec<IpNet>,
    /// Probed although loopback, link-local or private; for laboratories and demonstrations.
    pub include: Vec<IpNet>,
}

/// What must be the same on every node; a mismatch is a named warning at both ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Names the group, in certificates and hellos.
    pub name: String,
    /// The dead-band of advertised RTTs, 1 ms to 100 ms.
    pub rtt_tolerance: Duration,
    /// Hashes of the must-match settings, by name ("rtt_tolerance", "sites", "services", "monitors", "vservers", "domains",
    /// "intervals", "ldns").
    /// The same on every node and version that means the same.
    pub must_match: Vec<(String, u64)>,
    /// One hash over all of `must_match`.
    pub hash: u64,
}

/// A data centre.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// Its name.
    pub name: SiteName,
    /// When other sites judge its services by their own monitors.
    pub trigger_monitor: TriggerMonitor,
    /// Where it is, if that is said: for static proximity.
    pub place: Place,
}

/// A `gslb-dns` process of the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Site and node.
    pub id: NodeId,
    /// The site's index.
    pub site: SiteIndex,
    /// Where peers dial it.
    pub mep: SocketAddr,
    /// What it speaks to its peers over.
    pub transport: Transport,
    /// Where connections that claim to be this node may come from; from anywhere if empty.
    pub addresses: Vec<IpNet>,
}

/// A health check that services name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Monitor {
    /// Its name.
    pub name: String,
    /// What it does.
    pub check: Arc<Check>,
    /// Where it does it, if not at the service's port.
    pub port: Option<u16>,
    /// The address its checks leave from, in place of that of all probes and checks.
    pub source: Option<IpAddr>,
    /// From one check to the next.
    pub interval: Duration,
    /// The same while it fails, until a first check passes again; `interval` if `None`.
    pub down_time: Option<Duration>,
    /// How long one check may take; less than the interval.
    pub timeout: Duration,
    /// Passes in a row that bring a service up.
    pub rise: u32,
    /// Failures in a row that take it down.
    pub fall: u32,
    /// Whether its outcome is turned round as a whole. Where it looks for a pattern, only that is: see
    /// [`Receive::reverse`](gslb_types::Receive).
    pub reverse: bool,
    /// Whether what it measures goes into the service's response time.
    pub measures: bool,
}

impl Monitor {
    /// Whether it tells the load of what it checks. One that is reversed passes when nothing is told.
    pub(crate) fn tells_load(&self) -> bool {
        matches!(&*self.check, Check::User(user) if user.load_label.is_some()) && !self.reverse
    }
}

/// A monitor bound to a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    /// Index into [`Config::monitors`].
    pub monitor: usize,
    /// What it counts beside the service's other monitors.
    pub weight: Weight,
}

/// One address that can be answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its name.
    pub name: ServiceName,
    /// The site it stands in.
    pub site: SiteIndex,
    /// What is answered.
    pub address: IpAddr,
    /// What monitors connect to.
    pub port: u16,
    /// The monitors that its own site runs. Without one the site takes it for up.
    pub monitors: Vec<Watch>,
    /// The weight of those passing that makes it up; all must pass if `None`.
    pub threshold: Option<u32>,
    /// The monitors that the nodes of other sites run against it.
    pub remote_monitors: Vec<Watch>,
    /// The same weight of those.
    pub remote_threshold: Option<u32>,
    /// Index into [`Config::lb_vservers`]: the one whose state and metrics are this service's, in place of monitors' verdicts.
    pub lb_vserver: Option<usize>,
    /// The foreign load balancer in front of it, whose word on its state counts beside that of its monitors.
    pub feed: Option<Feed>,
    /// Whether a monitor of its own site or its source tells its load.
    pub tells_load: bool,
    /// Open transactions at which GSLB virtual servers take it for full.
    pub max_clients: Option<u64>,
    /// Bits a second, as the mean of the last 14 s, at which they do.
    pub max_bandwidth: Option<u64>,
    /// Whether it may be answered at all.
    pub enabled: bool,
}

impl Service {
    /// Whether it can be full.
    pub(crate) fn has_limits(&self) -> bool {
        self.max_clients.is_some() || self.max_bandwidth.is_some()
    }
}

/// A zone this node is authoritative for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    /// The apex, lower case, absolute.
    pub origin: Name,
    /// All static records, the SOA among them exactly once.
    pub records: Vec<ZoneRecord>,
}

/// One static record, of any type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneRecord {
    /// The owner, absolute, in the case of the text.
    pub owner: Name,
    /// TYPE.
    pub rtype: u16,
    /// Seconds, at most 2^31-1 (RFC 2181 section 8). The same for the whole RRset.
    pub ttl: u32,
    /// RDATA in wire form, names in it uncompressed.
    pub rdata: Vec<u8>,
}
