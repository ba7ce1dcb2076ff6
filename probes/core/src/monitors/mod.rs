//! The monitor machine: checks the services of this node's site, and says which are up.
//!
//! Each monitor checks at once when it is bound, so that a service that is down at the start is found out within one check
//! and not after an interval (faults I-54). The first result decides; from then on it takes `rise` passes or `fall`
//! failures in a row to turn a verdict (faults I-56).
//!
//! A service is up once the weights of the monitors that pass reach its threshold, down as soon as they no longer can, and
//! learning in between. Without a threshold all of them must pass. Without monitors it is up.
//!
//! A check that can't be done (no descriptor, no CA certificates, no such command) never makes a service up, nor keeps it so:
//! after `fall` of them in a row nothing is known any more, and the service is learning with the reason shown. Only a ping
//! that this process may not send at all is left out as if it were not bound; with no other monitor the service is learning.
//!
//! Thousands of monitors are spread: at the start by a budget, from then on because their beats are shifted against each
//! other by lot.

mod checks;
mod history;
mod monitor;
mod service;
#[cfg(test)]
mod tests;

pub use history::{History, PastResult, Seen};
pub use monitor::MonitorView;
pub use service::ServiceView;

use crate::budget::Bucket;
use crate::chance::{Chance, Ids};
use crate::wire::{Check, CheckReply, CheckRequest, ProbeId};
use gslb_types::{Rtt, ServiceName, ServiceState, Timers, Timestamp, Weight};
use monitor::Phase;
use service::Service;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Checks a second that a node starts at least, and many times what a site of some hundred services needs: at the start,
/// or after a sleep, thousands of checks are spread over seconds (reliability R13).
const CHECKS_PER_SECOND: u32 = 1_000;

/// Monitors beyond which their beats are shifted against each other: as many as the budget lets start in one moment. Fewer
/// are no burden together, and keep the plain rhythm.
const CROWD: usize = CHECKS_PER_SECOND as usize / 20;

/// A monitor as it is bound to a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonitorSettings {
    /// What it does.
    pub check: Arc<Check>,
    /// Where.
    pub target: SocketAddr,
    /// The address its checks leave from; that of all checks if `None`.
    pub source: Option<IpAddr>,
    /// From one check to the next.
    pub interval: Duration,
    /// The same while it fails, until a first check passes again; `interval` if `None`.
    pub down_time: Option<Duration>,
    /// How long one check may take; less than the interval.
    pub timeout: Duration,
    /// Passes in a row that bring a service up; 0 counts as 1.
    pub rise: u32,
    /// Failures in a row that take it down; 0 counts as 1.
    pub fall: u32,
    /// What it counts beside the service's other monitors.
    pub weight: Weight,
    /// Whether it passes when the check fails, and fails when it passes.
    pub reverse: bool,
    /// Whether what it measures goes into the service's response time.
    pub measures: bool,
}

impl MonitorSettings {
    /// These, with all that can be left out left out: 5 s, 2 s, up at the first pass, down at the third failure.
    pub fn new(check: impl Into<Arc<Check>>, target: SocketAddr) -> Self {
        MonitorSettings {
            check: check.into(),
            target,
            source: None,
            interval: Duration::from_secs(5),
            down_time: None,
            timeout: Duration::from_secs(2),
            rise: 1,
            fall: 3,
            weight: Weight::ONE,
            reverse: false,
            measures: true,
        }
    }
}

/// A service of this site, and the monitors bound to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSettings {
    /// What outputs call it: its index in the configuration.
    pub service: usize,
    /// What it is known by when the configuration, and with it the index, changes.
    pub name: ServiceName,
    /// Its monitors. Without one it is up.
    pub monitors: Vec<MonitorSettings>,
    /// The weight of passing monitors that makes it up; all of them must pass if `None`.
    pub threshold: Option<u32>,
}

/// What the machine wants done, or wants known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Do this check, and report what was seen.
    Check(CheckRequest),
    /// The state of a service: when it changes, when there is another reason for not knowing it, and of each service when the
    /// bindings are set.
    Verdict {
        /// The service.
        service: usize,
        /// How it is.
        state: ServiceState,
        /// Why, in words for an operator.
        reason: String,
    },
    /// A check passed, and measured; of monitors that measure.
    Measured {
        /// The service.
        service: usize,
        /// The monitor's position among the service's.
        monitor: usize,
        /// What it measured.
        response_time: Rtt,
        /// The mean over the service's monitors that measure, have measured, and pass.
        mean: Rtt,
    },
    /// The mean is another one although nothing was measured: a monitor that was part of it passes no longer.
    Remeaned {
        /// The service.
        service: usize,
        /// The mean over those that are left; `None` if none is.
        mean: Option<Rtt>,
    },
    /// The load is another one.
    Load {
        /// The service.
        service: usize,
        /// The mean over its passing monitors that tell one, in thousandths; `None` if none does.
        load: Option<u64>,
    },
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorStats {
    /// Checks asked for.
    pub checks: u64,
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
    /// Checks this process may not or could not do.
    pub not_permitted: u64,
    /// Checks nobody reported in time.
    pub overdue: u64,
    /// Reports of checks that are not awaited.
    pub late: u64,
}

/// Positions of a service in the table and of a monitor in the service.
type Key = (usize, usize);

/// Checks the services of one site.
pub struct Monitors {
    services: Vec<Service>,
    by_index: BTreeMap<usize, usize>,
    due: Timers<Key>,
    deadlines: Timers<Key>,
    awaited: BTreeMap<ProbeId, Key>,
    budget: Bucket,
    ids: Ids,
    chance: Chance,
    outputs: VecDeque<Output>,
    stats: MonitorStats,
}

impl Monitors {
    /// A machine without services. The seed gives jitter and the first check's number: random in production.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        Monitors {
            services: Vec::new(),
            by_index: BTreeMap::new(),
            due: Timers::new(),
            deadlines: Timers::new(),
            awaited: BTreeMap::new(),
            budget: Bucket::new(CHECKS_PER_SECOND),
            ids: Ids::of_checks(&mut chance),
            chance,
            outputs: VecDeque::new(),
            stats: MonitorStats::default(),
        }
    }

    /// Sets which services there are and what checks them, at the start and at each reload; says the state of each.
    ///
    /// A monitor of the same service, check and target keeps what it knows, whatever else changed. If all that stayed is
    /// left, so is its check in flight.
    pub fn set_bindings(&mut self, now: Timestamp, settings: Vec<ServiceSettings>) {
        let old = std::mem::take(&mut self.services);
        let mut old: BTreeMap<ServiceName, Service> = old.into_iter().map(|s| (s.name.clone(), s)).collect();
        let crowd = settings.iter().map(|s| s.monitors.len()).sum::<usize>() > CROWD;
        for wanted in settings {
            let known = old.remove(&wanted.name);
            self.services.push(Service::bind(now, wanted, known, &mut self.chance, crowd));
        }
        self.index();
        self.budget.set_rate(now, self.rate());
        for position in 0..self.services.len() {
            self.tell_load(position);
            self.judge(now, position, true);
        }
        self.start_due(now);
    }

    /// Takes in what a check saw. A report of no check that is awaited is counted and otherwise ignored.
    pub fn handle_reply(&mut self, now: Timestamp, reply: CheckReply) {
        match self.awaited.remove(&reply.id) {
            Some(key) => self.settle(now, key, Some(reply.outcome)),
            None => self.stats.late += 1,
        }
        self.start_due(now);
    }

    /// Does what time has come for.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.give_up_overdue(now);
        self.start_due(now);
    }

    /// The next thing to do or to know. To be called after each `handle_…` until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Monitors::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let due = self.due.next().map(|at| at.max(self.budget.opens()));
        [due, self.deadlines.next()].into_iter().flatten().min()
    }

    /// What is known of a service.
    pub fn view(&self, service: usize) -> Option<ServiceView> {
        Some(self.services.get(*self.by_index.get(&service)?)?.view())
    }

    /// What was counted.
    pub fn stats(&self) -> MonitorStats {
        self.stats
    }

    /// Fills the look-up tables from the services.
    fn index(&mut self) {
        self.by_index = self.services.iter().enumerate().map(|(at, s)| (s.index, at)).collect();
        self.due = Timers::new();
        self.deadlines = Timers::new();
        self.awaited.clear();
        for (at, service) in self.services.iter().enumerate() {
            for (nth, monitor) in service.monitors.iter().enumerate() {
                match monitor.phase {
                    Phase::Due(due) => self.due.set((at, nth), due),
                    Phase::Checking { id, deadline } => {
                        self.awaited.insert(id, (at, nth));
                        self.deadlines.set((at, nth), deadline);
                    }
                }
            }
        }
    }

    /// Twice what the intervals ask for, so that the budget never stretches them.
    fn rate(&self) -> u32 {
        let monitors = self.services.iter().flat_map(|s| &s.monitors);
        let per_million_seconds: u128 = monitors
            .map(|m| m.settings.down_time.map_or(m.settings.interval, |d| d.min(m.settings.interval)))
            .map(|shortest| 1_000_000_000_000 / shortest.as_micros().clamp(1_000, u128::from(u64::MAX)))
            .sum();
        u32::try_from(2 * per_million_seconds / 1_000_000).unwrap_or(u32::MAX).max(CHECKS_PER_SECOND)
    }
}
