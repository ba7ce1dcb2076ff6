//! Resolvers that ask all the time, and remember when answers changed.

use super::query::{Reply, ask_over};
use crate::{Lab, LabError};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a reply may take on a busy machine; a resolver's own patience is of this order.
const PATIENCE: Duration = Duration::from_secs(2);

/// An answer that differs from the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// When the query left: a query that is lost while a server stops is known to be so when the patience with it is over.
    pub asked: Instant,
    /// When the reply came.
    pub at: Instant,
    /// Since the watch began.
    pub after: Duration,
    /// Who asked.
    pub ldns: String,
    /// The laboratory's node that was asked.
    pub server: String,
    /// What it answered before.
    pub from: Reply,
    /// What it answered then.
    pub to: Reply,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { after, ldns, server, from, to, .. } = self;
        write!(f, "{:7.2} s: {ldns} of {server}: {from} -> {to}", after.as_secs_f64())
    }
}

/// Asks every server from every LDNS again and again until it is dropped.
pub struct Watch {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    changes: Vec<Change>,
    last: Vec<(String, String, Reply)>,
    asked: u64,
    failed: u64,
}

impl Watch {
    /// Asks for the A records of `name`, each LDNS each server, once in `every`.
    pub fn start(
        lab: &Lab,
        ldns: &[&str],
        servers: &[&str],
        name: &str,
        every: Duration,
    ) -> Result<Watch, LabError> {
        let mut watch = Watch { stop: Arc::default(), seen: Arc::default(), threads: Vec::new() };
        let begun = Instant::now();
        for ldns in ldns {
            for server in servers {
                let address = IpAddr::V4(lab.v4(server));
                let (stop, seen) = (watch.stop.clone(), watch.seen.clone());
                let (who, whom, name) = (ldns.to_string(), server.to_string(), name.to_owned());
                // The thread stays in the namespace of the one that spawns it.
                let start = move || {
                    let socket = connected(address)?;
                    Ok(thread::spawn(move || {
                        let mut id = 0_u16;
                        while !stop.load(Ordering::Relaxed) {
                            let asked = Instant::now();
                            let next = asked + every;
                            id = id.wrapping_add(1);
                            let reply = ask_over(&socket, id, &name, PATIENCE).unwrap_or(Reply::Silence);
                            lock(&seen).note(begun, asked, &who, &whom, reply);
                            thread::sleep(next.saturating_duration_since(Instant::now()));
                        }
                    }))
                };
                let started: io::Result<_> = lab.in_namespace(ldns, start)?;
                watch.threads.push(started.map_err(LabError::system("a resolver's socket"))?);
            }
        }
        Ok(watch)
    }

    /// Queries sent.
    pub fn asked(&self) -> u64 {
        lock(&self.seen).asked
    }

    /// Queries without an address in the answer, for whatever reason.
    pub fn failed(&self) -> u64 {
        lock(&self.seen).failed
    }

    /// What was answered last, by (LDNS, server).
    pub fn last(&self) -> Vec<(String, String, Reply)> {
        lock(&self.seen).last.clone()
    }

    /// What a server answered an LDNS last.
    pub fn last_of(&self, ldns: &str, server: &str) -> Option<Reply> {
        let seen = lock(&self.seen);
        seen.last.iter().find(|(l, s, _)| l == ldns && s == server).map(|(_, _, reply)| reply.clone())
    }

    /// The answers that changed since then, in order of time.
    pub fn changes_since(&self, then: Instant) -> Vec<Change> {
        lock(&self.seen).changes.iter().filter(|change| change.at >= then).cloned().collect()
    }
}

impl Seen {
    fn note(&mut self, begun: Instant, asked: Instant, ldns: &str, server: &str, reply: Reply) {
        self.asked += 1;
        if !matches!(&reply, Reply::Addresses(addresses) if !addresses.is_empty()) {
            self.failed += 1;
        }
        let Some((_, _, last)) = self.last.iter_mut().find(|(l, s, _)| l == ldns && s == server) else {
            self.last.push((ldns.to_owned(), server.to_owned(), reply));
            return;
        };
        if *last != reply {
            let (ldns, server, at) = (ldns.to_owned(), server.to_owned(), Instant::now());
            let from = std::mem::replace(last, reply.clone());
            self.changes.push(Change { asked, at, after: at - begun, ldns, server, from, to: reply });
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connected(server: IpAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if server.is_ipv6() { [0_u16; 8].into() } else { [0_u8; 4].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(SocketAddr::new(server, 53))?;
    Ok(socket)
}
