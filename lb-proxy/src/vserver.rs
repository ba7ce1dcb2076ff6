//! One LB virtual server: its balancer, its services, and the settings that new connections get.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::places::Places;
use crate::service::Service;
use crate::settings::{Kind, VserverSettings};
use crate::tls::{CertificateError, Tls};
use crate::transaction::Transaction;
use arc_swap::{ArcSwap, ArcSwapOption};
use lb_core::{Balancer, Client, MemberId, NoService, Output, ServiceId};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// What connections of one LB virtual server share.
#[derive(Debug)]
pub(crate) struct Vserver {
    pub(crate) clock: Clock,
    pub(crate) counters: Counters,
    settings: ArcSwap<VserverSettings>,
    tls: ArcSwapOption<Tls>,
    /// Places for clients.
    places: Places,
    /// Client connections at this moment.
    pub(crate) open: AtomicUsize,
    /// It is no longer configured, or the proxy stops.
    pub(crate) gone: CancellationToken,
    /// Held for a choice or a count, never across an await.
    state: Mutex<State>,
    /// The balancer was told something that may move its timeout.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
struct State {
    balancer: Balancer,
    /// In the order of the members.
    services: Vec<Arc<Service>>,
    /// The services of members that were picked, to cut them by the balancer's numbers.
    picked: BTreeMap<MemberId, Arc<Service>>,
    /// The same numbers by position, to see at a glance that one is noted.
    noted: Vec<Option<MemberId>>,
}

impl Vserver {
    pub(crate) fn new(clock: Clock, settings: VserverSettings, gone: CancellationToken) -> Arc<Self> {
        let services = services(&settings, &[]);
        let state = State {
            balancer: Balancer::new(clock.now(), settings.balancer.clone()),
            noted: vec![None; services.len()],
            services,
            picked: BTreeMap::new(),
        };
        Arc::new(Vserver {
            clock,
            counters: Counters::default(),
            tls: ArcSwapOption::empty(),
            places: Places::new(settings.max_connections),
            gone,
            open: AtomicUsize::new(0),
            settings: ArcSwap::from_pointee(settings),
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    /// The settings for a connection that begins.
    pub(crate) fn settings(&self) -> Arc<VserverSettings> {
        self.settings.load_full()
    }

    /// Other settings, for requests and connections that begin from here on.
    pub(crate) fn apply(&self, settings: VserverSettings) {
        let mut state = self.lock();
        let services = services(&settings, &state.services);
        state.balancer.reconfigure(self.clock.now(), settings.balancer.clone());
        state.noted = vec![None; services.len()];
        // One that is configured no more is kept while something runs there: its drain has a deadline, too.
        state.services = services;
        let State { picked, services, .. } = &mut *state;
        picked.retain(|_, service| {
            services.iter().any(|s| s.name == service.name) || Arc::strong_count(service) > 1
        });
        drop(state);
        self.places.resize(self.settings.load().max_connections, settings.max_connections);
        self.settings.store(Arc::new(settings));
        self.changed.notify_one();
    }

    /// It is no longer configured. What runs on it ends by itself.
    pub(crate) fn retire(&self) {
        self.gone.cancel();
    }

    /// A place for another client, as soon as there is one.
    pub(crate) async fn admit(&self) -> OwnedSemaphorePermit {
        match self.places.try_take() {
            Some(place) => place,
            None => {
                self.counters.full.add();
                self.places.take().await
            }
        }
    }

    /// A client gives its place back.
    pub(crate) fn leave(&self, place: OwnedSemaphorePermit) {
        self.open.fetch_sub(1, Relaxed);
        self.places.leave(place);
    }

    /// Places taken, and all of them.
    pub(crate) fn occupancy(&self) -> (usize, usize) {
        (self.open.load(Relaxed), self.settings.load().max_connections)
    }

    /// The certificates that a virtual server of this kind needs; those it has already, if their files are the same.
    pub(crate) fn load_tls(
        kind: &Kind,
        before: Option<Arc<Tls>>,
    ) -> Result<Option<Arc<Tls>>, CertificateError> {
        let Kind::Ssl { certificates } = kind else { return Ok(None) };
        match before.filter(|tls| tls.files() == certificates) {
            Some(tls) => tls.reload().map(|_| Some(tls)),
            None => Ok(Some(Arc::new(Tls::load(certificates)?))),
        }
    }

    pub(crate) fn set_tls(&self, tls: Option<Arc<Tls>>) {
        self.tls.store(tls);
    }

    pub(crate) fn tls_settings(&self) -> Option<Arc<Tls>> {
        self.tls.load_full()
    }

    pub(crate) fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.load().as_ref().map(|tls| tls.acceptor())
    }

    /// Reads the certificates again; whether they are others.
    pub(crate) fn reload_tls(&self) -> Result<bool, CertificateError> {
        self.tls.load_full().map_or(Ok(false), |tls| tls.reload())
    }

    /// Chooses the service for a request, which counts as active there from here on.
    pub(crate) fn pick(
        self: &Arc<Self>,
        client: IpAddr,
        cookie: Option<ServiceId>,
        tried: &[MemberId],
    ) -> Result<Transaction, NoService> {
        let now = self.clock.now();
        let mut state = self.lock();
        let state = &mut *state;
        let pick = state.balancer.pick(now, &Client { address: client, cookie }, tried)?;
        let service = state.services.get(pick.position).ok_or(NoService::Empty)?;
        if let Some(noted) = state.noted.get_mut(pick.position)
            && *noted != Some(pick.member)
        {
            *noted = Some(pick.member);
            state.picked.insert(pick.member, service.clone());
        }
        Ok(Transaction::new(self.clone(), service.clone(), pick.member))
    }

    /// Tells the balancer something, or asks it.
    pub(crate) fn balancer<T>(&self, with: impl FnOnce(&mut Balancer) -> T) -> T {
        with(&mut self.lock().balancer)
    }

    /// Carries out what the balancer's clock makes due. Returns how long nothing will be due.
    pub(crate) fn tick(&self) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.lock();
        state.balancer.handle_timeout(now);
        let mut cut = Vec::new();
        while let Some(Output::Cut(member)) = state.balancer.poll_output() {
            cut.extend(state.picked.get(&member).cloned());
        }
        let next = state.balancer.poll_timeout().map(|at| at.since(now));
        drop(state);
        for service in cut {
            tracing::info!(service = %service.name, "drain deadline: running transactions are cut");
            service.cut();
        }
        next
    }

    /// Closes connections to services that waited for reuse too long.
    pub(crate) fn sweep(&self) {
        let (services, idle) = (self.services(), self.settings.load().timeouts.idle);
        for service in services {
            service.sweep(idle);
        }
    }

    pub(crate) fn services(&self) -> Vec<Arc<Service>> {
        self.lock().services.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The services of these settings; those known already stay, with their connections.
fn services(settings: &VserverSettings, known: &[Arc<Service>]) -> Vec<Arc<Service>> {
    let named = settings.balancer.members.iter().zip(&settings.addresses);
    let service = |(member, address): (&lb_core::MemberSettings, &std::net::SocketAddr)| {
        let same = known.iter().find(|s| s.is(&member.name, *address, settings.source));
        same.cloned().unwrap_or_else(|| {
            Service::new(member.name.clone(), *address, settings.source, settings.max_idle)
        })
    };
    named.map(service).collect()
}
