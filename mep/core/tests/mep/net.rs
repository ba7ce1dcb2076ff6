//! A few nodes in one thread: virtual time, latency, bandwidth, cuts of one or both directions, of QUIC alone. A stand-in for
//! carrier and node, both as they are meant to behave: frames are never lost or reordered, a cut holds them back, and a queue
//! has the size a carrier promises. A node takes a relay's word for that of the site.

use crate::table::{Table, View};
use bytes::Bytes;
use gslb_types::{Ldns, LdnsMasks, NodeId, Reach, Rtt, ServiceName, SiteName, Timestamp, Transport};
use mep_core::carrier::{
    CarrierCommand, CarrierEvent, ConnId, MAX_FRAME, MAX_IN_FLIGHT_BYTES, MAX_IN_FLIGHT_FRAMES, Over,
};
use mep_core::{Mep, Output, PeerSettings, PeerState, PeerStatus, ServiceMetric, SessionKey, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn node(text: &str) -> NodeId {
    text.parse().unwrap()
}

pub(crate) fn known(millis: u32) -> Reach {
    Reach::Known(Rtt::from_micros(millis * 1000))
}

/// The n-th address of 10.0.0.0/8.
pub(crate) fn address(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0A00_0001 + n).into()
}

pub(crate) fn ldns(n: u32) -> Ldns {
    Ldns::exact(address(n))
}

pub(crate) fn settings(nodes: &[&str]) -> Settings {
    let peer = |(n, id): (usize, &&str)| PeerSettings {
        id: node(id),
        address: place_address(n),
        transport: Transport::Auto,
    };
    Settings {
        peers: nodes.iter().enumerate().map(peer).collect(),
        group: "test".to_owned(),
        software: "0.1.0".to_owned(),
        keepalive: secs(10),
        metrics_interval: secs(1),
        rtt_interval: secs(5),
        must_match: vec![("rtt_tolerance".to_owned(), 5)],
        config_hash: 5,
        masks: LdnsMasks::default(),
        outbox_cap: 100_000,
        sessions_interval: secs(5),
        sessions_cap: 10_000,
        quic_retry: secs(60),
    }
}

pub(crate) fn place_address(n: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 4700 + u16::try_from(n).unwrap()))
}

pub(crate) struct Host {
    /// What its certificate says.
    pub(crate) id: NodeId,
    address: SocketAddr,
    pub(crate) mep: Option<Mep>,
    pub(crate) table: Table,
    pub(crate) outputs: Vec<(Timestamp, Output)>,
    pub(crate) dials: Vec<Timestamp>,
    /// It does not write what others tell, as of a node that does not speak for its site.
    pub(crate) takes_no_rows: bool,
    /// Its clock is ahead of the net's by this much.
    started: Duration,
}

struct Wire {
    over: Over,
    ends: [(usize, ConnId); 2],
    /// Frames under way in each direction: bytes and number.
    load: [(usize, usize); 2],
    /// When the last frame in each direction arrives.
    busy: [Timestamp; 2],
    held: [Vec<CarrierEvent>; 2],
}

pub(crate) struct Net {
    pub(crate) now: Timestamp,
    pub(crate) hosts: Vec<Host>,
    pub(crate) latency: Duration,
    /// QUIC takes longer by this.
    pub(crate) quic_detour: Duration,
    /// Bytes a second on every wire; no limit if `None`.
    pub(crate) bandwidth: Option<u64>,
    /// Likewise from one node to another.
    pub(crate) slow: BTreeMap<(usize, usize), u64>,
    /// Directions in which nothing passes.
    pub(crate) cuts: BTreeSet<(usize, usize)>,
    /// Likewise, of QUIC alone.
    pub(crate) quic_cuts: BTreeSet<(usize, usize)>,
    wires: Vec<Wire>,
    by_conn: BTreeMap<(usize, ConnId), usize>,
    events: BTreeMap<(Timestamp, u64), Pending>,
    next: u64,
    /// Dials that nodes wanted, and over what.
    pub(crate) dialled: Vec<(Timestamp, Over)>,
    /// Frames sent, with sender and receiver.
    pub(crate) sent: Vec<(Timestamp, usize, usize, Bytes)>,
}

enum Pending {
    Report(usize, CarrierEvent),
    Arrive { wire: usize, direction: usize, event: CarrierEvent },
    Knock { from: usize, to: usize, over: Over },
}

impl Net {
    pub(crate) fn new() -> Self {
        Net {
            now: Timestamp::from_micros(1_000_000),
            hosts: Vec::new(),
            latency: ms(10),
            quic_detour: Duration::ZERO,
            bandwidth: None,
            slow: BTreeMap::new(),
            cuts: BTreeSet::new(),
            quic_cuts: BTreeSet::new(),
            wires: Vec::new(),
            by_conn: BTreeMap::new(),
            events: BTreeMap::new(),
            next: 0,
            dialled: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Nodes of one group, all started.
    pub(crate) fn of(nodes: &[&str]) -> Self {
        let mut net = Net::new();
        for id in nodes {
            net.add(id);
        }
        for n in 0..nodes.len() {
            net.start(n, settings(nodes));
        }
        net
    }

    pub(crate) fn add(&mut self, id: &str) {
        let n = self.hosts.len();
        self.hosts.push(Host {
            id: node(id),
            address: place_address(n),
            mep: None,
            table: Table::default(),
            outputs: Vec::new(),
            dials: Vec::new(),
            takes_no_rows: false,
            started: secs(1000 * n as u64),
        });
    }

    pub(crate) fn start(&mut self, n: usize, settings: Settings) {
        self.next += 1;
        let (now, seed) = (self.local(n), self.next);
        let id = self.hosts[n].id.clone();
        self.hosts[n].mep = Some(Mep::new(now, id, 1000 + seed, settings, seed));
        self.turn(n);
    }

    /// Ends a process without a word; its connections stay open at the other ends.
    pub(crate) fn kill(&mut self, n: usize) {
        self.hosts[n].mep = None;
        self.hosts[n].table = Table::default();
        self.by_conn.retain(|(host, _), _| *host != n);
    }

    fn local(&self, n: usize) -> Timestamp {
        self.now + self.hosts[n].started
    }

    pub(crate) fn mep(&mut self, n: usize) -> &mut Mep {
        self.hosts[n].mep.as_mut().unwrap()
    }

    pub(crate) fn status(&self, n: usize, of: usize) -> PeerStatus {
        let id = &self.hosts[of].id;
        self.hosts[n].mep.as_ref().unwrap().peers().find(|p| p.peer == *id).unwrap()
    }

    pub(crate) fn is_up(&self, a: usize, b: usize) -> bool {
        self.status(a, b).state == PeerState::Up && self.status(b, a).state == PeerState::Up
    }

    pub(crate) fn shutdown(&mut self, n: usize) {
        let now = self.local(n);
        self.mep(n).shutdown(now);
        self.turn(n);
        self.hosts[n].mep = None;
    }

    /// A query from the n-th address reaches a node.
    pub(crate) fn sight(&mut self, host: usize, n: u32) {
        let now = self.local(host);
        let fresh = self.hosts[host].table.sight(address(n), now);
        self.mep(host).note_sighting(now, address(n), Duration::ZERO, fresh);
        self.turn(host);
    }

    /// A node's site comes to a new value; the table alone changes if `told` is not set, as within the tolerance.
    pub(crate) fn measure(&mut self, host: usize, n: u32, reach: Reach) {
        let now = self.local(host);
        let entry = self.hosts[host].table.entries.get_mut(&ldns(n)).unwrap();
        let first = entry.reach == Reach::Pending;
        entry.reach = reach;
        entry.confirmed = now;
        self.mep(host).note_rtt(now, ldns(n), first);
        self.turn(host);
    }

    /// An entry with a value, as if it had been there before the start.
    pub(crate) fn fill(&mut self, host: usize, n: u32, reach: Reach) {
        let now = self.local(host);
        self.hosts[host].table.sight(address(n), now);
        let entry = self.hosts[host].table.entries.get_mut(&ldns(n)).unwrap();
        entry.reach = reach;
        entry.confirmed = now;
    }

    /// A node's entry is pushed out by another, which it notes.
    pub(crate) fn push_out(&mut self, host: usize, n: u32) {
        self.forget(host, n);
        let now = self.local(host);
        self.mep(host).note_withdrawn(now, ldns(n));
    }

    /// A node's site has no value any longer.
    pub(crate) fn withdraw(&mut self, host: usize, n: u32) {
        let now = self.local(host);
        self.hosts[host].table.entries.get_mut(&ldns(n)).unwrap().reach = Reach::Pending;
        self.mep(host).note_withdrawn(now, ldns(n));
        self.turn(host);
    }

    /// A node loses an entry: it expired, perhaps a moment early.
    pub(crate) fn forget(&mut self, host: usize, n: u32) {
        let table = &mut self.hosts[host].table;
        table.entries.remove(&ldns(n));
        table.columns.retain(|(_, of), _| *of != ldns(n));
    }

    pub(crate) fn set_metrics(&mut self, host: usize, services: Vec<ServiceMetric>) {
        let now = self.local(host);
        self.mep(host).set_metrics(now, services);
        self.turn(host);
    }

    /// A client of the n-th address uses its persistence session at a node.
    pub(crate) fn use_session(&mut self, host: usize, n: u32, service: &str) {
        let now = self.local(host);
        let key = SessionKey::new(1, address(n), 32);
        self.hosts[host].table.sessions.insert(key, (ServiceName::new(service).unwrap(), now));
        self.mep(host).note_session(now, key);
        self.turn(host);
    }

    pub(crate) fn ask_snapshot(&mut self, host: usize, of: usize) -> bool {
        let (now, peer) = (self.local(host), self.hosts[of].id.clone());
        let asked = self.mep(host).ask_snapshot(now, &peer);
        self.turn(host);
        asked
    }

    /// The pair can't reach each other any longer.
    pub(crate) fn part(&mut self, a: usize, b: usize) {
        self.cuts.extend([(a, b), (b, a)]);
    }

    /// Whether the whole mesh stands.
    pub(crate) fn is_meshed(&self) -> bool {
        (0..self.hosts.len()).all(|a| (0..a).all(|b| self.is_up(a, b)))
    }

    pub(crate) fn column(&self, host: usize, of: usize, n: u32) -> Option<Reach> {
        let site = self.hosts[of].id.site.clone();
        self.hosts[host].table.columns.get(&(site, ldns(n))).map(|(reach, _)| *reach)
    }

    pub(crate) fn outputs_since(&self, host: usize, since: Timestamp) -> impl Iterator<Item = &Output> {
        self.hosts[host].outputs.iter().filter(move |(at, _)| *at >= since).map(|(_, output)| output)
    }

    /// Lets a node dial whether it wants to or not.
    pub(crate) fn dial(&mut self, from: usize, to: usize) {
        self.dial_over(from, to, Over::Quic);
    }

    pub(crate) fn dial_over(&mut self, from: usize, to: usize, over: Over) {
        let latency = self.latency;
        self.later(latency, Pending::Knock { from, to, over });
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step(end) {}
        self.now = end;
    }

    /// Runs until the condition holds; it must hold within the span. Returns how long it took.
    pub(crate) fn run_until(&mut self, span: Duration, mut holds: impl FnMut(&Net) -> bool) -> Duration {
        let begin = self.now;
        while !holds(self) {
            assert!(self.step(begin + span), "not within {span:?}");
        }
        self.now.since(begin)
    }

    /// The pair can reach each other again.
    pub(crate) fn mend(&mut self, a: usize, b: usize) {
        self.cuts.retain(|cut| *cut != (a, b) && *cut != (b, a));
        self.release();
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
        self.quic_cuts.clear();
        self.release();
    }

    /// What was held back goes on, unless it is held back still.
    fn release(&mut self) {
        for wire in 0..self.wires.len() {
            for direction in 0..2 {
                for event in std::mem::take(&mut self.wires[wire].held[direction]) {
                    self.arrive(wire, direction, event);
                }
            }
        }
    }

    /// Connections that stand between two nodes, as both ends see it.
    pub(crate) fn connections(&self, a: usize, b: usize) -> usize {
        let open = |wire: &&Wire| {
            wire.ends.iter().all(|end| self.by_conn.contains_key(end))
                && wire.ends.iter().all(|(host, _)| *host == a || *host == b)
        };
        self.wires.iter().filter(open).count()
    }

    fn step(&mut self, end: Timestamp) -> bool {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let timer = |host: &Host| {
            let at = host.mep.as_ref()?.poll_timeout()?;
            Some(at.before(host.started))
        };
        let timeout = self.hosts.iter().enumerate().filter_map(|(n, host)| Some((timer(host)?, n))).min();
        match (event, timeout) {
            (Some(at), timeout) if at <= end && timeout.is_none_or(|(t, _)| at <= t) => {
                self.now = at;
                let (_, pending) = self.events.pop_first().unwrap();
                self.happen(pending);
                true
            }
            (_, Some((at, n))) if at <= end => {
                self.now = self.now.max(at);
                self.turn(n);
                true
            }
            _ => false,
        }
    }

    fn happen(&mut self, pending: Pending) {
        match pending {
            Pending::Report(n, event) => self.report(n, event),
            Pending::Knock { from, to, over } => self.knock(from, to, over),
            Pending::Arrive { wire, direction, event } => {
                let (n, conn) = self.wires[wire].ends[1 - direction];
                if let CarrierEvent::Received { frame, .. } = &event {
                    let load = &mut self.wires[wire].load[direction];
                    *load = (load.0 - frame.len(), load.1 - 1);
                }
                if let CarrierEvent::Closed { .. } = &event {
                    self.by_conn.remove(&(n, conn));
                }
                self.report(n, event);
            }
        }
    }

    fn report(&mut self, n: usize, event: CarrierEvent) {
        let now = self.local(n);
        if let Some(mep) = self.hosts[n].mep.as_mut() {
            mep.handle_carrier(now, event);
            self.turn(n);
        }
    }

    fn knock(&mut self, from: usize, to: usize, over: Over) {
        let cut = self.is_cut(from, to, over) || self.is_cut(to, from, over);
        if cut || self.hosts[to].mep.is_none() {
            let reason = "timed out".to_owned();
            let failed = CarrierEvent::DialFailed { peer: self.hosts[to].id.clone(), over, reason };
            return self.later(secs(3), Pending::Report(from, failed));
        }
        self.next += 1;
        let conns = [ConnId(self.next * 2), ConnId(self.next * 2 + 1)];
        let wire = self.wires.len();
        self.wires.push(Wire {
            over,
            ends: [(from, conns[0]), (to, conns[1])],
            load: [(0, 0); 2],
            busy: [Timestamp::ZERO; 2],
            held: [Vec::new(), Vec::new()],
        });
        self.by_conn.insert((from, conns[0]), wire);
        self.by_conn.insert((to, conns[1]), wire);
        let connected = |conn, other: &Host, dialled| CarrierEvent::Connected {
            conn,
            peer: other.id.clone(),
            dialled,
            address: other.address,
            certificate_expires: 2_000_000_000,
            over,
        };
        let at_dialler = connected(conns[0], &self.hosts[to], true);
        let at_other = connected(conns[1], &self.hosts[from], false);
        let latency = self.latency;
        self.later(latency, Pending::Report(from, at_dialler));
        self.later(latency * 2, Pending::Report(to, at_other));
    }

    fn is_cut(&self, from: usize, to: usize, over: Over) -> bool {
        let quic = over == Over::Quic && self.quic_cuts.contains(&(from, to));
        quic || self.cuts.contains(&(from, to))
    }

    fn later(&mut self, after: Duration, pending: Pending) {
        self.next += 1;
        self.events.insert((self.now + after, self.next), pending);
    }

    fn turn(&mut self, n: usize) {
        let now = self.local(n);
        let host = &mut self.hosts[n];
        let Some(mep) = host.mep.as_mut() else { return };
        let mut heard: BTreeMap<SiteName, Timestamp> = BTreeMap::new();
        for peer in mep.peers().filter(|peer| peer.state.has_session()) {
            let last = heard.entry(peer.peer.site.clone()).or_default();
            *last = peer.last_word.map_or(*last, |word| word.max(*last));
        }
        mep.handle_timeout(now, &View(&host.table, now, heard));
        let mut outputs: Vec<Output> = std::iter::from_fn(|| mep.poll_output()).collect();
        assert!(mep.poll_timeout().is_none_or(|at| at > now), "a deadline in the past");
        for output in outputs.drain(..) {
            match output {
                Output::Carrier(command) => self.command(n, command),
                other => self.took(n, other),
            }
        }
    }

    /// Does with the words of a peer what a node does.
    fn took(&mut self, n: usize, output: Output) {
        let (at, now) = (self.now, self.local(n));
        let host = &mut self.hosts[n];
        let mut wanted = Vec::new();
        match &output {
            Output::Sightings { sightings, .. } => {
                for s in sightings {
                    let new = host.table.sight(s.address, now.before(s.age));
                    if new && !s.fresh {
                        wanted.push(Ldns::exact(s.address));
                    }
                }
            }
            Output::Rtts { site, rows, .. } => {
                let is_taken = |ldns| !host.takes_no_rows && host.table.entries.contains_key(ldns);
                for row in rows.iter().filter(|row| is_taken(&row.ldns)) {
                    host.table.columns.insert((site.clone(), row.ldns), (row.reach, now.before(row.age)));
                }
            }
            Output::Sessions { sessions, .. } => {
                for session in sessions {
                    let used = now.before(session.idle);
                    let place = host.table.sessions.entry(session.key);
                    let known = place.or_insert((session.service.clone(), used));
                    if used > known.1 {
                        *known = (session.service.clone(), used);
                    }
                }
            }
            _ => {}
        }
        host.outputs.push((at, output));
        if let Some(mep) = host.mep.as_mut() {
            wanted.into_iter().for_each(|ldns| mep.want(now, ldns));
        }
    }

    fn command(&mut self, n: usize, command: CarrierCommand) {
        match command {
            CarrierCommand::Dial { peer, address, over } => {
                self.hosts[n].dials.push(self.now);
                self.dialled.push((self.now, over));
                let to = self.hosts.iter().position(|h| h.address == address);
                match to.filter(|to| self.hosts[*to].id == peer) {
                    Some(to) => self.dial_over(n, to, over),
                    None => {
                        let reason = "certificate not valid for name".to_owned();
                        let failed = CarrierEvent::DialFailed { peer, over, reason };
                        self.later(ms(20), Pending::Report(n, failed));
                    }
                }
            }
            CarrierCommand::Send { conn, frame } => self.send(n, conn, frame),
            CarrierCommand::Close { conn, reason } => {
                let Some(wire) = self.by_conn.remove(&(n, conn)) else { return };
                let direction = usize::from(self.wires[wire].ends[1] == (n, conn));
                let other = self.wires[wire].ends[1 - direction].1;
                self.arrive(wire, direction, CarrierEvent::Closed { conn: other, reason });
            }
        }
    }

    fn send(&mut self, n: usize, conn: ConnId, frame: Bytes) {
        assert!(frame.len() <= MAX_FRAME, "a frame of {} bytes", frame.len());
        let Some(wire) = self.by_conn.get(&(n, conn)).copied() else { return };
        let direction = usize::from(self.wires[wire].ends[1] == (n, conn));
        let (to, other) = self.wires[wire].ends[1 - direction];
        let load = &mut self.wires[wire].load[direction];
        *load = (load.0 + frame.len(), load.1 + 1);
        assert!(load.0 <= MAX_IN_FLIGHT_BYTES + MAX_FRAME && load.1 <= MAX_IN_FLIGHT_FRAMES, "{load:?}");
        self.sent.push((self.now, n, to, frame.clone()));
        self.arrive(wire, direction, CarrierEvent::Received { conn: other, frame });
    }

    fn arrive(&mut self, wire: usize, direction: usize, event: CarrierEvent) {
        let (from, to) = (self.wires[wire].ends[direction].0, self.wires[wire].ends[1 - direction].0);
        if self.is_cut(from, to, self.wires[wire].over) {
            return self.wires[wire].held[direction].push(event);
        }
        let bytes = match &event {
            CarrierEvent::Received { frame, .. } => frame.len() as u64,
            _ => 0,
        };
        let bandwidth = self.slow.get(&(from, to)).copied().or(self.bandwidth);
        let time = bandwidth.map_or(Duration::ZERO, |b| Duration::from_micros(bytes * 1_000_000 / b));
        let busy = self.wires[wire].busy[direction].max(self.now) + time;
        self.wires[wire].busy[direction] = busy;
        self.next += 1;
        let detour = if self.wires[wire].over == Over::Quic { self.quic_detour } else { Duration::ZERO };
        self.events
            .insert((busy + self.latency + detour, self.next), Pending::Arrive { wire, direction, event });
    }
}
