//! What an LB virtual server shows of itself.

use crate::counters::Counts;
use crate::vserver::Vserver;
use gslb_types::LbVserverName;
use lb_core::BalancerView;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;

/// An LB virtual server at one moment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VserverView {
    /// Its name.
    pub name: LbVserverName,
    /// Where it really listens.
    pub listen: Vec<SocketAddr>,
    /// Client connections open.
    pub connections: usize,
    /// As many as there may be.
    pub max_connections: usize,
    /// What was counted since its start.
    pub counts: Counts,
    /// Connections to services that wait for reuse, in the order of the members.
    pub idle: Vec<usize>,
    /// Its state and its members.
    pub balancer: BalancerView,
}

impl VserverView {
    pub(crate) fn of(name: &LbVserverName, vserver: &Arc<Vserver>, listen: Vec<SocketAddr>) -> Self {
        let (connections, max_connections) = vserver.occupancy();
        let now = vserver.clock.now();
        VserverView {
            name: name.clone(),
            listen,
            connections,
            max_connections,
            counts: vserver.counters.counts(),
            idle: vserver.services().iter().map(|service| service.idle()).collect(),
            balancer: vserver.balancer(|balancer| balancer.view(now)),
        }
    }
}
