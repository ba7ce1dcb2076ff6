//! What an LB virtual server is told.

use gslb_types::{LbMethod, ServiceName, Weight};
use std::time::Duration;

/// How one LB virtual server chooses among its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BalancerSettings {
    /// How a member is chosen.
    pub method: LbMethod,
    /// Requests per member that go round before a metric method takes over; 0 switches that off.
    pub startup_rr_factor: u32,
    /// How long the share of a member that came back grows from small to full; zero switches the ramp off.
    pub slow_start: Duration,
    /// Who stays at the member that had the last request.
    pub persistence: LocalPersistence,
    /// The services it proxies to, in configuration order, each name once.
    pub members: Vec<MemberSettings>,
}

/// How a client stays at its member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LocalPersistence {
    /// Each request for itself.
    #[default]
    None,
    /// By the client's address.
    SourceIp {
        /// How many leading bits of an IPv4 address make a client.
        mask_v4: u8,
        /// The same of an IPv6 address.
        mask_v6: u8,
        /// A session that nobody uses for this long is forgotten.
        timeout: Duration,
        /// Sessions at most; a new one pushes out one that was not used for long.
        cap: usize,
    },
    /// By a cookie that the caller reads and writes.
    Cookie,
}

/// One service behind an LB virtual server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberSettings {
    /// Its name.
    pub name: ServiceName,
    /// Its share.
    pub weight: Weight,
    /// Transactions at once, at most.
    pub max_clients: Option<u32>,
    /// Bits a second at most, as the mean of the last 14 s.
    pub max_bandwidth: Option<u64>,
    /// Whether it may be chosen at all.
    pub enabled: bool,
}
