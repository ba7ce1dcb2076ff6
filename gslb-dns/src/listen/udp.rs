//! DNS over UDP: one blocking loop per thread and socket, the kernel spreads the packets over the sockets (SO_REUSEPORT).
//!
//! On a wildcard address each packet says which address it was sent to (IP_PKTINFO), and the reply leaves from there
//! (RFC 2181 section 4.1, faults I-23).

use super::{Context, SightingFilter};
use gslb_core::dns::{Transport, answer};
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmsg,
    sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a thread without packets looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// Larger than any request that makes sense; the rest of a longer packet is cut and fails to parse.
const REQUEST: usize = 4096;

/// Larger than any reply over UDP: `config` allows at most 1400.
const REPLY: usize = 1500;

/// A socket bound, and how it must be read.
pub(crate) struct Bound {
    socket: UdpSocket,
    wildcard: bool,
}

/// Binds `count` sockets that share the address.
pub(crate) fn bind(address: SocketAddr, count: usize, receive_buffer: usize) -> io::Result<Vec<Bound>> {
    // SO_REUSEPORT would let a second process of the same user share the port unnoticed: ask without it first.
    drop(open(address, false, receive_buffer)?);
    (0..count).map(|_| open(address, true, receive_buffer)).collect()
}

fn open(address: SocketAddr, shared: bool, receive_buffer: usize) -> io::Result<Bound> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // The kernel grants what its limit allows; the default loses bursts (faults I-26).
    socket.set_recv_buffer_size(receive_buffer)?;
    socket.set_send_buffer_size(receive_buffer)?;
    if setsockopt(&socket, sockopt::RcvBufForce, &receive_buffer).is_err() {
        tracing::debug!(
            "SO_RCVBUFFORCE is not permitted: the kernel's net.core.rmem_max limits the receive buffer"
        );
    }
    socket.set_read_timeout(Some(STOP_CHECK))?;
    let wildcard = address.ip().is_unspecified();
    if wildcard && address.is_ipv4() {
        setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
    }
    if wildcard && address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
    }
    socket.bind(&address.into())?;
    Ok(Bound { socket: socket.into(), wildcard })
}

/// Answers until `context.stop` is cancelled. A fault of ours in answering one packet costs that packet its reply and no
/// other (bar R3): it is counted, and the loop begins anew.
pub(crate) fn serve(bound: &Bound, context: &Context) {
    while catch_unwind(AssertUnwindSafe(|| answer_all(bound, context))).is_err() {
        context.shared.dns.panics.fetch_add(1, Ordering::Relaxed);
    }
}

fn answer_all(bound: &Bound, context: &Context) {
    let mut responder =
        Responder { context, filter: SightingFilter::new(context.sightings.clone()), reply: [0; REPLY] };
    while !context.stop.is_cancelled() {
        let result =
            if bound.wildcard { responder.wildcard(&bound.socket) } else { responder.exact(&bound.socket) };
        if let Err(error) = result
            && !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
        {
            // What a stranger's packet can cause (an ICMP error on an earlier reply) is not worth a log line.
            context.shared.dns.send_errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Responder<'a> {
    context: &'a Context,
    filter: SightingFilter,
    reply: [u8; REPLY],
}

impl Responder<'_> {
    /// One packet on a socket bound to one address: the kernel's choice of source is right.
    fn exact(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let mut request = [0; REQUEST];
        let (len, from) = socket.recv_from(&mut request)?;
        if let Some(reply) = self.answer(&request[..len], from) {
            socket.send_to(reply, from)?;
        }
        Ok(())
    }

    /// One packet on a wildcard socket: the reply takes the address asked as its source.
    fn wildcard(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let mut request = [0; REQUEST];
        let mut space = nix::cmsg_space!(libc::in6_pktinfo);
        let (len, from, asked) = {
            let mut buffers = [IoSliceMut::new(&mut request)];
            let message = recvmsg::<SockaddrStorage>(
                socket.as_raw_fd(),
                &mut buffers,
                Some(&mut space),
                MsgFlags::empty(),
            )?;
            let asked = message.cmsgs()?.find(|m| {
                matches!(m, ControlMessageOwned::Ipv4PacketInfo(_) | ControlMessageOwned::Ipv6PacketInfo(_))
            });
            (message.bytes, message.address, asked)
        };
        let Some(to) = from else { return Ok(()) };
        let Some(source) = address(&to) else { return Ok(()) };
        let Some(reply) = self.answer(&request[..len], source) else { return Ok(()) };
        let payload = [IoSlice::new(reply)];
        let fd = socket.as_raw_fd();
        let none = MsgFlags::empty();
        match asked {
            Some(ControlMessageOwned::Ipv4PacketInfo(info)) => {
                // ipi_addr is the packet's destination, ipi_spec_dst what a reply should leave from; interface 0 lets
                // the routing table choose the way.
                let source =
                    libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: info.ipi_addr, ipi_addr: info.ipi_addr };
                sendmsg(fd, &payload, &[ControlMessage::Ipv4PacketInfo(&source)], none, Some(&to))?
            }
            Some(ControlMessageOwned::Ipv6PacketInfo(info)) => {
                sendmsg(fd, &payload, &[ControlMessage::Ipv6PacketInfo(&info)], none, Some(&to))?
            }
            _ => sendmsg(fd, &payload, &[], none, Some(&to))?,
        };
        Ok(())
    }

    fn answer(&mut self, request: &[u8], from: SocketAddr) -> Option<&[u8]> {
        // Nobody listens on port 0; the packet is forged (faults I-70).
        if from.port() == 0 {
            return None;
        }
        let now = self.context.clock.now();
        let shared = &self.context.shared;
        let published = shared.published.load();
        let source = from.ip().to_canonical();
        let answered = answer(shared, &published, request, source, Transport::Udp, now, &mut self.reply);
        if let Some(ldns) = answered.sighting {
            self.filter.note(ldns, now);
        }
        self.reply.get(..answered.len).filter(|reply| !reply.is_empty())
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 =
        storage.as_sockaddr_in().map(|a: &SockaddrIn| SocketAddr::V4(SocketAddrV4::new(a.ip(), a.port())));
    let v6 = || {
        storage.as_sockaddr_in6().map(|a: &SockaddrIn6| {
            SocketAddr::V6(SocketAddrV6::new(a.ip(), a.port(), a.flowinfo(), a.scope_id()))
        })
    };
    v4.or_else(v6)
}
