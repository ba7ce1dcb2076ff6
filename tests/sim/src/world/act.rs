//! What can be done to the world.

use super::agenda::Event;
use super::host::Pace;
use super::{HostIndex, Manner, Resolver, Way, World};
use crate::log::What;
use gslb_core::Input;
use gslb_types::ProbeKind;
use std::net::IpAddr;
use std::time::Duration;

impl World {
    /// Writes down what is done to the world from outside.
    pub fn remark(&mut self, what: impl Into<String>) {
        self.log.note(self.now, What::Act(what.into()));
    }

    /// Starts a node that does not run, with an empty state and a new boot id.
    pub fn start(&mut self, n: HostIndex) {
        if self.hosts[n].process.is_some() {
            return;
        }
        let (seed, boot) = (self.chance.number(), self.chance.number());
        self.hosts[n].start(self.now, seed, boot);
        self.witness.born(n);
    }

    /// Ends a node as `kill -9` does.
    pub fn kill(&mut self, n: HostIndex) {
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
        process.pace = Pace::Running;
        for event in std::mem::take(&mut process.backlog) {
            self.agenda.add(self.now, event);
        }
    }

    fn set_pace(&mut self, n: HostIndex, pace: Pace) {
        if let Some(process) = self.hosts[n].process.as_mut() {
            process.pace = pace;
        }
    }

    /// Lets the clock of a node jump ahead.
    pub fn jump(&mut self, n: HostIndex, by: Duration) {
        if let Some(process) = self.hosts[n].process.as_mut() {
            process.jump(by);
        }
    }

    /// Lets whoever sends a node's probes and checks die, or live again (faults I-57).
    pub fn mute(&mut self, n: HostIndex, is_mute: bool) {
        if let Some(process) = self.hosts[n].process.as_mut() {
            process.is_mute = is_mute;
        }
    }

    /// Lets nothing pass from one host to another.
    pub fn cut_one_way(&mut self, from: HostIndex, to: HostIndex) {
        self.net.cuts.insert((from, to));
    }

    /// Lets nothing pass between two hosts.
    pub fn cut(&mut self, a: HostIndex, b: HostIndex) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Mends whatever is cut between two hosts.
    pub fn heal(&mut self, a: HostIndex, b: HostIndex) {
        self.net.cuts.remove(&(a, b));
        self.net.cuts.remove(&(b, a));
        self.net.release(self.now, &mut self.agenda, &mut self.chance);
    }

    /// Mends everything that is cut.
    pub fn heal_all(&mut self) {
        self.net.cuts.clear();
        self.net.release(self.now, &mut self.agenda, &mut self.chance);
    }

    /// How the network between the nodes is: delay one way, what is added at random, packets lost of a thousand.
    pub fn set_network(&mut self, latency: Duration, jitter: Duration, loss: u32) {
        self.net.latency = latency;
        self.net.jitter = jitter;
        self.net.loss = loss;
    }

    /// Makes the line from one host to another as narrow as so many bytes a second, or wide again.
    pub fn narrow(&mut self, from: HostIndex, to: HostIndex, rate: Option<u64>) {
        match rate {
            Some(rate) => self.net.narrow.insert((from, to), rate),
            None => self.net.narrow.remove(&(from, to)),
        };
    }

    /// Makes all lines wide.
    pub fn widen_all(&mut self) {
        self.net.narrow.clear();
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
