//! What a query and the admin API may read: everything the node task publishes.
//!
//! `Published` is small and replaced whole; the RTT table is big and changed in place. The node task writes both, everybody
//! else only reads; the turns and the counters are atomics that the DNS threads themselves move.

use crate::cell::Confirmed;
use crate::counters::DnsCounters;
use crate::decide::Place;
use crate::dns::Zones;
use crate::location::Locations;
use crate::node::NodeStats;
use crate::sessions::{Session, SessionTable};
use crate::table::RttTable;
use crate::traffic::{LocalState, Traffic};
use arc_swap::ArcSwap;
use config::{Config, Vserver};
use gslb_types::{NodeId, Rtt, ServiceState, Timestamp, Weight};
use ipnet::IpNet;
use mep_core::{PeerStatus, SessionKey, Strangers};
use probes_core::monitors::{History, MonitorStats};
use probes_core::sources::{FeedView, SourceView};
use probes_core::{ProberStats, prober};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One consistent state of the node, as seen by queries and by the admin API.
pub struct Published {
    /// Counts publications.
    pub generation: u64,
    /// When it was published; the node task renews it every second, so an old one means that the task is stuck.
    pub at: Timestamp,
    /// The configuration it was made from.
    pub config: Arc<Config>,
    /// Names to answers.
    pub zones: Arc<Zones>,
    /// By index into [`Config::services`].
    pub services: Vec<ServiceView>,
    /// By [`gslb_types::SiteIndex`].
    pub sites: Vec<SiteView>,
    /// The other nodes of the group, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// Which LDNS are measured.
    pub measured: Arc<prober::Settings>,
    /// Who tried to take part in the metric exchange and may not.
    pub strangers: Strangers,
    /// Probes and table of this node.
    pub probing: ProberStats,
    /// Checks of this node.
    pub monitoring: MonitorStats,
    /// What the node itself counted.
    pub node: NodeStats,
    /// The nodes of this site that share out its LDNS, this one among them; how many are this one's is in `probing`.
    pub sharing: Vec<NodeId>,
    /// By virtual server and position in its bindings: whether the service was up the last time one of its family was (for
    /// `all_down = "last_good"`).
    pub last_good: Vec<Vec<bool>>,
    /// By virtual server: whether it has too much to do, so that clients are sent on to its backup.
    pub spilled: Vec<bool>,
    /// By virtual server and family: the place that stands although a better one could be answered (see [`config::Failback`]).
    pub standing: Vec<[Option<Place>; 2]>,
    /// Persistence sessions kept.
    pub persistence: usize,
    /// The foreign load balancers that services of this site name, as far as this node looks at them.
    pub sources: Vec<SourceView>,
    /// What this node's data plane shows, by index into [`Config::lb_vservers`]; `None` of other sites, and until something is
    /// heard of it.
    pub local: Arc<Vec<Option<LocalState>>>,
}

/// A service as this node judges it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceView {
    /// What source-IP hash knows it by.
    pub id: lb_core::ServiceId,
    /// What decisions use.
    pub state: ServiceState,
    /// Since when.
    pub since: Timestamp,
    /// Why, in words for an operator.
    pub reason: String,
    /// Who decided that.
    pub judge: Judge,
    /// What the monitors say that this node itself runs; `None` if none do.
    pub own: Option<ServiceState>,
    /// Whether a virtual server holds it for one of those that were up last (see [`Published::last_good`]).
    pub last_good: bool,
    /// Mean response time of its monitors; `None` until measured.
    pub response_time: Option<Rtt>,
    /// Its traffic, if it passes through the nodes of its site.
    pub traffic: Option<Traffic>,
    /// What the foreign load balancer says that it names, to this node.
    pub source: Option<FeedView>,
    /// Its monitors, for services of this site.
    pub monitors: Vec<MonitorView>,
}

/// Who decides about the state of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judge {
    /// It is disabled.
    Configuration,
    /// It is of this site and has no monitor.
    NoMonitor,
    /// It is of this site and stands for an LB virtual server, whose effective state it has.
    LbVserver,
    /// It is of this site, and a foreign load balancer decides together with this node's monitors.
    Source,
    /// It is of this site, and this node's monitors decide.
    OwnMonitors,
    /// The nodes of its site say so, to this node or to a relay.
    SiteWord,
    /// It is of another site, and this node's monitors decide all the same: `trigger_monitor` says when.
    RemoteMonitors,
    /// Its site is silent, and no monitor here watches it.
    Silence,
}

impl Judge {
    /// The word for it in API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Judge::Configuration => "configuration",
            Judge::NoMonitor => "no_monitor",
            Judge::LbVserver => "lb_vserver",
            Judge::Source => "source",
            Judge::OwnMonitors => "own_monitors",
            Judge::SiteWord => "site_word",
            Judge::RemoteMonitors => "remote_monitors",
            Judge::Silence => "silence",
        }
    }
}

/// A monitor bound to a service.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorView {
    /// The monitor's name.
    pub name: String,
    /// What it does: `tcp`, `http-ecv`, ...
    pub kind: &'static str,
    /// What it counts beside the service's other monitors.
    pub weight: Weight,
    /// Whether what it measures goes into the service's response time.
    pub measures: bool,
    /// Whether it passes; `None` until the first verdict.
    pub passing: Option<bool>,
    /// Since when that is so.
    pub since: Timestamp,
    /// How many of the last results in a row say the same.
    pub in_a_row: u32,
    /// What the last check saw, in words for an operator.
    pub last: String,
    /// Response time of the last passed check.
    pub response_time: Option<Rtt>,
    /// What the last checks saw.
    pub history: History,
}

/// A site as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteView {
    /// Whether it is this node's own site, or a session with one of its nodes stands.
    pub connected: bool,
    /// What confirms the site's values; `None` before the first word. Of the own site: what confirms those that its other
    /// nodes measured, `None` if there are none.
    pub confirmed: Option<Confirmed>,
    /// The node whose rows are written into its column.
    pub speaker: Option<NodeId>,
    /// Who relays it while none of its nodes is heard.
    pub relayed_via: Option<NodeId>,
    /// Since when nobody hears it.
    pub silent_since: Option<Timestamp>,
    /// When its silence took its services down, or put them before the monitors here, while it still does.
    pub taken_down: Option<Timestamp>,
    /// It is heard again, and until then its services are judged as if it were not: an answer changes once in this time at
    /// most.
    pub held_until: Option<Timestamp>,
}

/// Everything the DNS threads and the admin API hold of the node.
pub struct Shared {
    /// The current state.
    pub published: ArcSwap<Published>,
    /// The RTT table.
    pub rtts: RttTable,
    /// Where addresses are, as far as the configuration and the databases say. Whoever watches the files puts new ones in.
    pub locations: ArcSwap<Locations>,
    /// Round-robin positions.
    pub turns: Turns,
    /// What the DNS side counted.
    pub dns: DnsCounters,
    /// Where clients stay.
    pub sessions: SessionTable,
}

impl Shared {
    /// The state at the start: nothing measured, nothing checked. The seed hashes names and addresses: random in production
    /// (threat T12), fixed in the simulator.
    pub fn new(config: &Arc<Config>, seed: u64, now: Timestamp) -> Self {
        Shared {
            published: ArcSwap::from_pointee(crate::node::at_start(config, Zones::new(config, seed), now)),
            rtts: RttTable::new(config.sites.len(), seed),
            locations: ArcSwap::from_pointee(Locations::new(config, Vec::new())),
            turns: Turns::new(config.vservers.len()),
            dns: DnsCounters::default(),
            sessions: SessionTable::new(seed),
        }
    }
}

impl Shared {
    /// What a client's session is found by, if the virtual server has persistence. `client` is whom the decision is made for:
    /// one address, or a prefix.
    pub fn session_key(vserver: &Vserver, client: IpNet) -> Option<SessionKey> {
        let persistence = vserver.persistence?;
        let address = client.network();
        let key =
            SessionKey::new(persistence.id, address, persistence.prefix(address).min(client.prefix_len()));
        // Peers take a key that is nobody's for a fault of this node, and a client subnet is whatever its sender wrote.
        key.is_somebodys().then_some(key)
    }

    /// Where a client was sent to last.
    pub fn session(&self, vserver: &Vserver, client: IpNet) -> Option<Session> {
        self.sessions.get(&Shared::session_key(vserver, client)?)
    }
}

/// Round-robin positions of all virtual servers.
pub struct Turns(Vec<[VserverTurns; 2]>);

impl Turns {
    /// Positions for that many virtual servers, all at the start.
    pub fn new(vservers: usize) -> Self {
        Turns((0..vservers).map(|_| Default::default()).collect())
    }

    /// The positions of a virtual server for one address family: A and AAAA queries come in pairs, and one common counter
    /// would give every A the even turns.
    pub fn of(&self, vserver: usize, v6: bool) -> Option<&VserverTurns> {
        self.0.get(vserver).map(|pair| &pair[usize::from(v6)])
    }
}

/// Round-robin positions of one virtual server and address family.
#[derive(Default)]
pub struct VserverTurns {
    round: AtomicU64,
    /// Index of the service answered last, plus 1; 0 before the first.
    last: AtomicU64,
}

impl VserverTurns {
    /// The position for the next decision.
    pub fn look(&self) -> crate::Turn {
        crate::Turn {
            round: self.round.load(Ordering::Relaxed),
            last: usize::try_from(self.last.load(Ordering::Relaxed)).ok().and_then(|l| l.checked_sub(1)),
        }
    }

    /// Takes one turn: like [`VserverTurns::look`], but two threads never take the same round.
    pub fn take(&self) -> crate::Turn {
        let turn = self.look();
        crate::Turn { round: self.round.fetch_add(1, Ordering::Relaxed), ..turn }
    }

    /// Notes the service that was answered.
    pub fn answered(&self, service: usize) {
        self.last.store(service as u64 + 1, Ordering::Relaxed);
    }
}

impl Published {
    /// Whether an LDNS that asks will be measured: not if it is never probed, nor if there is no room for it.
    pub fn will_measure(&self, ldns: IpAddr) -> bool {
        self.measured.probes(ldns) && self.probing.ldns < self.measured.cap
    }

    /// The place that stands although a better one could be answered.
    pub fn standing(&self, vserver: usize, v6: bool) -> Option<Place> {
        self.standing.get(vserver)?[usize::from(v6)]
    }

    /// The services of a virtual server that have an address of this family, as (position in the bindings, service index).
    pub fn candidates(&self, vserver: usize, v6: bool) -> impl Iterator<Item = (usize, usize)> + '_ {
        let bindings = self.config.vservers.get(vserver).map(|v| v.bindings.as_slice()).unwrap_or_default();
        bindings.iter().enumerate().filter_map(move |(position, b)| {
            let service = self.config.services.get(b.service)?;
            (matches!(service.address, IpAddr::V6(_)) == v6).then_some((position, b.service))
        })
    }
}
