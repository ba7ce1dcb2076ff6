//! What comes, in batches.

use super::{BATCH, REQUEST};
use arrayvec::ArrayVec;
use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmmsg,
};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// The address a datagram was sent to, as the kernel tells it on wildcard sockets.
#[derive(Clone, Copy, Debug)]
pub(in crate::listen) enum Asked {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

/// A datagram that came: where it is from, how long it is, and where it was sent to if the socket is a wildcard one.
#[derive(Clone, Copy, Debug)]
pub(in crate::listen) struct Arrival {
    pub(in crate::listen) from: SocketAddr,
    pub(in crate::listen) asked: Option<Asked>,
    pub(super) len: usize,
}

/// What came by one call.
pub(in crate::listen) struct Inbox {
    buffers: Box<[[u8; REQUEST]; BATCH]>,
    headers: MultiHeaders<SockaddrStorage>,
    arrivals: ArrayVec<Arrival, BATCH>,
}

impl Inbox {
    /// An empty one. On a wildcard socket it also takes the address asked.
    pub(in crate::listen) fn new(wildcard: bool) -> Self {
        let control = wildcard.then(|| nix::cmsg_space!(libc::in6_pktinfo));
        Inbox {
            buffers: Box::new([[0; REQUEST]; BATCH]),
            headers: MultiHeaders::preallocate(BATCH, control),
            arrivals: ArrayVec::new(),
        }
    }

    /// Waits for a datagram, as long as the socket's timeout, and takes it with all that have come besides.
    pub(in crate::listen) fn receive(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.arrivals.clear();
        let mut slices = self.buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let flags = MsgFlags::MSG_WAITFORONE;
        let received = recvmmsg(socket.as_raw_fd(), &mut self.headers, slices.iter_mut(), flags, None)?;
        self.arrivals.extend(received.map(|message| Arrival::of(&message)));
        Ok(())
    }

    /// What came last.
    pub(in crate::listen) fn iter(&self) -> impl Iterator<Item = (&Arrival, &[u8])> {
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
