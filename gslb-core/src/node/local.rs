//! The LB virtual servers of this node: what its data plane shows of them, and what it is told of the services behind them.
//!
//! A service that stands for an LB virtual server has its effective state: up only while something behind it can take a
//! request (faults I-72). A data plane that has fallen silent shows nothing any more: what it said last does not stand for
//! ever (faults I-57).

use super::{Node, Output};
use crate::traffic::{LocalState, LocalView, Traffic};
use config::Config;
use gslb_types::{LbVserverName, Rtt, ServiceName, ServiceState, Timestamp};
use lb_core::{MemberView, NoService};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A data plane that shows nothing for this long is taken for dead; it shows everything once a second.
const SILENCE: Duration = Duration::from_secs(5);

/// How long there must have been room again in one that was at its limits before it is UP: each client that leaves makes room for
/// a moment. All is shown once a second, so this is three times in a row.
const RISE: Duration = Duration::from_millis(2_500);

/// How a service behind an LB virtual server is, for the data plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalHealth {
    /// The service.
    pub service: ServiceName,
    /// What this node's monitors say: what others see is of no use to this node's own connections.
    pub state: ServiceState,
    /// Their mean response time.
    pub response_time: Option<Rtt>,
    /// The load they tell of, or their source does, in thousandths.
    pub load: Option<u64>,
}

/// What is known of the LB virtual servers of this site.
pub(super) struct Local {
    /// By index into the configuration's LB virtual servers; `None` of other sites, and before the first word.
    states: Arc<Vec<Option<LocalState>>>,
    /// By the same index: when it was last seen at its limits.
    limited: Vec<Option<Timestamp>>,
    named: BTreeMap<LbVserverName, usize>,
    /// The services that stand for one of this site: (service, LB virtual server).
    standing: Vec<(usize, usize)>,
    /// The services behind those of this site.
    behind: BTreeMap<ServiceName, usize>,
    /// When the data plane counts as dead; `None` if there is none, or once it does.
    silent_at: Option<Timestamp>,
    /// Members looked at so far.
    looks: u64,
}

impl Local {
    pub(super) fn new(config: &Config, now: Timestamp) -> Self {
        let here = config.this_site();
        let lb_vservers = || config.lb_vservers.iter().enumerate().filter(|(_, lb)| lb.site == here);
        let named: BTreeMap<_, _> = lb_vservers().map(|(index, lb)| (lb.name.clone(), index)).collect();
        let stands = |service: &config::Service| {
            service.lb_vserver.filter(|at| lb_vservers().any(|(index, _)| index == *at))
        };
        let services = config.services.iter().enumerate();
        let members = lb_vservers().flat_map(|(_, lb)| &lb.members);
        let behind = members.filter_map(|m| Some((config.services.get(m.service)?.name.clone(), m.service)));
        Local {
            states: Arc::new(vec![None; config.lb_vservers.len()]),
            limited: vec![None; config.lb_vservers.len()],
            standing: services.filter_map(|(index, s)| Some((index, stands(s)?))).collect(),
            behind: behind.collect(),
            silent_at: (!named.is_empty()).then_some(now + SILENCE),
            named,
            looks: 0,
        }
    }

    pub(super) fn states(&self) -> Arc<Vec<Option<LocalState>>> {
        self.states.clone()
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.silent_at
    }

    /// Members looked at so far.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// Judges what the data plane shows. What it shows nothing of stays unheard.
    fn judge(&mut self, now: Timestamp, views: Vec<LocalView>) {
        let mut states = self.unheard("nothing is heard of it");
        for view in views {
            let Some(at) = self.named.get(&view.vserver) else { continue };
            if let (Some(state), Some(limited)) = (states.get_mut(*at), self.limited.get_mut(*at)) {
                *state = Some(effective(now, view, limited));
            }
        }
        self.states = Arc::new(states);
    }

    /// All of them, with nothing that still stands.
    fn unheard(&self, reason: &str) -> Vec<Option<LocalState>> {
        let last = self.states.iter().cloned();
        let unheard = |state: LocalState| LocalState {
            state: ServiceState::Down,
            reason: reason.to_owned(),
            is_heard: false,
            ..state
        };
        last.map(|state| state.map(unheard)).collect()
    }

    /// The traffic of each service behind, through all virtual servers that are heard.
    fn traffic(&mut self) -> BTreeMap<usize, Traffic> {
        let heard = self.states.iter().flatten().filter(|state| state.is_heard);
        let mut parts: BTreeMap<usize, Vec<&MemberView>> =
            self.behind.values().map(|service| (*service, Vec::new())).collect();
        for member in heard.flat_map(|state| &state.view.balancer.members) {
            self.looks += 1;
            let service = self.behind.get(&member.name);
            if let Some(parts) = service.and_then(|service| parts.get_mut(service)) {
                parts.push(member);
            }
        }
        let together = |(service, parts): (usize, Vec<&MemberView>)| {
            (service, Traffic::of_member(parts.iter().copied()))
        };
        parts.into_iter().map(together).collect()
    }
}

/// The effective state: DOWN as soon as no request could be taken, and after that was for want of room, UP only when there has
/// been some for a while (faults I-72).
fn effective(now: Timestamp, view: LocalView, limited: &mut Option<Timestamp>) -> LocalState {
    let balancer = &view.balancer;
    let full = if view.connections >= view.max_connections {
        Some(format!("all its {} places for client connections are taken", view.max_connections))
    } else {
        balancer.reason.filter(|none| *none == NoService::AllFull).map(|none| none.as_str().to_owned())
    };
    if full.is_some() {
        *limited = Some(now);
    }
    let (state, reason) = match (full, balancer.reason) {
        (Some(full), _) => (ServiceState::Down, full),
        (None, Some(none)) => (balancer.state, none.as_str().to_owned()),
        (None, None) if limited.is_some_and(|at| now.since(at) < RISE) => {
            (ServiceState::Down, format!("it was at its limits less than {RISE:?} ago"))
        }
        (None, None) => {
            let reason = format!("LB virtual server {} has a service that can take requests", view.vserver);
            (balancer.state, reason)
        }
    };
    LocalState { state, reason, is_heard: true, view }
}

impl Node {
    /// Takes in what the data plane shows of all its virtual servers.
    pub(super) fn local_said(&mut self, now: Timestamp, views: Vec<LocalView>) {
        if self.local.named.is_empty() {
            return;
        }
        self.local.silent_at = Some(now + SILENCE);
        self.local.judge(now, views);
        self.local_judged(now);
    }

    /// Takes what stands for LB virtual servers down if the data plane has been silent for too long.
    pub(super) fn look_for_silence(&mut self, now: Timestamp) {
        if self.local.silent_at.is_none_or(|at| at > now) {
            return;
        }
        self.local.silent_at = None;
        self.local.states = Arc::new(self.local.unheard("nothing is heard of it any longer"));
        tracing::error!(silence = ?SILENCE, "nothing is heard of this node's LB virtual servers");
        self.local_judged(now);
    }

    /// Takes over what the data plane showed to the node task before this one: it goes on, and so does what it serves.
    pub(super) fn resume_local(&mut self, now: Timestamp, states: &Arc<Vec<Option<LocalState>>>) {
        if states.iter().flatten().any(|state| state.is_heard) {
            self.local.states = states.clone();
            self.local_judged(now);
        }
    }

    /// What is seen of the services behind, whose state is their monitors' to say; and how those are that stand for LB virtual
    /// servers.
    fn local_judged(&mut self, now: Timestamp) {
        for (service, traffic) in self.local.traffic() {
            self.health.local_traffic(service, traffic);
        }
        let states = self.local.states();
        let mut has_turned = false;
        for (service, at) in self.local.standing.clone() {
            let before = self.health.own(service).map(|(state, _)| state);
            match states.get(at).and_then(Option::as_ref) {
                Some(LocalState { state, reason, is_heard: true, view }) => {
                    let (time, traffic) = (view.response_time(), Traffic::of_local(view));
                    self.health.local_verdict(now, service, *state, reason, time, traffic);
                }
                Some(LocalState { is_heard: false, .. }) | None => {
                    let reason = "nothing is heard of its LB virtual server";
                    let (down, none) = (ServiceState::Down, Traffic::default());
                    self.health.local_verdict(now, service, down, reason, None, none);
                }
            }
            has_turned |= self.health.own(service).map(|(state, _)| state) != before;
        }
        match has_turned {
            true => self.metrics_changed(now),
            false => self.metrics_moved(now),
        }
    }

    /// Tells the data plane how a service is, if it is behind one of its virtual servers.
    pub(super) fn tell_local(&mut self, service: usize) {
        let (Some(config), Some((state, response_time))) =
            (self.config.services.get(service), self.health.own(service))
        else {
            return;
        };
        if !self.local.behind.contains_key(&config.name) {
            return;
        }
        let health = LocalHealth {
            service: config.name.clone(),
            state,
            response_time,
            load: self.health.own_load_of(service),
        };
        self.outputs.push_back(Output::Local(health));
    }

    /// Tells it all: at the start, and when this task takes over from one that failed. What was to be told before the old
    /// task's knowledge was taken over is left out, lest services seem to have been away.
    pub(super) fn tell_local_all(&mut self) {
        self.outputs.retain(|output| !matches!(output, Output::Local(_)));
        let behind: Vec<usize> = self.local.behind.values().copied().collect();
        for service in behind {
            self.tell_local(service);
        }
    }
}
