//! One ICMP socket and the pings that wait for its replies.

use super::Pinged;
use super::open::{IcmpSocket, Opened};
use super::packet::{
    Echoed, Message, Token, decode_datagram_v4, decode_quoted, decode_raw_v4, decode_v6, echo_request,
};
use crate::receive::{icmp_error, packet};
use crate::stamp::rtt;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// An IPv4 header with options, an error, and all of our request.
const BUFFER: usize = 512;
/// Random sequence numbers tried until one is free towards the target. With half of all 65,536 taken, each fails with 1/2.
const TRIES: usize = 64;
/// A datagram socket's send reports errors of earlier packets; each call reports one and clears it.
const STALE_ERRORS: usize = 8;

/// One ICMP socket.
pub(crate) struct Echo {
    /// An ICMP socket, of which only readiness and options are used by this type.
    socket: UdpSocket,
    is_v4: bool,
    is_raw: bool,
    /// The pings under way, by what names them on either kind of socket.
    waiting: Mutex<HashMap<Key, Waiting>>,
}

/// Target and sequence number.
type Key = (IpAddr, u16);

struct Waiting {
    ident: u16,
    token: Token,
    sent: Instant,
    tell: oneshot::Sender<Pinged>,
}

impl Echo {
    /// Takes the socket over; within a runtime.
    pub(super) fn start(opened: Opened) -> Result<Arc<Self>, IcmpSocket> {
        let Opened { socket, is_v4, is_raw } = opened;
        let socket = UdpSocket::from_std(socket.into()).map_err(|_| IcmpSocket::Unavailable)?;
        Ok(Arc::new(Echo { socket, is_v4, is_raw, waiting: Mutex::default() }))
    }

    /// Which kind of socket it is.
    pub(super) fn socket(&self) -> IcmpSocket {
        if self.is_raw { IcmpSocket::Raw } else { IcmpSocket::Datagram }
    }

    /// Sends an echo request, from this address if one is given, and waits, for ever, for the reply or an error. Dropped, it
    /// is forgotten.
    pub(super) async fn ping(&self, target: IpAddr, source: Option<IpAddr>) -> Pinged {
        let Some((registered, answer)) = self.register(target, source) else {
            return Pinged::NotSent(io::ErrorKind::ResourceBusy.into());
        };
        if let Err(e) = self.send(&registered).await {
            return Pinged::NotSent(e);
        }
        // The sender is in the table until it is used or `registered` is dropped.
        answer.await.unwrap_or_else(|_| Pinged::NotSent(io::ErrorKind::Interrupted.into()))
    }

    /// Reads replies and errors until cancelled.
    pub(crate) async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let heard = async {
            let events = Interest::READABLE | Interest::ERROR;
            while self.socket.async_io(events, || self.hear()).await.is_ok() {}
        };
        cancel.run_until_cancelled(heard).await;
    }

    /// Enters a ping under a random sequence number that is free, with a random identifier and token.
    fn register(
        &self,
        target: IpAddr,
        source: Option<IpAddr>,
    ) -> Option<(Registered<'_>, oneshot::Receiver<Pinged>)> {
        let (tell, answer) = oneshot::channel();
        let (ident, token) = (rand::random(), rand::random());
        let mut waiting = self.waiting();
        for _ in 0..TRIES {
            let key = (target, rand::random());
            if let Entry::Vacant(vacant) = waiting.entry(key) {
                vacant.insert(Waiting { ident, token, sent: Instant::now(), tell });
                let request = echo_request(self.is_v4, ident, key.1, &token);
                return Some((Registered { echo: self, key, token, source, request }, answer));
            }
        }
        None
    }

    async fn send(&self, registered: &Registered<'_>) -> io::Result<()> {
        let mut stale = 0;
        loop {
            match self.socket.async_io(Interest::WRITABLE, || self.send_now(registered)).await {
                Err(_) if !self.is_raw && stale < STALE_ERRORS => stale += 1,
                sent => return sent,
            }
        }
    }

    /// Stamps and sends.
    fn send_now(&self, registered: &Registered<'_>) -> io::Result<()> {
        let to = SocketAddr::new(registered.key.0, 0);
        if let Some(waiting) = self.waiting().get_mut(&registered.key) {
            waiting.sent = Instant::now();
        }
        send_from(&self.socket, &registered.request, to, registered.source)
    }

    /// Reads one packet or error. `WouldBlock` if there is neither.
    fn hear(&self) -> io::Result<()> {
        let mut buf = [0; BUFFER];
        if !self.is_raw {
            match icmp_error(&self.socket, &mut buf) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ok(()),
                Ok(read) => {
                    let message = read
                        .what
                        .zip(read.peer)
                        .and_then(|(error, target)| decode_quoted(buf.get(..read.len)?, target, error));
                    self.settle(message, read.came);
                    return Ok(());
                }
            }
        }
        match packet(&self.socket, &mut buf) {
            Ok(read) => {
                let bytes = buf.get(..read.len).unwrap_or_default();
                self.settle(self.decode(bytes, read.peer), read.came);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(e),
            // An earlier packet's error: read, and thereby cleared.
            Err(_) => Ok(()),
        }
    }

    fn decode(&self, bytes: &[u8], from: Option<IpAddr>) -> Option<Message> {
        match (self.is_v4, self.is_raw) {
            (true, true) => decode_raw_v4(bytes),
            (true, false) => decode_datagram_v4(bytes, from?),
            (false, _) => decode_v6(bytes, from?),
        }
    }

    /// Ends the ping the message is about. What is about none, or does not prove to be about it, is passed over, and the
    /// ping waits on: a duplicate, another process's ping, a forgery.
    fn settle(&self, message: Option<Message>, came: Instant) {
        let Some(message) = message else { return };
        let (Message::Reply { echo, .. } | Message::Error { echo, .. }) = &message;
        let mut waiting = self.waiting();
        let Entry::Occupied(entry) = waiting.entry((echo.target, echo.seq)) else { return };
        if !self.is_about(&message, entry.get()) {
            return;
        }
        let Waiting { sent, tell, .. } = entry.remove();
        // A ping given up at this moment has nobody to tell.
        let _ = tell.send(match message {
            Message::Reply { .. } => Pinged::Reply(rtt(sent, came)),
            Message::Error { error, .. } => Pinged::Error(error),
        });
    }

    fn is_about(&self, message: &Message, waiting: &Waiting) -> bool {
        // The identifier on a datagram socket is the kernel's, which has compared it.
        let ident_fits = |echo: &Echoed| !self.is_raw || echo.ident == waiting.ident;
        match message {
            Message::Reply { echo, token } => ident_fits(echo) && *token == waiting.token,
            Message::Error { echo, token, .. } => {
                ident_fits(echo) && token.is_none_or(|token| token == waiting.token)
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Key, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a packet, from this address if one is given. The socket itself is bound to none, so that it hears the replies to all.
fn send_from(socket: &UdpSocket, packet: &[u8], to: SocketAddr, source: Option<IpAddr>) -> io::Result<()> {
    let parts = [IoSlice::new(packet)];
    let to = SockaddrStorage::from(to);
    let send =
        |control: &[_]| sendmsg(socket.as_raw_fd(), &parts, control, MsgFlags::MSG_DONTWAIT, Some(&to));
    match source {
        None => send(&[]),
        Some(IpAddr::V4(source)) => {
            let ipi_spec_dst = in_addr { s_addr: u32::from_ne_bytes(source.octets()) };
            let info = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: in_addr { s_addr: 0 } };
            send(&[ControlMessage::Ipv4PacketInfo(&info)])
        }
        Some(IpAddr::V6(source)) => {
            let info = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: source.octets() }, ipi6_ifindex: 0 };
            send(&[ControlMessage::Ipv6PacketInfo(&info)])
        }
    }?;
    Ok(())
}

/// A ping in the table, for as long as this lives.
struct Registered<'e> {
    echo: &'e Echo,
    key: Key,
    token: Token,
    source: Option<IpAddr>,
    request: [u8; 24],
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        // Once answered, the place may be another ping's.
        let mut waiting = self.echo.waiting();
        if waiting.get(&self.key).is_some_and(|w| w.token == self.token) {
            waiting.remove(&self.key);
        }
    }
}
