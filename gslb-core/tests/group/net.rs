//! A GSLB group in one thread: whole nodes with the exchange between them, in virtual time.
//!
//! Links lose nothing and reorder nothing, as carriers promise; a cut link passes nothing and says nothing, so that nodes find
//! out by themselves. Probes and checks are answered as the tests say.

use crate::show::Watch;
use crate::text;
use config::Config;
use gslb_core::{Birth, Input, LocalHealth, LocalView, Node, Output, SessionKey, Shared};
use gslb_types::{NodeId, ProbeKind, Reach, Rtt, Timestamp};
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId, Over};
use probes_core::wire::{
    CheckOutcome, CheckReply, CheckRequest, FetchReply, FetchRequest, ProbeOutcome, ProbeReply, ProbeRequest,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// One way of every link.
const LATENCY: Duration = Duration::from_millis(10);

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn at(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

pub(crate) fn ms(n: u32) -> Reach {
    Reach::Known(Rtt::from_micros(n * 1000))
}

/// The n-th LDNS, each in a prefix of its own.
pub(crate) fn ldns(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0b00_0035 + (n << 8)).into()
}

/// A group of these nodes, in the order of their sites: one service for each site, in a virtual server of all.
pub(crate) fn text(nodes: &[&str]) -> String {
    let mut sites: Vec<&str> = Vec::new();
    for node in nodes {
        let site = node.split('/').next().unwrap();
        if !sites.contains(&site) {
            sites.push(site);
        }
    }
    let names: Vec<String> = sites.iter().map(|site| format!("web-{site}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let services = sites.iter().zip(&names).zip(0..).map(|((site, name), n)| {
        text::service(name, site, &format!("198.18.{n}.80"), "monitors = [\"web\"]")
    });
    let parts = [
        "version = 1\n[ldns]\nidle_timeout = \"1h\"\n",
        text::WEB,
        &text::sites(&sites),
        &services.collect::<String>(),
        &text::nodes(nodes),
        &text::vserver("www", &names, ""),
        text::WWW,
    ];
    parts.concat()
}

fn session_key(n: u32) -> SessionKey {
    SessionKey::new(1, Ipv4Addr::from_bits(0x0c00_0000 + n).into(), 32)
}

pub(crate) struct Host {
    pub(crate) id: NodeId,
    pub(crate) config: Arc<Config>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: Option<Node>,
    /// Rises with each start: what was under way to an earlier process is lost.
    life: u64,
    pub(crate) probes: Vec<(Timestamp, ProbeRequest)>,
    /// What the data plane was told.
    pub(crate) told: Vec<LocalHealth>,
    /// The looks at foreign load balancers that it asked for and that nothing came of yet.
    pub(crate) looks: Vec<FetchRequest>,
    alarm: Option<Timestamp>,
}

/// A connection with its two ends.
struct Wire {
    ends: [(usize, ConnId); 2],
    /// What is held back by a cut, by direction.
    held: [Vec<CarrierEvent>; 2],
}

enum Event {
    Input { host: usize, life: u64, input: Input },
    Arrive { wire: usize, direction: usize, event: CarrierEvent },
    Knock { from: usize, life: u64, to: usize, over: Over },
}

pub(crate) struct Net {
    pub(crate) now: Timestamp,
    pub(crate) hosts: Vec<Host>,
    cuts: BTreeSet<(usize, usize)>,
    wires: Vec<Wire>,
    by_conn: BTreeMap<(usize, ConnId), usize>,
    events: BTreeMap<(Timestamp, u64), Event>,
    next: u64,
    /// RTT of a node to all LDNS; none: it gets no answer.
    rtts: BTreeMap<usize, Option<u32>>,
    /// Likewise to one LDNS.
    exceptions: BTreeMap<(usize, IpAddr), Option<u32>>,
    /// Checks of a service's address fail, seen from this node.
    failing: BTreeSet<(usize, IpAddr)>,
    /// What checks of a service's address tell of its load, in thousandths.
    pub(crate) loads: BTreeMap<IpAddr, u64>,
    /// What must not change at present.
    pub(crate) watched: Option<Watch>,
}

impl Net {
    /// The nodes of a group, all started at once.
    pub(crate) fn of(nodes: &[&str], more: &str) -> Self {
        Net::edited(nodes, |text| text + more)
    }

    /// Likewise, with another configuration.
    pub(crate) fn edited(nodes: &[&str], edit: impl FnOnce(String) -> String) -> Self {
        let text = edit(text(nodes));
        Net::each(nodes, |_| text.clone())
    }

    /// The nodes of a group, each with a configuration of its own.
    pub(crate) fn each(nodes: &[&str], of: impl Fn(&str) -> String) -> Self {
        let mut net = Net {
            now: at(1),
            hosts: Vec::new(),
            cuts: BTreeSet::new(),
            wires: Vec::new(),
            by_conn: BTreeMap::new(),
            events: BTreeMap::new(),
            next: 0,
            rtts: BTreeMap::new(),
            exceptions: BTreeMap::new(),
            failing: BTreeSet::new(),
            loads: BTreeMap::new(),
            watched: None,
        };
        for id in nodes {
            let config = text::load(&of(id), Some(id));
            let shared = Arc::new(Shared::new(&config, 1, net.now));
            net.hosts.push(Host {
                id: id.parse().unwrap(),
                config,
                shared,
                node: None,
                life: 0,
                probes: Vec::new(),
                told: Vec::new(),
                looks: Vec::new(),
                alarm: None,
            });
        }
        for host in 0..nodes.len() {
            net.start(host);
        }
        net
    }

    /// The place of a node.
    pub(crate) fn place(&self, node: &str) -> usize {
        self.hosts.iter().position(|host| host.id.to_string() == node).unwrap()
    }

    /// Starts a process; nothing of one before is left.
    pub(crate) fn start(&mut self, host: usize) {
        let shared = Arc::new(Shared::new(&self.hosts[host].config, 1, self.now));
        self.start_over(host, shared);
    }

    /// Starts a node task over what is shared with readers.
    fn start_over(&mut self, host: usize, shared: Arc<Shared>) {
        self.next += 1;
        let birth =
            Birth { seed: self.next, boot: 1000 + self.next, local: Vec::new(), coalesce: Duration::ZERO };
        let config = self.hosts[host].config.clone();
        let node = Node::new(config, shared.clone(), &birth, self.now);
        let place = &mut self.hosts[host];
        place.shared = shared;
        place.life += 1;
        place.node = Some(node);
        self.take_outputs(host);
    }

    /// Ends a process without a word.
    pub(crate) fn kill(&mut self, node: &str) {
        let host = self.place(node);
        self.hosts[host].node = None;
        self.hosts[host].alarm = None;
        let lost: Vec<usize> =
            self.by_conn.iter().filter(|((h, _), _)| *h == host).map(|(_, wire)| *wire).collect();
        self.by_conn.retain(|(h, _), _| *h != host);
        // The other ends go on waiting: nobody tells them.
        for wire in lost {
            self.wires[wire].held = Default::default();
        }
    }

    /// Ends the connections between two nodes, as both notice at once.
    pub(crate) fn disconnect(&mut self, a: &str, b: &str) {
        let pair = [self.place(a), self.place(b)];
        let between: Vec<((usize, ConnId), usize)> = self
            .by_conn
            .iter()
            .filter(|(_, wire)| self.wires[**wire].ends.iter().all(|(host, _)| pair.contains(host)))
            .map(|(end, wire)| (*end, *wire))
            .collect();
        for ((host, conn), _) in between {
            self.by_conn.remove(&(host, conn));
            let closed = CarrierEvent::Closed { conn, reason: "reset".to_owned() };
            self.turn(host, Some(Input::Carrier(closed)));
        }
    }

    pub(crate) fn restart(&mut self, node: &str) {
        self.kill(node);
        let host = self.place(node);
        self.start(host);
    }

    /// The task of a node fails, and is replaced by another over what it shared with the DNS threads.
    pub(crate) fn task_fails(&mut self, node: &str) {
        self.kill(node);
        let host = self.place(node);
        let shared = self.hosts[host].shared.clone();
        self.start_over(host, shared);
    }

    /// Nothing passes between two nodes any longer, either way.
    pub(crate) fn cut(&mut self, a: &str, b: &str) {
        let (a, b) = (self.place(a), self.place(b));
        self.cuts.extend([(a, b), (b, a)]);
    }

    pub(crate) fn heal(&mut self, a: &str, b: &str) {
        let (a, b) = (self.place(a), self.place(b));
        self.cuts.retain(|cut| *cut != (a, b) && *cut != (b, a));
        for wire in 0..self.wires.len() {
            for direction in 0..2 {
                let (from, to) = self.direction(wire, direction);
                if (from, to) == (a, b) || (from, to) == (b, a) {
                    for event in std::mem::take(&mut self.wires[wire].held[direction]) {
                        self.add(self.now + LATENCY, Event::Arrive { wire, direction, event });
                    }
                }
            }
        }
    }

    /// Cuts a node off from all others.
    pub(crate) fn isolate(&mut self, node: &str) {
        self.others(node).iter().for_each(|other| self.cut(node, other));
    }

    pub(crate) fn rejoin(&mut self, node: &str) {
        self.others(node).iter().for_each(|other| self.heal(node, other));
    }

    fn others(&self, node: &str) -> Vec<String> {
        self.hosts.iter().map(|host| host.id.to_string()).filter(|id| id != node).collect()
    }

    /// The RTT of a node to all LDNS.
    pub(crate) fn rtt(&mut self, node: &str, millis: u32) {
        let host = self.place(node);
        self.rtts.insert(host, Some(millis));
    }

    /// Likewise to one LDNS; `None` for no answer.
    pub(crate) fn rtt_to(&mut self, node: &str, ldns: IpAddr, millis: Option<u32>) {
        let host = self.place(node);
        self.exceptions.insert((host, ldns), millis);
    }

    /// Whether checks of a site's service pass, seen from a node.
    pub(crate) fn set_service(&mut self, node: &str, site: &str, passes: bool) {
        let host = self.place(node);
        let config = &self.hosts[host].config;
        let name = format!("web-{site}");
        let address = config.services.iter().find(|s| s.name.as_str() == name).unwrap().address;
        if passes {
            self.failing.remove(&(host, address))
        } else {
            self.failing.insert((host, address))
        };
    }

    /// A query from an LDNS comes to a node.
    pub(crate) fn ask(&mut self, node: &str, ldns: IpAddr) {
        let host = self.place(node);
        self.turn(host, Some(Input::Sighting(ldns)));
    }

    /// A client of the n-th address uses its persistence session at a node.
    pub(crate) fn use_session(&mut self, node: &str, n: u32, service: &str) {
        let session = Input::Session { key: session_key(n), service: service.parse().unwrap() };
        self.turn(self.place(node), Some(session));
    }

    /// Where it leads.
    pub(crate) fn session(&self, node: &str, n: u32) -> Option<String> {
        let node = self.hosts[self.place(node)].node.as_ref()?;
        node.session(self.now, &session_key(n)).map(|session| session.service.to_string())
    }

    /// What the data plane of a node shows.
    pub(crate) fn show(&mut self, node: &str, views: Vec<LocalView>) {
        let host = self.place(node);
        self.turn(host, Some(Input::Local(views)));
    }

    /// What became of a node's look at a foreign load balancer.
    pub(crate) fn looked(&mut self, node: &str, reply: FetchReply) {
        let host = self.place(node);
        self.turn(host, Some(Input::Source(reply)));
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= until) {
            self.now = self.now.max(moment);
            self.step();
            self.watch();
        }
        self.now = until;
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        self.hosts.iter().filter_map(|host| host.alarm).chain(event).min()
    }

    fn step(&mut self) {
        while let Some(first) = self.events.first_entry()
            && first.key().0 <= self.now
        {
            let (_, event) = first.remove_entry();
            self.happens(event);
        }
        for host in 0..self.hosts.len() {
            if self.hosts[host].alarm.is_some_and(|at| at <= self.now) {
                self.turn(host, None);
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Input { host, life, input } if self.hosts[host].life == life => {
                self.turn(host, Some(input))
            }
            Event::Input { .. } => {}
            Event::Arrive { wire, direction, event } => {
                let link = self.direction(wire, direction);
                if self.cuts.contains(&link) {
                    return self.wires[wire].held[direction].push(event);
                }
                let (host, conn) = self.wires[wire].ends[1 - direction];
                if self.by_conn.get(&(host, conn)) == Some(&wire) {
                    if matches!(event, CarrierEvent::Closed { .. }) {
                        self.by_conn.remove(&(host, conn));
                    }
                    self.turn(host, Some(Input::Carrier(event)));
                }
            }
            Event::Knock { from, life, to, over } => self.knock(from, life, to, over),
        }
    }

    fn knock(&mut self, from: usize, life: u64, to: usize, over: Over) {
        if self.hosts[from].life != life || self.hosts[from].node.is_none() {
            return;
        }
        if self.cuts.contains(&(from, to)) || self.hosts[to].node.is_none() {
            let peer = self.hosts[to].id.clone();
            let failed = CarrierEvent::DialFailed { peer, over, reason: "no answer".to_owned() };
            return self.turn(from, Some(Input::Carrier(failed)));
        }
        let wire = self.wires.len();
        let ends = [from, to].map(|host| {
            self.next += 1;
            (host, ConnId(self.next))
        });
        self.wires.push(Wire { ends, held: Default::default() });
        for (n, (host, conn)) in ends.into_iter().enumerate() {
            self.by_conn.insert((host, conn), wire);
            let other = &self.hosts[ends[1 - n].0];
            let connected = CarrierEvent::Connected {
                conn,
                peer: other.id.clone(),
                dialled: n == 0,
                address: other.config.this_node().mep,
                certificate_expires: i64::MAX,
                over,
            };
            self.turn(host, Some(Input::Carrier(connected)));
        }
    }

    fn turn(&mut self, host: usize, input: Option<Input>) {
        let now = self.now;
        let Some(node) = self.hosts[host].node.as_mut() else { return };
        match input {
            Some(input) => node.handle_input(now, input),
            None => {
                node.handle_timeout(now);
                // What comes of it is taken below; nothing may be due in the past.
                assert!(node.poll_timeout().is_none_or(|at| at > now), "{} at {now:?}", self.hosts[host].id);
            }
        }
        self.take_outputs(host);
    }

    fn take_outputs(&mut self, host: usize) {
        let Some(node) = self.hosts[host].node.as_mut() else { return };
        let outputs: Vec<Output> = std::iter::from_fn(|| node.poll_output()).collect();
        self.hosts[host].alarm = self.hosts[host].node.as_ref().and_then(Node::poll_timeout);
        for output in outputs {
            match output {
                Output::Probe(probe) => self.probe(host, probe),
                Output::Check(check) => self.check(host, &check),
                Output::Carrier(command) => self.carry(host, command),
                Output::Local(health) => self.hosts[host].told.push(health),
                Output::Fetch(look) => self.hosts[host].looks.push(look),
            }
        }
    }

    fn probe(&mut self, host: usize, probe: ProbeRequest) {
        self.hosts[host].probes.push((self.now, probe));
        let rtt = self.exceptions.get(&(host, probe.target)).or(self.rtts.get(&host)).copied().flatten();
        let (after, outcome) = match (rtt, probe.kind) {
            (Some(millis), ProbeKind::Ping) => {
                let rtt = Rtt::from_micros(millis * 1000);
                (rtt.as_duration(), ProbeOutcome::EchoReply(rtt))
            }
            _ => (probe.timeout, ProbeOutcome::TimedOut),
        };
        self.tell(host, after, Input::Probe(ProbeReply { id: probe.id, outcome }));
    }

    fn check(&mut self, host: usize, check: &CheckRequest) {
        let (response_time, load) = (Rtt::from_micros(2000), self.loads.get(&check.target.ip()).copied());
        let outcome = match (self.failing.contains(&(host, check.target.ip())), load) {
            (true, _) => CheckOutcome::Failed("refused".to_owned()),
            (false, None) => CheckOutcome::Passed(response_time),
            (false, Some(_)) => CheckOutcome::Reported { response_time, words: "OK".to_owned(), load },
        };
        self.tell(host, Duration::from_millis(2), Input::Check(CheckReply { id: check.id, outcome }));
    }

    fn carry(&mut self, host: usize, command: CarrierCommand) {
        match command {
            CarrierCommand::Dial { peer, over, .. } => {
                let to = self.hosts.iter().position(|other| other.id == peer).unwrap();
                let life = self.hosts[host].life;
                self.add(self.now + LATENCY, Event::Knock { from: host, life, to, over });
            }
            CarrierCommand::Send { conn, frame } => {
                self.send(host, conn, |conn| CarrierEvent::Received { conn, frame })
            }
            CarrierCommand::Close { conn, reason } => {
                self.send(host, conn, |conn| CarrierEvent::Closed { conn, reason });
                self.by_conn.remove(&(host, conn));
            }
        }
    }

    fn send(&mut self, host: usize, conn: ConnId, event: impl FnOnce(ConnId) -> CarrierEvent) {
        let Some(wire) = self.by_conn.get(&(host, conn)).copied() else { return };
        let direction = usize::from(self.wires[wire].ends[1] == (host, conn));
        let event = event(self.wires[wire].ends[1 - direction].1);
        if self.wires[wire].held[direction].is_empty() {
            self.add(self.now + LATENCY, Event::Arrive { wire, direction, event });
        } else {
            self.wires[wire].held[direction].push(event);
        }
    }

    fn direction(&self, wire: usize, direction: usize) -> (usize, usize) {
        let ends = self.wires[wire].ends;
        (ends[direction].0, ends[1 - direction].0)
    }

    fn tell(&mut self, host: usize, after: Duration, input: Input) {
        let life = self.hosts[host].life;
        self.add(self.now + after, Event::Input { host, life, input });
    }

    fn add(&mut self, at: Timestamp, event: Event) {
        self.next += 1;
        self.events.insert((at, self.next), event);
    }
}
