//! Connections to services.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};

/// Bytes of a full segment: an Ethernet frame less the headers of IPv4 and of TCP with time stamps.
pub(crate) const SEGMENT: u64 = 1448;

/// Why a service could not be reached. It has seen nothing of the request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    /// It, or someone on the way, said no.
    #[error("connect failed: {0}")]
    Refused(#[from] io::Error),
    /// Nobody said anything.
    #[error("connect timed out")]
    Silent,
    /// Its drain was over before it was reached.
    #[error("drained before it was reached")]
    Drained,
}

/// Connects to a service, from the configured address if there is one.
pub(crate) async fn dial(
    to: SocketAddr,
    from: Option<IpAddr>,
    within: Duration,
) -> Result<TcpStream, Unreachable> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(from) = from {
        // The port is chosen with the other end known, so that one source address serves more than 28,000 connections.
        let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::IpBindAddressNoPort, &true);
        socket.bind(SocketAddr::new(from, 0))?;
    }
    socket.set_nodelay(true)?;
    match tokio::time::timeout(within, socket.connect(to)).await {
        Ok(connected) => Ok(connected?),
        Err(_) => Err(Unreachable::Silent),
    }
}
