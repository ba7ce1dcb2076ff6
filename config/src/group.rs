//! What stands where: sites, nodes and services.

use crate::error::instead;
use crate::lb;
use crate::location;
use crate::model::{Monitor, Node, Service, Site, Watch};
use crate::monitor;
use crate::names::Names;
use crate::reader::{Item, Table};
use crate::settings;
use crate::source::{self, Source};
use gslb_types::{LbMethod, MAX_SITES, NodeId, ServiceName, SiteIndex, SiteName, Transport, TriggerMonitor};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Entries of one kind with their names.
pub(crate) struct Named<T> {
    pub(crate) all: Vec<T>,
    pub(crate) names: Names,
}

impl<T> Named<T> {
    pub(crate) fn new(kind: &'static str) -> Self {
        Named { all: Vec::new(), names: Names::new(kind) }
    }
}

const TRIGGER_MONITORS: [(&str, TriggerMonitor); 3] = [
    (TriggerMonitor::Always.as_str(), TriggerMonitor::Always),
    (TriggerMonitor::MepDown.as_str(), TriggerMonitor::MepDown),
    (TriggerMonitor::MepDownOrServiceDown.as_str(), TriggerMonitor::MepDownOrServiceDown),
];

const TRANSPORTS: [(&str, Transport); 3] = [
    (Transport::Auto.as_str(), Transport::Auto),
    (Transport::Quic.as_str(), Transport::Quic),
    (Transport::Grpc.as_str(), Transport::Grpc),
];

pub(crate) fn sites(tables: &[Table<'_>], top: &Table<'_>) -> Named<Site> {
    let mut sites = Named::new("site");
    for (i, t) in tables.iter().enumerate() {
        let trigger_monitor = t.word("trigger_monitor", &TRIGGER_MONITORS);
        let place = location::place(t);
        let Some(name) = t.parsed("name", SiteName::new) else { continue };
        sites.names.give(name.as_str(), i, t);
        if i == MAX_SITES {
            t.refuse("name", format!("a group has {MAX_SITES} sites at most"));
        }
        sites.all.push(Site { name, trigger_monitor, place });
    }
    if tables.is_empty() && (!top.gives("sites") || top.gives_empty_list("sites")) {
        top.refuse("sites", "missing, write a [[sites]] for each data centre");
    }
    sites
}

/// What a node's own entry sets in place of the group's tables.
#[derive(Clone, Default)]
pub(crate) struct Overrides {
    id: Option<NodeId>,
    pub(crate) dns_listen: Option<Vec<SocketAddr>>,
    pub(crate) dns_tls_listen: Option<Vec<SocketAddr>>,
    pub(crate) mep_listen: Option<SocketAddr>,
    pub(crate) admin_listen: Option<Option<SocketAddr>>,
    pub(crate) probe_source_v4: Option<Ipv4Addr>,
    pub(crate) probe_source_v6: Option<Ipv6Addr>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl Overrides {
    /// The path an item names, for this node.
    pub(crate) fn path(&self, item: &Item<'_>) -> Option<PathBuf> {
        settings::path(item, self.id.as_ref())
    }
}

pub(crate) fn nodes(tables: &[Table<'_>], top: &Table<'_>, sites: &Named<Site>) -> Named<(Node, Overrides)> {
    let mut nodes = Named::new("node");
    let mut dialled: BTreeMap<SocketAddr, String> = BTreeMap::new();
    for t in tables {
        let id = t.parsed("name", str::parse::<NodeId>);
        let mep = t.parsed("mep", peer_address);
        let transport = t.word("transport", &TRANSPORTS);
        let addresses = addresses(t, mep);
        let own = overrides(t, id.clone());
        let Some(id) = id else { continue };
        nodes.names.give(&id.to_string(), nodes.all.len(), t);
        let site = sites.names.index(id.site.as_str());
        if site.is_none() {
            let known = instead(id.site.as_str(), &sites.names.list());
            t.refuse("name", format!("there is no site '{}', {known}", id.site));
        }
        let (Some(mep), Some(site)) = (mep, site.and_then(SiteIndex::new)) else { continue };
        if let Some(other) = dialled.insert(mep, id.to_string()) {
            t.refuse("mep", format!("{mep} is the address of node '{other}' already"));
        }
        nodes.all.push((Node { id, site, mep, transport, addresses }, own));
    }
    if tables.is_empty() && (!top.gives("nodes") || top.gives_empty_list("nodes")) {
        top.refuse("nodes", "missing, write a [[nodes]] for each node of the group");
    }
    nodes
}

/// Where a node's connections may come from. The address it is dialled at is among them: else it could never answer.
fn addresses(t: &Table<'_>, mep: Option<SocketAddr>) -> Vec<IpNet> {
    let addresses = t.distinct("addresses", |i| i.parsed(settings::prefix));
    if t.gives_empty_list("addresses") {
        t.refuse(
            "addresses",
            "must hold one prefix at least: with none, all connections of the node were refused",
        );
    }
    if let Some(ip) = mep.map(|mep| mep.ip().to_canonical())
        && !addresses.is_empty()
        && !addresses.iter().any(|net| net.contains(&ip))
    {
        t.refuse("addresses", format!("{ip}, where peers dial the node, lies in none of them"));
    }
    addresses
}

fn peer_address(text: &str) -> Result<SocketAddr, String> {
    let address = settings::socket_address(text)?;
    if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
        return Err(format!("peers can't dial {address}"));
    }
    Ok(address)
}

fn overrides(t: &Table<'_>, id: Option<NodeId>) -> Overrides {
    let path = |key| t.item(key).and_then(|i| settings::path(&i, id.as_ref()));
    let addresses = |key| t.gives(key).then(|| settings::addresses(t, key));
    Overrides {
        dns_listen: addresses("dns_listen"),
        dns_tls_listen: addresses("dns_tls_listen"),
        mep_listen: t.parsed("mep_listen", settings::socket_address),
        admin_listen: t.item("admin_listen").and_then(|i| settings::admin_address(&i)),
        probe_source_v4: t.parsed("probe_source_v4", settings::source_address),
        probe_source_v6: t.parsed("probe_source_v6", settings::source_address),
        certificate: path("certificate"),
        key: path("key"),
        id,
    }
}

/// The node this process is: by the command line, else by the file, else the only one there is.
pub(crate) fn me(nodes: &Named<(Node, Overrides)>, top: &Table<'_>, given: Option<&str>) -> Option<usize> {
    let known = nodes.names.list();
    let Some(name) = given.map(str::to_owned).or_else(|| top.text("node")) else {
        if let [only] = known.as_slice() {
            return nodes.names.index(only);
        }
        if !known.is_empty() && !top.gives("node") {
            let names = known.join("', '");
            top.refuse("node", format!("missing, say which node this is (or use --node): one of '{names}'"));
        }
        return None;
    };
    let me = nodes.names.index(&name);
    if me.is_none() {
        let by = if given.is_some() { "--node: " } else { "" };
        top.refuse("node", format!("{by}there is no node '{name}', {}", instead(&name, &known)));
    }
    me
}

pub(crate) fn services(
    tables: &[Table<'_>],
    sites: &Named<Site>,
    monitors: &Named<Monitor>,
    sources: &Named<Source>,
    lb_vservers: &Names,
) -> Named<Service> {
    let mut services = Named::new("service");
    let mut taken: BTreeMap<SocketAddr, String> = BTreeMap::new();
    for (i, t) in tables.iter().enumerate() {
        let name = t.parsed("name", ServiceName::new);
        let site = t.item("site").and_then(|i| sites.names.find(&i));
        let address = t.parsed("address", service_address);
        let port = t.item("port").and_then(|i| i.number(1..=u16::MAX));
        let own = monitor::watched(t, "monitors", monitors);
        let remote = monitor::watched(t, "remote_monitors", monitors);
        let threshold = monitor::threshold(t, "monitor_threshold", &own);
        let remote_threshold = monitor::threshold(t, "remote_monitor_threshold", &remote);
        let lb_vserver = t.item("lb_vserver").and_then(|i| lb_vservers.find(&i));
        if let Some(address) = address {
            monitor::sources_reach(t, "monitors", &own, monitors, address);
            monitor::sources_reach(t, "remote_monitors", &remote, monitors, address);
        }
        let is_of_site = lb_vserver.is_none() && !t.gives("source");
        let default = site.filter(|_| is_of_site).and_then(|site| source::feed_of_site(site, sources));
        let feed = source::feed(t, sources).or(default);
        if let Some(feed) = feed.as_ref().filter(|feed| own.is_empty() && !feed.tells_health()) {
            let source = sources.all.get(feed.source).map_or("", |source| source.name.as_str());
            let why = format!("missing, source '{source}' does not say whether the service is up");
            t.refuse("monitors", why);
        }
        let labels = |watch: &Watch| monitors.all.get(watch.monitor).is_some_and(Monitor::tells_load);
        let tells_load =
            own.iter().any(labels) || feed.as_ref().is_some_and(|feed| feed.feeds(LbMethod::CustomLoad));
        let enabled = t.flag("enabled");
        let max_clients = t.item("max_clients").and_then(|i| i.number(1..=u64::from(u32::MAX)));
        let max_bandwidth = t.item("max_bandwidth").and_then(|i| lb::rate(&i));
        let Some(name) = name else { continue };
        // Its own number even if one before it is left out: two must never look like one.
        services.names.give(name.as_str(), i, t);
        let (Some(site), Some(address), Some(port)) = (site.and_then(SiteIndex::new), address, port) else {
            continue;
        };
        let place = SocketAddr::new(address, port);
        if let Some(other) = taken.insert(place, name.to_string()) {
            t.refuse("address", format!("{place} is the address of service '{other}' already"));
        }
        services.all.push(Service {
            name,
            site,
            address,
            port,
            monitors: own,
            threshold,
            remote_monitors: remote,
            remote_threshold,
            lb_vserver,
            tells_load,
            feed,
            max_clients,
            max_bandwidth,
            enabled,
        });
    }
    services
}

/// An address that can be answered: one of a single host.
pub(crate) fn service_address(text: &str) -> Result<IpAddr, String> {
    let address = text.parse::<IpAddr>().map_err(|_| format!("'{text}' is no IPv4 or IPv6 address"))?;
    let address = address.to_canonical();
    if address.is_unspecified() || address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(format!("{address} is not the address of a host"));
    }
    Ok(address)
}
