//! What this node's LB virtual servers do.
//!
//! All that are configured are there all the time: what takes nothing because nothing is heard of it is 0, and counters stay where
//! they were, so that alarms on them do not fall silent together with what they watch.

use super::sheet::{Labels, Sheet};
use crate::api::View;
use gslb_core::{LocalState, MemberView};
use gslb_types::{Rtt, ServiceState};

/// An LB virtual server of this site.
struct Row<'a> {
    name: String,
    /// What was heard of it last.
    last: Option<&'a LocalState>,
    members: Vec<(String, Option<&'a MemberView>)>,
}

pub(super) fn write(sheet: &mut Sheet, view: &View<'_>) {
    let rows = rows(view);
    vservers(sheet, &rows);
    members(sheet, &rows);
    times(sheet, &rows);
}

fn rows<'a>(view: &'a View<'_>) -> Vec<Row<'a>> {
    let config = view.config();
    let here = config.lb_vservers.iter().zip(view.published.local.iter());
    let rows = here.filter(|(lb, _)| lb.site == config.this_site()).map(|(lb, last)| {
        let last = last.as_ref();
        let members = lb.members.iter().map(|member| {
            let name = view.service(member.service);
            let mut seen = last.iter().flat_map(|state| &state.view.balancer.members);
            let seen = seen.find(|seen| seen.name.as_str() == name);
            (name, seen)
        });
        Row { name: lb.name.to_string(), last, members: members.collect() }
    });
    rows.collect()
}

impl<'a> Row<'a> {
    fn labels(&self) -> Labels {
        vec![("lb_vserver", self.name.clone())]
    }

    /// What it shows at this moment.
    fn live(&self) -> Option<&'a LocalState> {
        self.last.filter(|state| state.is_heard)
    }

    fn of_members(&self) -> impl Iterator<Item = (Labels, Option<&'a MemberView>)> {
        self.members
            .iter()
            .map(|(name, seen)| ([self.labels(), vec![("service", name.clone())]].concat(), *seen))
    }
}

fn vservers(sheet: &mut Sheet, rows: &[Row<'_>]) {
    let each = |what: fn(&LocalState) -> f64| {
        rows.iter().map(|row| (row.labels(), row.live().map_or(0.0, what))).collect::<Vec<_>>()
    };
    let is_up = |lb: &LocalState| if lb.state == ServiceState::Up { 1.0 } else { 0.0 };
    sheet.gauges(
        "gslb_lb_up",
        "Whether something behind an LB virtual server could take a request",
        each(is_up),
    );
    sheet.gauges("gslb_lb_connections", "Client connections open", each(|lb| lb.view.connections as f64));
    sheet.gauges(
        "gslb_lb_startup_left",
        "Requests that still go round before the method decides",
        each(|lb| lb.view.balancer.startup_left as f64),
    );
    sheet.gauges(
        "gslb_lb_sessions",
        "Sessions of persistence by source IP",
        each(|lb| lb.view.balancer.sessions as f64),
    );
    let refused = rows.iter().flat_map(|row| {
        let reasons = gslb_core::NoService::ALL.into_iter().map(|reason| {
            let mut counted = row.last.iter().flat_map(|last| &last.view.balancer.refused);
            let count = counted.find(|(r, _)| *r == reason).map_or(0, |(_, count)| *count);
            ([row.labels(), vec![("reason", word(reason))]].concat(), count)
        });
        reasons.collect::<Vec<_>>()
    });
    sheet.counters("gslb_lb_refused", "Requests that no service got", refused.collect::<Vec<_>>());
}

fn members(sheet: &mut Sheet, rows: &[Row<'_>]) {
    let gauges = |what: fn(&MemberView) -> f64| {
        let of = rows.iter().flat_map(|row| {
            let live = row.live().is_some();
            row.of_members().map(move |(labels, m)| (labels, m.filter(|_| live).map_or(0.0, what)))
        });
        of.collect::<Vec<_>>()
    };
    let counters = |what: fn(&MemberView) -> u64| {
        let of = rows.iter().flat_map(Row::of_members).map(|(labels, m)| (labels, m.map_or(0, what)));
        of.collect::<Vec<_>>()
    };
    let takes_part = |m: &MemberView| if m.out.is_none() { 1.0 } else { 0.0 };
    sheet.gauges("gslb_lb_member_takes_part", "Whether the service takes new requests", gauges(takes_part));
    sheet.gauges("gslb_lb_member_active", "Transactions under way", gauges(|m| f64::from(m.active)));
    sheet.gauges(
        "gslb_lb_member_ramp_percent",
        "Percent of the service's weight that counts so soon after it came back",
        gauges(|m| m.ramp_percent as f64),
    );
    sheet.gauges(
        "gslb_lb_member_bits_per_second",
        "Mean rate both ways over the last 14 s",
        gauges(|m| m.bits_per_second as f64),
    );
    sheet.counters(
        "gslb_lb_member_requests",
        "Requests that have reached the service",
        counters(|m| m.requests),
    );
    sheet.counters("gslb_lb_member_bytes", "Bytes both ways", counters(|m| m.bytes));
    sheet.counters("gslb_lb_member_packets", "Packets both ways", counters(|m| m.packets));
}

fn times(sheet: &mut Sheet, rows: &[Row<'_>]) {
    let known = |what: fn(&MemberView) -> Option<Rtt>| {
        let live = rows.iter().filter(|row| row.live().is_some()).flat_map(Row::of_members);
        live.filter_map(|(l, m)| Some((l, what(m?)?.as_duration().as_secs_f64()))).collect::<Vec<_>>()
    };
    sheet.seconds(
        "gslb_lb_member_response_time",
        "Mean response time of the service's monitors",
        known(|m| m.response_time),
    );
    sheet.seconds(
        "gslb_lb_member_ttfb",
        "Time to the first byte of responses with status 200",
        known(|m| m.ttfb),
    );
}

/// The word of the API for a reason.
fn word(reason: gslb_core::NoService) -> String {
    serde_json::to_value(reason).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
