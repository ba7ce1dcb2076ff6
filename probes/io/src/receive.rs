//! Reading packets with the kernel's stamp, and ICMP errors with their sender, from a socket.

use crate::stamp::arrival;
use nix::cmsg_space;
use nix::libc::{SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, sock_extended_err, sockaddr_in, sockaddr_in6};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrLike, SockaddrStorage, recvmsg,
    setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Instant, SystemTime};

/// An ICMP error, as its sender stated it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpError {
    /// Who sent it.
    pub(crate) from: IpAddr,
    /// ICMP or ICMPv6 type, as `from` is of the one or the other family.
    pub(crate) kind: u8,
    /// Its code.
    pub(crate) code: u8,
}

impl IcmpError {
    /// Whether it says "port unreachable" (v4 3/3, v6 1/4) and is the host's own word: an answer as good as any
    /// (behaviour 3, accept errors). The same word by somebody else is a firewall's.
    pub(crate) fn is_port_unreachable_by(&self, host: IpAddr) -> bool {
        let port_unreachable = match self.from {
            IpAddr::V4(_) => (3, 3),
            IpAddr::V6(_) => (1, 4),
        };
        self.from == host && (self.kind, self.code) == port_unreachable
    }
}

impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.from, self.kind, self.code) {
            (IpAddr::V4(_), 3, 0 | 6 | 11) | (IpAddr::V6(_), 1, 0) => "network unreachable",
            (IpAddr::V4(_), 3, 1 | 7 | 12) | (IpAddr::V6(_), 1, 3) => "host unreachable",
            (IpAddr::V4(_), 3, 3) | (IpAddr::V6(_), 1, 4) => "port unreachable",
            (IpAddr::V4(_), 3, 9 | 10 | 13) | (IpAddr::V6(_), 1, 1 | 5 | 6) => "administratively prohibited",
            (IpAddr::V4(_), 11, _) | (IpAddr::V6(_), 3, _) => "TTL exceeded",
            _ => return write!(f, "ICMP error {}/{} from {}", self.kind, self.code, self.from),
        };
        write!(f, "{what}, says {}", self.from)
    }
}

/// A packet or an error as read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<T> {
    /// Bytes in the buffer: the packet, or as much of ours as the error quotes.
    pub(crate) len: usize,
    /// The sender of a packet, or where the packet went that the error is about.
    pub(crate) peer: Option<IpAddr>,
    /// When the kernel took it in.
    pub(crate) came: Instant,
    /// Nothing more for a packet; who said what for an error.
    pub(crate) what: T,
}

/// Asks for kernel stamps. A kernel that has none is worked with: packets are then stamped at wake-up.
pub(crate) fn ask_for_stamps(socket: &impl AsFd) {
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
}

/// Asks for ICMP errors with their senders. Where there are none, errors are those of the socket calls.
pub(crate) fn ask_for_icmp_errors(socket: &impl AsFd, is_v4: bool) {
    let _ = match is_v4 {
        true => setsockopt(socket, sockopt::Ipv4RecvErr, &true),
        false => setsockopt(socket, sockopt::Ipv6RecvErr, &true),
    };
}

/// The next packet; `WouldBlock` if there is none.
pub(crate) fn packet(socket: &impl AsRawFd, buf: &mut [u8]) -> io::Result<Read<()>> {
    let read = read(socket, buf, MsgFlags::empty())?;
    Ok(Read { len: read.len, peer: read.peer, came: read.came, what: () })
}

/// The next ICMP error of the socket's error queue; `WouldBlock` if there is none. Entries of another origin (the
/// kernel's own errors about a local send) come as `None`.
pub(crate) fn icmp_error(socket: &impl AsRawFd, buf: &mut [u8]) -> io::Result<Read<Option<IcmpError>>> {
    read(socket, buf, MsgFlags::MSG_ERRQUEUE)
}

fn read(socket: &impl AsRawFd, buf: &mut [u8], flags: MsgFlags) -> io::Result<Read<Option<IcmpError>>> {
    let mut control =
        cmsg_space!(TimeSpec, (sock_extended_err, sockaddr_in), (sock_extended_err, sockaddr_in6));
    let mut parts = [IoSliceMut::new(buf)];
    let flags = flags | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let (mut stamp, mut what) = (None, None);
    for part in message.cmsgs()? {
        match part {
            ControlMessageOwned::ScmTimestampns(at) => stamp = wall(at),
            ControlMessageOwned::Ipv4RecvErr(e, from) => {
                what = stated(e, from.map(|a| IpAddr::V4(SockaddrIn::from(a).ip())));
            }
            ControlMessageOwned::Ipv6RecvErr(e, from) => {
                what = stated(e, from.map(|a| IpAddr::V6(SockaddrIn6::from(a).ip())));
            }
            _ => {}
        }
    }
    Ok(Read { len: message.bytes, peer: message.address.as_ref().and_then(ip), came: arrival(stamp), what })
}

fn stated(error: sock_extended_err, from: Option<IpAddr>) -> Option<IcmpError> {
    let from = from?.to_canonical();
    let of_the_network = [SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6].contains(&error.ee_origin);
    of_the_network.then_some(IcmpError { from, kind: error.ee_type, code: error.ee_code })
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    address.family()?;
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

fn wall(at: TimeSpec) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(at.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const HOST_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53));
    const HOST_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 53));
    const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn error(from: IpAddr, kind: u8, code: u8) -> IcmpError {
        IcmpError { from, kind, code }
    }

    #[test]
    fn only_the_hosts_own_port_unreachable_counts() {
        assert!(error(HOST_V4, 3, 3).is_port_unreachable_by(HOST_V4));
        assert!(error(HOST_V6, 1, 4).is_port_unreachable_by(HOST_V6));
        assert!(!error(ROUTER, 3, 3).is_port_unreachable_by(HOST_V4), "a firewall's word");
        assert!(!error(HOST_V4, 3, 13).is_port_unreachable_by(HOST_V4), "prohibited");
        assert!(!error(HOST_V4, 1, 4).is_port_unreachable_by(HOST_V4), "ICMPv6 numbers in ICMP");
        assert!(!error(HOST_V6, 3, 3).is_port_unreachable_by(HOST_V6), "ICMP numbers in ICMPv6");
    }

    #[test]
    fn an_operator_reads_what_was_said_and_by_whom() {
        assert_eq!(error(ROUTER, 3, 1).to_string(), "host unreachable, says 192.0.2.1");
        assert_eq!(error(HOST_V6, 1, 1).to_string(), "administratively prohibited, says 2001:db8::35");
        assert_eq!(error(ROUTER, 12, 0).to_string(), "ICMP error 12/0 from 192.0.2.1");
    }
}
