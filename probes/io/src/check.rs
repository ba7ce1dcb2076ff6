//! Checks of services, with their outcome in the words an operator reads.

use crate::engine::Sender;
use crate::http;
use crate::icmp::Pinged;
use crate::tcp::{Answer, close_by_reset, connect};
use gslb_types::Rtt;
use nix::errno::Errno;
use probes_core::wire::{Check, CheckOutcome};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Why a check did not pass.
pub(crate) enum Fault {
    /// The service's fault, or the way's to it.
    Failed(String),
    /// Ours: says nothing about the service.
    Ours,
}

/// Checks the service; one limit for all of it.
pub(crate) async fn check(sender: &Sender, what: Check, target: SocketAddr, limit: Duration) -> CheckOutcome {
    let target = SocketAddr::new(target.ip().to_canonical(), target.port());
    let limit = Limit { length: limit, end: Instant::now().checked_add(limit) };
    let passed = match what {
        Check::Ping => ping(sender, target, limit).await,
        Check::Tcp => tcp(sender, target, limit).await,
        Check::Http { path, host, expect } => {
            http(sender, target, limit, http::Get { path, host, expect }).await
        }
    };
    match passed {
        Ok(rtt) => CheckOutcome::Passed(rtt),
        Err(Fault::Failed(reason)) => CheckOutcome::Failed(reason),
        Err(Fault::Ours) => CheckOutcome::NotPermitted,
    }
}

async fn ping(sender: &Sender, target: SocketAddr, limit: Limit) -> Result<Rtt, Fault> {
    match limit.hold("no answer", sender.icmp.ping(target.ip())).await? {
        Pinged::Reply(rtt) => Ok(rtt),
        Pinged::Error(error) => Err(Fault::Failed(error.to_string())),
        Pinged::NotSent(e) => Err(not_sent(&e)),
        Pinged::NotPermitted => Err(Fault::Ours),
    }
}

async fn tcp(sender: &Sender, target: SocketAddr, limit: Limit) -> Result<Rtt, Fault> {
    let (stream, rtt) = connected(sender, target, limit).await?;
    close_by_reset(stream);
    Ok(rtt)
}

async fn http(sender: &Sender, target: SocketAddr, limit: Limit, get: http::Get) -> Result<Rtt, Fault> {
    let (stream, _) = connected(sender, target, limit).await?;
    limit.hold("no answer", get.exchange(stream, target)).await?
}

async fn connected(sender: &Sender, target: SocketAddr, limit: Limit) -> Result<(TcpStream, Rtt), Fault> {
    match limit.hold("no connection", connect(&sender.settings, target)).await? {
        Answer::Connected(stream, rtt) => Ok((stream, rtt)),
        Answer::Reset(_) => Err(Fault::Failed("connection refused".into())),
        Answer::Icmp(error, _) => Err(Fault::Failed(error.to_string())),
        Answer::Broken(e) => Err(Fault::Failed(words(&e))),
        Answer::NotSent(e) => Err(not_sent(&e)),
    }
}

/// How long the check may take, and until when.
#[derive(Clone, Copy)]
struct Limit {
    length: Duration,
    end: Option<Instant>,
}

impl Limit {
    /// Waits for what is awaited until the end; `missing` is what there is not then.
    async fn hold<T>(self, missing: &str, awaited: impl Future<Output = T>) -> Result<T, Fault> {
        match self.end {
            // A limit beyond the clock's range is none.
            None => Ok(awaited.await),
            Some(end) => timeout_at(end, awaited)
                .await
                .map_err(|_| Fault::Failed(format!("{missing} within {:?}", self.length))),
        }
    }
}

/// What an error before anything was sent means: want of a route is a fault of the way, want of anything else is ours.
fn not_sent(error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Fault::Failed(words(error)),
        _ => Fault::Ours,
    }
}

/// An error of a connection, without the system's error number.
pub(crate) fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "connection reset".into(),
        ErrorKind::HostUnreachable => "no route to host".into(),
        ErrorKind::NetworkUnreachable => "network unreachable".into(),
        kind => match error.raw_os_error() {
            Some(number) => Errno::from_raw(number).desc().to_lowercase(),
            None => kind.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno as i32)
    }

    #[test]
    fn reasons_read_as_words() {
        assert_eq!(words(&os(Errno::ECONNREFUSED)), "connection refused");
        assert_eq!(words(&os(Errno::EHOSTUNREACH)), "no route to host");
        assert_eq!(words(&os(Errno::EPROTO)), "protocol error");
    }

    #[test]
    fn want_of_descriptors_or_ports_says_nothing_about_the_service() {
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::EADDRNOTAVAIL, Errno::EPERM] {
            assert!(matches!(not_sent(&os(errno)), Fault::Ours), "{errno}");
        }
        assert!(matches!(not_sent(&os(Errno::ENETUNREACH)), Fault::Failed(r) if r == "network unreachable"));
    }
}
