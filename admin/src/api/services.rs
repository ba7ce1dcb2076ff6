//! `/v1/services`: what can be answered, and how it is.

use super::source::{Source, source};
use super::{Behind, Traffic, View, behind};
use gslb_core::{MonitorView, PastResult, ServiceView};
use gslb_types::ServiceState;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// All services, in the order of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Services {
    /// The services.
    pub services: Vec<Service>,
}

/// A service as this node judges it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub service: String,
    /// Its site.
    pub site: String,
    /// Whether that is this node's site.
    pub own: bool,
    /// What is answered.
    pub address: IpAddr,
    /// What monitors connect to.
    pub port: u16,
    /// The state that decisions use.
    pub state: ServiceState,
    /// How long it has been so.
    pub state_age_ms: u64,
    /// Why.
    pub reason: String,
    /// Who decided: `configuration`, `no_monitor`, `own_monitors` (of its site, which is this one), `lb_vserver` (it stands for
    /// one), `source` (a foreign load balancer, together with its monitors), `site_word` (of its site, maybe by a relay),
    /// `remote_monitors` (of this node, for a service of another site), or `silence`.
    pub judge: String,
    /// What the monitors say that this node runs, whether they decide or not; `null` if it runs none.
    pub own_verdict: Option<ServiceState>,
    /// Whether it was up the last time any service of its virtual servers was.
    pub last_good: bool,
    /// Mean over its monitors.
    pub response_time_us: Option<u32>,
    /// What the foreign load balancer says of it that it names; `null` if it names none, or is of another site.
    pub source: Option<Source>,
    /// The LB virtual server it stands for, whose state and traffic are its own.
    pub lb_vserver: Option<String>,
    /// Its traffic, where it passes through the nodes of its site.
    pub traffic: Option<Traffic>,
    /// The LB virtual servers of this site that it is behind.
    pub behind: Vec<Behind>,
    /// Those of its monitors that this node runs.
    pub monitors: Vec<Monitor>,
    /// The virtual servers it is bound to.
    pub vservers: Vec<String>,
}

/// A monitor bound to a service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Monitor {
    /// Its name.
    pub monitor: String,
    /// What it does: `tcp`, `http-ecv`, ...
    pub kind: String,
    /// What it counts beside the service's other monitors.
    pub weight: u8,
    /// Whether it passes; `null` until the first result.
    pub passing: Option<bool>,
    /// How long that has been so.
    pub state_age_ms: u64,
    /// How many of the last results in a row say the same.
    pub in_a_row: u32,
    /// What the last check saw.
    pub last: String,
    /// Response time of the last check that passed.
    pub response_time_us: Option<u32>,
    /// Whether that goes into the service's response time.
    pub measures: bool,
    /// What the last ten checks saw, the newest first.
    pub recent: Vec<CheckResult>,
}

/// What one check saw.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckResult {
    /// How long ago it was reported.
    pub age_ms: u64,
    /// Whether it passed; `null` if it could not be done.
    pub passed: Option<bool>,
    /// What it saw.
    pub saw: String,
}

/// How many services are in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct States {
    /// Up.
    pub up: usize,
    /// Down.
    pub down: usize,
    /// Not checked yet.
    pub learning: usize,
    /// Taken out by the configuration.
    pub disabled: usize,
}

impl States {
    /// Counts these services.
    pub(crate) fn of(view: &View<'_>, services: impl Iterator<Item = usize>) -> Self {
        let mut states = States::default();
        for service in services.filter_map(|index| view.published.services.get(index)) {
            *match service.state {
                ServiceState::Up => &mut states.up,
                ServiceState::Down => &mut states.down,
                ServiceState::Learning => &mut states.learning,
                ServiceState::Disabled => &mut states.disabled,
            } += 1;
        }
        states
    }
}

pub(crate) fn services(view: &View<'_>) -> Services {
    let services = view.config().services.iter().zip(&view.published.services).enumerate();
    Services {
        services: services.map(|(index, (config, seen))| service(view, index, config, seen)).collect(),
    }
}

fn service(view: &View<'_>, index: usize, config: &config::Service, seen: &ServiceView) -> Service {
    let bound_to = view.config().vservers.iter().filter(|v| v.bindings.iter().any(|b| b.service == index));
    Service {
        service: config.name.to_string(),
        site: view.site(config.site),
        own: config.site == view.config().this_site(),
        address: config.address,
        port: config.port,
        state: seen.state,
        state_age_ms: view.age_ms(seen.since),
        reason: seen.reason.clone(),
        judge: seen.judge.as_str().to_owned(),
        own_verdict: seen.own,
        last_good: seen.last_good,
        response_time_us: seen.response_time.map(|t| t.as_micros()),
        source: seen.source.as_ref().map(|feed| source(view, feed)),
        lb_vserver: config
            .lb_vserver
            .and_then(|at| view.config().lb_vservers.get(at))
            .map(|lb| lb.name.to_string()),
        traffic: seen.traffic.map(Traffic::from),
        behind: behind(view, index),
        monitors: seen.monitors.iter().map(|m| monitor(view, m)).collect(),
        vservers: bound_to.map(|v| v.name.to_string()).collect(),
    }
}

fn monitor(view: &View<'_>, seen: &MonitorView) -> Monitor {
    let result = |result: &PastResult| CheckResult {
        age_ms: view.age_ms(result.at),
        passed: result.seen.passes(),
        saw: result.seen.to_string(),
    };
    Monitor {
        monitor: seen.name.clone(),
        kind: seen.kind.to_owned(),
        weight: seen.weight.get(),
        passing: seen.passing,
        state_age_ms: view.age_ms(seen.since),
        in_a_row: seen.in_a_row,
        last: seen.last.clone(),
        response_time_us: seen.response_time.map(|t| t.as_micros()),
        measures: seen.measures,
        recent: seen.history.iter().rev().map(result).collect(),
    }
}
