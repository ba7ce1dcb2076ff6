//! From the configuration to the settings of the machines below.

use config::Config;
use gslb_types::{NodeId, Weight};
use probes_core::monitors::{MonitorSettings, ServiceSettings};
use probes_core::prober;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Settings of the LDNS prober. `local` are the addresses of this machine, which only the I/O side can list.
pub(crate) fn prober(config: &Config, local: &[IpAddr]) -> prober::Settings {
    let (probe, ldns) = (&config.probe, &config.ldns);
    prober::Settings {
        order: probe.order.clone(),
        interval: probe.interval,
        timeout: probe.timeout,
        retry_order: probe.retry_order,
        failed_rounds: probe.failed_rounds,
        per_second: probe.per_second,
        new_per_second: probe.new_per_second,
        per_prefix: probe.per_prefix,
        cap: ldns.cap,
        idle_timeout: ldns.idle_timeout,
        masks: ldns.masks,
        private: ldns.private,
        exclude: ldns.exclude.clone(),
        include: ldns.include.clone(),
        own: own_addresses(config, local),
    }
}

/// What is never probed because it is ours: this machine, the group's nodes, and the services they answer with (threat T4).
fn own_addresses(config: &Config, local: &[IpAddr]) -> Vec<IpAddr> {
    let nodes = config.nodes.iter().map(|n| n.mep.ip());
    let listeners = config.dns.listen.iter().map(SocketAddr::ip).filter(|a| !a.is_unspecified());
    let services = config.services.iter().map(|s| s.address);
    let all: BTreeSet<IpAddr> = nodes.chain(listeners).chain(services).chain(local.iter().copied()).collect();
    all.into_iter().collect()
}

/// How often uses of persistence sessions are told (behaviour 4).
const SESSIONS_INTERVAL: Duration = Duration::from_secs(5);

/// Persistence sessions kept at most; some 100 bytes each.
pub(crate) const SESSIONS_CAP: usize = 100_000;

/// How long persistence sessions are kept: as long as any virtual server may want them. Each looks at its own timeout.
pub(crate) fn sessions_timeout(config: &Config) -> Duration {
    let timeouts = config.vservers.iter().filter_map(|vserver| Some(vserver.persistence?.timeout));
    timeouts.max().unwrap_or(crate::persistence::IDLE_TIMEOUT)
}

/// How long a session over gRPC stands before QUIC is tried again: one dial a minute loads nobody.
const QUIC_RETRY: Duration = Duration::from_secs(60);

/// Settings of the metric exchange.
pub(crate) fn mep(config: &Config) -> mep_core::Settings {
    let me: &NodeId = &config.this_node().id;
    let peers = config.nodes.iter().filter(|n| n.id != *me);
    mep_core::Settings {
        peers: peers
            .map(|n| mep_core::PeerSettings {
                id: n.id.clone(),
                address: n.mep,
                transport: config.transport(n),
            })
            .collect(),
        group: config.group.name.clone(),
        software: env!("CARGO_PKG_VERSION").to_owned(),
        keepalive: config.mep.keepalive,
        metrics_interval: config.mep.metrics_interval,
        rtt_interval: config.mep.rtt_interval,
        must_match: config.group.must_match.clone(),
        config_hash: config.group.hash,
        outbox_cap: config.ldns.cap,
        sessions_interval: SESSIONS_INTERVAL,
        sessions_cap: SESSIONS_CAP,
        quic_retry: QUIC_RETRY,
        masks: config.ldns.masks,
    }
}

/// The monitors that this node runs against a service, and the weight of them that makes it up: those of its site, or those
/// of the others.
pub(crate) fn bound<'a>(
    config: &'a Config,
    service: &'a config::Service,
) -> (impl Iterator<Item = (&'a config::Monitor, Weight)>, Option<u32>) {
    let (watched, threshold) = match service.site == config.this_site() {
        true => (&service.monitors, service.threshold),
        false => (&service.remote_monitors, service.remote_threshold),
    };
    (watched.iter().filter_map(|w| Some((config.monitors.get(w.monitor)?, w.weight))), threshold)
}

/// The services that this node watches, and the monitors bound to them: all of its site, and those of others that have
/// monitors for it.
pub(crate) fn monitored(config: &Config) -> Vec<ServiceSettings> {
    let watched = |s: &config::Service| match s.site == config.this_site() {
        // Of what stands for an LB virtual server the data plane speaks.
        true => s.lb_vserver.is_none(),
        false => !s.remote_monitors.is_empty(),
    };
    let all = config.services.iter().enumerate().filter(|(_, s)| s.enabled && watched(s));
    all.map(|(index, service)| {
        let (bound, threshold) = bound(config, service);
        let monitors = bound.map(|(monitor, weight)| MonitorSettings {
            check: monitor.check.clone(),
            target: SocketAddr::new(service.address, monitor.port.unwrap_or(service.port)),
            source: monitor.source,
            interval: monitor.interval,
            down_time: monitor.down_time,
            timeout: monitor.timeout,
            rise: monitor.rise,
            fall: monitor.fall,
            weight,
            reverse: monitor.reverse,
            measures: monitor.measures,
        });
        ServiceSettings {
            service: index,
            name: service.name.clone(),
            monitors: monitors.collect(),
            threshold,
        }
    })
    .collect()
}
