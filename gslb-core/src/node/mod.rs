//! The node's machine: everything one node decides, from one ordered queue of inputs.
//!
//! It composes the prober, the monitors and the metric exchange, writes the RTT table, and publishes the rest. The only
//! place that sees probes and metric exchange together.
//!
//! ```text
//! Sighting ─> Prober ─Send─────────────────────────────────────────────> Output::Probe
//! Probe reply ─> Prober ─Sample─> OwnColumn ─beyond tolerance─> Mep ───> Output::Carrier
//! Carrier event ─> Mep ─Rtts─> other columns, or OwnColumn if a neighbour says so; ─Sightings─> Prober; ─Metrics─> Health
//! Check reply ─> Monitors ─Verdict─> Health ─> Published;  ─> Mep;  ─> Output::Local, if it is behind an LB virtual server
//! Local views ─> Health of what stands for LB virtual servers, and traffic ─> Published;  ─> Mep
//! Source reply ─> Sources ─Told─> with the monitors' verdict: Health
//! ```

mod entries;
mod exchange;
mod findings;
mod health;
mod local;
mod missing;
mod neighbours;
mod own_column;
mod places;
mod publish;
mod resume;
mod settings;
mod sites;
mod sources;
mod standing;
mod told;

use crate::persistence::Persistence;
use crate::published::Shared;
use crate::traffic::LocalView;
use config::Config;
use gslb_types::{ServiceName, Timestamp, VserverName};
pub use health::Change;
use health::Health;
use local::Local;
pub use local::LocalHealth;
use mep_core::carrier::{CarrierCommand, CarrierEvent};
use mep_core::{KnownSession, Mep, SessionKey};
use missing::Looks;
use neighbours::Neighbours;
use own_column::OwnColumn;
use places::Places;
use probes_core::wire::{CheckReply, CheckRequest, FetchReply, FetchRequest, ProbeReply, ProbeRequest};
use probes_core::{Monitors, Prober, prober};
pub(crate) use publish::at_start;
use serde::{Deserialize, Serialize};
use sites::Sites;
use sources::Fed;
use standing::Standing;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How often what is published is renewed although nothing happened: ages of words, counters.
const RENEWAL: Duration = Duration::from_secs(1);

/// What can happen to a node. Serialisable, so that a run can be recorded and replayed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A query for a GSLB domain came from this address.
    Sighting(IpAddr),
    /// What became of a probe.
    Probe(ProbeReply),
    /// What became of a check.
    Check(CheckReply),
    /// What became of a look at a foreign load balancer.
    Source(FetchReply),
    /// What the carrier of the metric exchange reports.
    Carrier(CarrierEvent),
    /// What this node's data plane shows of all its LB virtual servers.
    Local(Vec<LocalView>),
    /// A client of this network was sent to a service: kept, and told to the peers.
    Session {
        /// What it is found by.
        key: SessionKey,
        /// Where it leads.
        service: ServiceName,
    },
    /// An operator brings the clients of a GSLB virtual server back to what is preferred (`failback`).
    Failback(VserverName),
    /// The node stops: peers are told.
    Stop,
}

/// What a node wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send this probe.
    Probe(ProbeRequest),
    /// Do this check.
    Check(CheckRequest),
    /// Look at this foreign load balancer.
    Fetch(FetchRequest),
    /// Tell this to the carrier.
    Carrier(CarrierCommand),
    /// Tell this to the data plane.
    Local(LocalHealth),
}

/// What a node is given beside its configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Birth {
    /// Random in production, fixed in the simulator: jitter, first numbers.
    pub seed: u64,
    /// Drawn at random at every start, so that peers tell a restart from a reconnect.
    pub boot: u64,
    /// The addresses of this machine: never probed.
    pub local: Vec<IpAddr>,
    /// How long changes wait for others before they are published together; 0 publishes each at once.
    pub coalesce: Duration,
}

/// What the node counted, beside what its machines count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeStats {
    /// Samples within the tolerance of the advertised value: nothing was sent for them.
    pub samples_within_tolerance: u64,
    /// Changes of an advertised value.
    pub advertised: u64,
    /// Values withdrawn because nothing confirmed them.
    pub withdrawn: u64,
    /// Words of peers about services they may not speak of, or that the configuration does not have.
    pub metrics_ignored: u64,
    /// Services judged anew: by words of peers, results of checks, and time.
    pub services_judged: u64,
    /// Bindings of virtual servers looked at because a service of theirs changed.
    pub bindings_judged: u64,
    /// Services of this site put into words for the peers.
    pub metrics_told: u64,
    /// Members of LB virtual servers looked at.
    pub members_judged: u64,
    /// How often the LDNS were shared out anew among the nodes of this site: each time all of them are looked at.
    pub shared_out: u64,
}

/// Who heard a query, and what the peer said of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    ByUs,
    ByPeer { fresh: bool },
}

/// One node.
pub struct Node {
    config: Arc<Config>,
    shared: Arc<Shared>,
    prober: Prober,
    /// The prober's settings, for whoever must know which LDNS it takes.
    measured: Arc<prober::Settings>,
    monitors: Monitors,
    mep: Mep,
    own: OwnColumn,
    health: Health,
    local: Local,
    fed: Fed,
    sites: Sites,
    neighbours: Neighbours,
    looks: Looks,
    persistence: Persistence,
    standing: Standing,
    stats: NodeStats,
    /// What the exchange has of this site's services is not the latest.
    metrics_are_old: bool,
    coalesce: Duration,
    publish_at: Timestamp,
    outputs: VecDeque<Output>,
    places: Places,
}

impl Node {
    /// A node that starts now and publishes into `shared`. What a node task that failed has left there is taken over.
    pub fn new(config: Arc<Config>, shared: Arc<Shared>, birth: &Birth, now: Timestamp) -> Self {
        let me = config.this_node().id.clone();
        let measured = settings::prober(&config, &birth.local);
        let mut node = Node {
            prober: Prober::new(measured.clone(), birth.seed),
            measured: Arc::new(measured),
            monitors: Monitors::new(birth.seed ^ 1),
            mep: Mep::new(now, me.clone(), birth.boot, settings::mep(&config), birth.seed ^ 2),
            own: OwnColumn::new(config.this_site(), config.group.rtt_tolerance, config.mep.max_age),
            health: Health::new(config.clone(), now),
            local: Local::new(&config, now),
            fed: Fed::new(&config, birth.seed ^ 3, now),
            sites: Sites::new(&config),
            neighbours: Neighbours::new(me),
            looks: Looks::default(),
            persistence: Persistence::new(settings::SESSIONS_CAP, settings::sessions_timeout(&config)),
            standing: Standing::new(config.clone()),
            stats: NodeStats::default(),
            metrics_are_old: false,
            coalesce: birth.coalesce,
            publish_at: now,
            outputs: VecDeque::new(),
            places: Places::new(&config),
            config,
            shared,
        };
        node.monitors.set_bindings(now, settings::monitored(&node.config));
        node.settle(now);
        node.resume(now);
        node.tell_local_all();
        node.settle(now);
        node.publish(now);
        node
    }

    /// Takes in what happened.
    pub fn handle_input(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Sighting(address) => self.sighting(now, address, Duration::ZERO, Heard::ByUs),
            Input::Probe(reply) => self.prober.handle_reply(now, reply),
            Input::Check(reply) => self.monitors.handle_reply(now, reply),
            Input::Source(reply) => self.fed.handle_reply(now, reply),
            Input::Carrier(event) => self.mep.handle_carrier(now, event),
            Input::Local(views) => self.local_said(now, views),
            Input::Session { key, service } => self.session_used(now, key, service),
            Input::Failback(vserver) => self.bring_back(now, &vserver),
            Input::Stop => self.mep.shutdown(now),
        }
        self.settle(now);
        self.publish_if_due(now);
    }

    /// A persistence session that is not too old.
    pub fn session(&self, now: Timestamp, key: &SessionKey) -> Option<KnownSession> {
        self.persistence.get(now, key)
    }

    fn bring_back(&mut self, now: Timestamp, vserver: &VserverName) {
        if let Some(index) = self.config.vservers.iter().position(|v| v.name == *vserver) {
            tracing::info!(%vserver, "brought back by an operator");
            self.standing.release(index);
            self.publish_at = now;
        }
    }

    /// Does what time has come for.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.share_out(now);
        self.prober.handle_timeout(now);
        self.monitors.handle_timeout(now);
        self.fed.handle_timeout(now);
        // Before the exchange has its turn: what they found may be due to peers at once.
        self.settle(now);
        self.look_for_missing(now);
        self.look_for_silence(now);
        self.persistence.handle_timeout(now);
        self.forget_sessions();
        for advertised in self.own.withdraw_stale(now, self.neighbours.confirmed(), &self.shared.rtts) {
            self.stats.withdrawn += 1;
            self.mep.note_withdrawn(now, advertised.ldns);
        }
        self.exchange(now);
        while self.mep.poll_timeout().is_some_and(|at| at <= now) {
            // What it said may have made this node ask for something.
            self.exchange(now);
        }
        // Behind the exchange: with a `down_delay` of 0 the end of a session is due at once.
        self.health.handle_timeout(now);
        self.announce_changes(now);
        self.publish_if_due(now);
    }

    /// Lets the metric exchange do what is due.
    fn exchange(&mut self, now: Timestamp) {
        if self.metrics_are_old && self.mep.poll_timeout().is_some_and(|at| at <= now) {
            self.metrics_changed(now);
        }
        let values = told::Told {
            config: &self.config,
            own: &self.own,
            prober: &self.prober,
            shared: &self.shared,
            sites: &self.sites,
            neighbours: &self.neighbours,
            persistence: &self.persistence,
            standing: &self.standing,
            now,
        };
        self.mep.handle_timeout(now, &values);
        self.settle(now);
    }

    /// The next thing to do. To be called after each `handle_…` until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Node::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let machines = [
            self.prober.poll_timeout(),
            self.monitors.poll_timeout(),
            self.mep.poll_timeout(),
            self.own.poll_timeout(),
            self.health.poll_timeout(),
            self.local.poll_timeout(),
            self.fed.poll_timeout(),
            self.looks.poll_timeout(),
            self.neighbours.poll_timeout(),
            self.persistence.poll_timeout(),
            Some(self.publish_at),
        ];
        machines.into_iter().flatten().min()
    }

    /// What was counted.
    pub fn stats(&self) -> NodeStats {
        let (services_judged, bindings_judged) = self.health.effort();
        NodeStats { services_judged, bindings_judged, members_judged: self.local.looks(), ..self.stats }
    }

    /// Carries the machines' outputs to where they belong until none has more to say.
    fn settle(&mut self, now: Timestamp) {
        loop {
            let mut quiet = true;
            while let Some(output) = self.prober.poll_output() {
                quiet = false;
                self.prober_said(now, output);
            }
            while let Some(output) = self.monitors.poll_output() {
                quiet = false;
                self.monitors_said(now, output);
            }
            quiet &= !self.sources_said(now);
            while let Some(output) = self.mep.poll_output() {
                quiet = false;
                self.mep_said(now, output);
            }
            if quiet {
                break;
            }
        }
        self.announce_changes(now);
    }

    fn announce_changes(&mut self, now: Timestamp) {
        let changes = self.health.take_changes();
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            if let Some(service) = self.config.services.get(change.service) {
                let (from, to, reason) = (change.from, change.to, &change.reason);
                tracing::info!(service = %service.name, %from, %to, reason, "service state");
            }
        }
        for (vserver, has_one_up) in self.health.take_turned() {
            let Some(policy) = self.config.vservers.get(vserver) else { continue };
            let vserver = &policy.name;
            match has_one_up {
                true => tracing::info!(%vserver, "virtual server has a service that is up"),
                false => {
                    tracing::warn!(%vserver, all_down = ?policy.all_down, "virtual server has no service that is up")
                }
            }
        }
        self.publish_soon(now);
    }
}
