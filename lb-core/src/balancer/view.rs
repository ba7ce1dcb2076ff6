//! What an LB virtual server shows of itself.

use super::member::Member;
use super::outcome::{NoService, Out};
use super::ramp::FULL;
use crate::{Candidate, Measure};
use gslb_types::{LbMethod, Rtt, ServiceName, ServiceState, Timestamp, Weight};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An LB virtual server at one moment, for people and for the group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BalancerView {
    /// Its effective state: UP only if some member could take a request at this moment.
    pub state: ServiceState,
    /// Why it is not UP.
    pub reason: Option<NoService>,
    /// How a member is chosen.
    pub method: LbMethod,
    /// Requests that still go round before the method takes over.
    pub startup_left: u64,
    /// The member that got the last request.
    pub pointer: Option<ServiceName>,
    /// Sessions of persistence by source IP.
    pub sessions: usize,
    /// Transactions under way at members that the configuration has no more.
    pub retired_active: u64,
    /// Requests that no member got, by reason.
    pub refused: Vec<(NoService, u64)>,
    /// The members, in configuration order.
    pub members: Vec<MemberView>,
}

/// One member at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberView {
    /// Its name.
    pub name: ServiceName,
    /// What its monitors say.
    pub state: ServiceState,
    /// Why it takes no new client's request.
    pub out: Option<Out>,
    /// Its share.
    pub weight: Weight,
    /// Whether the operator lets it take part.
    pub enabled: bool,
    /// How long its drain has left, if it drains; zero once the deadline has passed.
    pub drain_left: Option<Duration>,
    /// Percent of its weight that counts so soon after it came back.
    pub ramp_percent: u64,
    /// Transactions under way.
    pub active: u32,
    /// Mean of its monitors.
    pub response_time: Option<Rtt>,
    /// Time to the first byte of real responses.
    pub ttfb: Option<Rtt>,
    /// Load by the operator's own reckoning, in thousandths.
    pub load: Option<u64>,
    /// Requests that have reached it, ever.
    pub requests: u64,
    /// Bytes both ways, ever.
    pub bytes: u64,
    /// Packets both ways, ever.
    pub packets: u64,
    /// Bytes of the last 14 s.
    pub window_bytes: u64,
    /// Packets of the last 14 s.
    pub window_packets: u64,
    /// The window's mean rate, in bits a second.
    pub bits_per_second: u64,
    /// N of the method, if it has one and it is known.
    pub n: Option<u64>,
    /// N * 10000 / weight.
    pub nw: Option<u128>,
}

impl BalancerView {
    /// Transactions under way, all members together.
    pub fn active(&self) -> u64 {
        self.members.iter().map(|m| u64::from(m.active)).sum::<u64>() + self.retired_active
    }
}

impl MemberView {
    pub(super) fn of(
        member: &Member,
        now: Timestamp,
        slow_start: Duration,
        measure: Option<Measure>,
    ) -> Self {
        let (bytes, packets) = (member.window.bytes(now), member.window.packets(now));
        let row = Candidate {
            bytes: Some(bytes),
            packets: Some(packets),
            ..member.candidate(now, 0, LbMethod::RoundRobin)
        };
        MemberView {
            name: member.settings.name.clone(),
            state: member.state,
            out: member.out(now),
            weight: member.settings.weight,
            enabled: member.enabled,
            drain_left: member.drain_left(now),
            ramp_percent: member.ramp.percent(now, slow_start).min(FULL),
            active: member.active,
            response_time: member.response_time,
            ttfb: member.ttfb.get(),
            load: member.load,
            requests: member.totals.requests,
            bytes: member.totals.bytes,
            packets: member.totals.packets,
            window_bytes: bytes,
            window_packets: packets,
            bits_per_second: member.window.mbps(now).bits_per_second(),
            n: measure.and_then(|m| m.n(&row)),
            nw: measure.and_then(|m| m.score(&row)).map(|score| score.get()),
        }
    }
}
