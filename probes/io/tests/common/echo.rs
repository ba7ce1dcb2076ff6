//! Hosts that answer echo requests as told, by a raw socket; the kernel must be told not to answer itself.

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

/// The IPv6 address of the lab's LDNS.
pub(crate) const LDNS_V6: &str = "fd77:2::53";

/// An echo request as it came in.
pub(crate) struct Asked {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) came: Instant,
    /// The ICMP message.
    pub(crate) icmp: Vec<u8>,
}

/// An ICMP message to send.
pub(crate) struct Say {
    /// When the request came in.
    pub(crate) came: Instant,
    pub(crate) at: Instant,
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) icmp: Vec<u8>,
}

impl Asked {
    /// The reply that is due.
    pub(crate) fn reply(&self) -> Vec<u8> {
        let mut icmp = self.icmp.clone();
        icmp[0] = if self.from.is_ipv4() { 0 } else { 129 };
        icmp
    }

    /// An error with the request as quoted, if so much of it is.
    pub(crate) fn error(&self, kind: u8, code: u8, request: &[u8]) -> Vec<u8> {
        let quoted = match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, request),
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let len = request.len() as u8;
                [&[0x60, 0, 0, 0, 0, len, 58, 60], &from.octets()[..], &to.octets(), request].concat()
            }
            _ => unreachable!("both are of one family"),
        };
        [&[kind, code, 0, 0, 0, 0, 0, 0], &quoted[..]].concat()
    }

    pub(crate) fn say(&self, after: Duration, icmp: Vec<u8>) -> Say {
        Say { came: self.came, at: self.came + after, from: self.to, to: self.from, icmp }
    }
}

/// Answers every echo request that comes by this [`raw`] socket by what `plan` makes of it, until stopped. What the host
/// really took for it, which is more than planned on a busy machine, goes to `took`.
pub(crate) fn answer_echo(
    socket: &UdpSocket,
    stop: &AtomicBool,
    took: &mpsc::Sender<(IpAddr, Duration)>,
    mut plan: impl FnMut(&Asked) -> Vec<Say>,
) {
    let (mut due, mut buf) = (BTreeMap::new(), [0; 512]);
    let mut said = 0;
    while !stop.load(Ordering::Relaxed) {
        while let Some(asked) = receive(socket, &mut buf) {
            for say in asked.iter().flat_map(&mut plan) {
                said += 1;
                due.insert((say.at, said), say);
            }
        }
        while let Some(first) = due.first_entry().filter(|first| first.get().at <= Instant::now()) {
            let say = first.remove();
            let _ = took.send((say.from, say.came.elapsed()));
            send(socket, &say);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The next packet, if there is one; an echo request, if it is one.
fn receive(socket: &UdpSocket, buf: &mut [u8]) -> Option<Option<Asked>> {
    let (mut control, mut parts) = (nix::cmsg_space!(TimeSpec), [IoSliceMut::new(buf)]);
    let message: RecvMsg<'_, '_, SockaddrStorage> =
        recvmsg(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty()).ok()?;
    let stamp = message.cmsgs().ok()?.find_map(|part| match part {
        ControlMessageOwned::ScmTimestampns(at) => Some(SystemTime::UNIX_EPOCH + Duration::from(at)),
        _ => None,
    });
    let came = Instant::now() - stamp?.elapsed().unwrap_or_default();
    let (len, from) = (message.bytes, message.address?);
    let v4 = from.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    let from = v4.or_else(|| from.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))?;
    Some(asked(&buf[..len], from, came))
}

/// A raw socket of the namespace of this thread, as the type of socket std has.
pub(crate) fn raw(is_v4: bool) -> UdpSocket {
    let (domain, protocol) = match is_v4 {
        true => (Domain::IPV4, Protocol::ICMPV4),
        false => (Domain::IPV6, Protocol::ICMPV6),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
    let _ = socket.set_recv_buffer_size(4 << 20);
    if is_v4 {
        socket.set_header_included_v4(true).unwrap();
    } else {
        socket.bind(&SockAddr::from(SocketAddr::new(LDNS_V6.parse().unwrap(), 0))).unwrap();
    }
    socket.set_nonblocking(true).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
    socket.into()
}

fn asked(packet: &[u8], from: IpAddr, came: Instant) -> Option<Asked> {
    // An IPv6 socket gives no header; there is one host to be asked.
    let (to, icmp, request) = match from {
        IpAddr::V4(_) => {
            (Ipv4Addr::from(*packet.get(16..)?.first_chunk::<4>()?).into(), packet.get(20..)?, 8)
        }
        IpAddr::V6(_) => (LDNS_V6.parse().ok()?, packet, 128),
    };
    (*icmp.first()? == request).then_some(Asked { from, to, came, icmp: icmp.to_vec() })
}

fn send(socket: &UdpSocket, say: &Say) {
    let bytes = match (say.from, say.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, &with_checksum(&say.icmp)),
        _ => say.icmp.clone(),
    };
    socket.send_to(&bytes, SocketAddr::new(say.to, 0)).unwrap();
}

/// An IPv4 header and what it carries; the kernel fills in length and checksum.
fn ipv4(from: Ipv4Addr, to: Ipv4Addr, icmp: &[u8]) -> Vec<u8> {
    let len = 20 + icmp.len() as u8;
    [&[0x45, 0, 0, len, 0, 0, 0, 0, 64, 1, 0, 0], &from.octets()[..], &to.octets(), icmp].concat()
}

fn with_checksum(icmp: &[u8]) -> Vec<u8> {
    let mut icmp = icmp.to_vec();
    icmp[2..4].fill(0);
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = icmp.chunks(2).map(word).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    icmp
}

/// A host in the lab that answers echo requests by a plan, until dropped.
pub(crate) struct Echoing {
    /// Which address took how long for an answer.
    pub(crate) took: mpsc::Receiver<(IpAddr, Duration)>,
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Echoing {
    pub(crate) fn start(
        lab: &super::net::Lab,
        is_v4: bool,
        plan: impl FnMut(&Asked) -> Vec<Say> + Send + 'static,
    ) -> Self {
        lab.sysctl("l", "ipv4/icmp_echo_ignore_all", "1");
        lab.sysctl("l", "ipv6/icmp/echo_ignore_all", "1");
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let socket = lab.inside("l", move || raw(is_v4)).join().unwrap();
        let (taken, took) = mpsc::channel();
        let thread = std::thread::spawn(move || answer_echo(&socket, &stopped, &taken, plan));
        Echoing { took, stop, thread: Some(thread) }
    }
}

impl Drop for Echoing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}
