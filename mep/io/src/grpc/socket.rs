//! TCP sockets: listening where QUIC does, and connecting from there.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep_until};

/// Connections the kernel holds until they are looked at. Looking is quick; a flood finds the kernel's own bound.
const BACKLOG: i32 = 1024;

/// How long the listener rests when the system has no descriptor left: trying again at once would take a whole processor.
const REST: Duration = Duration::from_millis(100);

/// A listening socket that bears with errors.
pub(crate) struct Listener {
    socket: TcpListener,
    rests_until: Option<Instant>,
}

/// Listens at this address, which must be numbered. The port is free at once after a node that listened there has ended.
pub(crate) fn listen(address: SocketAddr) -> io::Result<Listener> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(Listener { socket: TcpListener::from_std(socket.into())?, rests_until: None })
}

impl Listener {
    /// The next connection. May be given up at any time.
    pub(crate) async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            if let Some(until) = self.rests_until {
                sleep_until(until).await;
                self.rests_until = None;
            }
            match self.socket.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {} // by whoever connected
                Err(error) => {
                    tracing::debug!(%error, "no MEP connection can be accepted for now");
                    self.rests_until = Some(Instant::now() + REST);
                }
            }
        }
    }
}

/// Connects from the address this node listens on, as QUIC does: firewalls and address lists see the same one.
pub(super) async fn connect(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if !from.is_unspecified() {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?; // a frame is sent whole, and must not wait for the last one's acknowledgement
    Ok(stream)
}
