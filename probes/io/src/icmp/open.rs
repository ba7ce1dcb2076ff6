//! Opening an ICMP socket: raw if that is permitted, else unprivileged.

use crate::receive::{ask_for_icmp_errors, ask_for_stamps};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The receive buffer asked for. 2,000 replies at once are lost by half with the usual 208 KiB and not at all with this.
const RECEIVE_BUFFER: usize = 4 << 20;

/// What a family's pings are sent by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpSocket {
    /// A raw socket (root or CAP_NET_RAW).
    Raw,
    /// An unprivileged ICMP socket (`net.ipv4.ping_group_range`).
    Datagram,
    /// Neither is permitted to this process: pings end in "not permitted".
    NotPermitted,
    /// The host has no such family, or no socket of it could be had: pings can't be sent.
    Unavailable,
}

impl fmt::Display for IcmpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IcmpSocket::Raw => "raw",
            IcmpSocket::Datagram => "datagram",
            IcmpSocket::NotPermitted => "not permitted",
            IcmpSocket::Unavailable => "unavailable",
        })
    }
}

/// What pings are sent by, per family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpSockets {
    /// IPv4.
    pub v4: IcmpSocket,
    /// IPv6.
    pub v6: IcmpSocket,
}

/// An open ICMP socket.
pub(super) struct Opened {
    pub(super) socket: Socket,
    pub(super) is_v4: bool,
    pub(super) is_raw: bool,
}

/// Opens the better socket that is permitted.
pub(super) fn open(is_v4: bool, source: Option<IpAddr>) -> Result<Opened, IcmpSocket> {
    let raw = open_as(is_v4, true, source);
    let opened = raw.or_else(|_| open_as(is_v4, false, source));
    opened.map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => IcmpSocket::NotPermitted,
        _ => {
            tracing::info!(is_v4, reason = %e, "no ICMP socket");
            IcmpSocket::Unavailable
        }
    })
}

/// Opens one kind of socket.
pub(super) fn open_as(is_v4: bool, is_raw: bool, source: Option<IpAddr>) -> io::Result<Opened> {
    let (domain, protocol) = match is_v4 {
        true => (Domain::IPV4, Protocol::ICMPV4),
        false => (Domain::IPV6, Protocol::ICMPV6),
    };
    let kind = if is_raw { Type::RAW } else { Type::DGRAM };
    let socket = Socket::new(domain, kind.nonblocking().cloexec(), Some(protocol))?;
    if is_raw {
        // Without the filter every ICMP packet of the host is read, which costs time and no more.
        let _ = socket.attach_filter(&filter(is_v4));
    } else {
        ask_for_icmp_errors(&socket, is_v4);
    }
    ask_for_stamps(&socket);
    if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        // Without CAP_NET_ADMIN net.core.rmem_max bounds it.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    }
    // A datagram socket gets its identifier by being bound. A raw one is bound to nothing: each packet has its source.
    if !is_raw {
        let any = if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        socket.bind(&SockAddr::from(SocketAddr::new(source.unwrap_or(any), 0)))?;
    }
    Ok(Opened { socket, is_v4, is_raw })
}

/// A packet filter (classic BPF) that lets through what can end a ping: echo reply, unreachable, TTL exceeded, parameter
/// problem. Redirects are not among it: the request they are about was passed on.
fn filter(is_v4: bool) -> Vec<SockFilter> {
    const LOAD_IP_HEADER_LENGTH: u16 = 0xb1; // ldxb 4*([k]&0xf)
    const LOAD_BYTE: u16 = 0x30; // ldb [k]
    const LOAD_BYTE_AFTER: u16 = 0x50; // ldb [x+k]
    const EQUALS: u16 = 0x15; // jeq k
    const RETURN: u16 = 0x06; // ret k
    let (load, types): (_, &[u32]) = match is_v4 {
        true => (vec![(LOAD_IP_HEADER_LENGTH, 0, 0), (LOAD_BYTE_AFTER, 0, 0)], &[0, 3, 11, 12]),
        false => (vec![(LOAD_BYTE, 0, 0)], &[129, 1, 3, 4]),
    };
    let compare = types.iter().zip((1..=4u8).rev()).map(|(&kind, to_accept)| (EQUALS, to_accept, kind));
    let (drop, accept) = ((RETURN, 0, 0), (RETURN, 0, u32::MAX));
    let program = load.into_iter().chain(compare).chain([drop, accept]);
    program.map(|(code, jump, k)| SockFilter::new(code, jump, 0, k)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmp::packet::echo_request;
    use crate::receive::packet;
    use std::time::{Duration, Instant};

    /// Types of what a raw socket reads of the ICMP traffic that a ping of this very host makes.
    fn types_read(loopback: IpAddr) -> Option<Vec<u8>> {
        let opened = open_as(loopback.is_ipv4(), true, Some(loopback)).ok()?;
        let request = echo_request(opened.is_v4, 0x6a5b, 1, &[7; 16]);
        opened.socket.send_to(&request, &SockAddr::from(SocketAddr::new(loopback, 0))).unwrap();
        let (mut buf, mut types, until) = ([0; 256], Vec::new(), Instant::now() + Duration::from_secs(5));
        let at = if opened.is_v4 { 20 } else { 0 };
        let is_ours = |read: &[u8]| read.ends_with(&[7; 16]);
        while types.is_empty() && Instant::now() < until {
            while let Ok(read) = packet(&opened.socket, &mut buf) {
                types.extend(is_ours(&buf[..read.len]).then_some(buf[at]));
            }
        }
        Some(types)
    }

    #[test]
    fn the_filter_lets_the_reply_through_and_not_the_request() {
        for (loopback, reply) in
            [(Ipv4Addr::new(127, 3, 0, 1).into(), 0), (IpAddr::from(Ipv6Addr::LOCALHOST), 129)]
        {
            match types_read(loopback) {
                Some(types) => assert_eq!(types, [reply], "{loopback}"),
                None => eprintln!("skipped for {loopback}: no raw socket permitted"),
            }
        }
    }

    #[test]
    fn the_receive_buffer_is_as_large_as_the_system_allows() {
        let Ok(opened) = open_as(true, true, None) else {
            return eprintln!("skipped: no raw socket permitted");
        };
        assert!(opened.socket.recv_buffer_size().unwrap() >= 212_992);
    }
}
