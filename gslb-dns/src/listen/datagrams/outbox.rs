//! What goes, in batches.

use super::inbox::{Arrival, Asked};
use super::{BATCH, REPLY};
use arrayvec::ArrayVec;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg as sendmmsg_with_control,
    sendmsg, setsockopt, sockopt,
};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// What is to be sent by one call.
pub(in crate::listen) struct Outbox {
    buffers: Box<[[u8; REPLY]; BATCH]>,
    departures: ArrayVec<Departure, BATCH>,
    from: Source,
}

/// Which address replies leave from.
enum Source {
    /// The socket's, or what the kernel takes for it.
    Socket,
    /// The address asked: the socket is a wildcard one. The headers carry it for many datagrams; without them each goes alone.
    Asked(Option<MultiHeaders<SockaddrStorage>>),
}

/// A datagram that goes: where to, how long it is, and which address it leaves from if not the socket's.
#[derive(Clone, Copy)]
struct Departure {
    to: SocketAddr,
    source: Option<Asked>,
    len: usize,
}

/// A datagram over loopback is there at once; on a machine that is busy, soon.
const LOOPBACK: Duration = Duration::from_secs(1);

type Payload<'a> = [IoSlice<'a>; 1];

impl Outbox {
    /// An empty one. On a wildcard socket replies leave from the address asked.
    pub(in crate::listen) fn new(wildcard: Option<IpAddr>) -> Self {
        let from = match wildcard {
            None => Source::Socket,
            Some(IpAddr::V4(_)) => Source::Asked(headers_or_none(Ipv4Addr::LOCALHOST.into())),
            Some(IpAddr::V6(_)) => Source::Asked(headers_or_none(Ipv6Addr::LOCALHOST.into())),
        };
        Outbox { buffers: Box::new([[0; REPLY]; BATCH]), departures: ArrayVec::new(), from }
    }

    /// Where the next reply is to be written. Empty if a whole batch stands there already.
    pub(in crate::listen) fn room(&mut self) -> &mut [u8] {
        self.buffers.get_mut(self.departures.len()).map_or(&mut [], |buffer| buffer.as_mut_slice())
    }

    /// Addresses the first `len` bytes of the room to the sender of what came.
    pub(in crate::listen) fn reply(&mut self, arrival: &Arrival, len: usize) {
        let departure = Departure { to: arrival.from, source: arrival.asked, len: len.min(REPLY) };
        // Never full: an inbox holds no more.
        let _ = self.departures.try_push(departure);
    }

    /// Sends all, and returns how many the kernel did not take.
    pub(in crate::listen) fn send(&mut self, socket: &UdpSocket) -> u64 {
        let replies = self.departures.iter().zip(self.buffers.iter());
        let payloads: ArrayVec<Payload<'_>, BATCH> = replies
            .map(|(departure, buffer)| [IoSlice::new(buffer.get(..departure.len).unwrap_or_default())])
            .collect();
        let failed = match &mut self.from {
            Source::Socket => send_together(socket, &self.departures, &payloads),
            Source::Asked(headers) => {
                send_from_address_asked(socket, headers.as_mut(), &self.departures, &payloads)
            }
        };
        self.departures.clear();
        failed
    }
}

/// The kernel's choice of source is right.
fn send_together(socket: &UdpSocket, departures: &[Departure], payloads: &[Payload<'_>]) -> u64 {
    let addresses: ArrayVec<SocketAddrAny, BATCH> = departures.iter().map(|d| d.to.into()).collect();
    let mut controls = [const { None }; BATCH].map(|_: Option<()>| SendAncillaryBuffer::default());
    let parts = addresses.iter().zip(payloads).zip(&mut controls);
    let mut messages: ArrayVec<MMsgHdr<'_>, BATCH> = parts
        .map(|((address, payload), control)| MMsgHdr::new_with_addr(address, payload, control))
        .collect();
    all(departures.len(), |done| {
        let rest = messages.get_mut(done..).unwrap_or_default();
        Ok(sendmmsg(socket, rest, SendFlags::empty())?)
    })
}

/// Each reply takes the address asked as its source (RFC 2181 section 4.1). A call says that once for all its datagrams, so
/// there is a call for each address asked: on most machines, one.
fn send_from_address_asked(
    socket: &UdpSocket,
    mut headers: Option<&mut MultiHeaders<SockaddrStorage>>,
    departures: &[Departure],
    payloads: &[Payload<'_>],
) -> u64 {
    let mut waiting: ArrayVec<(&Departure, &Payload<'_>), BATCH> = departures.iter().zip(payloads).collect();
    let mut failed = 0;
    while let Some(source) = waiting.first().map(|(departure, _)| departure.source) {
        let (now, later): (ArrayVec<_, BATCH>, ArrayVec<_, BATCH>) =
            waiting.into_iter().partition(|(departure, _)| same(departure.source, source));
        failed += send_from(socket, source, headers.as_deref_mut(), &now);
        waiting = later;
    }
    failed
}

/// Sends what leaves from the same address.
fn send_from(
    socket: &UdpSocket,
    source: Option<Asked>,
    mut headers: Option<&mut MultiHeaders<SockaddrStorage>>,
    replies: &[(&Departure, &Payload<'_>)],
) -> u64 {
    let control = source.as_ref().map(Asked::as_source);
    let control = control.as_ref().map(Asked::control);
    let control = control.as_slice();
    let addresses: ArrayVec<Option<SockaddrStorage>, BATCH> =
        replies.iter().map(|(departure, _)| Some(departure.to.into())).collect();
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    all(replies.len(), |done| {
        let rest = replies.get(done..).unwrap_or_default();
        let addresses = addresses.get(done..).unwrap_or_default();
        if let Some(headers) = headers.as_deref_mut() {
            let payloads = rest.iter().map(|(_, payload)| *payload);
            return Ok(sendmmsg_with_control(fd, headers, payloads, addresses, control, flags)?.count());
        }
        if let (Some((_, payload)), Some(address)) = (rest.first(), addresses.first()) {
            sendmsg(fd, *payload, control, flags, address.as_ref())?;
        }
        Ok(1)
    })
}

impl Asked {
    /// As what a reply leaves from. `ipi_addr` is the packet's destination, `ipi_spec_dst` what a reply should leave from;
    /// interface 0 lets the routing table choose the way.
    fn as_source(&self) -> Asked {
        match self {
            Asked::V4(info) => Asked::V4(libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: info.ipi_addr,
                ipi_addr: info.ipi_addr,
            }),
            Asked::V6(info) => Asked::V6(*info),
        }
    }

    fn control(&self) -> ControlMessage<'_> {
        match self {
            Asked::V4(info) => ControlMessage::Ipv4PacketInfo(info),
            Asked::V6(info) => ControlMessage::Ipv6PacketInfo(info),
        }
    }
}

/// Sends so many messages by calls of `send`, which is told how many are done and says how many it has added to them.
/// Returns how many the kernel did not take.
fn all(count: usize, mut send: impl FnMut(usize) -> io::Result<usize>) -> u64 {
    let (mut done, mut failed) = (0, 0);
    while done < count {
        done += match send(done) {
            Ok(sent) => sent.max(1),
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            // It is about the first; the others have their chance.
            Err(_) => {
                failed += 1;
                1
            }
        };
    }
    failed
}

/// Whether both leave from the same address by the same interface.
fn same(one: Option<Asked>, other: Option<Asked>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(Asked::V4(one)), Some(Asked::V4(other))) => one.ipi_addr.s_addr == other.ipi_addr.s_addr,
        (Some(Asked::V6(one)), Some(Asked::V6(other))) => {
            one.ipi6_addr.s6_addr == other.ipi6_addr.s6_addr && one.ipi6_ifindex == other.ipi6_ifindex
        }
        (None | Some(Asked::V4(_) | Asked::V6(_)), _) => false,
    }
}

fn headers_or_none(loopback: IpAddr) -> Option<MultiHeaders<SockaddrStorage>> {
    headers(loopback)
        .inspect_err(|error| tracing::info!(%error, "replies of a wildcard socket are sent one by one"))
        .ok()
}

/// Headers for a batch. nix counts what was sent by looking at each message's address and control data as if it had been
/// received: a batch is received with them first, so that none of it is memory nobody wrote.
fn headers(loopback: IpAddr) -> io::Result<MultiHeaders<SockaddrStorage>> {
    let socket = UdpSocket::bind((loopback, 0))?;
    socket.set_read_timeout(Some(LOOPBACK))?;
    let control = match loopback {
        IpAddr::V4(_) => {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
            nix::cmsg_space!(libc::in_pktinfo)
        }
        IpAddr::V6(_) => {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            nix::cmsg_space!(libc::in6_pktinfo)
        }
    };
    for _ in 0..BATCH {
        socket.send_to(&[], socket.local_addr()?)?;
    }
    let mut headers = MultiHeaders::preallocate(BATCH, Some(control));
    let mut buffers = [[0; 1]; BATCH];
    let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
    let received = recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::empty(), None)?;
    match received.filter(|message| message.cmsgs().is_ok_and(|mut all| all.next().is_some())).count() {
        BATCH => Ok(headers),
        less => Err(io::Error::other(format!("{less} of {BATCH} datagrams came over {loopback}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Inbox;
    use super::*;

    fn socket(address: impl std::net::ToSocketAddrs) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }

    fn boxes() -> [(Outbox, &'static str); 2] {
        let alone = Outbox { from: Source::Asked(None), ..Outbox::new(None) };
        let together = Outbox::new(Some(Ipv4Addr::UNSPECIFIED.into()));
        assert!(matches!(together.from, Source::Asked(Some(_))), "no batches");
        [(together, "together"), (alone, "each alone")]
    }

    #[test]
    fn replies_of_one_batch_leave_each_from_the_address_that_was_asked() {
        let server = socket("0.0.0.0:0");
        setsockopt(&server, sockopt::Ipv4PacketInfo, &true).unwrap();
        let (port, client) = (server.local_addr().unwrap().port(), socket("127.0.0.1:0"));
        for (mut outbox, how) in boxes() {
            let asked: Vec<SocketAddr> =
                (0..BATCH).map(|n| ([127, 0, 0, [5, 6, 7][n % 3]], port).into()).collect();
            for to in &asked {
                client.send_to(b"hello", to).unwrap();
            }
            let mut inbox = Inbox::new(true);
            inbox.receive(&server).unwrap();
            for (n, (arrival, _)) in inbox.iter().enumerate() {
                outbox.room()[0] = u8::try_from(n).unwrap();
                outbox.reply(arrival, 1);
            }
            assert_eq!(outbox.send(&server), 0, "{how}");
            let mut came: Vec<(u8, SocketAddr)> = Vec::new();
            for _ in 0..BATCH {
                let mut reply = [0; 2];
                let (len, from) = client.recv_from(&mut reply).unwrap();
                assert_eq!(len, 1, "{how}");
                came.push((reply[0], from));
            }
            came.sort();
            assert_eq!(came, (0..).zip(asked).collect::<Vec<_>>(), "{how}");
        }
    }

    #[test]
    fn a_reply_that_cannot_go_keeps_no_other_of_its_address() {
        let (server, client) = (socket("0.0.0.0:0"), socket("127.0.0.1:0"));
        let info = |n| libc::in_pktinfo {
            ipi_ifindex: 1,
            ipi_spec_dst: libc::in_addr { s_addr: 0 },
            ipi_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, n]) },
        };
        for (mut outbox, how) in boxes() {
            // Broadcasting needs permission, which the socket has not. Twice: what is left of a failed call must not spoil
            // the next.
            for _ in 0..2 {
                for n in 0..BATCH {
                    let from = match n {
                        0 | 3 | 4 | 15 => ([255, 255, 255, 255], 9).into(),
                        _ => client.local_addr().unwrap(),
                    };
                    outbox.room()[0] = u8::try_from(n).unwrap();
                    let asked = Some(Asked::V4(info([5, 6][n % 2])));
                    outbox.reply(&Arrival { from, asked, len: 0 }, 1);
                }
                assert_eq!(outbox.send(&server), 4, "{how}");
                let mut came: Vec<u8> = Vec::new();
                for _ in 0..BATCH - 4 {
                    let mut reply = [0; 2];
                    let (_, from) = client.recv_from(&mut reply).unwrap();
                    let expected: IpAddr = [127, 0, 0, [5, 6][usize::from(reply[0]) % 2]].into();
                    assert_eq!(from.ip(), expected, "{how}");
                    came.push(reply[0]);
                }
                came.sort_unstable();
                assert_eq!(came, [1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], "{how}");
            }
        }
    }
}
