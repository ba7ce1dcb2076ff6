//! Somebody who watches every step and knows what must never happen.
//!
//! What it holds the nodes to are ARCHITECTURE.md's invariants, each said once more in the simplest words the outside allows:
//! it sees the table, the packets and the frames, never the machines' insides.

mod pace;
mod table;
mod told;

use crate::world::{Host, HostIndex};
use bytes::Bytes;
use gslb_core::{PeerState, Shared};
use gslb_types::Timestamp;
use pace::Pace;
use probes_core::wire::{ProbeId, ProbeReply, ProbeRequest};
use std::fmt;
use std::net::IpAddr;
use table::{Look, Mirror};
use told::Told;

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Invariant {
    /// Only site S writes column S: its own samples at its node, its word everywhere else.
    OneWriter,
    /// A value changes, and is sent, only beyond the tolerance (behaviour 3, [S-RTT]).
    Tolerance,
    /// No site begins two rounds of an LDNS within its interval.
    Interval,
    /// No second sees more probes than the budgets allow: in all, to newcomers, to a prefix (threat T3).
    Budget,
    /// A service that is down is not answered while one is up.
    DownService,
    /// After a node did what time had come for, the next time lies in the future, and what it publishes is fresh.
    LateTimeout,
    /// Table, outbox and what is on the way stay within their caps.
    Cap,
    /// Every query is answered, but where the configuration says otherwise (bar R12).
    Silence,
    /// Things come to rest: time goes on.
    Rest,
    /// Once quiet, all tables are equal and all nodes answer alike.
    Agreement,
    /// Once quiet, the answer is a site as near as the tolerance lets one tell (bar R18).
    Nearest,
}

/// A broken invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When.
    pub at: Timestamp,
    /// Which.
    pub invariant: Invariant,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} broken at {:?}: {}", self.invariant, self.at, self.what)
    }
}

/// Why a node had a turn.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// Its alarm.
    Time,
    /// A query from this address.
    Sighting(IpAddr),
    /// What became of a probe: whom it was for, and the RTT if it measured.
    Reply { target: Option<IpAddr>, reply: ProbeReply },
    /// A frame.
    Frame { from: HostIndex, frame: Bytes },
    /// Nothing that can touch the table.
    Other,
}

/// The watcher.
pub struct Witness {
    violation: Option<Violation>,
    mirrors: Vec<Mirror>,
    paces: Vec<Pace>,
    told: Told,
    looks_away: bool,
}

impl Witness {
    pub(crate) fn new(hosts: usize) -> Self {
        Witness {
            violation: None,
            mirrors: (0..hosts).map(|_| Mirror::default()).collect(),
            paces: (0..hosts).map(|_| Pace::default()).collect(),
            told: Told::new(hosts),
            looks_away: false,
        }
    }

    /// The first broken invariant.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Looks no longer at every row after every step: tables of many thousands would take all the time. Who writes them and
    /// what is told of them is not judged then.
    pub(crate) fn look_away(&mut self) {
        self.looks_away = true;
    }

    /// Probes that a node's host has sent, over all its processes.
    pub fn probes(&self, n: HostIndex) -> u64 {
        self.paces[n].probes
    }

    /// Probes that all have sent to an address.
    pub fn probes_to(&self, ldns: IpAddr) -> u64 {
        self.paces.iter().map(|pace| pace.probes_to(ldns)).sum()
    }

    /// RTT rows that a node's host has told, over all its processes and peers.
    pub fn rows(&self, n: HostIndex) -> u64 {
        self.told.rows(n)
    }

    /// Frames that a node's host has sent.
    pub fn frames(&self, n: HostIndex) -> u64 {
        self.told.frames(n)
    }

    /// Changes of what a node's site advertises, over all its processes.
    pub fn advertised(&self, n: HostIndex) -> u64 {
        self.told.changes(n)
    }

    pub(crate) fn violated(&mut self, at: Timestamp, invariant: Invariant, what: String) {
        self.violation.get_or_insert(Violation { at, invariant, what });
    }

    fn check(&mut self, at: Timestamp, result: Result<(), (Invariant, String)>) {
        if let Err((invariant, what)) = result {
            self.violated(at, invariant, what);
        }
    }

    /// A process starts on a host, knowing nothing.
    pub(crate) fn born(&mut self, n: HostIndex) {
        self.mirrors[n] = Mirror::default();
        self.paces[n].reborn();
    }

    pub(crate) fn cause_of_reply(&self, n: HostIndex, reply: ProbeReply) -> Cause {
        Cause::Reply { target: self.target(n, reply.id), reply }
    }

    /// Whom a probe was for.
    pub(crate) fn target(&self, n: HostIndex, id: ProbeId) -> Option<IpAddr> {
        self.paces[n].target(id)
    }

    /// A node had a turn.
    pub(crate) fn turned(
        &mut self,
        at: Timestamp,
        local: Timestamp,
        n: HostIndex,
        host: &Host,
        shared: &Shared,
        cause: &Cause,
    ) {
        match cause {
            Cause::Reply { reply, .. } => self.paces[n].replied(local, *reply),
            Cause::Frame { from, frame } => self.told.heard(n, *from, frame),
            Cause::Time | Cause::Sighting(_) | Cause::Other => {}
        }
        if !self.looks_away {
            let look = Look { local, host, shared, cause };
            let result = self.mirrors[n].compare(look, &mut self.told, &mut self.paces[n]);
            self.check(at, result);
        }
        let result = caps(host, shared, cause);
        self.check(at, result);
    }

    /// A node sent a probe.
    pub(crate) fn probed(
        &mut self,
        at: Timestamp,
        local: Timestamp,
        n: HostIndex,
        host: &Host,
        probe: &ProbeRequest,
    ) {
        let result = self.paces[n].probed(local, host, probe);
        self.check(at, result);
    }

    /// A node sent a frame over a connection.
    pub(crate) fn sent(&mut self, at: Timestamp, from: HostIndex, to: HostIndex, wire: u64, frame: &Bytes) {
        if self.looks_away {
            return self.told.passed(from);
        }
        let result = self.told.sent(from, to, wire, frame, &self.mirrors[from]);
        self.check(at, result);
    }
}

/// What a node may hold.
fn caps(host: &Host, shared: &Shared, cause: &Cause) -> Result<(), (Invariant, String)> {
    let (id, cap) = (host.id(), host.config().ldns.cap);
    if matches!(cause, Cause::Sighting(_) | Cause::Frame { .. }) {
        let rows = shared.rtts.len();
        if rows > cap {
            return Err((Invariant::Cap, format!("{id} has {rows} rows, more than {cap}")));
        }
    }
    let published = shared.published.load();
    for peer in published.peers.iter().filter(|peer| peer.state == PeerState::Up) {
        // Changes of RTTs and sightings together; what the peer asked for; what it is to be asked for. The machine keeps no
        // cap below four chunks of a thousand.
        let most = 3 * cap.max(4_000);
        if peer.outbox > most {
            return Err((
                Invariant::Cap,
                format!("{} keys wait at {id} for {}, more than {most}", peer.outbox, peer.peer),
            ));
        }
    }
    Ok(())
}
