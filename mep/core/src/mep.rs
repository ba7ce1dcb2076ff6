//! The machine: all sessions of one node.

use crate::asking::Asking;
use crate::carrier::{CarrierCommand, CarrierEvent, ConnId};
use crate::outbox::{Outbox, Queue};
use crate::output::{DownReason, Output};
use crate::peer::{Candidate, Peer};
use crate::settings::Settings;
use crate::values::{ServiceMetric, Values};
use crate::{PeerStatus, Strangers};
use gslb_types::{NodeId, Timers, Timestamp};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The shortest intervals that are kept; shorter ones would be a busy loop.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// What the end of a connection is told whose session went on over a better one.
pub(crate) const MOVED: &str = "the session goes on over another connection";

/// The smallest cap that is kept: a few chunks.
const LEAST_CAP: usize = 4 * crate::wire::CHUNK;

/// The metric exchange of one node with all its peers. See the crate's documentation for how to drive it.
pub struct Mep {
    pub(crate) me: NodeId,
    pub(crate) boot: u64,
    pub(crate) settings: Settings,
    pub(crate) peers: Vec<Peer>,
    /// Index into `peers` of every connection that stands.
    pub(crate) conns: BTreeMap<ConnId, usize>,
    pub(crate) outbox: Outbox,
    pub(crate) timers: Timers<Timer>,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) rng: Pcg32,
    /// Hellos sent by this process.
    pub(crate) hellos: u64,
    pub(crate) strangers: Strangers,
    /// Until when changed RTTs wait for company: one RTT interval after the last batch.
    pub(crate) rtts_rest: Timestamp,
    /// Until when changed links wait.
    pub(crate) links_rest: Timestamp,
    /// Changes of state of all peers.
    pub(crate) transitions: u64,
    pub(crate) started: Timestamp,
    /// Who relays what to this node.
    pub(crate) asking: Asking,
    stopped: bool,
}

/// What a deadline is for; peers by index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// Dial, or give a dial up of which no more was heard.
    Dial(usize),
    /// The hello of a candidate must have come.
    Hello(ConnId),
    /// A word of the peer must have come.
    Silence(usize),
    /// A word of the peer is late.
    Quiet(usize),
    /// The peer must have given this node up, since it does not hear it.
    Unheard(usize),
    /// A word must be sent.
    Word(usize),
    /// There may be something to send.
    Pump(usize),
    /// Site metrics are told.
    Metrics,
    /// Changed RTTs are told.
    Rtts,
    /// Sightings are told.
    Sightings,
    /// Peers are asked for what they have missed to tell.
    Wanted,
    /// Persistence sessions are told.
    Sessions,
    /// This node's links are told.
    Links,
    /// Who is to relay what is thought over.
    Relays,
    /// News of relayed sites are told.
    Relayed,
    /// A connection whose session went over to a better one is closed.
    Retired(ConnId),
}

impl Mep {
    /// The exchange of node `me`. `boot` is drawn at random at every start of the process; `seed` is for jitter.
    pub fn new(now: Timestamp, me: NodeId, boot: u64, settings: Settings, seed: u64) -> Self {
        let settings = Settings {
            keepalive: settings.keepalive.max(LEAST_INTERVAL * 3),
            metrics_interval: settings.metrics_interval.max(LEAST_INTERVAL),
            rtt_interval: settings.rtt_interval.max(LEAST_INTERVAL),
            outbox_cap: settings.outbox_cap.max(LEAST_CAP),
            ..settings
        };
        let others = settings.peers.iter().filter(|peer| peer.id != me);
        let mut mep = Mep {
            peers: others.map(|peer| Peer::new(peer, &me)).collect(),
            me,
            boot,
            settings,
            conns: BTreeMap::new(),
            outbox: Outbox::new(),
            timers: Timers::new(),
            outputs: VecDeque::new(),
            rng: Pcg32::seed_from_u64(seed),
            hellos: 0,
            strangers: Strangers::default(),
            rtts_rest: now,
            links_rest: now,
            transitions: 0,
            started: now,
            asking: Asking::default(),
            stopped: false,
        };
        for peer in 0..mep.peers.len() {
            mep.peers[peer].status.since = now;
            mep.dial_at_start(now, peer);
        }
        mep.timers.set(Timer::Metrics, now + mep.settings.metrics_interval);
        mep.links_due(now);
        mep
    }

    /// Takes what the carrier reports.
    pub fn handle_carrier(&mut self, now: Timestamp, event: CarrierEvent) {
        if self.stopped {
            return;
        }
        match event {
            CarrierEvent::Connected { conn, peer, dialled, address, certificate_expires, over } => {
                let candidate = Candidate::new(conn, dialled, over, certificate_expires);
                self.connected(now, candidate, &peer, address);
            }
            CarrierEvent::Received { conn, frame } => self.received(now, conn, frame),
            CarrierEvent::PathRtt { conn, rtt } => self.path_rtt(conn, rtt),
            CarrierEvent::Ageing { conn, renew } => self.connection_ages(now, conn, renew),
            CarrierEvent::Closed { conn, reason } => self.connection_lost(now, conn, &reason),
            CarrierEvent::DialFailed { peer, over, reason } => self.dial_failed(now, &peer, over, &reason),
            CarrierEvent::Refused { address, reason } => {
                self.strangers.refused += 1;
                self.strangers.last = Some((address, crate::wire::printable(&reason)));
            }
        }
    }

    /// Does what is due. `values` is read for what is told now.
    pub fn handle_timeout(&mut self, now: Timestamp, values: &dyn Values) {
        let mut woken = false;
        let is_drained = self.outputs.is_empty();
        while let Some(timer) = self.timers.expired(now) {
            woken = true;
            match timer {
                Timer::Dial(peer) => self.dial_due(now, peer),
                Timer::Hello(conn) => self.hello_overdue(now, conn),
                Timer::Silence(peer) => {
                    self.session_lost(now, peer, DownReason::Silent(self.settings.keepalive));
                }
                Timer::Unheard(peer) => self.unheard_too_long(now, peer),
                Timer::Quiet(peer) => self.grew_quiet(now, peer),
                Timer::Word(peer) => self.keep_alive(now, peer),
                Timer::Pump(peer) => self.pump(now, peer, values),
                Timer::Metrics => {
                    self.timers.set(Timer::Metrics, now + self.settings.metrics_interval);
                    self.metrics_due(now);
                    self.relayed_words_due(now);
                }
                Timer::Rtts => {
                    self.rtts_rest = now + self.settings.rtt_interval;
                    // An LDNS is told before its value.
                    self.outbox.sightings_due();
                    self.outbox.rtts_due();
                    self.wake_all(now);
                }
                Timer::Sightings => {
                    self.outbox.sightings_due();
                    self.wake_all(now);
                }
                Timer::Wanted => self.wake_all(now),
                Timer::Sessions => {
                    self.outbox.sessions_due();
                    self.wake_all(now);
                }
                Timer::Links => self.links_due(now),
                Timer::Relays => self.look_for_relays(now),
                Timer::Relayed => self.relayed_due(now, is_drained),
                Timer::Retired(conn) => {
                    self.command(CarrierCommand::Close { conn, reason: MOVED.to_owned() });
                }
            }
        }
        if woken {
            self.end_turn();
            self.tell_missed(now);
        }
    }

    /// Takes this site's metrics. They are told every metrics interval, and at once when the state of a service changed.
    pub fn set_metrics(&mut self, now: Timestamp, services: Vec<ServiceMetric>) {
        if self.outbox.set_metrics(now, services) {
            self.metrics_due(now);
        }
    }

    /// Says goodbye to everybody. The machine does nothing more after that; its last commands are to be carried out.
    pub fn shutdown(&mut self, now: Timestamp) {
        for peer in 0..self.peers.len() {
            self.say_goodbye(now, peer);
        }
        self.timers = Timers::new();
        self.stopped = true;
    }

    /// What happened since the last call, one at a time.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Mep::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Where every peer stands, in the order of the settings.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> + '_ {
        self.peers.iter().map(Peer::status)
    }

    /// Whether a session with a peer stands.
    pub fn is_up(&self, peer: &NodeId) -> bool {
        self.peers.iter().any(|p| p.id == *peer && p.status.state.has_session())
    }

    /// What was turned away and belongs to no peer.
    pub fn strangers(&self) -> &Strangers {
        &self.strangers
    }

    pub(crate) fn command(&mut self, command: CarrierCommand) {
        self.outputs.push_back(Output::Carrier(command));
    }

    pub(crate) fn set_no_later(&mut self, timer: Timer, at: Timestamp) {
        if self.timers.get(timer).is_none_or(|set| at < set) {
            self.timers.set(timer, at);
        }
    }

    /// Whether anybody listens; changes are not kept for peers without a session, they get everything when they come.
    pub(crate) fn is_heard(&self) -> bool {
        !self.stopped && self.peers.iter().any(|peer| peer.session.is_some())
    }

    pub(crate) fn wake_all(&mut self, now: Timestamp) {
        for peer in 0..self.peers.len() {
            if self.peers[peer].session.is_some() {
                self.timers.set(Timer::Pump(peer), now);
            }
        }
    }

    fn metrics_due(&mut self, now: Timestamp) {
        queues(&mut self.peers).for_each(Queue::metrics_due);
        self.wake_all(now);
    }

    pub(crate) fn end_turn(&mut self) {
        let sessions = self.peers.iter().filter_map(|peer| peer.session.as_ref());
        self.outbox.end_turn(sessions.map(|session| &session.queue));
    }
}

pub(crate) fn queues(peers: &mut [Peer]) -> impl Iterator<Item = &mut Queue> {
    peers.iter_mut().filter_map(|peer| peer.session.as_mut()).map(|session| &mut session.queue)
}
