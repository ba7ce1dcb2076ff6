//! Hashes of what must be the same on every node of a group (faults I-50).
//!
//! Each is taken over a canonical text of the settings that says what they mean, not how they are written: names in
//! place of indices, sorted where the order means nothing. The text and the key of the hash are part of the protocol
//! between nodes of different versions: a change to either makes every pair of old and new nodes warn. So a setting that
//! older versions do not have stands in the text only where it is not at its default.

use crate::location::{Location, Place};
use crate::model::{Config, Node, Service, Site};
use crate::monitor;
use crate::policy::{Domain, Failback, Vserver};
use gslb_types::{Transport, TriggerMonitor};
use siphasher::sip::SipHasher24;
use std::fmt::Display;
use std::hash::Hasher;

/// The configuration with its must-match hashes.
pub(crate) fn completed(mut config: Config) -> Config {
    let c = &config;
    let texts = [
        ("rtt_tolerance", c.group.rtt_tolerance.as_micros().to_string()),
        ("sites", sites(c)),
        ("services", sorted(c.services.iter().map(|s| service(c, s)))),
        ("monitors", sorted(c.monitors.iter().map(monitor::canonical))),
        ("vservers", sorted(c.vservers.iter().map(|v| vserver(c, v)))),
        ("domains", sorted(c.domains.iter().map(|d| domain(c, d)))),
        ("intervals", intervals(c)),
        ("ldns", ldns(c)),
    ];
    let locations =
        (!c.locations.is_empty()).then(|| ("locations", sorted(c.locations.iter().map(location))));
    let must_match: Vec<(String, u64)> =
        texts.iter().chain(&locations).map(|(name, text)| ((*name).to_owned(), hashed(text))).collect();
    let all: String = must_match.iter().map(|(name, hash)| format!("{name}={hash:016x}\n")).collect();
    config.group.hash = hashed(&all);
    config.group.must_match = must_match;
    config
}

/// Fixed keys: the same on every node. There is nothing secret about it.
pub(crate) fn hashed(text: &str) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(0x6773_6c62_2d64_6e73, 0x6d75_7374_6d61_7463);
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// The sites in order, since ties and turns go by it, and the nodes of each. Not the nodes' addresses: behind address
/// translation peers may have to dial different ones.
fn sites(c: &Config) -> String {
    let site = |s: &Site| {
        let judged = match s.trigger_monitor {
            TriggerMonitor::Always => s.name.to_string(),
            other => format!("{}:{other}", s.name),
        };
        if s.place.is_empty() { judged } else { format!("{judged} at {}", place(&s.place)) }
    };
    let node = |n: &Node| match n.transport {
        Transport::Auto => n.id.to_string(),
        other => format!("{} {other}", n.id),
    };
    format!("{}\n{}", listed(c.sites.iter().map(site)), sorted(c.nodes.iter().map(node)))
}

fn location(l: &Location) -> String {
    format!("{} {}", sorted(l.prefixes.iter().map(ToString::to_string)), place(&l.place))
}

fn place(p: &Place) -> String {
    let qualifiers = p.qualifiers.iter().map(|q| q.as_deref().unwrap_or("*").to_ascii_lowercase());
    let point = p.coordinates.map_or(String::new(), |c| format!("{},{}", c.latitude(), c.longitude()));
    format!("{:?} {point} [{}]", qualifiers.collect::<Vec<_>>(), listed(&p.asns))
}

fn service(c: &Config, s: &Service) -> String {
    let site = c.sites.get(s.site.get()).map_or("", |s| s.name.as_str());
    let own = monitor::canonical_watch(c, &s.monitors, s.threshold);
    let remote = monitor::canonical_watch(c, &s.remote_monitors, s.remote_threshold);
    let remote = if remote.is_empty() { remote } else { format!(" [{remote}]") };
    let behind = s.lb_vserver.and_then(|at| c.lb_vservers.get(at));
    let behind = behind.map_or(String::new(), |lb| format!(" lb {}", lb.name));
    let fed = s.feed.as_ref().and_then(|feed| c.sources.get(feed.source));
    let fed = fed.map_or(String::new(), |source| format!(" source {}", source.name));
    let limit = |word, limit: Option<u64>| limit.map_or(String::new(), |limit| format!(" {word} {limit}"));
    let limits = limit("clients", s.max_clients) + &limit("bandwidth", s.max_bandwidth);
    format!("{} {site} {} {} {} [{own}]{remote}{behind}{fed}{limits}", s.name, s.address, s.port, s.enabled)
}

fn vserver(c: &Config, v: &Vserver) -> String {
    let bound = v.bindings.iter().filter_map(|b| Some((c.services.get(b.service)?, b)));
    let bindings = listed(bound.map(|(service, b)| {
        let order = if b.order == 1 { String::new() } else { format!("@{}", b.order) };
        format!("{}*{}{order}", service.name, b.weight.get())
    }));
    let addresses = if v.addresses == 1 { String::new() } else { format!(" addresses {}", v.addresses) };
    let threshold =
        if v.order_threshold == 1 { String::new() } else { format!(" least {}", v.order_threshold) };
    let persistence = v.persistence.map_or(String::new(), |p| {
        format!(" persistence {} {} {} {}", p.id, p.mask_v4, p.mask_v6, p.timeout.as_micros())
    });
    let spillover = v.spillover.map_or(String::new(), |s| {
        format!(" spillover {:?} {:?} {:?} {}", s.connections, s.bandwidth, s.health, s.back_at)
    });
    let failback = match v.failback {
        Failback::AtOnce => String::new(),
        Failback::After(delay) => format!(" failback {}", delay.as_micros()),
        Failback::Manual => " failback manual".to_owned(),
    };
    let backup = v.backup.and_then(|backup| c.vservers.get(backup));
    let backup = backup.map_or(String::new(), |backup| format!(" backup {}", backup.name));
    format!(
        "{} {} {} {} {} {:?} [{}] {} [{bindings}]{addresses}{threshold}{backup}{persistence}{spillover}{failback}",
        v.name,
        v.method.as_str(),
        v.backup_method.as_str(),
        v.selection_tolerance.as_micros(),
        v.local_method.as_str(),
        v.all_down,
        listed(&v.backup_ip),
        v.drop_ldns_requests,
    )
}

fn domain(c: &Config, d: &Domain) -> String {
    let vserver = c.vservers.get(d.vserver).map_or("", |v| v.name.as_str());
    format!("{} {vserver} {}{}", d.name.to_lowercase(), d.ttl, if d.ecs { " ecs" } else { "" })
}

/// What decides how old a value may be and how soon a change is seen.
fn intervals(c: &Config) -> String {
    let (m, p) = (&c.mep, &c.probe);
    let durations =
        [m.keepalive, m.metrics_interval, m.rtt_interval, m.down_delay, m.max_age, p.interval, p.timeout];
    format!("{} {}", listed(durations.iter().map(|d| d.as_micros())), p.failed_rounds)
}

/// What makes an LDNS the same LDNS everywhere, and for how long.
fn ldns(c: &Config) -> String {
    format!("{} {} {}", c.ldns.masks.v4, c.ldns.masks.v6, c.ldns.idle_timeout.as_micros())
}

pub(crate) fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(" ")
}

pub(crate) fn sorted(lines: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<String> = lines.collect();
    lines.sort_unstable();
    lines.join("\n")
}
