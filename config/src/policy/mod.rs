//! What is answered: GSLB virtual servers and the domains they stand behind.

mod chain;
mod model;
mod persistence;
mod returning;

use crate::dname;
use crate::error::instead;
use crate::group::{Named, service_address};
use crate::lb::{self, LbVserver, Services};
use crate::model::Service;
use crate::reader::{Item, Table};
use crate::schema::BINDING;
use crate::zone::LoadedZone;
use gslb_types::{AllDown, GslbMethod, LbMethod, VserverName, Weight};
use hickory_proto::rr::Name;
pub use model::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

const METHODS: [(&str, GslbMethod); 9] = [
    (GslbMethod::Rtt.as_str(), GslbMethod::Rtt),
    (GslbMethod::RoundRobin.as_str(), GslbMethod::RoundRobin),
    (GslbMethod::SourceIpHash.as_str(), GslbMethod::SourceIpHash),
    (GslbMethod::StaticProximity.as_str(), GslbMethod::StaticProximity),
    (GslbMethod::LeastConnections.as_str(), GslbMethod::LeastConnections),
    (GslbMethod::LeastResponseTime.as_str(), GslbMethod::LeastResponseTime),
    (GslbMethod::LeastBandwidth.as_str(), GslbMethod::LeastBandwidth),
    (GslbMethod::LeastPackets.as_str(), GslbMethod::LeastPackets),
    (GslbMethod::CustomLoad.as_str(), GslbMethod::CustomLoad),
];

/// The words of methods that choose within a site.
pub(crate) const LOCAL_METHODS: [(&str, LbMethod); 10] = [
    (LbMethod::LeastResponseTimeMonitors.as_str(), LbMethod::LeastResponseTimeMonitors),
    ("lrtm", LbMethod::LeastResponseTimeMonitors),
    (LbMethod::LeastResponseTime.as_str(), LbMethod::LeastResponseTime),
    ("lrt", LbMethod::LeastResponseTime),
    (LbMethod::LeastBandwidth.as_str(), LbMethod::LeastBandwidth),
    (LbMethod::LeastPackets.as_str(), LbMethod::LeastPackets),
    (LbMethod::LeastConnections.as_str(), LbMethod::LeastConnections),
    (LbMethod::CustomLoad.as_str(), LbMethod::CustomLoad),
    (LbMethod::RoundRobin.as_str(), LbMethod::RoundRobin),
    (LbMethod::SourceIpHash.as_str(), LbMethod::SourceIpHash),
];

const ANSWERS: [(&str, Answer); 1] = [("service", Answer::Service)];

const ALL_DOWN: [(&str, AllDown); 4] = [
    ("all", AllDown::All),
    ("empty", AllDown::Empty),
    ("backup_ip", AllDown::BackupIp),
    ("last_good", AllDown::LastGood),
];

pub(crate) fn vservers(
    tables: &[Table<'_>],
    services: &Services<'_>,
    lb_vservers: &[Option<LbVserver>],
) -> Named<Vserver> {
    let mut vservers = Named::new("virtual server");
    for t in tables {
        let name = t.parsed("name", VserverName::new);
        let (method, backup_method) = (t.word("method", &METHODS), t.word("backup_method", &METHODS));
        if t.gives("backup_method") && !backup_method.always_can() {
            let word = backup_method.as_str();
            t.refuse("backup_method", format!("can't be '{word}': it answers while nothing is measured"));
        }
        let all_down = t.word("all_down", &ALL_DOWN);
        let selection_tolerance =
            t.duration("selection_tolerance", Duration::ZERO..=Duration::from_millis(100));
        let answer = t.word("answer", &ANSWERS);
        let local_method = t.word("local_method", &LOCAL_METHODS);
        let drop_ldns_requests = t.flag("drop_ldns_requests");
        let (backup_ip, bindings) = (backup_ip(t, all_down), bindings(t, services.named));
        let Some(name) = name else { continue };
        vservers.names.give(name.as_str(), vservers.all.len(), t);
        let is_fed = |method| lb::is_fed(method, &bindings, services, lb_vservers);
        if !is_fed(local_method) {
            t.refuse("local_method", not_fed(local_method, LOCAL_WITHOUT));
        }
        let metric = metric(method, is_fed);
        if let Some(metric) = metric.filter(|metric| !is_fed(*metric)) {
            t.refuse("method", not_fed(metric, SITES_WITHOUT));
        }
        vservers.all.push(Vserver {
            name,
            method,
            backup_method,
            metric,
            selection_tolerance,
            answer,
            local_method,
            all_down,
            backup_ip,
            drop_ldns_requests,
            has_orders: bindings.windows(2).any(|two| two[0].order != two[1].order),
            order_threshold: t.number("order_threshold", 1..=u32::from(u16::MAX)),
            backup: None,
            addresses: t.number("addresses", 1..=MAX_ADDRESSES),
            persistence: persistence::read(t),
            spillover: returning::spillover(t, is_fed),
            failback: returning::failback(t),
            has_limits: bindings.iter().filter_map(|b| services.get(b.service)).any(Service::has_limits),
            wants_rtt: method == GslbMethod::Rtt,
            bindings,
        });
    }
    chain::join(tables, &mut vservers);
    persistence::agree(tables, &vservers);
    limits_are_told(services, lb_vservers);
    vservers
}

/// What a method compares. Response times are those of real responses where all are seen, and else those of monitors.
fn metric(method: GslbMethod, is_fed: impl Fn(LbMethod) -> bool) -> Option<LbMethod> {
    match method {
        GslbMethod::LeastConnections => Some(LbMethod::LeastConnections),
        GslbMethod::LeastResponseTime if is_fed(LbMethod::LeastResponseTime) => {
            Some(LbMethod::LeastResponseTime)
        }
        GslbMethod::LeastResponseTime => Some(LbMethod::LeastResponseTimeMonitors),
        GslbMethod::LeastBandwidth => Some(LbMethod::LeastBandwidth),
        GslbMethod::LeastPackets => Some(LbMethod::LeastPackets),
        GslbMethod::CustomLoad => Some(LbMethod::CustomLoad),
        GslbMethod::Rtt | GslbMethod::RoundRobin | GslbMethod::SourceIpHash | GslbMethod::StaticProximity => {
            None
        }
    }
}

/// The methods that need no traffic to be seen, in the words of messages.
const LOCAL_WITHOUT: &str = "'lrtm', 'round_robin' and 'source_ip_hash'";
const SITES_WITHOUT: &str = "'rtt', 'least_response_time', 'round_robin' and 'source_ip_hash'";

fn not_fed(method: LbMethod, without: &str) -> String {
    if method == LbMethod::CustomLoad {
        return lb::NEEDS_LOAD.to_owned();
    }
    let what = match method {
        LbMethod::LeastResponseTime => {
            "responses that pass through the nodes: of services that stand for an `lb_vserver` of kind http or ssl, or have a `source` that tells it"
        }
        _ => {
            "traffic that passes through the nodes: of services that stand for an `lb_vserver`, or have a `source` that tells it"
        }
    };
    format!("'{}' needs {what}; {without} need none", method.as_str())
}

/// What limits of traffic need.
const NEEDS_TRAFFIC: &str = "needs services that stand for an `lb_vserver`, or have a `source` that tells it: elsewhere nobody sees their traffic";

/// Refuses limits of services whose traffic nobody sees.
fn limits_are_told(services: &Services<'_>, lb_vservers: &[Option<LbVserver>]) {
    let limits = [("max_clients", LbMethod::LeastConnections), ("max_bandwidth", LbMethod::LeastBandwidth)];
    for (number, t) in services.tables.iter().enumerate() {
        let is_told = |metric| {
            let alone = [Binding::new(number, Weight::ONE)];
            lb::is_fed(metric, &alone, services, lb_vservers)
        };
        for (limit, _) in limits.iter().filter(|(limit, metric)| t.gives(limit) && !is_told(*metric)) {
            t.refuse(limit, NEEDS_TRAFFIC);
        }
    }
}

/// The backup addresses: there if, and only if, something uses them.
fn backup_ip(t: &Table<'_>, all_down: AllDown) -> Vec<IpAddr> {
    match (all_down == AllDown::BackupIp, t.gives("backup_ip")) {
        (true, false) => t.refuse("backup_ip", "missing, all_down = \"backup_ip\" answers with it"),
        (false, true) => t.refuse("backup_ip", "is used only with all_down = \"backup_ip\""),
        (true, true) if t.gives_empty_list("backup_ip") => {
            t.refuse("backup_ip", "must hold one address at least")
        }
        (true, true) | (false, false) => {}
    }
    t.distinct("backup_ip", |i| i.parsed(service_address))
}

fn bindings(t: &Table<'_>, services: &Named<Service>) -> Vec<Binding> {
    let Some(items) = t.item("services").and_then(Item::into_list) else { return Vec::new() };
    if t.gives_empty_list("services") {
        t.refuse("services", "must name one service at least");
    }
    let mut bindings: Vec<Binding> = Vec::new();
    for item in items {
        let (path, spot) = (item.path().to_owned(), item.spot().clone());
        let Some(binding) = binding(item, services) else { continue };
        if bindings.iter().any(|b| b.service == binding.service) {
            t.refuse_at(&spot, &path, "is bound twice; raise its weight instead");
        }
        bindings.push(binding);
    }
    bindings
}

/// `"web"` or `{ service = "web", weight = 3, order = 2 }`.
fn binding(item: Item<'_>, services: &Named<Service>) -> Option<Binding> {
    if !item.is_table() {
        if !item.is_text() {
            item.refuse("expected a service's name, or { service = \"NAME\", weight = 1 }");
            return None;
        }
        return Some(Binding::new(services.names.find(&item)?, Weight::ONE));
    }
    let t = item.into_table(&BINDING)?;
    let service = t.item("service").and_then(|i| services.names.find(&i));
    let weight = Weight::new(t.number("weight", 1..=100));
    let order = t.number("order", 1..=u16::MAX);
    Some(Binding { order, ..Binding::new(service?, weight.ok()?) })
}

pub(crate) fn domains(tables: &[Table<'_>], vservers: &Named<Vserver>, zones: &[LoadedZone]) -> Vec<Domain> {
    let mut domains = Vec::new();
    let mut given: BTreeMap<Name, String> = BTreeMap::new();
    for t in tables {
        let name = t.parsed("name", dname::parse);
        let vserver = t.item("vserver").and_then(|i| vservers.names.find(&i));
        let ttl = t.ttl("ttl");
        let ecs = t.flag("ecs");
        let Some(name) = name.map(|n| n.to_lowercase()) else { continue };
        if let Some(place) = given.insert(name.clone(), t.spot().file_and_line()) {
            t.refuse("name", format!("there is a domain '{name}' already, at {place}"));
        }
        let zone = zone_of(&name, zones);
        match zone.and_then(|z| zones.get(z)) {
            None => t.refuse("name", outside(&name, zones)),
            Some(zone) => zone.admits(&name).unwrap_or_else(|why| t.refuse("name", why)),
        }
        if let (Some(zone), Some(vserver)) = (zone, vserver) {
            domains.push(Domain { name, zone, vserver, ttl, ecs });
        }
    }
    domains
}

/// The deepest zone that holds the name.
fn zone_of(name: &Name, zones: &[LoadedZone]) -> Option<usize> {
    let holding = zones.iter().enumerate().filter(|(_, z)| z.zone.origin.zone_of(name));
    holding.max_by_key(|(_, z)| z.zone.origin.iter().len()).map(|(i, _)| i)
}

fn outside(name: &Name, zones: &[LoadedZone]) -> String {
    let origins: Vec<String> = zones.iter().map(|z| z.zone.origin.to_string()).collect();
    let known: Vec<&str> = origins.iter().map(String::as_str).collect();
    format!("'{name}' lies in no zone, {}", instead("", &known))
}
