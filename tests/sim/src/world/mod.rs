//! A GSLB group and everything around it, in one thread and virtual time.

mod act;
mod agenda;
mod ask;
mod host;
mod internet;
mod net;

use crate::chance::Chance;
use crate::group::Group;
use crate::log::{self, Log, What};
use crate::witness::{Cause, Invariant, Violation, Witness};
use agenda::{Agenda, Event};
pub use ask::{Answer, Reply};
use gslb_core::{Input, Output};
use gslb_types::Timestamp;
pub use host::Host;
use host::Pace;
pub(crate) use host::Process;
pub use internet::{Health, Internet, Manner, Resolver, Way};
use mep_core::carrier::{
    CarrierCommand, CarrierEvent, MAX_FRAME, MAX_IN_FLIGHT_BYTES, MAX_IN_FLIGHT_FRAMES, Over,
};
use net::{HANDSHAKE, Net, Party};
use std::net::IpAddr;
use std::time::Duration;

/// The place of a host among those of the world: that of its node in the order of the group.
pub type HostIndex = usize;

/// How many things may happen at one moment before something is taken to go round in circles.
const MOST_AT_ONCE: u32 = 200_000;

/// The world. It comes to a stand at the first invariant that is broken ([`World::violation`]).
pub struct World {
    pub(crate) now: Timestamp,
    group: Group,
    hosts: Vec<Host>,
    agenda: Agenda,
    net: Net,
    internet: Internet,
    chance: Chance,
    witness: Witness,
    log: Log,
    at_once: u32,
    coalesce: Duration,
}

impl World {
    /// A group whose nodes do not run yet, and whose services are up.
    pub fn new(group: Group, seed: u64) -> Result<World, config::Errors> {
        let hosts = (0..group.nodes().count())
            .map(|n| group.config(n).map(Host::new))
            .collect::<Result<Vec<_>, _>>()?;
        let mut internet = Internet::default();
        for service in hosts.first().map(|h| h.config().services.as_slice()).unwrap_or_default() {
            let health = Health { is_up: true, response: Duration::from_millis(3) };
            internet.services.insert(service.address, health);
        }
        let witness = Witness::new(&hosts.iter().map(Host::site).collect::<Vec<_>>());
        Ok(World {
            now: Timestamp::ZERO,
            group,
            hosts,
            agenda: Agenda::default(),
            net: Net::new(),
            internet,
            chance: Chance::new(seed),
            witness,
            log: Log::default(),
            at_once: 0,
            coalesce: Duration::ZERO,
        })
    }

    /// The same, with all nodes started at once.
    pub fn started(group: Group, seed: u64) -> Result<World, config::Errors> {
        let mut world = World::new(group, seed)?;
        (0..world.hosts.len()).for_each(|n| world.start(n));
        Ok(world)
    }

    /// The world's time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What the nodes were told to be.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The machines, one for each node, in the order of the sites.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Everything that is neither node nor network.
    pub fn internet(&mut self) -> &mut Internet {
        &mut self.internet
    }

    /// What happened.
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// What the nodes did, counted by somebody who watches the wires.
    pub fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Spares the look at every row of the tables after every step, for worlds in which these are large. The other invariants
    /// are kept.
    pub fn watch_less(&mut self) {
        self.witness.look_away();
    }

    /// Looks at every row of all tables, whether it is as the last looks at single rows left it.
    pub fn look_at_all(&mut self) {
        for (n, host) in self.hosts.iter().enumerate() {
            self.witness.look_at_all(self.now, n, host);
        }
    }

    /// Lets nodes that start from here on publish several changes together; otherwise they publish each at once.
    pub fn coalesce(&mut self, span: Duration) {
        self.coalesce = span;
    }

    /// The first invariant that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation> {
        self.witness.violation()
    }

    /// Lets the next thing happen, if it happens before `end`. Returns whether one did.
    pub fn step(&mut self, end: Timestamp) -> bool {
        if self.violation().is_some() {
            return false;
        }
        let event = self.agenda.next();
        let wake = self.hosts.iter().enumerate().filter_map(|(n, host)| Some((host.wake()?, n))).min();
        match (event, wake) {
            (Some(at), wake) if at <= end && wake.is_none_or(|(first, _)| at <= first) => {
                self.advance(at);
                if let Some(event) = self.agenda.take() {
                    self.happen(event);
                }
                true
            }
            (_, Some((at, n))) if at <= end => {
                self.advance(at);
                self.turn(n, None);
                true
            }
            _ => false,
        }
    }

    /// Lets time pass. Stops short when an invariant is broken.
    pub fn drive(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step(end) {}
        if self.violation().is_none() {
            self.now = end;
        }
    }

    /// Lets time pass until something holds, for `span` at most. Returns how long it took, if it came to hold.
    pub fn drive_until(&mut self, span: Duration, mut holds: impl FnMut(&World) -> bool) -> Option<Duration> {
        let begin = self.now;
        loop {
            if holds(self) {
                return Some(self.now.since(begin));
            }
            if !self.step(begin + span) {
                self.drive(span.saturating_sub(self.now.since(begin)));
                return holds(self).then(|| self.now.since(begin));
            }
        }
    }

    /// Lets time pass for as long as `span`, but not more than `steps` things happen. Returns whether they sufficed: work at
    /// rest is constant (bar R19).
    pub fn drive_bounded(&mut self, span: Duration, steps: usize) -> bool {
        let end = self.now + span;
        for _ in 0..steps {
            if !self.step(end) {
                self.now = end;
                return true;
            }
        }
        false
    }

    fn advance(&mut self, at: Timestamp) {
        self.at_once = if at > self.now { 0 } else { self.at_once + 1 };
        self.now = self.now.max(at);
        if self.at_once > MOST_AT_ONCE {
            self.violated(Invariant::Rest, "time does not go on".to_owned());
        }
    }

    pub(crate) fn violated(&mut self, invariant: Invariant, what: String) {
        self.witness.violated(self.now, invariant, what);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tell { host, life, input } => {
                if self.hosts[host].life == life
                    && !self.waits(host, || Event::Tell { host, life, input: input.clone() })
                {
                    self.turn(host, Some(input));
                }
            }
            Event::Knock { from, life, to, over } => self.knock(from, life, to, over),
            Event::Arrive { wire, end, sent, event } => {
                let Some(host) = self.net.host_of(wire, end) else { return };
                if self.waits(host, || Event::Arrive { wire, end, sent, event: event.clone() }) {
                    return;
                }
                self.witness.flew(self.now, self.now.since(sent));
                if let Some(host) = self.net.arrived(self.now, wire, end, &event) {
                    self.turn_with(host, Some(Input::Carrier(event)), sent);
                }
            }
            Event::Idle { wire, end } => {
                let Some(host) = self.net.host_of(wire, end) else { return };
                if self.waits(host, || Event::Idle { wire, end }) {
                    return;
                }
                if let Some((host, closed)) = self.net.look_idle(self.now, wire, end, &mut self.agenda) {
                    self.turn(host, Some(Input::Carrier(closed)));
                }
            }
            Event::Resume { host, life } if self.hosts[host].life == life => self.resume(host),
            Event::Resume { .. } => {}
            Event::Wave { pair, number } => self.roll(pair, number),
        }
    }

    /// Whether the host's process stands still; then it gets the event when it goes on.
    fn waits(&mut self, host: HostIndex, event: impl FnOnce() -> Event) -> bool {
        match self.hosts[host].process.as_mut() {
            Some(process) if process.pace != Pace::Running => {
                process.backlog.push(event());
                true
            }
            Some(_) | None => false,
        }
    }

    fn knock(&mut self, from: HostIndex, life: u64, to: HostIndex, over: Over) {
        if self.hosts[from].life != life {
            return;
        }
        let listens = self.hosts[to].process.as_ref().is_some_and(|p| p.pace == Pace::Running);
        let failed = if !listens || !self.net.is_whole(from, to, over) {
            Some((HANDSHAKE, "timed out"))
        } else if self.net.refused.contains(&to) {
            Some((self.net.latency, "its certificate is not taken here"))
        } else {
            None
        };
        if let Some((after, reason)) = failed {
            let peer = self.hosts[to].id().clone();
            let event = CarrierEvent::DialFailed { peer, over, reason: reason.to_owned() };
            return self.tell_after(from, after, event);
        }
        if self.net.refused.contains(&from) {
            return self.turn_away(from, to, over);
        }
        let party = |host: HostIndex| Party {
            host,
            id: self.hosts[host].id(),
            address: self.hosts[host].address(),
            life: self.hosts[host].life,
        };
        self.net.connect(self.now, &party(from), &party(to), over, &mut self.agenda);
    }

    /// The dialler's certificate is not taken: it has its connection until the other end's alert comes (TLS 1.3).
    fn turn_away(&mut self, from: HostIndex, to: HostIndex, over: Over) {
        let (conn, reason) = (self.net.stillborn(), "the certificate is not taken there");
        let connected = CarrierEvent::Connected {
            conn,
            peer: self.hosts[to].id().clone(),
            dialled: true,
            address: self.hosts[to].address(),
            certificate_expires: net::EXPIRES,
            over,
        };
        self.tell_after(from, Duration::ZERO, connected);
        self.tell_after(from, self.net.latency * 2, CarrierEvent::Closed { conn, reason: reason.to_owned() });
        let address = self.hosts[from].address();
        let refused = CarrierEvent::Refused { address, reason: "its certificate is not taken".to_owned() };
        self.tell_after(to, self.net.latency, refused);
    }

    fn tell_after(&mut self, host: HostIndex, after: Duration, event: CarrierEvent) {
        let (life, input) = (self.hosts[host].life, Input::Carrier(event));
        self.agenda.add(self.now + after, Event::Tell { host, life, input });
    }

    /// A node takes an input, or does what time has come for; what it wants done is set going.
    pub(crate) fn turn(&mut self, n: HostIndex, input: Option<Input>) {
        self.turn_with(n, input, self.now);
    }

    /// The same, with an input that was sent at some time.
    fn turn_with(&mut self, n: HostIndex, input: Option<Input>, sent: Timestamp) {
        let cause = self.cause(n, input.as_ref(), sent);
        self.note(n, input.as_ref());
        let host = &mut self.hosts[n];
        let Some(process) = host.process.as_mut() else { return };
        let local = process.local(self.now);
        let was_timeout = input.is_none();
        match input {
            Some(input) => process.node.handle_input(local, input),
            None => process.node.handle_timeout(local),
        }
        let outputs: Vec<Output> = std::iter::from_fn(|| process.node.poll_output()).collect();
        process.set_alarm();
        if was_timeout && let Some(at) = process.node.poll_timeout().filter(|at| *at <= local) {
            let what = format!(
                "{} wants to be woken at {at:?} although it was at {local:?}",
                host.config.this_node().id
            );
            self.violated(Invariant::LateTimeout, what);
        }
        if let Some(process) = self.hosts[n].process.as_ref() {
            self.witness.turned(self.now, local, n, &self.hosts[n], process, &cause);
        }
        for output in outputs {
            self.carry_out(n, local, output);
        }
    }

    fn cause(&self, n: HostIndex, input: Option<&Input>, sent: Timestamp) -> Cause {
        match input {
            None => Cause::Time,
            Some(Input::Sighting(address)) => Cause::Sighting(*address),
            Some(Input::Probe(reply)) => self.witness.cause_of_reply(n, *reply),
            Some(Input::Carrier(CarrierEvent::Received { conn, frame })) => {
                match self.net.other_end(n, *conn) {
                    Some(from) => Cause::Frame { from, sent, body: self.witness.read(frame).map(Box::new) },
                    None => Cause::Other,
                }
            }
            Some(
                Input::Check(_)
                | Input::Source(_)
                | Input::Carrier(_)
                | Input::Local(_)
                | Input::Session { .. }
                | Input::Failback(_)
                | Input::Stop,
            ) => Cause::Other,
        }
    }

    fn note(&mut self, n: HostIndex, input: Option<&Input>) {
        let what = match input {
            None => What::Woke(n),
            Some(Input::Sighting(_)) => return,
            Some(Input::Probe(reply)) => match self.witness.target(n, reply.id) {
                Some(target) => What::Reply(n, target, log::outcome(reply.outcome)),
                None => return,
            },
            Some(Input::Check(reply)) => What::Carrier(n, format!("{:?}", reply.outcome)),
            Some(Input::Carrier(CarrierEvent::Received { conn, .. })) => {
                What::Heard(n, self.net.other_end(n, *conn).unwrap_or(n))
            }
            Some(Input::Carrier(event)) => What::Carrier(n, format!("{event:?}")),
            // Hosts of the simulator have no data plane, and no foreign one.
            Some(Input::Local(_) | Input::Source(_)) => return,
            Some(Input::Session { key, service }) => What::Carrier(n, format!("{key:?} {service}")),
            Some(Input::Failback(vserver)) => What::Carrier(n, format!("failback of {vserver}")),
            Some(Input::Stop) => What::Carrier(n, "stop".to_owned()),
        };
        self.log.note(self.now, what);
    }

    fn carry_out(&mut self, n: HostIndex, local: Timestamp, output: Output) {
        let life = self.hosts[n].life;
        match output {
            Output::Probe(probe) => {
                self.log.note(self.now, What::Probe(n, probe.target, probe.kind));
                self.witness.probed(self.now, local, n, &self.hosts[n], &probe);
                let (after, outcome) =
                    self.internet.probe(self.now, self.hosts[n].site(), &probe, &mut self.chance);
                let reply = probes_core::wire::ProbeReply { id: probe.id, outcome };
                self.tell_later(n, life, after, Input::Probe(reply));
            }
            Output::Check(check) => {
                let (after, outcome) = self.internet.check(self.hosts[n].site(), &check);
                let reply = probes_core::wire::CheckReply { id: check.id, outcome };
                self.tell_later(n, life, after, Input::Check(reply));
            }
            Output::Carrier(command) => self.command(n, life, command),
            Output::Local(_) | Output::Fetch(_) => {}
        }
    }

    /// What the prober's and checker's side reports, unless it is dead.
    fn tell_later(&mut self, host: HostIndex, life: u64, after: Duration, input: Input) {
        if self.hosts[host].process.as_ref().is_some_and(|p| !p.is_mute) {
            self.agenda.add(self.now + after, Event::Tell { host, life, input });
        }
    }

    fn command(&mut self, n: HostIndex, life: u64, command: CarrierCommand) {
        match command {
            CarrierCommand::Dial { peer, address, over } => {
                self.log.note(self.now, What::Command(n, format!("dial {peer}")));
                if let Some(to) = self.hosts.iter().position(|h| h.address() == address && *h.id() == peer) {
                    let after = self.net.latency * 2;
                    self.agenda.add(self.now + after, Event::Knock { from: n, life, to, over });
                }
            }
            CarrierCommand::Send { conn, frame } => self.send(n, conn, frame),
            CarrierCommand::Close { conn, reason } => {
                self.log.note(self.now, What::Command(n, format!("close: {reason}")));
                let closed = CarrierEvent::Closed { conn, reason };
                self.net.send(self.now, (n, conn), closed, &mut self.agenda, &mut self.chance);
                self.net.leave(n, conn);
            }
        }
    }

    fn send(&mut self, n: HostIndex, conn: mep_core::carrier::ConnId, frame: bytes::Bytes) {
        let (Some(to), Some(wire)) = (self.net.other_end(n, conn), self.net.wire(n, conn)) else { return };
        self.log.note(self.now, What::Frame(n, to, frame.clone()));
        self.witness.sent(self.now, n, to, wire, &frame);
        let event = CarrierEvent::Received { conn, frame };
        let (bytes, frames) = self.net.send(self.now, (n, conn), event, &mut self.agenda, &mut self.chance);
        if bytes > MAX_IN_FLIGHT_BYTES + MAX_FRAME || frames > MAX_IN_FLIGHT_FRAMES {
            let what = format!(
                "{bytes} bytes in {frames} frames are on the way from {} to {}",
                self.hosts[n].id(),
                self.hosts[to].id()
            );
            self.violated(Invariant::Cap, what);
        }
    }

    /// Whether an address is that of a service, and which.
    pub(crate) fn service_at(&self, address: IpAddr) -> Option<usize> {
        self.hosts.first()?.config().services.iter().position(|s| s.address == address)
    }
}
