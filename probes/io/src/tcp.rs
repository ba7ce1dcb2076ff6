//! SYN to SYN-ACK, or to what else answers a SYN.

use crate::diag::handshake;
use crate::local::Settings;
use crate::receive::{IcmpError, ask_for_icmp_errors, icmp_error};
use crate::stamp::rtt;
use gslb_types::Rtt;
use nix::errno::Errno;
use probes_core::wire::ProbeOutcome;
use socket2::{Protocol, SockAddr, SockRef, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// When Linux sends a SYN again that was not answered (RFC 6298 section 2, its `TCP_TIMEOUT_INIT`).
const SYN_AGAIN: Duration = Duration::from_secs(1);

/// What answered a SYN.
pub(crate) enum Answer {
    /// SYN-ACK. The connection stands.
    Connected(TcpStream, Rtt),
    /// RST.
    Reset(Rtt),
    /// An ICMP error that quotes it.
    Icmp(IcmpError, Rtt),
    /// Another error of the connection, told without a sender.
    Broken(io::Error),
    /// The SYN was not sent.
    NotSent(io::Error),
}

/// Sends a SYN to the LDNS and waits, for ever, for an answer. The connection is closed by RST, so that no probe leaves a
/// TIME_WAIT behind.
///
/// An answer that comes after the SYN was sent again may belong to either of them and measures nothing: a lost SYN must
/// not look like a second of distance. It counts as none.
pub(crate) async fn dns_tcp(settings: &Settings, target: IpAddr) -> ProbeOutcome {
    let outcome = match connect(settings, SocketAddr::new(target, settings.port)).await {
        Answer::Connected(stream, rtt) => {
            close_by_reset(stream);
            ProbeOutcome::Connected(rtt)
        }
        Answer::Reset(rtt) => ProbeOutcome::Reset(rtt),
        Answer::Icmp(error, rtt) if error.is_port_unreachable_by(target) => {
            ProbeOutcome::PortUnreachable(rtt)
        }
        Answer::Icmp(..) | Answer::Broken(_) => ProbeOutcome::RouterError,
        Answer::NotSent(_) => ProbeOutcome::SendFailed,
    };
    match outcome {
        ProbeOutcome::Connected(rtt) | ProbeOutcome::Reset(rtt) if rtt.as_duration() >= SYN_AGAIN => {
            ProbeOutcome::TimedOut
        }
        outcome => outcome,
    }
}

/// Connects, and tells what answered.
pub(crate) async fn connect(settings: &Settings, target: SocketAddr) -> Answer {
    let socket = match settings.socket(target, Type::STREAM, Protocol::TCP) {
        Ok(socket) => socket,
        Err(e) => return Answer::NotSent(e),
    };
    // Without the error queue a port unreachable of a firewall looks like an RST of the host.
    ask_for_icmp_errors(&socket, target.is_ipv4());
    let sent = Instant::now();
    match socket.connect(&SockAddr::from(target)) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {}
        // On the same host the answer can be back before the call returns.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return answered(&socket, e, sent),
        Err(e) => return Answer::NotSent(e),
    }
    let stream = match TcpStream::from_std(socket.into()) {
        Ok(stream) => stream,
        Err(e) => return Answer::NotSent(e),
    };
    match settled(&stream).await {
        Ok(()) => {
            let noticed = rtt(sent, Instant::now());
            let took = took(&stream).map_or(noticed, |kernel| kernel.min(noticed));
            Answer::Connected(stream, took)
        }
        Err(e) => answered(&stream, e, sent),
    }
}

/// What the kernel says that the handshake took. Of a SYN that was sent again it says nothing of use.
fn took(stream: &TcpStream) -> Option<Rtt> {
    let handshake = handshake(stream.local_addr().ok()?, stream.peer_addr().ok()?)?;
    (!handshake.was_repeated).then_some(handshake.rtt)
}

/// Closes the connection by RST.
pub(crate) fn close_by_reset(stream: TcpStream) {
    // Without it the connection is closed in the ordinary way, which costs a TIME_WAIT.
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

/// Waits until the connection stands or has failed.
async fn settled(stream: &TcpStream) -> io::Result<()> {
    let stands = || match stream.take_error()? {
        Some(e) => Err(e),
        None if stream.peer_addr().is_ok() => Ok(()),
        None => Err(io::ErrorKind::WouldBlock.into()),
    };
    stream.async_io(Interest::WRITABLE | Interest::ERROR, stands).await
}

fn answered(socket: &impl AsRawFd, error: io::Error, sent: Instant) -> Answer {
    let rtt = rtt(sent, Instant::now());
    match icmp_error(socket, &mut [0; 64]).ok().and_then(|read| read.what) {
        Some(icmp) => Answer::Icmp(icmp, rtt),
        None if error.kind() == io::ErrorKind::ConnectionRefused => Answer::Reset(rtt),
        None => Answer::Broken(error),
    }
}
