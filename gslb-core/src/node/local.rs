//! The LB virtual servers of this node: what its data plane shows of them, and what it is told of the services behind them.
//!
//! A service that stands for an LB virtual server has its effective state: up only while something behind it can take a
//! request (faults I-72). A data plane that has fallen silent shows nothing any more: what it said last does not stand for
//! ever (faults I-57).

use super::{Node, Output};
use crate::traffic::{LocalView, Traffic};
use config::Config;
use gslb_types::{Rtt, ServiceName, ServiceState, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A data plane that shows nothing for this long is taken for dead; it shows everything once a second.
const SILENCE: Duration = Duration::from_secs(5);

/// How a service behind an LB virtual server is, for the data plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalHealth {
    /// The service.
    pub service: ServiceName,
    /// What this node's monitors say: what others see is of no use to this node's own connections.
    pub state: ServiceState,
    /// Their mean response time.
    pub response_time: Option<Rtt>,
}

/// What is known of the LB virtual servers of this site.
pub(super) struct Local {
    /// By index into the configuration's LB virtual servers; `None` of other sites, and before the first word.
    views: Arc<Vec<Option<LocalView>>>,
    /// The services that stand for one of this site: (service, LB virtual server).
    standing: Vec<(usize, usize)>,
    /// The services behind those of this site.
    behind: BTreeSet<usize>,
    /// When the data plane counts as dead; `None` if there is none, or once it does.
    silent_at: Option<Timestamp>,
}

impl Local {
    pub(super) fn new(config: &Config, now: Timestamp) -> Self {
        let here = config.this_site();
        let is_here = |at: &usize| config.lb_vservers.get(*at).is_some_and(|lb| lb.site == here);
        let services = config.services.iter().enumerate();
        let standing: Vec<_> =
            services.filter_map(|(index, s)| Some((index, s.lb_vserver.filter(is_here)?))).collect();
        let members = config.lb_vservers.iter().filter(|lb| lb.site == here).flat_map(|lb| &lb.members);
        Local {
            views: Arc::new(vec![None; config.lb_vservers.len()]),
            behind: members.map(|member| member.service).collect(),
            silent_at: config.lb_vservers.iter().any(|lb| lb.site == here).then_some(now + SILENCE),
            standing,
        }
    }

    pub(super) fn views(&self) -> Arc<Vec<Option<LocalView>>> {
        self.views.clone()
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.silent_at
    }
}

impl Node {
    /// Takes in what the data plane shows of all its virtual servers.
    pub(super) fn local_said(&mut self, now: Timestamp, views: Vec<LocalView>) {
        if self.local.behind.is_empty() {
            return;
        }
        let mut known: Vec<Option<LocalView>> = vec![None; self.config.lb_vservers.len()];
        for view in views {
            let named = self.config.lb_vservers.iter().position(|lb| lb.name == view.vserver);
            if let Some(place) = named.and_then(|at| known.get_mut(at)) {
                *place = Some(view);
            }
        }
        self.local.views = Arc::new(known);
        self.local.silent_at = Some(now + SILENCE);
        self.members_judged();
        for (service, vserver) in self.local.standing.clone() {
            let views = self.local.views.clone();
            match views.get(vserver).and_then(Option::as_ref) {
                Some(view) => self.local_judged(now, service, view),
                None => self.local_missing(now, service),
            }
        }
        self.metrics_changed(now);
    }

    /// What is seen of the services behind: their state is their monitors' to say, their traffic is seen here.
    fn members_judged(&mut self) {
        let views = self.local.views.clone();
        for service in &self.local.behind {
            let Some(config) = self.config.services.get(*service) else { continue };
            let members = views.iter().flatten().flat_map(|view| &view.balancer.members);
            let traffic = Traffic::of_member(members.filter(|member| member.name == config.name));
            self.health.local_traffic(*service, traffic);
        }
    }

    fn local_judged(&mut self, now: Timestamp, service: usize, view: &LocalView) {
        let reason = match view.balancer.reason {
            Some(none) => none.as_str().to_owned(),
            None => format!("LB virtual server {} has a service that can take requests", view.vserver),
        };
        let traffic = Traffic::of_local(view);
        self.health.local_verdict(now, service, view.balancer.state, &reason, view.response_time(), traffic);
    }

    fn local_missing(&mut self, now: Timestamp, service: usize) {
        let reason = "nothing is heard of its LB virtual server";
        self.health.local_verdict(now, service, ServiceState::Down, reason, None, Traffic::default());
    }

    /// Takes what stands for LB virtual servers down if the data plane has been silent for too long.
    pub(super) fn look_for_silence(&mut self, now: Timestamp) {
        if self.local.silent_at.is_none_or(|at| at > now) {
            return;
        }
        self.local.silent_at = None;
        self.local.views = Arc::new(vec![None; self.config.lb_vservers.len()]);
        tracing::error!(silence = ?SILENCE, "nothing is heard of this node's LB virtual servers");
        self.members_judged();
        for (service, _) in self.local.standing.clone() {
            self.local_missing(now, service);
        }
        self.metrics_changed(now);
    }

    /// Tells the data plane how a service is, if it is behind one of its virtual servers.
    pub(super) fn tell_local(&mut self, service: usize) {
        if !self.local.behind.contains(&service) {
            return;
        }
        let (Some(config), Some((state, response_time))) =
            (self.config.services.get(service), self.health.own(service))
        else {
            return;
        };
        let health = LocalHealth { service: config.name.clone(), state, response_time };
        self.outputs.push_back(Output::Local(health));
    }

    /// Tells it all: at the start, and when this task takes over from one that failed. What was to be told before the old
    /// task's knowledge was taken over is left out, lest services seem to have been away.
    pub(super) fn tell_local_all(&mut self) {
        self.outputs.retain(|output| !matches!(output, Output::Local(_)));
        for service in self.local.behind.clone() {
            self.tell_local(service);
        }
    }
}
