//! The DNS-UDP probe: a query for "." in a socket of its own.

use crate::local::Settings;
use crate::query::Query;
use crate::receive::{IcmpError, Read, ask_for_icmp_errors, ask_for_stamps, icmp_error, packet};
use crate::stamp::{arrival, rtt};
use probes_core::wire::ProbeOutcome;
use socket2::{Protocol, SockAddr, SockRef, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// A probe's answer is judged by its first 17 bytes.
const BUFFER: usize = 64;

/// Sends a query to the LDNS and waits, for ever, for what answers it.
///
/// The socket is connected, so the kernel drops what comes from another address or port (faults I-34), and its port is
/// random. What does come but is no answer to this query is passed over.
pub(crate) async fn dns_udp(settings: &Settings, target: IpAddr) -> ProbeOutcome {
    let ldns = SocketAddr::new(target, settings.port);
    let query = Query::random();
    let Ok(datagrams) = Datagrams::open(settings, ldns) else { return ProbeOutcome::SendFailed };
    let Ok(sent) = datagrams.send(&query.bytes()) else { return ProbeOutcome::SendFailed };
    loop {
        let outcome = match datagrams.event(BUFFER).await {
            Ok(Event::Message { came, bytes }) if query.is_answered_by(&bytes) => {
                ProbeOutcome::DnsAnswer(rtt(sent, came))
            }
            Ok(Event::Icmp { came, error }) if error.is_port_unreachable_by(target) => {
                ProbeOutcome::PortUnreachable(rtt(sent, came))
            }
            Ok(Event::Message { .. } | Event::LocalError) => continue,
            Ok(Event::Icmp { .. }) => ProbeOutcome::RouterError,
            // No detail of the error was to be had: port unreachable is the only one that refuses, and who said it is
            // not known.
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                ProbeOutcome::PortUnreachable(rtt(sent, arrival(None)))
            }
            Err(_) => ProbeOutcome::RouterError,
        };
        return outcome;
    }
}

/// What a socket had to say.
pub(crate) enum Event {
    /// A datagram from the other end; the beginning of it.
    Message {
        /// When the kernel took it in.
        came: Instant,
        /// As much of it as was asked for.
        bytes: Vec<u8>,
    },
    /// An ICMP error that quotes what we sent.
    Icmp {
        /// When the kernel took it in.
        came: Instant,
        /// What it says, and who says it.
        error: IcmpError,
    },
    /// An entry of the error queue that no packet caused.
    LocalError,
}

/// A connected UDP socket whose packets are stamped, with the errors that come back.
pub(crate) struct Datagrams {
    socket: UdpSocket,
}

impl Datagrams {
    /// Towards this address, from a random port.
    pub(crate) fn open(settings: &Settings, target: SocketAddr) -> io::Result<Self> {
        let socket = settings.socket(target, Type::DGRAM, Protocol::UDP)?;
        ask_for_stamps(&socket);
        ask_for_icmp_errors(&socket, target.is_ipv4());
        socket.connect(&SockAddr::from(target))?;
        Ok(Datagrams { socket: UdpSocket::from_std(socket.into())? })
    }

    /// Stamps and sends.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<Instant> {
        let sent = Instant::now();
        SockRef::from(&self.socket).send(bytes).map(|_| sent)
    }

    /// Waits, for ever, for a datagram, of which `most` bytes are read, or an error.
    pub(crate) async fn event(&self, most: usize) -> io::Result<Event> {
        self.socket.async_io(Interest::READABLE | Interest::ERROR, || next(&self.socket, most)).await
    }
}

fn next(socket: &UdpSocket, most: usize) -> io::Result<Event> {
    let mut buf = vec![0; most];
    match error(socket, &mut buf) {
        Err(e) if e.kind() == ErrorKind::WouldBlock => {}
        stated => return stated,
    }
    match packet(socket, &mut buf) {
        Ok(Read { len, came, .. }) => {
            buf.truncate(len);
            Ok(Event::Message { came, bytes: buf })
        }
        Err(e) if e.kind() == ErrorKind::WouldBlock => Err(e),
        // The error came between the two reads: its details lie in the queue by now.
        Err(e) => error(socket, &mut buf).map_err(|_| e),
    }
}

fn error(socket: &UdpSocket, buf: &mut [u8]) -> io::Result<Event> {
    let read = icmp_error(socket, buf)?;
    Ok(read.what.map_or(Event::LocalError, |error| Event::Icmp { came: read.came, error }))
}
