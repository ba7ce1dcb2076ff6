//! The settings of one node: DNS, admin, metric exchange, probing.

use crate::files::beside;
use crate::group::Overrides;
use crate::model::{Admin, Dns, DnsTls, LdnsTable, Mep, Probe};
use crate::reader::{Item, Table};
use crate::schema::DNS_TLS;
use crate::units;
use gslb_types::{LdnsMasks, NodeId, ProbeKind, SiteName};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// The words of probe kinds.
pub(crate) const PROBE_KINDS: [(&str, ProbeKind); 3] = [
    (ProbeKind::Ping.as_str(), ProbeKind::Ping),
    (ProbeKind::DnsUdp.as_str(), ProbeKind::DnsUdp),
    (ProbeKind::DnsTcp.as_str(), ProbeKind::DnsTcp),
];

/// The group's name and its RTT tolerance.
pub(crate) fn group(t: &Table<'_>) -> (String, Duration) {
    // It stands in certificates beside the names of sites, so the same rule holds for it.
    let name = t.parsed("name", SiteName::new).map(String::from).unwrap_or_default();
    (name, t.duration("rtt_tolerance", MS..=100 * MS))
}

pub(crate) fn dns(t: &Table<'_>, own: &Overrides) -> Dns {
    let dns = Dns {
        listen: listen(t, "listen", own.dns_listen.as_deref()),
        udp_threads: t.number("udp_threads", 0..=1024),
        // RFC 9715 section 3.2: no UDP reply above 1400; RFC 6891 section 6.2.3: none below 512.
        udp_payload: t.number("udp_payload", 512..=1400),
        udp_receive_buffer: t.number("udp_receive_buffer", 4096..=1 << 30),
        tcp_connections: t.number("tcp_connections", 1..=1_000_000),
        tcp_connections_per_address: t.number("tcp_connections_per_address", 1..=1_000_000),
        tcp_idle_timeout: t.duration("tcp_idle_timeout", SECOND..=HOUR),
        version: t.parsed("version", character_string),
        identity: t.parsed("identity", character_string),
        tls: t.item("tls").and_then(|i| i.into_table(&DNS_TLS)).and_then(|t| dns_tls(&t, own)),
    };
    if dns.tcp_connections_per_address > dns.tcp_connections {
        let most = dns.tcp_connections;
        t.refuse("tcp_connections_per_address", format!("must not be more than tcp_connections ({most})"));
    }
    dns
}

fn dns_tls(t: &Table<'_>, own: &Overrides) -> Option<DnsTls> {
    let listen = listen(t, "listen", own.dns_tls_listen.as_deref());
    let certificate = t.item("certificate").and_then(|i| own.path(&i));
    let key = t.item("key").and_then(|i| own.path(&i));
    Some(DnsTls { listen, certificate: certificate?, key: key? })
}

pub(crate) fn admin(t: &Table<'_>, own: &Overrides) -> Admin {
    let listen = t.item("listen").and_then(|i| admin_address(&i)).flatten();
    Admin { listen: own.admin_listen.unwrap_or(listen) }
}

/// A loopback address, or `None` for "off" (threat T9: the API asks for no password).
pub(crate) fn admin_address(item: &Item<'_>) -> Option<Option<SocketAddr>> {
    if item.text()? == "off" {
        return Some(None);
    }
    let address = item.parsed(socket_address)?;
    if !address.ip().to_canonical().is_loopback() {
        item.refuse(format!(
            "{address} is no loopback address; the API asks for no password, so write 127.0.0.1:{0} or [::1]:{0}",
            address.port()
        ));
        return None;
    }
    Some(Some(address))
}

pub(crate) fn mep(t: &Table<'_>, own: &Overrides) -> Mep {
    let path = |key| t.item(key).and_then(|i| own.path(&i)).unwrap_or_default();
    let listen = t.parsed("listen", socket_address).unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let (ca, certificate, key) = (path("ca"), path("certificate"), path("key"));
    let mep = Mep {
        listen: own.mep_listen.unwrap_or(listen),
        ca,
        certificate: own.certificate.clone().unwrap_or(certificate),
        key: own.key.clone().unwrap_or(key),
        keepalive: t.duration("keepalive", SECOND..=HOUR),
        metrics_interval: t.duration("metrics_interval", 100 * MS..=MINUTE),
        rtt_interval: t.duration("rtt_interval", 10 * MS..=MINUTE),
        down_delay: t.duration("down_delay", Duration::ZERO..=DAY),
        max_age: t.duration("max_age", SECOND..=DAY),
    };
    // A value must live until the next message that confirms it.
    t.must_be_less("metrics_interval", "keepalive");
    t.must_be_less("rtt_interval", "max_age");
    mep
}

/// One socket carries all sessions: an IPv4 one can't dial nodes at IPv6 addresses.
pub(crate) fn mep_reaches(
    t: &Table<'_>,
    listen: SocketAddr,
    nodes: impl Iterator<Item = (NodeId, SocketAddr)>,
) {
    for (id, address) in nodes.filter(|(_, a)| listen.is_ipv4() && a.ip().to_canonical().is_ipv6()) {
        let port = listen.port();
        t.refuse("listen", format!("{listen} is IPv4, node '{id}' is at {address}: write '[::]:{port}'"));
    }
}

pub(crate) fn probe(t: &Table<'_>, own: &Overrides) -> Probe {
    let probe = Probe {
        order: order(t),
        interval: t.duration("interval", 100 * MS..=HOUR),
        timeout: t.duration("timeout", 10 * MS..=MINUTE),
        retry_order: t.duration("retry_order", SECOND..=DAY),
        failed_rounds: t.number("failed_rounds", 1..=100),
        port: t.number("port", 1..=u16::MAX),
        source_v4: own.probe_source_v4.or(t.parsed("source_v4", source_address)),
        source_v6: own.probe_source_v6.or(t.parsed("source_v6", source_address)),
        per_second: t.number("per_second", 1..=1_000_000),
        new_per_second: t.number("new_per_second", 1..=1_000_000),
        per_prefix: t.number("per_prefix", 1..=1_000_000),
    };
    t.must_be_less("timeout", "interval");
    prefix_has_enough(t, &probe);
    probe
}

/// Refuses an interval so long that an RTT is too old to count before the next round has confirmed it: one lost round
/// changes nothing (behaviour 3), so it has to outlive two.
pub(crate) fn rtts_outlive_a_lost_round(
    probe: &Table<'_>,
    mep: &Table<'_>,
    interval: Duration,
    max_age: Duration,
) {
    if interval.saturating_mul(2) < max_age {
        return;
    }
    let (interval, max_age) = (units::show(interval), units::show(max_age));
    let why = format!(
        "interval of [probe] ({interval}) must be less than half of max_age of [mep] ({max_age}): else RTTs are forgotten between two rounds"
    );
    match probe.gives("interval") {
        true => probe.refuse("interval", why),
        false => mep.refuse("max_age", why),
    }
}

/// Refuses a `per_prefix` that starves a single LDNS whose kinds all time out.
fn prefix_has_enough(t: &Table<'_>, probe: &Probe) {
    let rounds = probe.order.len() as u128 * SECOND.as_micros();
    let needed = rounds.div_ceil(probe.interval.as_micros().max(1));
    if u128::from(probe.per_prefix) < needed {
        let (kinds, interval) = (probe.order.len(), units::show(probe.interval));
        t.refuse(
            "per_prefix",
            format!("one LDNS alone needs {needed}: {kinds} kinds in each interval of {interval}"),
        );
    }
}

fn order(t: &Table<'_>) -> Vec<ProbeKind> {
    let order = t.distinct("order", |i| i.word(&PROBE_KINDS));
    if t.gives_empty_list("order") {
        t.refuse("order", "must hold one kind at least: 'ping', 'dns-udp' or 'dns-tcp'");
    }
    order
}

pub(crate) fn ldns(t: &Table<'_>) -> LdnsTable {
    LdnsTable {
        masks: LdnsMasks { v4: t.number("mask_v4", 8..=32), v6: t.number("mask_v6", 16..=128) },
        idle_timeout: t.duration("idle_timeout", SECOND..=DAY),
        cap: t.number("cap", 1..=100_000_000),
        private: t.flag("private"),
        exclude: t.distinct("exclude", |i| i.parsed(prefix)),
        include: t.distinct("include", |i| i.parsed(prefix)),
    }
}

/// The node's own addresses if it has some, else those of the table, which are checked all the same.
fn listen(t: &Table<'_>, key: &str, own: Option<&[SocketAddr]>) -> Vec<SocketAddr> {
    let common = addresses(t, key);
    own.map_or(common, <[SocketAddr]>::to_vec)
}

/// A list of addresses to listen at, all at once.
pub(crate) fn addresses(t: &Table<'_>, key: &str) -> Vec<SocketAddr> {
    let addresses = t.distinct(key, |i| i.parsed(listen_address));
    if t.gives_empty_list(key) {
        t.refuse(key, "must hold one address at least");
    }
    for (at, address) in addresses.iter().enumerate() {
        if let Some(other) = taken(*address, addresses.get(..at).unwrap_or_default()) {
            t.refuse(key, format!("{address} and {other} can't be listened at both: one holds the other"));
        }
    }
    addresses
}

/// Refuses addresses of this node's own listeners that would be "already in use" at its start, by itself.
pub(crate) fn listeners_agree(
    (dns_table, dns): (&Table<'_>, &Dns),
    (admin_table, admin): (&Table<'_>, &Admin),
    (mep_table, mep): (&Table<'_>, &Mep),
) {
    let tls = dns.tls.as_ref().map_or(&[][..], |tls| &tls.listen);
    let refuse = |t: &Table<'_>, key: &str, address, other| {
        t.refuse(key, format!("{address} is taken: DNS listens at {other} (dns.listen)"));
    };
    for (address, other) in tls.iter().filter_map(|a| Some((a, taken(*a, &dns.listen)?))) {
        refuse(dns_table, "tls", *address, other);
    }
    if let Some(address) = admin.listen
        && let Some(other) = taken(address, &dns.listen).or_else(|| taken(address, tls))
    {
        refuse(admin_table, "listen", address, other);
    }
    // MEP and DNS meet at UDP and TCP; gRPC meets the other TCP listeners.
    if let Some(other) = taken(mep.listen, &dns.listen).or_else(|| taken(mep.listen, tls)) {
        refuse(mep_table, "listen", mep.listen, other);
    }
    if let Some(other) = admin.listen.and_then(|admin| taken(mep.listen, &[admin])) {
        mep_table
            .refuse("listen", format!("{} is taken: the API listens at {other} (admin.listen)", mep.listen));
    }
}

/// Which of these sockets keeps an address from being bound; port 0 is another one each time.
pub(crate) fn taken(address: SocketAddr, by: &[SocketAddr]) -> Option<SocketAddr> {
    let (ip, port) = (address.ip(), address.port());
    let collides = |other: &&SocketAddr| {
        let same = other.ip() == ip || other.ip().is_unspecified() || ip.is_unspecified();
        same && port != 0 && other.port() == port && other.is_ipv4() == address.is_ipv4()
    };
    by.iter().find(collides).copied()
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let address = socket_address(text)?;
    match address.ip().to_canonical() {
        IpAddr::V4(v4) if address.is_ipv6() => {
            Err(format!("{address} is an IPv4 address, write '{v4}:{}'", address.port()))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(address),
    }
}

pub(crate) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(a)) => format!("'{text}' has no port, write '{a}:PORT'"),
        Ok(IpAddr::V6(a)) => format!("'{text}' has no port, write '[{a}]:PORT'"),
        Err(_) => format!("'{text}' is no address with port, as in '192.0.2.1:53' or '[2001:db8::1]:53'"),
    })
}

/// An address that probes can come from. Whether the machine has it, only the I/O side can tell (faults I-41).
pub(crate) fn source_address<A: FromStr + Into<IpAddr> + Copy>(text: &str) -> Result<A, String> {
    let family = if size_of::<A>() == size_of::<Ipv4Addr>() { "IPv4" } else { "IPv6" };
    let address: A = text.parse().map_err(|_| format!("'{text}' is no {family} address"))?;
    let ip: IpAddr = address.into();
    if ip.is_unspecified() || ip.is_multicast() {
        return Err(format!("probes can't come from {ip}"));
    }
    Ok(address)
}

/// The same of either family.
pub(crate) fn source_ip(text: &str) -> Result<IpAddr, String> {
    if text.contains(':') {
        source_address::<Ipv6Addr>(text).map(IpAddr::V6)
    } else {
        source_address::<Ipv4Addr>(text).map(IpAddr::V4)
    }
}

pub(crate) fn prefix(text: &str) -> Result<IpNet, String> {
    let net = match text.parse::<IpNet>() {
        Ok(net) => net,
        Err(_) => match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => return Err(format!("'{text}' is no prefix, as in '192.0.2.0/24' or '2001:db8::/32'")),
        },
    };
    if net != net.trunc() {
        return Err(format!("'{text}' has bits beyond its length, write '{}'", net.trunc()));
    }
    Ok(net)
}

/// A text that fits one character-string (RFC 1035 section 3.3).
fn character_string(text: &str) -> Result<String, String> {
    match text.len() {
        1..=255 => Ok(text.to_owned()),
        n => Err(format!("must have 1 to 255 bytes, has {n}")),
    }
}

/// The path an item names, with {site} and {node} filled in, relative to the file the item stands in.
pub(crate) fn path(item: &Item<'_>, node: Option<&NodeId>) -> Option<PathBuf> {
    let text = item.text()?;
    let (site, name) = node.map_or(("", ""), |id| (id.site.as_str(), id.node.as_str()));
    let filled = text.replace("{site}", site).replace("{node}", name);
    if filled.contains(['{', '}']) {
        item.refuse(format!("'{text}' has a placeholder other than {{site}} and {{node}}"));
        return None;
    }
    if filled.is_empty() {
        item.refuse("must not be empty");
        return None;
    }
    Some(beside(item.spot().path(), &filled))
}
