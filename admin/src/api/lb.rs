//! LB virtual servers and what is behind them, with the live numbers of this node's data plane.

use super::{View, millis};
use gslb_core::{LocalState, MemberView, NoService, Out, Traffic as Seen};
use gslb_types::{LbMethod, ServiceState};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// An LB virtual server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LbVserver {
    /// Its name.
    pub lb_vserver: String,
    /// Its site: all nodes of it run it.
    pub site: String,
    /// What it speaks.
    pub kind: String,
    /// Its VIPs, as configured.
    pub listen: Vec<SocketAddr>,
    /// How a service is chosen.
    pub method: LbMethod,
    /// The services behind it, in order.
    pub services: Vec<String>,
    /// What this node's part of it does; `null` at other sites, and while nothing is heard of it.
    pub live: Option<Live>,
}

/// The live numbers of an LB virtual server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Live {
    /// Its effective state: up only while something behind it could take a request, and after it was at its limits only when
    /// there has been room for a while.
    pub state: ServiceState,
    /// Why.
    pub reason: String,
    /// Client connections open.
    pub connections: u64,
    /// As many as it takes.
    pub max_connections: u64,
    /// Transactions under way.
    pub active: u64,
    /// The service that got the last request: on a tie the next one after it is chosen.
    pub pointer: Option<String>,
    /// Requests that still go round before the method decides.
    pub startup_left: u64,
    /// Sessions of persistence by source IP.
    pub sessions: usize,
    /// Requests that no service got, by reason.
    pub refused: Vec<Refused>,
    /// The services behind it, in order.
    pub members: Vec<Member>,
}

/// Requests that no service got.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// Why.
    pub reason: NoService,
    /// How many.
    pub requests: u64,
}

/// A service behind an LB virtual server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub service: String,
    /// What this node's monitors say of it.
    pub state: ServiceState,
    /// Why it takes no new client's request; `null` if it does.
    pub out: Option<Out>,
    /// Its share.
    pub weight: u8,
    /// Whether the operator lets it take part.
    pub enabled: bool,
    /// How long its drain has left; 0 once it has ended, `null` if it does not drain.
    pub drain_left_ms: Option<u64>,
    /// Percent of its weight that counts so soon after it came back.
    pub ramp_percent: u64,
    /// Transactions under way.
    pub active: u32,
    /// Requests that have reached it, ever.
    pub requests: u64,
    /// Mean of its monitors.
    pub response_time_us: Option<u32>,
    /// Time to the first byte of its responses.
    pub ttfb_us: Option<u32>,
    /// Load by the operator's own reckoning, in thousandths.
    pub load_thousandths: Option<u64>,
    /// Bytes both ways, ever.
    pub bytes: u64,
    /// Packets both ways, ever.
    pub packets: u64,
    /// Bytes of the last 14 s.
    pub window_bytes: u64,
    /// Packets of the last 14 s.
    pub window_packets: u64,
    /// The mean rate of the last 14 s.
    pub bits_per_second: u64,
    /// N of the method; `null` if the method has none, or it is not known yet.
    pub n: Option<u64>,
    /// N * 10000 / weight: the lowest gets the next request. Text, since it may exceed 2^53.
    pub nw: Option<String>,
}

/// A service as it is behind one LB virtual server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Behind {
    /// The LB virtual server.
    pub lb_vserver: String,
    /// The live numbers of this node; `null` while nothing is heard of it.
    pub live: Option<Member>,
}

/// Traffic of a service, all nodes of its site together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// Transactions under way.
    pub active: Option<u64>,
    /// Client connections open.
    pub connections: Option<u64>,
    /// Requests since its nodes started.
    pub requests: Option<u64>,
    /// Bytes both ways of the last 14 s.
    pub bytes: Option<u64>,
    /// Packets both ways of the last 14 s.
    pub packets: Option<u64>,
    /// Time to the first byte of responses.
    pub ttfb_us: Option<u32>,
    /// Load by the operator's own reckoning, in thousandths.
    pub load_thousandths: Option<u64>,
}

impl From<Seen> for Traffic {
    fn from(seen: Seen) -> Self {
        let Seen { active, connections, requests, bytes, packets, ttfb, load } = seen;
        let ttfb_us = ttfb.map(|t| t.as_micros());
        Traffic { active, connections, requests, bytes, packets, ttfb_us, load_thousandths: load }
    }
}

/// All LB virtual servers, in the order of the configuration.
pub(crate) fn lb_vservers(view: &View<'_>) -> Vec<LbVserver> {
    let lb = view.config().lb_vservers.iter().enumerate();
    let shown = lb.map(|(index, lb)| LbVserver {
        lb_vserver: lb.name.to_string(),
        site: view.site(lb.site),
        kind: lb.kind.as_str().to_owned(),
        listen: lb.listen.clone(),
        method: lb.method,
        services: lb.members.iter().map(|member| view.service(member.service)).collect(),
        live: seen(view, index).map(live),
    });
    shown.collect()
}

/// The LB virtual servers of this site that a service is behind.
pub(crate) fn behind(view: &View<'_>, service: usize) -> Vec<Behind> {
    let here = view.config().this_site();
    let all = view.config().lb_vservers.iter().enumerate().filter(|(_, lb)| lb.site == here);
    let having = all.filter_map(|(index, lb)| {
        let place = lb.members.iter().position(|member| member.service == service)?;
        let member_view = seen(view, index).and_then(|seen| seen.view.balancer.members.get(place));
        Some(Behind { lb_vserver: lb.name.to_string(), live: member_view.map(member) })
    });
    having.collect()
}

fn seen<'a>(view: &'a View<'_>, lb: usize) -> Option<&'a LocalState> {
    view.published.local.get(lb)?.as_ref().filter(|state| state.is_heard)
}

fn live(seen: &LocalState) -> Live {
    let balancer = &seen.view.balancer;
    let refused =
        balancer.refused.iter().map(|(reason, requests)| Refused { reason: *reason, requests: *requests });
    Live {
        state: seen.state,
        reason: seen.reason.clone(),
        connections: seen.view.connections,
        max_connections: seen.view.max_connections,
        active: balancer.active(),
        pointer: balancer.pointer.as_ref().map(ToString::to_string),
        startup_left: balancer.startup_left,
        sessions: balancer.sessions,
        refused: refused.collect(),
        members: balancer.members.iter().map(member).collect(),
    }
}

fn member(seen: &MemberView) -> Member {
    Member {
        service: seen.name.to_string(),
        state: seen.state,
        out: seen.out,
        weight: seen.weight.get(),
        enabled: seen.enabled,
        drain_left_ms: seen.drain_left.map(millis),
        ramp_percent: seen.ramp_percent,
        active: seen.active,
        requests: seen.requests,
        response_time_us: seen.response_time.map(|t| t.as_micros()),
        ttfb_us: seen.ttfb.map(|t| t.as_micros()),
        load_thousandths: seen.load,
        bytes: seen.bytes,
        packets: seen.packets,
        window_bytes: seen.window_bytes,
        window_packets: seen.window_packets,
        bits_per_second: seen.bits_per_second,
        n: seen.n,
        nw: seen.nw.map(|nw| nw.to_string()),
    }
}
