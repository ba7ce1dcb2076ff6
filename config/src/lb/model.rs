//! LB virtual servers as the rest of the node sees them.

use gslb_types::{LbMethod, LbVserverName, SiteIndex, Weight};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// A listener in a site that proxies to services of that site. Every node of the site runs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LbVserver {
    /// Its name.
    pub name: LbVserverName,
    /// The site it stands in.
    pub site: SiteIndex,
    /// What it speaks.
    pub kind: LbKind,
    /// Its VIPs.
    pub listen: Vec<SocketAddr>,
    /// How a service is chosen.
    pub method: LbMethod,
    /// Requests per service that go round before a metric method takes over.
    pub startup_rr_factor: u32,
    /// How long the share of a service that came back grows from small to full; zero if at once.
    pub slow_start: Duration,
    /// Which clients stay at the service they had.
    pub persistence: LbPersistence,
    /// The services behind it, in order.
    pub members: Vec<LbMember>,
    /// Where connections to the services come from; the kernel's choice if `None`.
    pub source: Option<IpAddr>,
    /// How long it waits for what.
    pub timeouts: LbTimeouts,
    /// Client connections at once.
    pub max_connections: usize,
    /// Idle connections kept for reuse, per service (http, ssl).
    pub max_idle: usize,
    /// Other services that a request may be given to if it could not reach the first.
    pub retries: usize,
    /// How a service learns who its client is (http, ssl).
    pub forwarded: LbForwarded,
}

/// What an LB virtual server speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LbKind {
    /// HTTP/1.1 and HTTP/2 in the clear.
    Http,
    /// The same in TLS.
    Ssl {
        /// One at least; the first is for clients that ask for no name, or for one that none is for.
        certificates: Vec<LbCertificate>,
    },
    /// Any protocol over TCP.
    Tcp {
        /// Whether each connection to a service begins with a PROXY protocol v2 header.
        proxy_protocol: bool,
    },
}

impl LbKind {
    /// The word for it in configuration, API and logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            LbKind::Http => "http",
            LbKind::Ssl { .. } => "ssl",
            LbKind::Tcp { .. } => "tcp",
        }
    }
}

/// A certificate on disk, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LbCertificate {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Which clients stay at the service they had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LbPersistence {
    /// None.
    None,
    /// Those of an address.
    SourceIp {
        /// How many leading bits of an IPv4 address make a client.
        mask_v4: u8,
        /// The same of an IPv6 address.
        mask_v6: u8,
        /// A client that sends nothing for this long is forgotten.
        timeout: Duration,
        /// Clients remembered at most.
        cap: usize,
    },
    /// Those that bring a cookie (http, ssl).
    Cookie {
        /// Its name.
        name: String,
    },
}

/// How a service learns who its client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LbForwarded {
    /// X-Forwarded-For, -Proto and -Host.
    #[default]
    XForwarded,
    /// The one field of RFC 7239.
    Rfc7239,
    /// Not at all.
    None,
}

/// How long an LB virtual server waits for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LbTimeouts {
    /// A connection to a service, and a client's TLS handshake.
    pub connect: Duration,
    /// The response (http, ssl).
    pub first_byte: Duration,
    /// Either side without a byte.
    pub idle: Duration,
    /// The whole head of a request (http, ssl).
    pub request_header: Duration,
}

/// A service behind an LB virtual server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LbMember {
    /// Index into [`Config::services`](crate::Config::services).
    pub service: usize,
    /// Its share.
    pub weight: Weight,
    /// Transactions at once, at most.
    pub max_clients: Option<u32>,
    /// Bits a second at most, as the mean of the last 14 s.
    pub max_bandwidth: Option<u64>,
}
