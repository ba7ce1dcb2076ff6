//! What this node counts: DNS, probes, checks, and itself.

use super::sheet::{Labels, Sheet};
use crate::api::{self, View};
use gslb_core::{DnsCounts, MonitorStats, NodeStats, ProberStats};
use gslb_types::ProbeKind;

pub(super) fn write(sheet: &mut Sheet, view: &View<'_>) {
    process(sheet, view);
    dns(sheet, view.shared.dns.read());
    probing(sheet, &view.published.probing);
    let sharing = view.published.sharing.len() as f64;
    sheet.gauge(
        "gslb_sharing_nodes",
        "Nodes of this site that share out its LDNS, this one among them",
        sharing,
    );
    let sessions = view.published.persistence as f64;
    sheet.gauge("gslb_persistence_sessions", "Persistence sessions kept", sessions);
    sheet.gauge("gslb_ldns_rows", "LDNS in the RTT table", view.shared.rtts.len() as f64);
    monitoring(sheet, view.published.monitoring);
    rtts(sheet, view.published.node);
}

fn process(sheet: &mut Sheet, view: &View<'_>) {
    let config = view.config();
    let labels = vec![
        ("node", config.this_node().id.to_string()),
        ("site", view.site(config.this_site())),
        ("group", config.group.name.clone()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    sheet.gauges("gslb_node_info", "This node; always 1", [(labels, 1.0)]);
    let plain = |seconds| [(Labels::new(), seconds)];
    let uptime = view.age(view.info.started).as_secs_f64();
    sheet.seconds("gslb_uptime", "Time since this node started", plain(uptime));
    let ready = if api::ready(view).ready { 1.0 } else { 0.0 };
    sheet.gauge("gslb_ready", "Whether the node task publishes (1) or is stuck (0)", ready);
    sheet.counter("gslb_publications", "Publications of the node task", view.published.generation);
    let age = view.age(view.published.at).as_secs_f64();
    sheet.seconds("gslb_publication_age", "Time since the last publication", plain(age));
    certificate(sheet, view);
}

fn certificate(sheet: &mut Sheet, view: &View<'_>) {
    let identity = &view.identity;
    let plain = |number: Option<f64>| number.map(|number| (Labels::new(), number));
    sheet.seconds(
        "gslb_certificate_expiry_timestamp",
        "Expiry of this node's certificate, in seconds since the Unix epoch",
        plain(identity.expires.map(|at| at as f64)),
    );
    sheet.seconds(
        "gslb_certificate_loaded_age",
        "Time since this node's certificate was read from its files",
        plain(identity.loaded_age.map(|age| age.as_secs_f64())),
    );
    sheet.counter("gslb_certificate_reloads", "Certificates taken in place of another", identity.reloads);
    sheet.gauge(
        "gslb_certificate_reload_failing",
        "Whether the certificate's files as they are now can't be used (1)",
        if identity.error.is_some() { 1.0 } else { 0.0 },
    );
}

/// Taken apart whole, so that a counter without a name here does not compile.
fn dns(sheet: &mut Sheet, counts: DnsCounts) {
    let DnsCounts {
        udp_requests,
        tcp_requests,
        tls_requests,
        noerror,
        nxdomain,
        formerr,
        notimp,
        refused,
        badvers,
        servfail,
        yxdomain,
        notauth,
        truncated,
        dropped,
        edns,
        ecs,
        by_rtt,
        by_backup,
        all_down,
        ldns_dropped,
        sightings_lost,
        panics,
        send_errors,
        connections,
        connections_evicted,
        tcp_open,
        tls_open,
        udp_receive_drops,
    } = counts;
    let transports = [("udp", udp_requests), ("tcp", tcp_requests), ("tls", tls_requests)];
    sheet.counters("gslb_dns_requests", "DNS requests received", by("transport", transports));
    let rcodes = [
        ("noerror", noerror),
        ("nxdomain", nxdomain),
        ("formerr", formerr),
        ("notimp", notimp),
        ("refused", refused),
        ("badvers", badvers),
        ("servfail", servfail),
        ("yxdomain", yxdomain),
        ("notauth", notauth),
    ];
    sheet.counters("gslb_dns_replies", "DNS replies, by response code", by("rcode", rcodes));
    sheet.counter("gslb_dns_truncated", "DNS replies cut short with TC", truncated);
    sheet.counter(
        "gslb_dns_dropped",
        "Packets left without a reply: shorter than a header, or replies themselves",
        dropped,
    );
    sheet.counter("gslb_dns_edns", "DNS queries with EDNS", edns);
    sheet.counter("gslb_dns_ecs", "DNS queries with a client subnet", ecs);
    let methods = [("rtt", by_rtt), ("backup", by_backup)];
    sheet.counters(
        "gslb_decisions",
        "Answers of virtual servers with method rtt, by what chose the site",
        by("by", methods),
    );
    sheet.counter("gslb_all_down", "Answers given while every service was down", all_down);
    sheet.counter(
        "gslb_ldns_dropped",
        "Queries dropped because no RTT was known (drop_ldns_requests)",
        ldns_dropped,
    );
    sheet.counter(
        "gslb_sightings_lost",
        "Sightings that did not fit into the queue to the node task",
        sightings_lost,
    );
    sheet.counter(
        "gslb_dns_panics",
        "UDP packets and TCP or TLS connections whose answering failed with a panic",
        panics,
    );
    sheet.counter("gslb_dns_send_errors", "UDP replies the kernel did not take", send_errors);
    sheet.counter(
        "gslb_dns_receive_drops",
        "UDP packets the kernel threw away because a receive buffer was full",
        udp_receive_drops,
    );
    sheet.gauges(
        "gslb_dns_open_connections",
        "TCP and TLS connections open now",
        [("tcp", tcp_open), ("tls", tls_open)]
            .map(|(transport, open)| (vec![("transport", transport.to_owned())], open as f64)),
    );
    sheet.counter("gslb_dns_connections", "TCP and TLS connections accepted", connections);
    sheet.counter(
        "gslb_dns_connections_evicted",
        "TCP and TLS connections closed to make room for others",
        connections_evicted,
    );
}

fn probing(sheet: &mut Sheet, stats: &ProberStats) {
    let kinds = |counts: [u64; 3]| {
        by("kind", ProbeKind::DEFAULT_ORDER.map(ProbeKind::as_str).into_iter().zip(counts))
    };
    sheet.gauge("gslb_probed_ldns", "LDNS that this node probes or would probe", stats.ldns as f64);
    sheet.gauge("gslb_own_ldns", "LDNS of this node's share, which it measures itself", stats.ours as f64);
    sheet.gauge("gslb_proven_ldns", "LDNS protected from eviction by newcomers", stats.proven as f64);
    sheet.counters("gslb_probes_sent", "Probes sent", kinds(stats.sent));
    sheet.counters("gslb_probe_samples", "RTTs measured", kinds(stats.samples));
    sheet.counter("gslb_probe_timeouts", "Probes without a reply in time", stats.timeouts);
    sheet.counter("gslb_probes_overdue", "Probes the sender never reported", stats.overdue);
    sheet.counter("gslb_probe_replies_late", "Replies to no probe that is awaited", stats.late);
    sheet.counter(
        "gslb_probe_router_errors",
        "ICMP errors from routers, which are no samples",
        stats.router_errors,
    );
    sheet.counter("gslb_probes_not_sent", "Probes that could not be sent", stats.send_failed);
    sheet.counter(
        "gslb_probes_over_budget",
        "Probes put off because a budget was used up",
        stats.over_budget,
    );
    sheet.counter("gslb_ldns_evicted", "LDNS pushed out by newcomers", stats.evicted);
    sheet.counter("gslb_ldns_turned_away", "LDNS turned away because the table was full", stats.turned_away);
    if let Some(permitted) = stats.icmp_permitted {
        let permitted = if permitted { 1.0 } else { 0.0 };
        sheet.gauge("gslb_icmp_permitted", "Whether this node may send pings", permitted);
    }
}

fn monitoring(sheet: &mut Sheet, stats: MonitorStats) {
    sheet.counter("gslb_checks", "Checks of monitors asked for", stats.checks);
    let results =
        [("passed", stats.passed), ("failed", stats.failed), ("not_permitted", stats.not_permitted)];
    sheet.counters("gslb_check_results", "Results of checks", by("result", results));
    sheet.counter("gslb_checks_overdue", "Checks nobody reported in time", stats.overdue);
    sheet.counter("gslb_check_results_late", "Reports of checks that are not awaited", stats.late);
}

fn rtts(sheet: &mut Sheet, stats: NodeStats) {
    sheet.counter(
        "gslb_samples_within_tolerance",
        "RTTs within the tolerance of the advertised value, for which nothing was sent",
        stats.samples_within_tolerance,
    );
    sheet.counter("gslb_rtts_advertised", "Changes of an advertised RTT", stats.advertised);
    sheet.counter("gslb_rtts_withdrawn", "RTTs withdrawn because nothing confirmed them", stats.withdrawn);
    sheet.counter(
        "gslb_metrics_ignored",
        "Words of peers about services they may not speak of, or that there are not",
        stats.metrics_ignored,
    );
    sheet.counter("gslb_services_judged", "Services judged anew", stats.services_judged);
    sheet.counter(
        "gslb_bindings_judged",
        "Bindings of virtual servers looked at because a service of theirs changed",
        stats.bindings_judged,
    );
    sheet.counter(
        "gslb_ldns_shared_out",
        "Times that the LDNS were shared out anew among the nodes of this site",
        stats.shared_out,
    );
}

fn by(
    label: &'static str,
    counts: impl IntoIterator<Item = (&'static str, u64)>,
) -> impl Iterator<Item = (Labels, u64)> {
    counts.into_iter().map(move |(value, count)| (vec![(label, value.to_owned())], count))
}
