//! What can be done to the world.

use super::agenda::Event;
use super::host::Pace;
use super::net::Wave;
use super::{HostIndex, Manner, Resolver, Way, World};
use crate::log::What;
use gslb_core::{Input, SessionKey, Shared};
use gslb_types::{ProbeKind, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

impl World {
    /// Writes down what is done to the world from outside.
    pub fn remark(&mut self, what: impl Into<String>) {
        self.log.note(self.now, What::Act(what.into()));
    }

    /// Starts a node that does not run, with an empty state and a new boot id.
    pub fn start(&mut self, n: HostIndex) {
        self.start_with(n, |_| {});
    }

    /// Starts a node that does not run in the place of a node task that has left this behind.
    pub fn start_with(&mut self, n: HostIndex, left: impl FnOnce(&Shared)) {
        if self.hosts[n].process.is_some() {
            return;
        }
        let (seed, boot) = (self.chance.number(), self.chance.number());
        self.hosts[n].start(self.now, seed, boot, self.coalesce, self.witness.looks(), left);
        self.witness.born(self.now, n);
    }

    /// A client of a network is sent to a service, by a node whose task runs. Returns whether it was.
    pub fn use_session(&mut self, n: HostIndex, key: SessionKey, service: usize) -> bool {
        let config = self.hosts[n].config();
        let name = config.services.get(service).map(|service| service.name.clone());
        let Some(service) = name.filter(|_| self.hosts[n].wake().is_some()) else { return false };
        self.turn(n, Some(Input::Session { key, service }));
        true
    }

    /// Ends a node as `kill -9` does.
    pub fn kill(&mut self, n: HostIndex) {
        self.witness.died(self.now, n);
        self.hosts[n].process = None;
        self.net.die(n);
    }

    /// Ends a node in good order: its peers are told.
    pub fn stop(&mut self, n: HostIndex) {
        if self.hosts[n].is_running() {
            self.turn(n, Some(Input::Stop));
        }
        self.kill(n);
    }

    /// Kills and starts a node.
    pub fn restart(&mut self, n: HostIndex) {
        self.kill(n);
        self.start(n);
    }

    /// Stops all threads of a node, as SIGSTOP does, until [`World::resume`].
    pub fn freeze(&mut self, n: HostIndex) {
        self.set_pace(n, Pace::Stopped);
    }

    /// The same, for a while.
    pub fn freeze_for(&mut self, n: HostIndex, span: Duration) {
        self.freeze(n);
        let life = self.hosts[n].life;
        self.agenda.add(self.now + span, Event::Resume { host: n, life });
    }

    /// Lets the node task stand still while the DNS threads go on answering (faults I-57, bar R12).
    pub fn stick(&mut self, n: HostIndex) {
        self.set_pace(n, Pace::Stuck);
    }

    /// Lets a process that stood still go on; it finds what came meanwhile.
    pub fn resume(&mut self, n: HostIndex) {
        let Some(process) = self.hosts[n].process.as_mut() else { return };
        self.witness.disturbed(self.now, n, false);
        process.pace = Pace::Running;
        for event in std::mem::take(&mut process.backlog) {
            self.agenda.add(self.now, event);
        }
    }

    fn set_pace(&mut self, n: HostIndex, pace: Pace) {
        self.witness.disturbed(self.now, n, true);
        if let Some(process) = self.hosts[n].process.as_mut() {
            process.pace = pace;
        }
    }

    /// Lets the monotonic clock of a node jump ahead, as that of a machine that slept. There is no wall clock to jump: none
    /// reaches a node's machines.
    pub fn jump(&mut self, n: HostIndex, by: Duration) {
        let stands_still = self.hosts[n].wake().is_none();
        self.witness.disturbed(self.now, n, stands_still);
        if let Some(process) = self.hosts[n].process.as_mut() {
            process.jump(self.now, by);
        }
    }

    /// Lets the clock of a node gain so many parts of a million from here on, or lose them.
    pub fn drift(&mut self, n: HostIndex, drift: i32) {
        if let Some(process) = self.hosts[n].process.as_mut() {
            process.drift(self.now, drift);
        }
    }

    /// Lets whoever sends a node's probes and checks die, or live again (faults I-57).
    pub fn mute(&mut self, n: HostIndex, is_mute: bool) {
        let stands_still = self.hosts[n].wake().is_none();
        self.witness.disturbed(self.now, n, stands_still);
        if let Some(process) = self.hosts[n].process.as_mut() {
            process.is_mute = is_mute;
        }
    }

    /// Lets nothing pass from one host to another.
    pub fn cut_one_way(&mut self, from: HostIndex, to: HostIndex) {
        self.net.cuts.insert((from, to));
        self.witness.line(self.now, from, to, false);
    }

    /// Lets nothing pass between two hosts.
    pub fn cut(&mut self, a: HostIndex, b: HostIndex) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Cuts and heals a line in turns, for `spans.0` each time it is whole and `spans.1` each time it is not, and leaves it
    /// whole in the end (faults I-43). It begins cut.
    pub fn wave(&mut self, a: HostIndex, b: HostIndex, spans: (Duration, Duration), span: Duration) {
        let number = self.chance.number();
        let wave = Wave { number, spans: [spans.0, spans.1], is_cut: false, until: self.now + span };
        self.net.waves.insert((a, b), wave);
        self.roll((a, b), number);
    }

    /// The next turn of a wave, unless it was mended or another one came in its place.
    pub(super) fn roll(&mut self, (a, b): (HostIndex, HostIndex), number: u64) {
        let now = self.now;
        let Some(wave) = self.net.waves.get_mut(&(a, b)).filter(|wave| wave.number == number) else { return };
        if now >= wave.until {
            return self.heal(a, b);
        }
        wave.is_cut = !wave.is_cut;
        let (is_cut, at) = (wave.is_cut, now + wave.spans[usize::from(wave.is_cut)]);
        self.agenda.add(at.min(wave.until), Event::Wave { pair: (a, b), number });
        match is_cut {
            true => self.cut(a, b),
            false => self.mend(a, b),
        }
    }

    /// Lets no UDP pass between two hosts, or lets it pass again (faults I-53).
    pub fn block_udp(&mut self, a: HostIndex, b: HostIndex, is_blocked: bool) {
        for direction in [(a, b), (b, a)] {
            match is_blocked {
                true => self.net.blocked.insert(direction),
                false => self.net.blocked.remove(&direction),
            };
        }
        self.net.release(self.now, &mut self.agenda, &mut self.chance);
        self.note_line(a, b);
    }

    /// Lets nobody take a host's certificate in a handshake, or all again; connections that stand are not touched (faults I-48).
    pub fn refuse(&mut self, n: HostIndex, is_refused: bool) {
        match is_refused {
            true => self.net.refused.insert(n),
            false => self.net.refused.remove(&n),
        };
    }

    /// Mends whatever is cut between two hosts.
    pub fn heal(&mut self, a: HostIndex, b: HostIndex) {
        self.net.waves.remove(&(a, b));
        self.net.waves.remove(&(b, a));
        self.mend(a, b);
    }

    fn mend(&mut self, a: HostIndex, b: HostIndex) {
        self.net.cuts.remove(&(a, b));
        self.net.cuts.remove(&(b, a));
        self.net.release(self.now, &mut self.agenda, &mut self.chance);
        self.note_line(a, b);
    }

    /// Mends everything that is cut, blocked or refused.
    pub fn heal_all(&mut self) {
        self.net.waves.clear();
        self.net.cuts.clear();
        self.net.blocked.clear();
        self.net.refused.clear();
        self.net.release(self.now, &mut self.agenda, &mut self.chance);
        let hosts = 0..self.hosts.len();
        hosts.clone().for_each(|a| hosts.clone().for_each(|b| self.note_line(a, b)));
    }

    /// How the network between the nodes is: delay one way, what is added at random, packets lost of a thousand.
    pub fn set_network(&mut self, latency: Duration, jitter: Duration, loss: u32) {
        self.net.latency = latency;
        self.net.jitter = jitter;
        self.net.loss = loss;
        self.note_lines();
    }

    /// Makes the line from one host to another as narrow as so many bytes a second, or wide again.
    pub fn narrow(&mut self, from: HostIndex, to: HostIndex, rate: Option<u64>) {
        match rate {
            Some(rate) => drop(self.net.narrow.insert((from, to), rate)),
            None => self.net.widen(self.now, (from, to), &mut self.agenda),
        }
        self.note_lines();
    }

    /// Makes all lines wide.
    pub fn widen_all(&mut self) {
        for line in self.net.narrow.keys().copied().collect::<Vec<_>>() {
            self.net.widen(self.now, line, &mut self.agenda);
        }
        self.note_lines();
    }

    /// Tells the witness whether everything passes between two hosts.
    fn note_line(&mut self, a: HostIndex, b: HostIndex) {
        for (from, to) in [(a, b), (b, a)] {
            let is_whole = !self.net.cuts.contains(&(from, to)) && !self.net.blocked.contains(&(from, to));
            self.witness.line(self.now, from, to, is_whole);
        }
    }

    /// Tells the witness how long the lines are bad.
    fn note_lines(&mut self) {
        let until = if self.net.is_rough() { Timestamp::MAX } else { self.net.drained(self.now) };
        self.witness.rough(until);
    }

    /// Puts a resolver into the world, so far from each site, in the order of the sites.
    pub fn put_resolver(&mut self, ldns: IpAddr, rtts: &[Duration]) {
        self.internet.resolvers.insert(ldns, Resolver::new(rtts.iter().map(|rtt| Way::of(*rtt)).collect()));
    }

    /// Moves a resolver: another distance from one site.
    pub fn move_resolver(&mut self, ldns: IpAddr, site: usize, rtt: Duration) {
        if let Some(way) = self.internet.resolvers.get_mut(&ldns).and_then(|r| r.ways.get_mut(site)) {
            way.rtt = rtt;
        }
    }

    /// Sets how a resolver takes one kind of probe.
    pub fn set_manner(&mut self, ldns: IpAddr, kind: ProbeKind, manner: Manner) {
        if let Some(resolver) = self.internet.resolvers.get_mut(&ldns) {
            resolver.takes(kind, manner);
        }
    }

    /// Brings a service up or down, by its place in the configuration.
    pub fn set_service(&mut self, service: usize, is_up: bool) {
        let address = self.hosts.first().and_then(|h| h.config().services.get(service)).map(|s| s.address);
        if let Some(health) = address.and_then(|a| self.internet.services.get_mut(&a)) {
            health.is_up = is_up;
        }
    }

    /// Whether checks from a site reach a service.
    pub fn reach(&mut self, site: usize, service: usize, is_reached: bool) {
        let services = self.hosts.first().map(|h| h.config().services.as_slice()).unwrap_or_default();
        let Some(service) = services.get(service) else { return };
        match is_reached {
            true => self.internet.unreached.remove(&(site, service.address)),
            false => self.internet.unreached.insert((site, service.address)),
        };
    }

    /// Lets all checks reach all services.
    pub fn reach_all(&mut self) {
        self.internet.unreached.clear();
    }

    /// Whether a service really is up.
    pub fn is_service_up(&self, service: usize) -> bool {
        let address = self.hosts.first().and_then(|h| h.config().services.get(service)).map(|s| s.address);
        address.and_then(|a| self.internet.services.get(&a)).is_some_and(|health| health.is_up)
    }

    /// Connections that stand between two nodes, as both see it.
    pub fn connections(&self, a: HostIndex, b: HostIndex) -> usize {
        self.net.connections(a, b)
    }
}
