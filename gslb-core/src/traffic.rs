//! What is seen of a service's traffic, where it passes through the nodes of its site.

use gslb_types::{LbVserverName, Rtt, ServiceState};
use lb_core::{BalancerView, MemberView};
use mep_core::ServiceMetric;
use serde::{Deserialize, Serialize};

/// What this node's data plane shows of one LB virtual server at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalView {
    /// Its name.
    pub vserver: LbVserverName,
    /// Client connections open.
    pub connections: u64,
    /// As many as it takes.
    pub max_connections: u64,
    /// Its members, and how it chooses.
    pub balancer: BalancerView,
}

/// An LB virtual server of this site, as the node judges it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalState {
    /// Its effective state: that of the services which stand for it.
    pub state: ServiceState,
    /// Why, in the words an operator reads.
    pub reason: String,
    /// Whether the data plane speaks; if not, the view is its last.
    pub is_heard: bool,
    /// What the data plane shows.
    pub view: LocalView,
}

/// Traffic of a service. `None` is what nobody sees, never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Active transactions.
    pub active: Option<u64>,
    /// Client connections open.
    pub connections: Option<u64>,
    /// Requests since the node started.
    pub requests: Option<u64>,
    /// Bytes both ways of the last 14 s.
    pub bytes: Option<u64>,
    /// Packets both ways of the last 14 s.
    pub packets: Option<u64>,
    /// Time to the first byte of responses.
    pub ttfb: Option<Rtt>,
    /// Load by the operator's own reckoning, in thousandths: what monitors or a source tell, whoever sees the traffic.
    #[serde(default)]
    pub load: Option<u64>,
}

impl Traffic {
    /// That of an LB virtual server: of all its members together.
    pub fn of_local(view: &LocalView) -> Self {
        let members = &view.balancer.members;
        let sum = |of: fn(&MemberView) -> u64| Some(members.iter().map(of).fold(0, u64::saturating_add));
        Traffic {
            active: Some(view.balancer.active()),
            connections: Some(view.connections),
            requests: sum(|m| m.requests),
            bytes: sum(|m| m.window_bytes),
            packets: sum(|m| m.window_packets),
            ttfb: mean_of(members, |m| m.ttfb),
            load: mean_load(members.iter().filter(|m| m.out.is_none()).map(|m| m.load)),
        }
    }

    /// That of a service behind LB virtual servers, through all of them; clients' connections end at those.
    pub fn of_member<'a>(views: impl Iterator<Item = &'a MemberView> + Clone) -> Self {
        let part = |m: &MemberView| Traffic {
            active: Some(m.active.into()),
            connections: None,
            requests: Some(m.requests),
            bytes: Some(m.window_bytes),
            packets: Some(m.window_packets),
            ttfb: m.ttfb.filter(|_| m.out.is_none()),
            load: None,
        };
        Traffic::together(views.map(part))
    }

    /// What a node tells of its own part of it.
    pub fn of_metric(metric: &ServiceMetric) -> Self {
        let ServiceMetric { active, connections, requests, bytes, packets, ttfb, load, .. } = *metric;
        Traffic { active, connections, requests, bytes, packets, ttfb, load }
    }

    /// The metric with this traffic.
    pub(crate) fn told_in(self, metric: ServiceMetric) -> ServiceMetric {
        let Traffic { active, connections, requests, bytes, packets, ttfb, load } = self;
        ServiceMetric { active, connections, requests, bytes, packets, ttfb, load, ..metric }
    }

    /// Whether anything is seen.
    pub fn is_seen(&self) -> bool {
        *self != Traffic::default()
    }

    /// Several nodes' parts together.
    pub fn together(parts: impl Iterator<Item = Traffic> + Clone) -> Self {
        let sum = |of: fn(Traffic) -> Option<u64>| parts.clone().filter_map(of).reduce(u64::saturating_add);
        Traffic {
            active: sum(|t| t.active),
            connections: sum(|t| t.connections),
            requests: sum(|t| t.requests),
            bytes: sum(|t| t.bytes),
            packets: sum(|t| t.packets),
            ttfb: lb_core::mean(parts.clone().map(|t| t.ttfb)),
            load: mean_load(parts.clone().map(|t| t.load)),
        }
    }
}

impl LocalView {
    /// The mean response time of the members that could take a request, as their monitors measure it.
    pub fn response_time(&self) -> Option<Rtt> {
        mean_of(&self.balancer.members, |m| m.response_time)
    }
}

/// Members that take no part say nothing of how the virtual server serves (faults I-72).
fn mean_of(members: &[MemberView], what: fn(&MemberView) -> Option<Rtt>) -> Option<Rtt> {
    lb_core::mean(members.iter().filter(|m| m.out.is_none()).map(what))
}

/// The mean of loads: each node of a site tells its own view of the same service, and a virtual server is as loaded as its members
/// are on the whole.
fn mean_load(loads: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let (sum, count) = loads.flatten().fold((0u128, 0u128), |(sum, n), load| (sum + u128::from(load), n + 1));
    u64::try_from(sum.checked_div(count)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_several_nodes_add_up_and_what_nobody_sees_stays_unseen() {
        let us = |n| Some(Rtt::from_micros(n));
        let a = Traffic { active: Some(3), bytes: Some(u64::MAX), ttfb: us(100), ..Traffic::default() };
        let b = Traffic { active: Some(4), bytes: Some(9), ttfb: us(300), ..Traffic::default() };
        let unseen = Traffic::default();
        let together = Traffic::together([a, unseen, b].into_iter());
        assert_eq!(
            together,
            Traffic { active: Some(7), bytes: Some(u64::MAX), ttfb: us(200), ..Traffic::default() }
        );
        assert!(!Traffic::together([unseen].into_iter()).is_seen());
    }
}
