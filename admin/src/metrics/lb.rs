//! What this node's LB virtual servers do.

use super::sheet::{Labels, Sheet};
use crate::api::View;
use gslb_core::{LocalView, MemberView};
use gslb_types::{Rtt, ServiceState};

pub(super) fn write(sheet: &mut Sheet, view: &View<'_>) {
    let all: Vec<&LocalView> = view.published.local.iter().flatten().collect();
    vservers(sheet, &all);
    members(sheet, &all);
    times(sheet, &all);
}

fn vservers(sheet: &mut Sheet, all: &[&LocalView]) {
    let each = |what: fn(&LocalView) -> f64| {
        all.iter().map(|lb| (named(lb), what(lb))).collect::<Vec<(Labels, f64)>>()
    };
    let is_up = |lb: &LocalView| if lb.balancer.state == ServiceState::Up { 1.0 } else { 0.0 };
    sheet.gauges(
        "gslb_lb_up",
        "Whether something behind an LB virtual server could take a request",
        each(is_up),
    );
    sheet.gauges("gslb_lb_connections", "Client connections open", each(|lb| lb.connections as f64));
    sheet.gauges(
        "gslb_lb_startup_left",
        "Requests that still go round before the method decides",
        each(|lb| lb.balancer.startup_left as f64),
    );
    sheet.gauges(
        "gslb_lb_sessions",
        "Sessions of persistence by source IP",
        each(|lb| lb.balancer.sessions as f64),
    );
    let refused = all.iter().flat_map(|lb| {
        let reasons = gslb_core::NoService::ALL.into_iter().map(|reason| {
            let count = lb.balancer.refused.iter().find(|(r, _)| *r == reason).map_or(0, |(_, count)| *count);
            ([named(lb), vec![("reason", word(reason))]].concat(), count)
        });
        reasons.collect::<Vec<_>>()
    });
    sheet.counters("gslb_lb_refused", "Requests that no service got", refused.collect::<Vec<_>>());
}

fn members(sheet: &mut Sheet, all: &[&LocalView]) {
    let gauges = |what: fn(&MemberView) -> f64| {
        of_members(all).map(|(labels, m)| (labels, what(m))).collect::<Vec<_>>()
    };
    let counters = |what: fn(&MemberView) -> u64| {
        of_members(all).map(|(labels, m)| (labels, what(m))).collect::<Vec<_>>()
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
    sheet.counters("gslb_lb_member_requests", "Requests given to the service", counters(|m| m.requests));
    sheet.counters("gslb_lb_member_bytes", "Bytes both ways", counters(|m| m.bytes));
    sheet.counters("gslb_lb_member_packets", "Packets both ways", counters(|m| m.packets));
}

fn times(sheet: &mut Sheet, all: &[&LocalView]) {
    let known = |what: fn(&MemberView) -> Option<Rtt>| {
        let of = of_members(all).filter_map(|(l, m)| Some((l, what(m)?.as_duration().as_secs_f64())));
        of.collect::<Vec<_>>()
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

fn named(lb: &LocalView) -> Labels {
    vec![("lb_vserver", lb.vserver.to_string())]
}

fn of_members<'a>(all: &'a [&'a LocalView]) -> impl Iterator<Item = (Labels, &'a MemberView)> {
    all.iter().flat_map(|lb| {
        let labels = |m: &MemberView| [named(lb), vec![("service", m.name.to_string())]].concat();
        lb.balancer.members.iter().map(move |m| (labels(m), m))
    })
}

/// The word of the API for a reason.
fn word(reason: gslb_core::NoService) -> String {
    serde_json::to_value(reason).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
