//! The data plane: the LB virtual servers of this node, and what goes back and forth between them and the node's machine.

use config::{Config, LbForwarded, LbKind, LbPersistence, LbVserver};
use gslb_core::{LocalHealth, LocalView};
use gslb_types::{ServiceName, ServiceState};
use lb_core::{BalancerSettings, LocalPersistence, MemberSettings};
use lb_proxy::{
    CertificateFiles, Forwarded, Kind, Proxy, StartError, Timeouts, VserverSettings, VserverView,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How often everything is shown to the machine (behaviour 4: site metrics every second).
const INTERVAL: Duration = Duration::from_secs(1);

/// How soon after a word about health: the effective state may have turned, and more words may come.
const SOON: Duration = Duration::from_millis(20);

/// How long requests and connections may go on once the node stops: the whole of a stop takes two seconds at most (bar R20), and DNS
/// is not answered meanwhile. Whoever wants to lose no longer ones drains first.
const FAREWELL: Duration = Duration::from_millis(1500);

/// The LB virtual servers of this node, which listen and serve.
pub(crate) struct Local {
    proxy: Arc<Proxy>,
    /// Something was told that may turn an effective state.
    told: Arc<Notify>,
}

/// Tells the data plane how services are, for as long as there is one.
#[derive(Clone, Default)]
pub(crate) struct Ear {
    proxy: Weak<Proxy>,
    told: Arc<Notify>,
    /// What was told last. Only another state turns the effective one at once; response times come with each check.
    states: Arc<Mutex<BTreeMap<ServiceName, ServiceState>>>,
}

impl Local {
    /// Listens and serves, if the configuration has LB virtual servers for this site.
    pub(crate) fn start(config: &Config, stop: &CancellationToken) -> Result<Option<Self>, StartError> {
        let here = config.lb_vservers.iter().filter(|lb| lb.site == config.this_site());
        let settings: Vec<_> = here.map(|lb| settings(config, lb)).collect();
        if settings.is_empty() {
            return Ok(None);
        }
        let proxy = Arc::new(Proxy::start(settings, stop)?);
        Ok(Some(Local { proxy, told: Arc::default() }))
    }

    /// For those who tell it something.
    pub(crate) fn ear(&self) -> Ear {
        Ear { proxy: Arc::downgrade(&self.proxy), told: self.told.clone(), states: Arc::default() }
    }

    /// Where it listens, with the ports the system chose.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.proxy.views().into_iter().flat_map(|view| view.listen).collect()
    }

    /// Shows everything to the machine, again and again, until the node stops; then lets what runs come to its end. Ends before that
    /// only if a part of the data plane did, which whoever runs it must take for a fault (faults I-57).
    pub(crate) async fn serve(self, views: watch::Sender<Vec<LocalView>>, stop: CancellationToken) {
        let mut next = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                part = self.proxy.failed() => return tracing::error!(part, "the data plane is not whole any longer"),
                () = self.told.notified() => next = next.min(Instant::now() + SOON),
                () = sleep_until(next) => {
                    // A machine that was busy gets the latest one.
                    views.send_replace(self.proxy.views().into_iter().map(shown).collect());
                    next = Instant::now() + INTERVAL;
                }
            }
        }
        if !self.proxy.stop(FAREWELL).await {
            tracing::warn!(after = ?FAREWELL, "connections through LB virtual servers were cut");
        }
    }
}

impl Ear {
    /// Carries out what an operator asks for; whether there is a data plane to do so.
    pub(crate) fn control(&self, control: &admin::Control) -> bool {
        let Some(proxy) = self.proxy.upgrade() else { return false };
        let service = &control.service;
        match control.change {
            admin::Change::Drain(deadline) => proxy.drain(service, Some(deadline)),
            admin::Change::Disable => proxy.set_enabled(service, false),
            admin::Change::Enable => {
                proxy.drain(service, None);
                proxy.set_enabled(service, true);
            }
        }
        self.told.notify_one();
        true
    }

    /// Tells how a service is.
    pub(crate) fn hear(&self, health: &LocalHealth) {
        let Some(proxy) = self.proxy.upgrade() else { return };
        // Before the state: who hears that a service is up knows at once how loaded it is.
        proxy.handle_load(&health.service, health.load);
        proxy.handle_health(&health.service, health.state, health.response_time);
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.insert(health.service.clone(), health.state) != Some(health.state) {
            self.told.notify_one();
        }
    }
}

fn shown(view: VserverView) -> LocalView {
    LocalView {
        vserver: view.name,
        connections: u64::try_from(view.connections).unwrap_or(u64::MAX),
        max_connections: u64::try_from(view.max_connections).unwrap_or(u64::MAX),
        balancer: view.balancer,
    }
}

fn settings(config: &Config, lb: &LbVserver) -> VserverSettings {
    let services = || lb.members.iter().filter_map(|m| Some((m, config.services.get(m.service)?)));
    let members = services().map(|(member, service)| MemberSettings {
        name: service.name.clone(),
        weight: member.weight,
        max_clients: member.max_clients,
        max_bandwidth: member.max_bandwidth,
        enabled: service.enabled,
    });
    let balancer = BalancerSettings {
        method: lb.method,
        startup_rr_factor: lb.startup_rr_factor,
        slow_start: lb.slow_start,
        persistence: persistence(&lb.persistence),
        members: members.collect(),
    };
    let defaults = VserverSettings::new(lb.name.clone(), kind(&lb.kind), balancer);
    VserverSettings {
        listen: lb.listen.clone(),
        addresses: services().map(|(_, service)| SocketAddr::new(service.address, service.port)).collect(),
        source: lb.source,
        timeouts: Timeouts {
            connect: lb.timeouts.connect,
            first_byte: lb.timeouts.first_byte,
            idle: lb.timeouts.idle,
            request_header: lb.timeouts.request_header,
        },
        max_connections: lb.max_connections,
        max_idle: lb.max_idle,
        retries: lb.retries,
        forwarded: match lb.forwarded {
            LbForwarded::XForwarded => Forwarded::XForwarded,
            LbForwarded::Rfc7239 => Forwarded::Rfc7239,
            LbForwarded::None => Forwarded::None,
        },
        cookie: match &lb.persistence {
            LbPersistence::Cookie { name } => name.clone(),
            LbPersistence::None | LbPersistence::SourceIp { .. } => defaults.cookie,
        },
        ..defaults
    }
}

fn kind(kind: &LbKind) -> Kind {
    match kind {
        LbKind::Http => Kind::Http,
        LbKind::Ssl { certificates } => {
            let files = |pair: &config::LbCertificate| CertificateFiles {
                certificate: pair.certificate.clone(),
                key: pair.key.clone(),
            };
            Kind::Ssl { certificates: certificates.iter().map(files).collect() }
        }
        LbKind::Tcp { proxy_protocol } => Kind::Tcp { proxy_protocol: *proxy_protocol },
    }
}

fn persistence(persistence: &LbPersistence) -> LocalPersistence {
    match *persistence {
        LbPersistence::None => LocalPersistence::None,
        LbPersistence::SourceIp { mask_v4, mask_v6, timeout, cap } => {
            LocalPersistence::SourceIp { mask_v4, mask_v6, timeout, cap }
        }
        LbPersistence::Cookie { .. } => LocalPersistence::Cookie,
    }
}
