//! What the kernel measured of a TCP handshake, asked for by `sock_diag(7)`.
//!
//! A connection that stands is noticed when its task wakes up, which on a busy node is later than it was: load would look
//! like distance. The kernel stamps SYN and SYN-ACK itself.

use gslb_types::Rtt;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// From `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`.
const HEADER: usize = 16;
const REQUEST: u16 = 1;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const MESSAGE: usize = 72;
const INET_DIAG_INFO: u16 = 2;

/// Where two fields of `struct tcp_info` lie (`linux/tcp.h`).
const RTT: usize = 68;
const TOTAL_RETRANS: usize = 100;

/// Bytes of an answer: the message and the one attribute that is asked for, twice over.
const ANSWER: usize = 1024;

/// What the kernel knows of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handshake {
    /// SYN to SYN-ACK.
    pub(crate) rtt: Rtt,
    /// Whether the SYN was sent again: then it is not known which of them was answered.
    pub(crate) was_repeated: bool,
}

/// The handshake of a connection that has just been established, before anything was sent over it. `None` where the kernel
/// does not say.
pub(crate) fn handshake(local: SocketAddr, peer: SocketAddr) -> Option<Handshake> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let kernel =
        socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkSockDiag).ok()?;
    send(kernel.as_raw_fd(), &question(local, peer), MsgFlags::empty()).ok()?;
    // It is answered within the call that asked.
    let mut answer = [0; ANSWER];
    let len = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
    read(answer.get(..len)?)
}

/// A request for the one connection between these, in any state, with its `tcp_info`.
fn question(local: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let (family, protocol, wanted) = (if local.is_ipv4() { 2 } else { 10 }, 6, 1 << (INET_DIAG_INFO - 1));
    let mut body = vec![family, protocol, wanted, 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(local.port().to_be_bytes());
    body.extend(peer.port().to_be_bytes());
    body.extend(address(local.ip()));
    body.extend(address(peer.ip()));
    // Any interface, and no cookie.
    body.extend(0u32.to_ne_bytes());
    body.extend([0xff; 8]);
    let mut message = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX).to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn address(ip: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(v4) => bytes.iter_mut().zip(v4.octets()).for_each(|(to, from)| *to = from),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    bytes
}

/// Finds the `tcp_info` among the attributes of an answer.
fn read(answer: &[u8]) -> Option<Handshake> {
    if u16_at(answer, 4)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let mut attributes = answer.get(HEADER + MESSAGE..)?;
    loop {
        let (len, kind) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        let value = attributes.get(4..len)?;
        if kind == INET_DIAG_INFO {
            let rtt = Duration::from_micros(u32_at(value, RTT)?.into());
            let was_repeated = u32_at(value, TOTAL_RETRANS)? > 0;
            return (!rtt.is_zero()).then_some(Handshake { rtt: Rtt::from_duration(rtt), was_repeated });
        }
        // Attributes begin at multiples of four.
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_says_what_a_handshake_took() {
        for address in ["127.54.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                eprintln!("skipped: no {address} here");
                continue;
            };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (local, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            let Some(handshake) = handshake(local, peer) else {
                return eprintln!("skipped: this kernel has no sock_diag for TCP");
            };
            println!("{address}: {handshake:?}");
            assert!(handshake.rtt.as_duration() < Duration::from_millis(50) && !handshake.was_repeated);
            drop(listener);
            let stranger = SocketAddr::new(peer.ip(), 9);
            assert_eq!(super::handshake(local, stranger), None, "no such connection");
        }
    }

    #[test]
    fn an_answer_cut_anywhere_or_changed_is_none_or_another() {
        let mut answer = vec![0; HEADER + MESSAGE];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        // Another attribute of one byte, padded; then the info.
        answer.extend([5, 0, 8, 0, 1, 0, 0, 0]);
        let mut info = vec![0; 104];
        info[RTT..RTT + 4].copy_from_slice(&1500u32.to_ne_bytes());
        answer.extend(108u16.to_ne_bytes());
        answer.extend(INET_DIAG_INFO.to_ne_bytes());
        answer.extend(&info);
        let expected = Handshake { rtt: Rtt::from_micros(1500), was_repeated: false };
        assert_eq!(read(&answer), Some(expected));
        for len in 0..answer.len() {
            assert_eq!(read(&answer[..len]), None, "{len}");
        }
        for at in 0..answer.len() {
            for byte in [0, 1, 2, 3, 4, 0xff] {
                let mut changed = answer.clone();
                changed[at] = byte;
                let _ = read(&changed);
            }
        }
        // An attribute of no length would be read for ever.
        answer[HEADER + MESSAGE] = 0;
        assert_eq!(read(&answer), None);
    }
}
