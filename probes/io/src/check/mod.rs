//! Checks of services, with their outcome in the words an operator reads.
//!
//! Each kind measures the span that behaviour 5's table has for it, from stamp to stamp at the socket, so that a busy node
//! does not look like a slow service.

mod answer;
mod dns;
mod dns_message;
mod ecv;
mod ftp;
mod http;
mod limit;
mod matcher;
mod stream;
mod tls;
mod user;
mod words;

pub(crate) use user::Commands;
use words::quoted;
pub(crate) use words::words;

use crate::engine::Sender;
use crate::icmp::Pinged;
use crate::local::{Settings, can_bind};
use crate::tcp::{Answer, close_by_reset, connect};
use gslb_types::{Check, Rtt};
use limit::Limit;
use matcher::Matchers;
use probes_core::wire::{CheckOutcome, CheckRequest};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Instant;
use stream::Stamped;
use tls::TlsConfigs;
use tokio::net::TcpStream;

/// Bytes of an answer that are looked into: a page of status, many times over.
const MOST: usize = 64 * 1024;

/// Why a check did not pass.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The service's fault, or the way's to it.
    Failed(String),
    /// Ours, for this reason: says nothing about the service.
    Ours(String),
    /// This process may not do it.
    NotPermitted,
}

/// A fault of the service.
fn failed<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(why.into()))
}

/// Fails for what a server said before it was asked.
fn unasked(said: &[u8]) -> Result<(), Fault> {
    match said {
        [] => Ok(()),
        said => failed(format!("the server spoke before it was asked: {}", quoted(said))),
    }
}

/// What checks share: compiled once, or bounded in number.
pub(crate) struct Tools {
    matchers: Matchers,
    tls: TlsConfigs,
    commands: Commands,
}

impl Tools {
    pub(crate) fn new(commands: usize) -> Self {
        Tools { matchers: Matchers::default(), tls: TlsConfigs::default(), commands: Commands::new(commands) }
    }
}

/// A check under way: where, from where, and until when.
#[derive(Clone, Copy)]
struct Run<'a> {
    sender: &'a Sender,
    tools: &'a Tools,
    settings: Settings,
    target: SocketAddr,
    limit: Limit,
}

/// Checks the service; one limit for all of it.
pub(crate) async fn check(sender: &Sender, request: &CheckRequest) -> CheckOutcome {
    let target = SocketAddr::new(request.target.ip().to_canonical(), request.target.port());
    let settings = match request.source {
        Some(source) => sender.settings.leaving_from(source),
        None => sender.settings,
    };
    let run = Run { sender, tools: &sender.tools, settings, target, limit: Limit::of(request.timeout) };
    let passed = match &*request.check {
        Check::Ping => run.ping().await,
        Check::Tcp => run.tcp().await,
        Check::TcpEcv(exchange) => run.tcp_ecv(exchange).await,
        Check::UdpEcv(exchange) => run.udp_ecv(exchange).await,
        Check::Http(http) => run.http(http).await,
        Check::Dns(dns) => run.dns(dns).await,
        Check::Ssl(tls) => run.ssl(tls).await,
        Check::Ftp(ftp) => run.ftp(ftp).await,
        Check::User(user) => return outcome(run.user(user, request.source).await),
    };
    outcome(passed.map(CheckOutcome::Passed))
}

fn outcome(result: Result<CheckOutcome, Fault>) -> CheckOutcome {
    match result {
        Ok(outcome) => outcome,
        Err(Fault::Failed(reason)) => CheckOutcome::Failed(reason),
        Err(Fault::Ours(reason)) => CheckOutcome::Unable(reason),
        Err(Fault::NotPermitted) => CheckOutcome::NotPermitted,
    }
}

impl Run<'_> {
    async fn ping(self) -> Result<Rtt, Fault> {
        let ip = self.target.ip();
        let source = self.settings.source(ip);
        if source != self.sender.settings.source(ip)
            && let Some(source) = source
        {
            // The kernel takes an address that is not its own for want of a route.
            can_bind(source).map_err(|e| Fault::Ours(format!("not sent: {}", words(&e))))?;
        }
        let pinged = self.sender.icmp.ping(ip, source);
        match self.limit.hold("no answer", pinged).await? {
            Pinged::Reply(rtt) => Ok(rtt),
            Pinged::Error(error) => failed(error.to_string()),
            Pinged::NotSent(e) => Err(not_sent(&e)),
            Pinged::NotPermitted => Err(Fault::NotPermitted),
        }
    }

    async fn tcp(self) -> Result<Rtt, Fault> {
        let (stream, began) = self.connected().await?;
        close_by_reset(stream);
        Ok(began.took)
    }

    /// A connection whose packets are stamped.
    async fn stream(self) -> Result<Stamped, Fault> {
        let (stream, _) = self.connected().await?;
        Ok(Stamped::new(stream))
    }

    /// A connection, since when it was asked for, and how long that took.
    async fn connected(self) -> Result<(TcpStream, Began), Fault> {
        let at = Instant::now();
        match self.limit.hold("no connection", connect(&self.settings, self.target)).await? {
            Answer::Connected(stream, took) => Ok((stream, Began { at, took })),
            Answer::Reset(_) => failed("connection refused"),
            Answer::Icmp(error, _) => failed(error.to_string()),
            Answer::Broken(e) => failed(words(&e)),
            Answer::NotSent(e) => Err(not_sent(&e)),
        }
    }
}

/// The SYN.
struct Began {
    at: Instant,
    took: Rtt,
}

/// What an error before anything was sent means: want of a route is a fault of the way, want of anything else is ours.
fn not_sent(error: &std::io::Error) -> Fault {
    match error.kind() {
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Fault::Failed(words(error)),
        _ => Fault::Ours(format!("not sent: {}", words(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    fn os(errno: Errno) -> std::io::Error {
        std::io::Error::from_raw_os_error(errno as i32)
    }

    #[test]
    fn want_of_descriptors_or_ports_says_nothing_about_the_service() {
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::EADDRNOTAVAIL, Errno::EPERM] {
            assert!(matches!(not_sent(&os(errno)), Fault::Ours(_)), "{errno}");
        }
        assert!(matches!(not_sent(&os(Errno::ENETUNREACH)), Fault::Failed(r) if r == "network unreachable"));
    }
}
