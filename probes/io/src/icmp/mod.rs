//! Ping: ICMP echo over one socket per family.
//!
//! Messages are decoded by surge-ping; the sockets and the matching are our own, since surge-ping's client can't do what
//! is due here:
//! - It matches a reply by address, identifier and sequence alone, never shows its payload, and ends the wait even for a
//!   reply it should not believe. A reply must carry our random token (threat T6), and what does not is passed over.
//! - It hands out its socket as a bare descriptor, so that neither the receive buffer nor a filter can be set without
//!   unsafe code; with the buffer as it is, bursts lose replies.
//! - It takes the send time after sending and the receive time at wake-up, so that load looks like distance.
//! - Over an unprivileged socket it neither sees ICMP errors nor can have two probes of a host under one sequence number.
//!
//! | socket | needs | echo reply | ICMP error |
//! | --- | --- | --- | --- |
//! | raw (preferred) | root or CAP_NET_RAW | token, identifier, sequence, sender | packet that quotes our request |
//! | datagram | `net.ipv4.ping_group_range` (v6 too) | the same; the kernel owns the identifier | error queue |

mod echo;
mod open;
mod packet;

pub use open::{IcmpSocket, IcmpSockets};

use crate::local::Settings;
use crate::receive::IcmpError;
use echo::Echo;
use gslb_types::Rtt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// What became of an echo request.
#[derive(Debug)]
pub(crate) enum Pinged {
    /// The echo reply with our token, from the target.
    Reply(Rtt),
    /// An ICMP error that quotes our request.
    Error(IcmpError),
    /// It could not be sent.
    NotSent(io::Error),
    /// Neither kind of socket is permitted.
    NotPermitted,
}

/// The two families' sockets, as far as they can be had.
pub(crate) struct Icmp {
    v4: Result<Arc<Echo>, IcmpSocket>,
    v6: Result<Arc<Echo>, IcmpSocket>,
    settings: Settings,
}

impl Icmp {
    /// Opens what the system allows, and warns once if that is nothing (faults I-38): probing goes on with other kinds.
    pub(crate) fn open(settings: &Settings) -> Self {
        let icmp = Icmp {
            v4: open::open(true, settings.source_v4.map(IpAddr::V4)).and_then(Echo::start),
            v6: open::open(false, settings.source_v6.map(IpAddr::V6)).and_then(Echo::start),
            settings: *settings,
        };
        let IcmpSockets { v4, v6 } = icmp.sockets();
        tracing::info!(%v4, %v6, "ICMP sockets");
        if [v4, v6].contains(&IcmpSocket::NotPermitted) {
            tracing::warn!(
                %v4, %v6,
                "ICMP is not permitted, ping is not available: grant CAP_NET_RAW or widen net.ipv4.ping_group_range"
            );
        }
        icmp
    }

    /// Which sockets there are.
    pub(crate) fn sockets(&self) -> IcmpSockets {
        let socket = |family: &Result<Arc<Echo>, IcmpSocket>| match family {
            Ok(echo) => echo.socket(),
            Err(socket) => *socket,
        };
        IcmpSockets { v4: socket(&self.v4), v6: socket(&self.v6) }
    }

    /// Those that must be [run](Echo::run) for replies to be heard.
    pub(crate) fn open_sockets(&self) -> impl Iterator<Item = Arc<Echo>> {
        [&self.v4, &self.v6].into_iter().filter_map(|family| family.as_ref().ok().cloned())
    }

    /// Sends an echo request, from this address or the configured one, and waits, for ever, for the reply or an error.
    pub(crate) async fn ping(&self, target: IpAddr, source: Option<IpAddr>) -> Pinged {
        let source = source.or(self.settings.source(target));
        let family = if target.is_ipv4() { &self.v4 } else { &self.v6 };
        match family {
            Ok(echo) => echo.ping(target, source).await,
            Err(IcmpSocket::NotPermitted) => Pinged::NotPermitted,
            Err(_) => Pinged::NotSent(io::ErrorKind::Unsupported.into()),
        }
    }
}
