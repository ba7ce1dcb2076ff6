//! Somebody who watches every step and knows what must never happen.
//!
//! What it holds the nodes to are ARCHITECTURE.md's invariants, each said once more in the simplest words the outside allows:
//! it sees the table, the packets and the frames, never the machines' insides.

mod links;
mod pace;
mod shares;
mod silence;
mod table;
mod told;

use crate::world::{Host, HostIndex, Process};
use bytes::Bytes;
use gslb_core::Published;
use gslb_types::{Ldns, Reach, SiteIndex, Timestamp};
use links::Links;
use mep_core::proto::frame::Body;
use pace::Pace;
use probes_core::wire::{ProbeId, ProbeReply, ProbeRequest};
use shares::Shares;
use silence::Silence;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
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
    /// Of the nodes of a site that see one another, one probes an LDNS (behaviour 3: RTTs are the site's).
    Share,
    /// A value is not taken for younger than it is, whoever has told it (faults I-46): what a site has withdrawn, or pushed out, is
    /// not gone by for longer than it takes to say so.
    Age,
    /// A site's word is not undone by an earlier one, whatever carries it (behaviour 4: order is by boot and sequence).
    Order,
    /// Persistence sessions stay within their cap, and are the same everywhere within two exchange intervals (behaviour 6).
    Sessions,
    /// A site that anybody hears is not taken down by silence where that one is heard (behaviour 4).
    Relay,
    /// By silence the state of a site changes once in a hold time at most (faults I-43).
    Hold,
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
    /// A frame, and when it was sent.
    Frame { from: HostIndex, sent: Timestamp, body: Option<Box<Body>> },
    /// Nothing that can touch the table.
    Other,
}

/// The watcher.
pub struct Witness {
    violation: Option<Violation>,
    mirrors: Vec<Mirror>,
    paces: Vec<Pace>,
    silences: Vec<Silence>,
    shares: Shares,
    links: Links,
    told: Told,
    /// The longest that a frame was on its way of late, and when.
    flight: (Duration, Timestamp),
    looks_away: bool,
}

/// For how long a slow frame is remembered: what came with it may have been told on since.
const FLIGHT_MEMORY: Duration = Duration::from_secs(90);

/// What the age of a value may be off by: stamps are whole seconds, and an age is told in whole milliseconds.
const AGE_GRAIN: Duration = Duration::from_millis(1_500);

impl Witness {
    /// One for hosts at these sites.
    pub(crate) fn new(sites: &[SiteIndex]) -> Self {
        Witness {
            violation: None,
            mirrors: sites.iter().map(|_| Mirror::default()).collect(),
            paces: sites.iter().map(|_| Pace::default()).collect(),
            silences: sites.iter().map(|_| Silence::default()).collect(),
            shares: Shares::default(),
            links: Links::new(sites),
            told: Told::new(sites),
            flight: (Duration::ZERO, Timestamp::ZERO),
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

    /// Bytes in them.
    pub fn bytes(&self, n: HostIndex) -> u64 {
        self.told.bytes(n)
    }

    /// Changes of what a node's site advertises, over all its processes.
    pub fn advertised(&self, n: HostIndex) -> u64 {
        self.told.changes(n)
    }

    /// Whether a node has changed what its site advertises of an LDNS since then.
    pub(crate) fn changed_since(&self, n: HostIndex, ldns: Ldns, then: Timestamp) -> bool {
        self.told.changed_since(n, ldns, then)
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
    pub(crate) fn born(&mut self, now: Timestamp, n: HostIndex) {
        self.mirrors[n] = Mirror::default();
        self.paces[n].reborn();
        self.silences[n] = Silence::default();
        self.links.alone(now, n);
        self.links.disturbed(now, n, false);
    }

    /// The process of a host ends.
    pub(crate) fn died(&mut self, now: Timestamp, n: HostIndex) {
        self.told.died(now, n);
        self.links.alone(now, n);
        self.links.disturbed(now, n, true);
    }

    /// Something is done to a process that it can't know of; it may stand still from now on.
    pub(crate) fn disturbed(&mut self, now: Timestamp, n: HostIndex, stands_still: bool) {
        self.links.disturbed(now, n, stands_still);
    }

    /// Something is done to the line from one host to another: everything passes now, or not.
    pub(crate) fn line(&mut self, now: Timestamp, from: HostIndex, to: HostIndex, is_whole: bool) {
        self.links.line(now, from, to, is_whole);
    }

    /// The lines between the hosts are bad up to now, or up to `until`.
    pub(crate) fn rough(&mut self, until: Timestamp) {
        self.links.rough(until);
    }

    /// A frame has been on its way for so long.
    pub(crate) fn flew(&mut self, now: Timestamp, span: Duration) {
        if span >= self.flight.0 || now.since(self.flight.1) > FLIGHT_MEMORY {
            self.flight = (span, now);
        }
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
        process: &Process,
        cause: &Cause,
    ) {
        let (shared, written) = (&process.shared, &process.written);
        match cause {
            Cause::Reply { reply, .. } => self.paces[n].replied(local, *reply),
            Cause::Frame { body, .. } => self.told.heard(n, body.as_deref()),
            Cause::Time | Cause::Sighting(_) | Cause::Other => {}
        }
        if self.looks_away {
            written.try_iter().for_each(drop);
        } else {
            let look = Look { now: at, local, n, host, shared, written, cause };
            let result = self.mirrors[n].compare(look, &mut self.told, &mut self.paces[n]);
            self.check(at, result);
            if self.mirrors[n].is_due() {
                self.look_at_all(at, n, host);
            }
        }
        let published = shared.published.load();
        let is_new = self.links.published(at, n, &published);
        let rows = match cause {
            _ if !self.looks_away => self.mirrors[n].len(),
            // Counting takes the locks of all shards: only when there may be more.
            Cause::Sighting(_) => shared.rtts.len(),
            _ if is_new => shared.rtts.len(),
            _ => 0,
        };
        let result = caps(host, rows, &published, is_new);
        self.check(at, result);
        if is_new {
            let result = self.silences[n].published(at, n, host, &published, &self.links);
            self.check(at, result);
            let result = self.shares.published(at, n, &self.links);
            self.check(at, result);
        }
    }

    /// Looks whether what a host takes for true of an LDNS was true then.
    pub(crate) fn check_ages(&mut self, now: Timestamp, host: &Host, ldns: Ldns) {
        let (Some(shared), Some(local)) = (host.shared(), host.local(now)) else { return };
        let Some(row) = shared.rtts.row(ldns).filter(|_| !self.looks_away) else { return };
        let published = shared.published.load();
        // A change waits for company, at the site and at a relay.
        let batches = host.config().mep.rtt_interval;
        let slack = batches + self.flight.0 * 2 + AGE_GRAIN;
        for (site, view) in
            published.sites.iter().enumerate().filter_map(|(n, v)| Some((SiteIndex::new(n)?, v)))
        {
            let cell = row.cell(site);
            let counts = cell.current(local, host.config().mep.max_age, view.confirmed);
            // What is older than the process can't be told from what is as old as it.
            let is_ageless = cell.confirmed() == Timestamp::ZERO;
            if site == host.site() || counts == Reach::Pending || is_ageless {
                continue;
            }
            let taken = links::in_world(now, host, cell.last_true(view.confirmed));
            let truth = self.told.last_true(now, site, ldns, counts);
            if truth.is_none_or(|truth| taken > truth + slack) {
                let what = format!(
                    "{} takes {counts:?} of {ldns} at site {} for true at {taken:?}, and it was last at {truth:?} (speaker {:?}, relay {:?}, {slack:?} are excused)",
                    host.id(),
                    site.get(),
                    view.speaker,
                    view.relayed_via,
                );
                self.violated(now, Invariant::Age, what);
            }
        }
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
        let ldns = Ldns::of(probe.target, host.config().ldns.masks);
        // Whoever takes it over from this node takes over no newcomer.
        for other in self.links.hosts_of(host.site()).filter(|other| *other != n).collect::<Vec<_>>() {
            self.paces[other].is_known(ldns);
        }
        self.shares.probed(at, n, host, ldns);
    }

    /// What a frame says; nothing if that makes no difference.
    pub(crate) fn read(&self, frame: &Bytes) -> Option<Body> {
        if self.looks_away { None } else { told::news(frame) }
    }

    /// Looks at the whole table of a host: what was written into it is known, and nothing else has changed.
    pub(crate) fn look_at_all(&mut self, now: Timestamp, n: HostIndex, host: &Host) {
        if let Some(shared) = host.shared().filter(|_| !self.looks_away) {
            let result = self.mirrors[n].compare_all(host, shared);
            self.check(now, result);
            for ldns in self.mirrors[n].keys().collect::<Vec<_>>() {
                self.check_ages(now, host, ldns);
            }
        }
    }

    /// Whether every row is looked at.
    pub(crate) fn looks(&self) -> bool {
        !self.looks_away
    }

    /// A node sent a frame over a connection.
    pub(crate) fn sent(&mut self, at: Timestamp, from: HostIndex, to: HostIndex, wire: u64, frame: &Bytes) {
        if self.looks_away {
            return self.told.passed(from, frame);
        }
        let result = self.told.sent(from, to, wire, frame, &self.mirrors[from]);
        self.check(at, result);
    }
}

/// What a node may hold.
fn caps(host: &Host, rows: usize, published: &Published, is_new: bool) -> Result<(), (Invariant, String)> {
    let (id, cap) = (host.id(), host.config().ldns.cap);
    if rows > cap {
        return Err((Invariant::Cap, format!("{id} has {rows} rows, more than {cap}")));
    }
    let peers = published.peers.iter().filter(|peer| is_new && peer.state.has_session());
    for peer in peers {
        // Changes of RTTs and sightings together; what the peer asked for; what it is to be asked for. The machine keeps no
        // cap below four chunks of a thousand.
        let most = 3 * cap.max(4_000);
        if peer.outbox > most {
            return Err((
                Invariant::Cap,
                format!("{} keys wait at {id} for {}, more than {most}", peer.outbox, peer.peer),
            ));
        }
        let (links, transitions) = (peer.links.len(), peer.transitions.len());
        if links > host.config().nodes.len() || transitions > mep_core::MOST_TRANSITIONS {
            let what = format!("{id} keeps {links} links and {transitions} transitions of {}", peer.peer);
            return Err((Invariant::Cap, what));
        }
    }
    Ok(())
}
