//! What the machine is told once.

use gslb_types::{LdnsMasks, NodeId, Transport};
use std::net::SocketAddr;
use std::time::Duration;

/// The newest protocol version this code speaks, as (major, minor).
pub const VERSION: (u32, u32) = (1, 1);

/// The oldest major version this code speaks.
pub const OLDEST_MAJOR: u32 = 1;

/// How this node takes part in the exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The other nodes of the group, in the order of the configuration. An entry for this node itself is left out.
    pub peers: Vec<PeerSettings>,
    /// The group's name: peers of another group are refused.
    pub group: String,
    /// This node's software version, for people.
    pub software: String,
    /// A peer that has not been heard for this long is down. Words are sent at least three times as often as the less
    /// patient of the two asks for.
    pub keepalive: Duration,
    /// How often site metrics are told; a change of state is told at once.
    pub metrics_interval: Duration,
    /// How long changed RTTs may wait to be told together.
    pub rtt_interval: Duration,
    /// Hashes of the settings that should be the same on every node, by name. A difference is shown at both ends and
    /// changes nothing else: every site's values are advertised by its own tolerance.
    pub must_match: Vec<(String, u64)>,
    /// One hash over all of them.
    pub config_hash: u64,
    /// How addresses become keys of the table.
    pub masks: LdnsMasks,
    /// Changed keys that may wait, all peers together; the cap of the table. When more wait, the slowest peers' outboxes are
    /// dropped and they get a new snapshot. When more withdrawals wait, the sessions of those that do not read end.
    pub outbox_cap: usize,
    /// How often uses of persistence sessions are told, together.
    pub sessions_interval: Duration,
    /// Used persistence sessions that may wait, all peers together; the cap of their table.
    pub sessions_cap: usize,
    /// How long a session over gRPC that might run over QUIC stands before QUIC is tried again.
    pub quic_retry: Duration,
}

/// Another node of the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerSettings {
    /// Who.
    pub id: NodeId,
    /// Where it is dialled.
    pub address: SocketAddr,
    /// Over what: both ends must come to the same, so the configuration decides for the pair.
    pub transport: Transport,
}
