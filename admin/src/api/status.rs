//! `/v1/status`: this node at a glance.

use super::{Site, States, View, WARNING_S, hex, matrix, ready, sites};
use gslb_core::{PeerState, PeerStatus, Published};
use gslb_types::{ProbeKind, ServiceState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// This node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// SITE/NODE.
    pub node: String,
    /// Its site.
    pub site: String,
    /// Its group.
    pub group: String,
    /// Software version.
    pub version: String,
    /// How long it has been running.
    pub uptime_ms: u64,
    /// Whether the node task publishes.
    pub ready: bool,
    /// How often it has published.
    pub generation: u64,
    /// How long ago it last did.
    pub published_age_ms: u64,
    /// Hash over its must-match settings.
    pub config_hash: String,
    /// What an operator should look at, in words; nothing if all is well.
    pub problems: Vec<String>,
    /// Where it listens.
    pub listen: Listen,
    /// Whether it may send pings; `null` until the first.
    pub icmp_permitted: Option<bool>,
    /// What IPv4 pings are sent by.
    pub icmp_v4: Option<String>,
    /// What IPv6 pings are sent by.
    pub icmp_v6: Option<String>,
    /// Its certificate.
    pub certificate: Certificate,
    /// How many peers are in which state.
    pub peers: PeerStates,
    /// How many services are in which state.
    pub services: States,
    /// LDNS in the RTT table.
    pub ldns: usize,
    /// What was counted since the start, by who counted it.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Where a node listens.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Listen {
    /// DNS over UDP and TCP.
    pub dns: Vec<SocketAddr>,
    /// DNS over TLS.
    pub dns_tls: Vec<SocketAddr>,
    /// Metric exchange.
    pub mep: Option<SocketAddr>,
    /// This API.
    pub admin: Option<SocketAddr>,
}

/// When a certificate expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Certificate {
    /// Seconds since the Unix epoch.
    pub expires: Option<i64>,
    /// Seconds until then; negative afterwards.
    pub expires_in_s: Option<i64>,
}

/// How many peers are in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PeerStates {
    /// With a session.
    pub up: usize,
    /// With one that they have been silent on for longer than they should.
    pub suspect: usize,
    /// Without one, after one.
    pub down: usize,
    /// Without one so far.
    pub connecting: usize,
}

pub(crate) fn status(view: &View<'_>) -> Status {
    let (config, published) = (view.config(), &view.published);
    let ready = ready(view);
    Status {
        node: config.this_node().id.to_string(),
        site: view.site(config.this_site()),
        group: config.group.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: view.age_ms(view.info.started),
        ready: ready.ready,
        generation: published.generation,
        published_age_ms: ready.published_age_ms,
        config_hash: hex(config.group.hash),
        problems: problems(view),
        listen: Listen {
            dns: view.info.dns.clone(),
            dns_tls: view.info.dns_tls.clone(),
            mep: view.info.mep,
            admin: view.admin,
        },
        icmp_permitted: published.probing.icmp_permitted,
        icmp_v4: view.info.icmp_v4.clone(),
        icmp_v6: view.info.icmp_v6.clone(),
        certificate: Certificate {
            expires: view.identity.expires,
            expires_in_s: view.identity.expires.map(|at| at.saturating_sub(view.unix_time)),
        },
        peers: peer_states(&published.peers),
        services: States::of(view, 0..published.services.len()),
        ldns: view.shared.rtts.len(),
        counters: counters(view),
    }
}

fn peer_states(peers: &[PeerStatus]) -> PeerStates {
    let count = |state| peers.iter().filter(|p| p.state == state).count();
    PeerStates {
        up: count(PeerState::Up),
        suspect: count(PeerState::Suspect),
        down: count(PeerState::Down),
        connecting: count(PeerState::Connecting),
    }
}

/// What keeps a node from being well: a stuck task, peers without a session or with other settings, links of others that
/// fail, services down, certificates about to expire. Not what works by another way, as probing without ICMP.
fn problems(view: &View<'_>) -> Vec<String> {
    let node = ready(view).reason.into_iter();
    let own = certificate_problem("this node", view.identity.expires, view.unix_time);
    let files = view
        .identity
        .error
        .iter()
        .map(|(reason, _)| format!("the certificate's files can't be used: {reason}"));
    let peers = view.published.peers.iter().flat_map(|peer| peer_problems(view, peer));
    let this = view.config().this_node().id.to_string();
    let others = matrix(view).degraded.into_iter().filter(move |link| link.from != this && link.to != this);
    let links = others.map(|link| format!("a link of others fails: {}", link.text));
    let silent = sites(view).sites.into_iter().filter_map(|site| site_problem(&site));
    let services = view.config().services.iter().zip(&view.published.services);
    let down = services.filter(|(_, seen)| seen.state == ServiceState::Down);
    let services = down.map(|(service, seen)| format!("service {} is down: {}", service.name, seen.reason));
    node.chain(own).chain(files).chain(peers).chain(links).chain(silent).chain(services).collect()
}

fn site_problem(site: &Site) -> Option<String> {
    let name = format!("site {}", site.site);
    match (site.silent_ms, site.held_ms) {
        (Some(silent), _) => Some(format!("{name} is silent: nobody has heard it for {} s", silent / 1000)),
        (None, Some(held)) if held > 0 => {
            Some(format!("{name} is heard again, and held as if it were not for {} s", held.div_ceil(1000)))
        }
        _ => None,
    }
}

fn peer_problems(view: &View<'_>, peer: &PeerStatus) -> Vec<String> {
    let name = format!("peer {}", peer.peer);
    let state = match peer.state {
        PeerState::Up => None,
        PeerState::Suspect => Some(format!("{name} is suspect: {}", peer.reason)),
        PeerState::Down => Some(match &peer.relay {
            Some(relay) => format!("{name} is down: {}; {relay} relays its site", peer.reason),
            None => format!("{name} is down: {}", peer.reason),
        }),
        PeerState::Connecting => Some(format!("{name} has not been reached yet: {}", peer.reason)),
    };
    let mismatch = (!peer.mismatches.is_empty())
        .then(|| format!("{name} has other settings than this node: {}", peer.mismatches.join(", ")));
    let implausible = peer
        .implausible
        .then(|| format!("{name} tells RTTs that nobody can have: {} so far", peer.implausible_rows));
    let certificate = certificate_problem(&name, peer.certificate_expires, view.unix_time);
    [state, mismatch, implausible, certificate].into_iter().flatten().collect()
}

fn certificate_problem(whose: &str, expires: Option<i64>, unix_time: i64) -> Option<String> {
    match expires?.saturating_sub(unix_time) {
        left if left <= 0 => Some(format!("the certificate of {whose} has expired")),
        left if left < WARNING_S => {
            Some(format!("the certificate of {whose} expires in {}", days_or_hours(left)))
        }
        _ => None,
    }
}

fn days_or_hours(seconds: i64) -> String {
    const HOUR: i64 = 3600;
    if seconds < 3 * 24 * HOUR {
        format!("{} hours", seconds / HOUR)
    } else {
        format!("{} days", seconds / (24 * HOUR))
    }
}

fn counters(view: &View<'_>) -> BTreeMap<String, BTreeMap<String, u64>> {
    let Published { probing, monitoring, node, strangers, .. } = &*view.published;
    let kinds = ProbeKind::DEFAULT_ORDER.iter().enumerate();
    let by_kind = |what: &str, counts: [u64; 3]| {
        let count = |(index, kind): (usize, &ProbeKind)| {
            (format!("{what}_{}", kind.as_str().replace('-', "_")), counts.get(index).copied().unwrap_or(0))
        };
        kinds.clone().map(count).collect::<Vec<_>>()
    };
    let mut all = BTreeMap::from([
        ("dns", view.shared.dns.read().each().map(|(name, n)| (name.to_owned(), n)).collect()),
        (
            "probing",
            named([
                ("proven", probing.proven as u64),
                ("timeouts", probing.timeouts),
                ("overdue", probing.overdue),
                ("late", probing.late),
                ("router_errors", probing.router_errors),
                ("send_failed", probing.send_failed),
                ("over_budget", probing.over_budget),
                ("evicted", probing.evicted),
                ("turned_away", probing.turned_away),
            ]),
        ),
        (
            "monitoring",
            named([
                ("checks", monitoring.checks),
                ("passed", monitoring.passed),
                ("failed", monitoring.failed),
                ("not_permitted", monitoring.not_permitted),
                ("overdue", monitoring.overdue),
                ("late", monitoring.late),
            ]),
        ),
        (
            "node",
            named([
                ("samples_within_tolerance", node.samples_within_tolerance),
                ("advertised", node.advertised),
                ("withdrawn", node.withdrawn),
                ("metrics_ignored", node.metrics_ignored),
                ("services_judged", node.services_judged),
                ("bindings_judged", node.bindings_judged),
                ("shared_out", node.shared_out),
            ]),
        ),
        ("strangers", named([("unknown_nodes", strangers.unknown_nodes), ("refused", strangers.refused)])),
    ]);
    if let Some(probing_counts) = all.get_mut("probing") {
        probing_counts.extend(by_kind("sent", probing.sent));
        probing_counts.extend(by_kind("samples", probing.samples));
    }
    all.into_iter().map(|(who, counts)| (who.to_owned(), counts)).collect()
}

fn named<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}
