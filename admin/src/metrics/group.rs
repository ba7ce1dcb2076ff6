//! What this node knows of the group: peers, sites, services.

use super::sheet::{Labels, Sheet};
use crate::api::{self, View};
use gslb_core::{Over, PeerState, PeerStatus, SiteView};
use gslb_types::{ServiceState, SiteIndex};
use std::collections::BTreeMap;

pub(super) fn write(sheet: &mut Sheet, view: &View<'_>) {
    peers(sheet, view);
    sessions(sheet, view);
    traffic(sheet, &view.published.peers);
    strangers(sheet, view);
    sites(sheet, view);
    services(sheet, view);
}

fn peers(sheet: &mut Sheet, view: &View<'_>) {
    let peers = &view.published.peers;
    let states = [PeerState::Connecting, PeerState::Up, PeerState::Suspect, PeerState::Down];
    sheet.gauges(
        "gslb_peer_up",
        "Whether a session with the peer stands",
        each(peers, |p| Some(if p.state.has_session() { 1.0 } else { 0.0 })),
    );
    sheet.gauges(
        "gslb_peer_state",
        "1 for the state a peer is in, 0 for the others",
        peers.iter().flat_map(|p| {
            states.map(|s| (with(p, "state", s.as_str()), if p.state == s { 1.0 } else { 0.0 }))
        }),
    );
    sheet.seconds(
        "gslb_peer_state_age",
        "Time in this state",
        each(peers, |p| Some(view.age(p.since).as_secs_f64())),
    );
    sheet.seconds(
        "gslb_peer_last_word_age",
        "Time since the last word of a peer",
        each(peers, |p| p.last_word.map(|then| view.age(then).as_secs_f64())),
    );
    sheet.seconds(
        "gslb_peer_rtt",
        "Round trip to a peer",
        each(peers, |p| p.path_rtt.map(|rtt| rtt.as_secs_f64())),
    );
    sheet.gauges("gslb_peer_outbox", "Keys waiting to be sent", each(peers, |p| Some(p.outbox as f64)));
    sheet.gauges(
        "gslb_peer_mismatches",
        "Must-match settings in which a peer differs from this node",
        each(peers, |p| Some(p.mismatches.len() as f64)),
    );
    sheet.seconds(
        "gslb_peer_certificate_expiry_timestamp",
        "Expiry of a peer's certificate, in seconds since the Unix epoch",
        each(peers, |p| p.certificate_expires.map(|at| at as f64)),
    );
}

/// The kinds of reason for which a session ends: each has a number from the start, so that rates see the first time.
const DOWN_REASONS: [&str; 9] = [
    "silent",
    "not_heard",
    "goodbye",
    "closed",
    "restarted",
    "superseded",
    "misbehaved",
    "behind",
    "shutdown",
];

fn sessions(sheet: &mut Sheet, view: &View<'_>) {
    let peers = &view.published.peers;
    sheet.counters("gslb_peer_downs", "Transitions to down, by kind of reason", peers.iter().flat_map(downs));
    sheet.counters(
        "gslb_mep_transitions",
        "Changes of a peer's state, by the state it led to and the kind of reason",
        peers.iter().flat_map(turns),
    );
    let over = [Over::Quic, Over::Grpc];
    sheet.gauges(
        "gslb_peer_over",
        "1 for what the peer's session runs over",
        peers.iter().filter(|p| p.state.has_session()).flat_map(|p| {
            over.map(|over| (with(p, "over", api::word(over)), if p.over == Some(over) { 1.0 } else { 0.0 }))
        }),
    );
    sheet.gauges(
        "gslb_peer_relayed",
        "Whether another node relays the peer's site, because no node of it is heard directly",
        each(peers, |p| Some(if p.relay.is_some() { 1.0 } else { 0.0 })),
    );
    sheet.gauges(
        "gslb_peer_contested",
        "Whether the relay of the peer's site alone claims to hear it, and all others say that they do not",
        each(peers, |p| Some(flag(p.contested.is_some()))),
    );
    sheet.seconds(
        "gslb_peer_snapshot_received",
        "How long the peer's snapshot took in this session",
        each(peers, |p| p.snapshot_in.map(|took| took.as_secs_f64())),
    );
    sheet.seconds(
        "gslb_peer_snapshot_sent",
        "How long this node's snapshot took in this session",
        each(peers, |p| p.snapshot_out.map(|took| took.as_secs_f64())),
    );
    let degraded = api::matrix(view).degraded.len();
    sheet.gauge("gslb_links_degraded", "Links of the group that fail or are about to", degraded as f64);
}

fn downs(peer: &PeerStatus) -> impl Iterator<Item = (Labels, u64)> {
    let mut counts: BTreeMap<&str, u64> = DOWN_REASONS.map(|kind| (kind, 0)).into();
    counts.extend(&peer.downs_by_reason);
    counts.into_iter().map(|(kind, count)| (with(peer, "reason", kind), count))
}

/// The kinds of reason for states with a session, likewise.
const SESSION_REASONS: [(PeerState, &str); 4] = [
    (PeerState::Up, "established"),
    (PeerState::Up, "heard"),
    (PeerState::Suspect, "quiet"),
    (PeerState::Suspect, "not_heard"),
];

fn turns(peer: &PeerStatus) -> impl Iterator<Item = (Labels, u64)> {
    let downs = DOWN_REASONS.map(|kind| (PeerState::Down, kind));
    let mut counts: BTreeMap<(PeerState, &str), u64> =
        SESSION_REASONS.into_iter().chain(downs).map(|turn| (turn, 0)).collect();
    counts.extend(&peer.turns);
    counts.into_iter().map(|((to, kind), count)| {
        let mut labels = with(peer, "to", to.as_str());
        labels.push(("reason", kind.to_owned()));
        (labels, count)
    })
}

fn traffic(sheet: &mut Sheet, peers: &[PeerStatus]) {
    type Count = fn(&PeerStatus) -> u64;
    let counters: [(&str, &str, Count); 17] = [
        ("gslb_peer_sessions", "Sessions established", |p| p.sessions),
        ("gslb_peer_refusals", "Connections and hellos turned away", |p| p.refusals),
        ("gslb_peer_resyncs", "Snapshots started anew because the peer read too slowly", |p| p.resyncs),
        ("gslb_peer_frames_sent", "Frames sent", |p| p.frames_out),
        ("gslb_peer_frames_received", "Frames received", |p| p.frames_in),
        ("gslb_peer_sent_bytes", "Bytes of frames sent", |p| p.bytes_out),
        ("gslb_peer_received_bytes", "Bytes of frames received", |p| p.bytes_in),
        ("gslb_peer_rows_sent", "RTT rows sent", |p| p.rows_out),
        ("gslb_peer_rows_received", "RTT rows received", |p| p.rows_in),
        ("gslb_peer_relayed_rows_sent", "RTT rows of other sites relayed to it", |p| p.relayed_rows_out),
        ("gslb_peer_relayed_rows_received", "RTT rows of other sites it relayed", |p| p.relayed_rows_in),
        ("gslb_peer_implausible_rows", "RTT rows received that nobody can measure", |p| p.implausible_rows),
        ("gslb_peer_asks_dropped", "LDNS it asked for that were not looked at", |p| p.asks_dropped),
        ("gslb_peer_wants_dropped", "LDNS it was not asked for", |p| p.wants_dropped),
        ("gslb_peer_contests", "Times it alone claimed to hear a site that all others do not", |p| {
            p.contests
        }),
        ("gslb_peer_violations", "Frames or parts of frames that were not allowed", |p| p.violations),
        ("gslb_peer_unknown_frames", "Frames that were not understood wholly", |p| p.unknown),
    ];
    for (name, help, count) in counters {
        sheet.counters(name, help, peers.iter().map(|p| (of(p), count(p))));
    }
}

fn strangers(sheet: &mut Sheet, view: &View<'_>) {
    let strangers = &view.published.strangers;
    let counts = [("unknown_node", strangers.unknown_nodes), ("refused", strangers.refused)];
    sheet.counters(
        "gslb_strangers",
        "Connections of nobody in the group, turned away",
        counts.map(|(why, count)| (vec![("why", why.to_owned())], count)),
    );
}

fn sites(sheet: &mut Sheet, view: &View<'_>) {
    type Number = fn(&View<'_>, &SiteView) -> f64;
    let gauges: [(&str, &str, Number); 4] = [
        ("gslb_site_connected", "Whether a session with a node of the site stands", |_, seen| {
            flag(seen.connected)
        }),
        (
            "gslb_site_relayed",
            "Whether another node relays the site, because no node of it is heard",
            |_, seen| flag(seen.relayed_via.is_some()),
        ),
        ("gslb_site_taken_down", "Whether the site's silence decides about its services", |_, seen| {
            flag(seen.taken_down.is_some())
        }),
        (
            "gslb_site_held",
            "Whether the site is heard again and still judged as if it were not",
            |view, seen| flag(seen.held_until.is_some_and(|until| until > view.now)),
        ),
    ];
    let each = |number: Number| {
        let sites = view.published.sites.iter().enumerate();
        sites.filter_map(move |(index, seen)| {
            Some((vec![("site", view.site(SiteIndex::new(index)?))], number(view, seen)))
        })
    };
    for (name, help, number) in gauges {
        sheet.gauges(name, help, each(number));
    }
    sheet.seconds(
        "gslb_site_silence",
        "How long nobody has heard the site, directly or by a relay; 0 while somebody does",
        each(|view, seen| seen.silent_since.map_or(0.0, |then| view.age(then).as_secs_f64())),
    );
}

fn services(sheet: &mut Sheet, view: &View<'_>) {
    let services = || view.config().services.iter().zip(&view.published.services);
    let labels = |service: &config::Service| -> Labels {
        vec![("service", service.name.to_string()), ("site", view.site(service.site))]
    };
    let states = [ServiceState::Up, ServiceState::Down, ServiceState::Learning, ServiceState::Disabled];
    sheet.gauges(
        "gslb_service_state",
        "1 for the state a service is in, 0 for the others",
        services().flat_map(|(service, seen)| {
            states.map(|state| {
                let mut labels = labels(service);
                labels.push(("state", state.as_str().to_owned()));
                (labels, if seen.state == state { 1.0 } else { 0.0 })
            })
        }),
    );
    sheet.seconds(
        "gslb_service_state_age",
        "Time in this state",
        services().map(|(service, seen)| (labels(service), view.age(seen.since).as_secs_f64())),
    );
    sheet.seconds(
        "gslb_service_response_time",
        "Mean response time of a service's monitors",
        services().filter_map(|(service, seen)| {
            Some((labels(service), seen.response_time?.as_duration().as_secs_f64()))
        }),
    );
}

fn flag(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

fn of(peer: &PeerStatus) -> Labels {
    vec![("peer", peer.peer.to_string())]
}

fn with(peer: &PeerStatus, label: &'static str, value: &str) -> Labels {
    vec![("peer", peer.peer.to_string()), (label, value.to_owned())]
}

fn each(
    peers: &[PeerStatus],
    value: impl Fn(&PeerStatus) -> Option<f64>,
) -> impl Iterator<Item = (Labels, f64)> {
    peers.iter().filter_map(move |peer| Some((of(peer), value(peer)?)))
}
