//! Datagrams in batches: one system call takes what has come, one sends what is to be said.
//!
//! A system call for each datagram would cost a quarter more CPU (bench/README.md).

use arrayvec::ArrayVec;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrIn, SockaddrIn6,
    SockaddrStorage, recvmmsg, sendmsg,
};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams for each system call. More gain nothing that can be measured, and the first waits for the last.
pub(super) const BATCH: usize = 16;

/// Larger than any request that makes sense; the rest of a longer packet is cut and fails to parse. Not a power of two, or
/// the beginnings of all requests of a batch would compete for the same few lines of the cache.
const REQUEST: usize = 4096 + 64;

/// Larger than any reply over UDP: `config` allows at most 1400.
const REPLY: usize = 1500;

/// The address a datagram was sent to, as the kernel tells it on wildcard sockets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

/// A datagram that came: where it is from, how long it is, and where it was sent to if the socket is a wildcard one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) from: SocketAddr,
    pub(super) asked: Option<Asked>,
    len: usize,
}

/// What came by one call.
pub(super) struct Inbox {
    buffers: Box<[[u8; REQUEST]; BATCH]>,
    headers: MultiHeaders<SockaddrStorage>,
    arrivals: ArrayVec<Arrival, BATCH>,
}

impl Inbox {
    /// An empty one. On a wildcard socket it also takes the address asked.
    pub(super) fn new(wildcard: bool) -> Self {
        let control = wildcard.then(|| nix::cmsg_space!(libc::in6_pktinfo));
        Inbox {
            buffers: Box::new([[0; REQUEST]; BATCH]),
            headers: MultiHeaders::preallocate(BATCH, control),
            arrivals: ArrayVec::new(),
        }
    }

    /// Waits for a datagram, as long as the socket's timeout, and takes it with all that have come besides.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.arrivals.clear();
        let mut slices = self.buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let flags = MsgFlags::MSG_WAITFORONE;
        let received = recvmmsg(socket.as_raw_fd(), &mut self.headers, slices.iter_mut(), flags, None)?;
        self.arrivals.extend(received.map(|message| Arrival::of(&message)));
        Ok(())
    }

    /// What came last.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arrival, &[u8])> {
        let requests = self.arrivals.iter().zip(self.buffers.iter());
        requests.map(|(arrival, buffer)| (arrival, buffer.get(..arrival.len).unwrap_or_default()))
    }
}

impl Arrival {
    fn of(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Self {
        let asked = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|control| match control {
                ControlMessageOwned::Ipv4PacketInfo(info) => Some(Asked::V4(info)),
                ControlMessageOwned::Ipv6PacketInfo(info) => Some(Asked::V6(info)),
                _ => None,
            })
        });
        // The kernel names the sender of every datagram; nobody is at port 0.
        let nobody = SocketAddr::V4(SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0));
        let from = message.address.as_ref().and_then(address).unwrap_or(nobody);
        Arrival { from, asked, len: message.bytes }
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

/// What is to be sent by one call.
pub(super) struct Outbox {
    buffers: Box<[[u8; REPLY]; BATCH]>,
    departures: ArrayVec<Departure, BATCH>,
}

/// A datagram that goes: where to, how long it is, and which address it leaves from if not the socket's.
struct Departure {
    to: SocketAddr,
    source: Option<Asked>,
    len: usize,
}

impl Outbox {
    /// An empty one.
    pub(super) fn new() -> Self {
        Outbox { buffers: Box::new([[0; REPLY]; BATCH]), departures: ArrayVec::new() }
    }

    /// Where the next reply is to be written. Empty if a whole batch stands there already.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.buffers.get_mut(self.departures.len()).map_or(&mut [], |buffer| buffer.as_mut_slice())
    }

    /// Addresses the first `len` bytes of the room to the sender of what came.
    pub(super) fn reply(&mut self, arrival: &Arrival, len: usize) {
        let departure = Departure { to: arrival.from, source: arrival.asked, len: len.min(REPLY) };
        // Never full: an inbox holds no more.
        let _ = self.departures.try_push(departure);
    }

    /// Sends all, and returns how many the kernel did not take.
    pub(super) fn send(&mut self, socket: &UdpSocket) -> u64 {
        let failed = if self.departures.iter().any(|departure| departure.source.is_some()) {
            self.send_from_address_asked(socket)
        } else {
            self.send_together(socket)
        };
        self.departures.clear();
        failed
    }

    /// The kernel's choice of source is right.
    fn send_together(&self, socket: &UdpSocket) -> u64 {
        let addresses: ArrayVec<SocketAddrAny, BATCH> =
            self.departures.iter().map(|departure| departure.to.into()).collect();
        let payloads: ArrayVec<[IoSlice<'_>; 1], BATCH> =
            self.payloads().map(|payload| [IoSlice::new(payload)]).collect();
        let mut controls = [const { None }; BATCH].map(|_: Option<()>| SendAncillaryBuffer::default());
        let parts = addresses.iter().zip(&payloads).zip(&mut controls);
        let mut messages: ArrayVec<MMsgHdr<'_>, BATCH> = parts
            .map(|((address, payload), control)| MMsgHdr::new_with_addr(address, payload, control))
            .collect();
        let (mut rest, mut failed) = (messages.as_mut_slice(), 0);
        while !rest.is_empty() {
            let done = match sendmmsg(socket, rest, SendFlags::empty()) {
                Ok(sent) => sent.max(1),
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                // It is about the first; the others have their chance.
                Err(_) => {
                    failed += 1;
                    1
                }
            };
            rest = rest.get_mut(done..).unwrap_or_default();
        }
        failed
    }

    /// Each reply takes the address asked as its source (RFC 2181 section 4.1). No safe crate offers that for a batch.
    fn send_from_address_asked(&self, socket: &UdpSocket) -> u64 {
        let each = self.departures.iter().zip(self.payloads());
        each.map(|(departure, payload)| u64::from(departure.send(socket, payload).is_err())).sum()
    }

    fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        let replies = self.departures.iter().zip(self.buffers.iter());
        replies.map(|(departure, buffer)| buffer.get(..departure.len).unwrap_or_default())
    }
}

impl Departure {
    fn send(&self, socket: &UdpSocket, payload: &[u8]) -> nix::Result<usize> {
        let (fd, payload, none) = (socket.as_raw_fd(), [IoSlice::new(payload)], MsgFlags::empty());
        let to = SockaddrStorage::from(self.to);
        match &self.source {
            Some(Asked::V4(info)) => {
                // ipi_addr is the packet's destination, ipi_spec_dst what a reply should leave from; interface 0 lets
                // the routing table choose the way.
                let source =
                    libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: info.ipi_addr, ipi_addr: info.ipi_addr };
                sendmsg(fd, &payload, &[ControlMessage::Ipv4PacketInfo(&source)], none, Some(&to))
            }
            Some(Asked::V6(info)) => {
                sendmsg(fd, &payload, &[ControlMessage::Ipv6PacketInfo(info)], none, Some(&to))
            }
            None => sendmsg(fd, &payload, &[], none, Some(&to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{setsockopt, sockopt};
    use std::net::IpAddr;
    use std::time::Duration;

    fn socket(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }

    fn wildcard(address: &str) -> UdpSocket {
        let socket = socket(address);
        match socket.local_addr().unwrap().ip() {
            IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true).unwrap(),
            IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true).unwrap(),
        }
        socket
    }

    /// Sends back all that came, with a byte before it.
    fn echo(socket: &UdpSocket, inbox: &mut Inbox, outbox: &mut Outbox) -> usize {
        inbox.receive(socket).unwrap();
        let mut count = 0;
        for (arrival, request) in inbox.iter() {
            let room = outbox.room();
            room[0] = b'>';
            room[1..=request.len()].copy_from_slice(request);
            outbox.reply(arrival, 1 + request.len());
            count += 1;
        }
        assert_eq!(outbox.send(socket), 0);
        count
    }

    fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; REQUEST];
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        (buffer[..len].to_vec(), from)
    }

    #[test]
    fn everybody_gets_the_reply_to_what_they_sent() {
        let server = socket("127.0.0.1:0");
        let to = server.local_addr().unwrap();
        let clients: Vec<UdpSocket> = (0..3 * BATCH + 1).map(|_| socket("127.0.0.1:0")).collect();
        for (n, client) in clients.iter().enumerate() {
            client.send_to(&vec![b'a'; n], to).unwrap();
        }
        let (mut inbox, mut outbox) = (Inbox::new(false), Outbox::new());
        let mut batches = Vec::new();
        while batches.iter().sum::<usize>() < clients.len() {
            batches.push(echo(&server, &mut inbox, &mut outbox));
        }
        assert_eq!(batches, [BATCH, BATCH, BATCH, 1]);
        for (n, client) in clients.iter().enumerate() {
            let expected = [b">".as_slice(), &vec![b'a'; n]].concat();
            assert_eq!(receive(client), (expected, to));
        }
    }

    #[test]
    fn a_reply_leaves_from_the_address_that_was_asked() {
        for (wild, asked) in [("0.0.0.0:0", ["127.0.0.5", "127.0.0.6"]), ("[::]:0", ["::1", "::1"])] {
            let server = wildcard(wild);
            let (mut inbox, mut outbox) = (Inbox::new(true), Outbox::new());
            // More than once: what the kernel wrote into the headers must not spoil the next call.
            for _ in 0..3 {
                let mut asked_from = Vec::new();
                for ip in asked {
                    let ip: IpAddr = ip.parse().unwrap();
                    let client = if ip.is_ipv4() { socket("127.0.0.1:0") } else { socket("[::1]:0") };
                    let to = SocketAddr::new(ip, server.local_addr().unwrap().port());
                    client.send_to(b"hello", to).unwrap();
                    asked_from.push((client, to));
                }
                assert_eq!(echo(&server, &mut inbox, &mut outbox), asked.len());
                for (client, to) in asked_from {
                    assert_eq!(receive(&client), (b">hello".to_vec(), to));
                }
            }
        }
    }

    #[test]
    fn a_reply_that_cannot_go_does_not_keep_the_others() {
        let server = socket("127.0.0.1:0");
        let client = socket("127.0.0.1:0");
        // Broadcasting needs permission, which the socket has not.
        let to = ["127.0.0.1:0", "255.255.255.255:9", "255.255.255.255:9", "127.0.0.1:0"];
        let mut outbox = Outbox::new();
        for (n, to) in (b'0'..).zip(to) {
            let to: SocketAddr = to.parse().unwrap();
            let from = if to.port() == 0 { client.local_addr().unwrap() } else { to };
            outbox.room()[0] = n;
            outbox.reply(&Arrival { from, asked: None, len: 0 }, 1);
        }
        assert_eq!(outbox.send(&server), 2);
        assert_eq!((receive(&client).0, receive(&client).0), (b"0".to_vec(), b"3".to_vec()));
        assert_eq!(outbox.send(&server), 0, "nothing is sent twice");
    }

    #[test]
    fn a_packet_that_is_too_long_is_cut() {
        let server = socket("127.0.0.1:0");
        let client = socket("127.0.0.1:0");
        client.send_to(&[7; REQUEST + 1], server.local_addr().unwrap()).unwrap();
        let mut inbox = Inbox::new(false);
        inbox.receive(&server).unwrap();
        let lengths: Vec<usize> = inbox.iter().map(|(_, request)| request.len()).collect();
        assert_eq!(lengths, [REQUEST]);
    }

    #[test]
    fn silence_ends_with_the_timeout_of_the_socket() {
        let server = socket("127.0.0.1:0");
        server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut inbox = Inbox::new(false);
        assert_eq!(inbox.receive(&server).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(inbox.iter().count(), 0);
    }
}
