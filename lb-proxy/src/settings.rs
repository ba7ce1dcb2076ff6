//! What an LB virtual server is told: where it listens, whom it proxies to, how long it waits.

use gslb_types::LbVserverName;
use lb_core::BalancerSettings;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// One LB virtual server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VserverSettings {
    /// Its name.
    pub name: LbVserverName,
    /// What it speaks.
    pub kind: Kind,
    /// Its VIPs. Port 0 takes any free port ([`crate::VserverView::listen`] tells which).
    pub listen: Vec<SocketAddr>,
    /// How a service is chosen.
    pub balancer: BalancerSettings,
    /// Where the members of `balancer` are, in the same order.
    pub addresses: Vec<SocketAddr>,
    /// The address that connections to services come from; the system's choice if absent.
    pub source: Option<IpAddr>,
    /// How long it waits for what.
    pub timeouts: Timeouts,
    /// Client connections at once. More wait in the kernel's queue until one ends.
    pub max_connections: usize,
    /// Idle connections kept for reuse, per service (http, ssl).
    pub max_idle: usize,
    /// How a service learns who its client is (http, ssl).
    pub forwarded: Forwarded,
    /// The name of the persistence cookie, where `balancer` persists by cookie.
    pub cookie: String,
    /// Other members that a request may be given to if it could not reach the first.
    pub retries: usize,
}

/// What an LB virtual server speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// HTTP/1.1 and HTTP/2 in the clear.
    Http,
    /// The same in TLS.
    Ssl {
        /// The first serves clients that send no server name, or one that none is for.
        certificates: Vec<CertificateFiles>,
    },
    /// Any protocol over TCP.
    Tcp {
        /// Whether each connection to a service begins with a PROXY protocol v2 header.
        proxy_protocol: bool,
    },
}

/// Where a certificate stands on disk, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFiles {
    /// The chain, the server's own certificate first. Its names (SAN) are the server names it is for.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How a service learns who its client is. Headers of the other family, `X-Real-IP`, other `X-Forwarded-*`, and all of these names
/// with underscores are taken out of requests: they would be the client's word for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Forwarded {
    /// X-Forwarded-For, -Proto and -Host. The client's address is appended to what came in.
    #[default]
    XForwarded,
    /// The one header of RFC 7239.
    Rfc7239,
    /// Not at all; what the client sent passes.
    None,
}

/// How long an LB virtual server waits for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// A connection to a service, and a client's TLS handshake.
    pub connect: Duration,
    /// The response, since the last byte of the request went out (http, ssl).
    pub first_byte: Duration,
    /// Either side without a byte, in the middle of a transaction or between two.
    pub idle: Duration,
    /// The whole head of a request, since its first byte (http, ssl).
    pub request_header: Duration,
}

impl Default for Timeouts {
    /// HAProxy's usual configuration, but for the head of a request: 10 s as in its guide against slow-loris.
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(50),
            idle: Duration::from_secs(50),
            request_header: Duration::from_secs(10),
        }
    }
}

impl VserverSettings {
    /// A virtual server of this name and kind, and the rest as the manual's defaults have it.
    pub fn new(name: LbVserverName, kind: Kind, balancer: BalancerSettings) -> Self {
        VserverSettings {
            name,
            kind,
            listen: Vec::new(),
            balancer,
            addresses: Vec::new(),
            source: None,
            timeouts: Timeouts::default(),
            max_connections: 20_000,
            max_idle: 256,
            forwarded: Forwarded::default(),
            cookie: "gslb-service".to_owned(),
            retries: 3,
        }
    }
}
