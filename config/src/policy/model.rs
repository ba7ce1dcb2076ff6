//! GSLB virtual servers and domains as the rest of the node sees them.

use gslb_types::{AllDown, GslbMethod, LbMethod, VserverName, Weight};
use hickory_proto::rr::Name;
use std::net::IpAddr;
use std::time::Duration;

/// The policy behind GSLB domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vserver {
    /// Its name.
    pub name: VserverName,
    /// How the site is chosen.
    pub method: GslbMethod,
    /// How the site is chosen while `method` can't say: one that always can: round robin or hash.
    pub backup_method: GslbMethod,
    /// What `method` compares of each service; `None` if it looks at something else.
    pub metric: Option<LbMethod>,
    /// Sites within best plus this are equal.
    pub selection_tolerance: Duration,
    /// What stands in the answer.
    pub answer: Answer,
    /// How the service is chosen within the site.
    pub local_method: LbMethod,
    /// What is answered when every service is down.
    pub all_down: AllDown,
    /// The addresses of [`AllDown::BackupIp`].
    pub backup_ip: Vec<IpAddr>,
    /// Whether queries that find no RTT yet are dropped rather than answered by the backup method.
    pub drop_ldns_requests: bool,
    /// Addresses in an answer at most: the best first, then the others in the order they would be chosen in.
    pub addresses: u8,
    /// The bound services, in order.
    pub bindings: Vec<Binding>,
    /// Whether those have several orders of preference.
    pub has_orders: bool,
    /// Services of an order that must be up for it to be preferred to those that come later.
    pub order_threshold: u32,
    /// Index into [`crate::Config::vservers`]: the one that answers while nothing here is up. Following these never comes back.
    pub backup: Option<usize>,
    /// Which clients stay at the service they were sent to, if any do.
    pub persistence: Option<Persistence>,
    /// When clients are sent on to `backup` although services here are up.
    pub spillover: Option<Spillover>,
    /// When clients come back to what is preferred, once that can be answered again.
    pub failback: Failback,
    /// Whether some of its services have limits of their own.
    pub has_limits: bool,
    /// Whether this one, or one that it leads to, chooses by RTT, so that its askers must be measured.
    pub wants_rtt: bool,
}

/// The limits of a virtual server, all its services that are up together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spillover {
    /// Open transactions at most.
    pub connections: Option<u64>,
    /// Bits a second at most, as the mean of the last 14 s.
    pub bandwidth: Option<u64>,
    /// Percent of the weights of its services that must be up at least.
    pub health: Option<u8>,
    /// Percent of the limits that it must keep to before clients come back.
    pub back_at: u8,
}

/// When clients come back to what is preferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Failback {
    /// At once.
    #[default]
    AtOnce,
    /// Once it could be answered for so long without a break.
    After(Duration),
    /// When an operator says so, or what they have been sent to cannot be answered any more.
    Manual,
}

/// How clients stay at the service they were sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Persistence {
    /// Virtual servers of one id share their sessions, at all sites; below [`PERSISTENCE_IDS`].
    pub id: u32,
    /// How many leading bits of an IPv4 address make a client.
    pub mask_v4: u8,
    /// The same of an IPv6 address.
    pub mask_v6: u8,
    /// A client that has not asked any node for this long is forgotten.
    pub timeout: Duration,
}

/// Addresses in an answer at most, whatever is configured.
pub const MAX_ADDRESSES: u8 = 16;

/// How many persistence ids there are.
pub const PERSISTENCE_IDS: u32 = 1 << 31;

impl Persistence {
    /// The prefix that makes a client of this address.
    pub fn prefix(&self, client: IpAddr) -> u8 {
        if client.is_ipv4() { self.mask_v4 } else { self.mask_v6 }
    }
}

/// What stands in the answer for a GSLB domain (behaviour 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answer {
    /// The address of the service that the local method chose.
    #[default]
    Service,
}

/// A service bound to a virtual server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Index into [`crate::Config::services`].
    pub service: usize,
    /// Its share.
    pub weight: Weight,
    /// Its order of preference: the lowest comes first.
    pub order: u16,
}

impl Binding {
    /// A service bound with this weight, and nothing else said of it.
    pub fn new(service: usize, weight: Weight) -> Self {
        Binding { service, weight, order: 1 }
    }
}

/// A name answered by selection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// The owner, lower case, absolute.
    pub name: Name,
    /// Index into [`crate::Config::zones`]: the deepest zone that holds the name.
    pub zone: usize,
    /// Index into [`crate::Config::vservers`].
    pub vserver: usize,
    /// TTL of its answers, seconds.
    pub ttl: u32,
    /// Whether answers go by the client's prefix, where the query names one (RFC 7871).
    pub ecs: bool,
}
