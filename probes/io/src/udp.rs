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
    let Ok(socket) = connect(settings, ldns) else { return ProbeOutcome::SendFailed };
    let sent = Instant::now();
    if SockRef::from(&socket).send(&query.bytes()).is_err() {
        return ProbeOutcome::SendFailed;
    }
    loop {
        let outcome = match event(&socket).await {
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
enum Event {
    /// A datagram from the LDNS; the beginning of it.
    Message { came: Instant, bytes: Vec<u8> },
    /// An ICMP error that quotes our query.
    Icmp { came: Instant, error: IcmpError },
    /// An entry of the error queue that no packet caused.
    LocalError,
}

fn connect(settings: &Settings, ldns: SocketAddr) -> io::Result<UdpSocket> {
    let socket = settings.socket(ldns, Type::DGRAM, Protocol::UDP)?;
    ask_for_stamps(&socket);
    ask_for_icmp_errors(&socket, ldns.is_ipv4());
    socket.connect(&SockAddr::from(ldns))?;
    UdpSocket::from_std(socket.into())
}

async fn event(socket: &UdpSocket) -> io::Result<Event> {
    socket.async_io(Interest::READABLE | Interest::ERROR, || next(socket)).await
}

fn next(socket: &UdpSocket) -> io::Result<Event> {
    let mut buf = [0; BUFFER];
    match error(socket, &mut buf) {
        Err(e) if e.kind() == ErrorKind::WouldBlock => {}
        stated => return stated,
    }
    match packet(socket, &mut buf) {
        Ok(Read { len, came, .. }) => {
            Ok(Event::Message { came, bytes: buf.get(..len).unwrap_or(&buf).to_vec() })
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
