//! What passes between the pure machines and the crate that sends packets: requests one way, replies the other.

use crate::sources::Reading;
pub use gslb_types::Check;
use gslb_types::{ProbeKind, Rtt, SourceItem, SourceKind, SourcePlace};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Names one probe or check among all of this node's, for as long as it runs; a reply with any other number is late.
/// What identifies the packet on the wire (query id, port, ping payload) is random and known to the sender alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProbeId(pub u64);

/// One packet or connection towards an LDNS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// Comes back with the reply.
    pub id: ProbeId,
    /// The LDNS itself, never a masked address.
    pub target: IpAddr,
    /// What to send.
    pub kind: ProbeKind,
    /// When to give up.
    pub timeout: Duration,
}

/// What became of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProbeReply {
    /// That of the request.
    pub id: ProbeId,
    /// What came back.
    pub outcome: ProbeOutcome,
}

/// What came back, and from whom. Which of these is a sample, the probe machine decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// The echo reply, with our payload, from the LDNS.
    EchoReply(Rtt),
    /// A DNS message with our id and question from the LDNS, whatever its rcode.
    DnsAnswer(Rtt),
    /// SYN-ACK.
    Connected(Rtt),
    /// TCP RST, in answer to our SYN.
    Reset(Rtt),
    /// ICMP port unreachable that quotes our packet, sent by the LDNS itself.
    PortUnreachable(Rtt),
    /// Another ICMP error (unreachable, prohibited, TTL exceeded), or a port unreachable sent by somebody else.
    RouterError,
    /// Nothing within the timeout.
    TimedOut,
    /// The packet could not be sent at all: no route, no buffer, no such source address.
    SendFailed,
    /// This kind is not permitted to this process (no raw and no ping socket).
    NotPermitted,
}

/// One health check of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckRequest {
    /// Comes back with the reply.
    pub id: ProbeId,
    /// What to do. Shared with the settings: thousands of them are asked for each second.
    pub check: Arc<Check>,
    /// The service's address and port; the port is not used by [`Check::Ping`].
    pub target: SocketAddr,
    /// The address it leaves from; that of all checks if `None`.
    pub source: Option<IpAddr>,
    /// When to give up.
    pub timeout: Duration,
}

/// What became of a check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckReply {
    /// That of the request.
    pub id: ProbeId,
    /// What was seen.
    pub outcome: CheckOutcome,
}

/// What a check saw.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// It passed, after this response time.
    Passed(Rtt),
    /// It passed, and this is what was said to it: a command's first line.
    Reported {
        /// The response time.
        response_time: Rtt,
        /// The words.
        words: String,
        /// The load it tells of, in thousandths.
        load: Option<u64>,
    },
    /// It failed, for this reason, in the words an operator reads.
    Failed(String),
    /// It can't be done by this process (ICMP not permitted): says nothing about the service.
    NotPermitted,
    /// It could not be done just now, for this reason, which says nothing about the service either: no descriptor, no such
    /// source address, no such command.
    Unable(String),
}

/// One look at the page of a foreign load balancer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequest {
    /// Comes back with the reply.
    pub id: ProbeId,
    /// What to fetch, and what to look for in it. Shared with the settings.
    pub fetch: Arc<Fetch>,
    /// When to give up.
    pub timeout: Duration,
}

/// What is fetched, and what is looked for in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// What writes the page.
    pub kind: SourceKind,
    /// Where it is.
    pub place: SourcePlace,
    /// What of it counts.
    pub items: Vec<SourceItem>,
}

/// What became of a fetch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FetchReply {
    /// That of the request.
    pub id: ProbeId,
    /// What the page says of each item, in the order of the request; or why there is no page, in the words an operator reads.
    pub outcome: Result<Vec<Result<Reading, String>>, String>,
}
