//! DNS over UDP: one blocking loop per thread and socket, the kernel spreads the packets over the sockets (SO_REUSEPORT).
//! What is the same for all packets of a batch is looked at once: the clock, what is published, whether to stop.
//!
//! On a wildcard address each packet says which address it was sent to (IP_PKTINFO), and the reply leaves from there
//! (RFC 2181 section 4.1, faults I-23).

use super::datagrams::{Arrival, Inbox, Outbox};
use super::{Context, SightingFilter};
use gslb_core::Published;
use gslb_core::dns::{Transport, answer};
use gslb_types::Timestamp;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a thread without packets looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// How long what waits when a thread is to stop is answered at most: a flood does not keep the process.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// A socket bound, and how it must be read.
pub(crate) struct Bound {
    socket: UdpSocket,
    /// The address bound, if it is a wildcard one.
    wildcard: Option<IpAddr>,
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
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
    let wildcard = Some(address.ip()).filter(IpAddr::is_unspecified);
    match wildcard {
        Some(IpAddr::V4(_)) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        Some(IpAddr::V6(_)) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        None => (),
    }
    socket.bind(&address.into())?;
    Ok(Bound { socket: socket.into(), wildcard })
}

/// Answers until `context.stop` is cancelled, and then what has come until then (bar R20): a query that waits in a socket when it
/// closes is lost without a word, and its client loses seconds. What comes later is refused, and the client asks another at once.
pub(crate) fn serve(bound: Bound, context: &Context) {
    let mut responder = Responder { context, filter: SightingFilter::new(context.sightings.clone()) };
    let (mut inbox, mut outbox) = (Inbox::new(bound.wildcard.is_some()), Outbox::new(bound.wildcard));
    let mut turn = || match inbox.receive(&bound.socket) {
        Ok(()) => {
            responder.answer_all(&inbox, &mut outbox);
            count(&context.shared.dns.send_errors, outbox.send(&bound.socket));
            true
        }
        Err(error) if is_silence(&error) => false,
        // What a stranger's packet can cause (an ICMP error on an earlier reply) is not worth a log line.
        Err(_) => {
            count(&context.shared.dns.send_errors, 1);
            true
        }
    };
    while !context.stop.is_cancelled() {
        turn();
    }
    let told = Instant::now();
    if bound.socket.set_nonblocking(true).is_ok() {
        while turn() && told.elapsed() < LAST_ANSWERS {}
    }
    drop(bound); // before what else this thread has: nothing may come to wait in it
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn count(counter: &AtomicU64, n: u64) {
    if n > 0 {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

struct Responder<'a> {
    context: &'a Context,
    filter: SightingFilter,
}

impl Responder<'_> {
    fn answer_all(&mut self, inbox: &Inbox, outbox: &mut Outbox) {
        let now = self.context.clock.now();
        let published = self.context.shared.published.load();
        for (arrival, request) in inbox.iter() {
            // A fault of ours in answering one packet costs that packet its reply and no other (bar R3).
            let answered = catch_unwind(AssertUnwindSafe(|| {
                self.answer(&published, arrival, request, now, outbox.room())
            }));
            match answered {
                Ok(0) => (),
                Ok(len) => outbox.reply(arrival, len),
                Err(_) => count(&self.context.shared.dns.panics, 1),
            }
        }
    }

    /// The length of the reply; 0 for none.
    fn answer(
        &mut self,
        published: &Published,
        arrival: &Arrival,
        request: &[u8],
        now: Timestamp,
        out: &mut [u8],
    ) -> usize {
        // Nobody listens on port 0; the packet is forged (faults I-70).
        if arrival.from.port() == 0 {
            return 0;
        }
        let source = arrival.from.ip().to_canonical();
        let answered = answer(&self.context.shared, published, request, source, Transport::Udp, now, out);
        if let Some(ldns) = answered.sighting {
            self.filter.note(ldns, now);
        }
        if let Some((key, service)) = answered.session {
            self.filter.note_session(published, key, service, now);
        }
        answered.len
    }
}
