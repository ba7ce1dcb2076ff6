//! All LB virtual servers of a node.

use crate::clock::Clock;
use crate::keeper;
use crate::lasting::Faults;
use crate::listen::{Bound, Grounds, Listener, bind};
use crate::settings::VserverSettings;
use crate::tls::CertificateError;
use crate::view::VserverView;
use crate::vserver::Vserver;
use gslb_types::{LbVserverName, Rtt, ServiceName, ServiceState, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Why LB virtual servers can't be set up. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Two virtual servers have one name.
    #[error("lb virtual server {0}: there are two of this name")]
    Name(LbVserverName),
    /// Two virtual servers listen on one address.
    #[error("lb virtual server {0}: {1} is listened on twice")]
    Twice(LbVserverName, SocketAddr),
    /// An address can't be listened on.
    #[error("lb virtual server {0}: can't listen on {1}: {2}")]
    Listen(LbVserverName, SocketAddr, io::Error),
    /// A service without an address, or an address without a service.
    #[error("lb virtual server {0}: {1} services and {2} addresses")]
    Addresses(LbVserverName, usize, usize),
    /// Its certificates can't be used.
    #[error("lb virtual server {0}: {1}")]
    Certificate(LbVserverName, CertificateError),
}

/// How long what is broken off may take to notice: each task does at its next poll.
const KILL: Duration = Duration::from_secs(1);

/// The local data plane: LB virtual servers that listen, choose and proxy, until it is stopped or dropped.
#[derive(Debug)]
pub struct Proxy {
    clock: Clock,
    grounds: Grounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    vservers: BTreeMap<LbVserverName, Arc<Vserver>>,
    listeners: Vec<Listener>,
    /// What was said last of each service, for virtual servers that come later.
    said: BTreeMap<ServiceName, Said>,
}

/// What the node and its operators have said of a service.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    health: Option<(ServiceState, Option<Rtt>)>,
    load: Option<u64>,
    drains_until: Option<Timestamp>,
    is_enabled: Option<bool>,
}

impl Proxy {
    /// Listens and serves. Must be called within a tokio runtime; once `cancel` is cancelled no new client is accepted and
    /// no new request begun.
    pub fn start(settings: Vec<VserverSettings>, cancel: &CancellationToken) -> Result<Self, StartError> {
        let grounds = Grounds {
            tasks: TaskTracker::new(),
            stop: cancel.child_token(),
            kill: CancellationToken::new(),
            faults: Faults::none(),
        };
        let proxy = Proxy { clock: Clock::start(), grounds, state: Mutex::default() };
        proxy.apply(settings)?;
        Ok(proxy)
    }

    /// Goes over to other settings. Listeners that stay are not touched, what runs goes on, counters and what is known of
    /// services of the same name stay. Connections that are open keep timeouts and headers as they were.
    pub fn apply(&self, settings: Vec<VserverSettings>) -> Result<(), StartError> {
        let mut state = self.lock();
        check(&settings)?;
        let bound = state.bind_missing(&settings)?;
        let mut tls = Vec::new();
        for vserver in &settings {
            let before = state.vservers.get(&vserver.name).and_then(|v| v.tls_settings());
            let loaded = Vserver::load_tls(&vserver.kind, before)
                .map_err(|error| StartError::Certificate(vserver.name.clone(), error))?;
            tls.push(loaded);
        }
        let names: BTreeSet<_> = settings.iter().map(|s| s.name.clone()).collect();
        for (vserver, tls) in settings.into_iter().zip(tls) {
            let (name, listen) = (vserver.name.clone(), vserver.listen.clone());
            let target = state.establish(self.clock, vserver, &self.grounds);
            target.set_tls(tls);
            tracing::debug!(vserver = %name, ?listen, "lb virtual server set up");
        }
        state.vservers.retain(|name, vserver| {
            let stays = names.contains(name);
            if !stays {
                vserver.retire();
            }
            stays
        });
        state.assign_listeners(bound, &self.grounds);
        Ok(())
    }

    /// What the monitors say of a service, to all virtual servers that have it.
    pub fn handle_health(&self, name: &ServiceName, state: ServiceState, response_time: Option<Rtt>) {
        let now = self.clock.now();
        self.say(
            name,
            |said| said.health = Some((state, response_time)),
            |vserver| {
                vserver.balancer(|balancer| balancer.handle_health(now, name, state, response_time));
            },
        );
    }

    /// What is told of a service's load, in thousandths, to all virtual servers that have it.
    pub fn handle_load(&self, name: &ServiceName, load: Option<u64>) {
        let now = self.clock.now();
        self.say(
            name,
            |said| said.load = load,
            |vserver| vserver.balancer(|balancer| balancer.handle_load(now, name, load)),
        );
    }

    /// Begins to drain a service, or takes that back (`None`): no new transactions, and those that still run after `deadline`
    /// are cut.
    pub fn drain(&self, name: &ServiceName, deadline: Option<Duration>) {
        let now = self.clock.now();
        self.say(
            name,
            |said| said.drains_until = deadline.map(|left| now + left),
            |vserver| {
                vserver.balancer(|balancer| balancer.handle_drain(now, name, deadline));
                vserver.changed.notify_one();
            },
        );
    }

    /// Lets a service take part, or takes it out, whatever the configuration says.
    pub fn set_enabled(&self, name: &ServiceName, is_enabled: bool) {
        let now = self.clock.now();
        self.say(
            name,
            |said| said.is_enabled = Some(is_enabled),
            |vserver| {
                vserver.balancer(|balancer| balancer.handle_enabled(now, name, is_enabled));
            },
        );
    }

    /// Whether no transaction runs at a service.
    pub fn is_drained(&self, name: &ServiceName) -> bool {
        let views = self.views();
        let mut members = views.iter().flat_map(|view| &view.balancer.members);
        members.all(|member| member.name != *name || member.active == 0)
    }

    /// Everything the virtual servers show of themselves, by name.
    pub fn views(&self) -> Vec<VserverView> {
        let state = self.lock();
        let view = |(name, vserver): (&LbVserverName, &Arc<Vserver>)| {
            let listen = state.listeners.iter().filter(|l| l.serves(vserver)).map(|l| l.local).collect();
            VserverView::of(name, vserver, listen)
        };
        state.vservers.iter().map(view).collect()
    }

    /// Reads certificates again at once, without waiting for the next look at the files. What is no good is told, and what was
    /// served before stays.
    pub fn reload_certificates(&self) -> Vec<(LbVserverName, CertificateError)> {
        let vservers: Vec<_> = self.lock().vservers.iter().map(|(n, v)| (n.clone(), v.clone())).collect();
        let failed = |(name, vserver): (LbVserverName, Arc<Vserver>)| {
            let error = vserver.reload_tls().err()?;
            Some((name, error))
        };
        vservers.into_iter().filter_map(failed).collect()
    }

    /// Waits until a task ends that must not, and says which: the proxy is no longer whole then.
    pub async fn failed(&self) -> &'static str {
        self.grounds.faults.first().await
    }

    /// Ends: accepts nothing new, lets what runs go on until `deadline`, and then breaks it off. Returns soon after that,
    /// whatever clients and services do. Whether all ended by itself.
    pub async fn stop(&self, deadline: Duration) -> bool {
        self.grounds.stop.cancel();
        self.grounds.tasks.close();
        let ended = tokio::time::timeout(deadline, self.grounds.tasks.wait()).await.is_ok();
        self.grounds.kill.cancel();
        if tokio::time::timeout(KILL, self.grounds.tasks.wait()).await.is_err() {
            tracing::warn!(
                tasks = self.grounds.tasks.len(),
                "connections that can't be broken off are left behind"
            );
        }
        ended
    }

    /// Notes something about a service, and tells it to the virtual servers.
    fn say(&self, name: &ServiceName, note: impl FnOnce(&mut Said), tell: impl Fn(&Vserver)) {
        let mut state = self.lock();
        note(state.said.entry(name.clone()).or_default());
        state.vservers.values().for_each(|vserver| tell(vserver));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.grounds.stop.cancel();
        self.grounds.kill.cancel();
    }
}

/// What must hold between the settings.
fn check(settings: &[VserverSettings]) -> Result<(), StartError> {
    let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for vserver in settings {
        let name = &vserver.name;
        if !names.insert(name) {
            return Err(StartError::Name(name.clone()));
        }
        let (services, given) = (vserver.balancer.members.len(), vserver.addresses.len());
        if services != given {
            return Err(StartError::Addresses(name.clone(), services, given));
        }
        if let Some(twice) = vserver.listen.iter().find(|a| a.port() != 0 && !addresses.insert(**a)) {
            return Err(StartError::Twice(name.clone(), *twice));
        }
    }
    Ok(())
}

impl State {
    /// Takes the addresses that nobody listens on yet.
    fn bind_missing(&self, settings: &[VserverSettings]) -> Result<Vec<(LbVserverName, Bound)>, StartError> {
        let mut bound = Vec::new();
        for vserver in settings {
            for address in &vserver.listen {
                if self.listener(&vserver.name, *address).is_none() {
                    let socket = bind(*address)
                        .map_err(|error| StartError::Listen(vserver.name.clone(), *address, error))?;
                    bound.push((vserver.name.clone(), socket));
                }
            }
        }
        Ok(bound)
    }

    /// The listener on an address, whoever has it. A port of the system's choice belongs to the one that asked for it.
    fn listener(&self, name: &LbVserverName, address: SocketAddr) -> Option<&Listener> {
        let is_own = |l: &&Listener| self.vservers.get(name).is_some_and(|vserver| l.serves(vserver));
        self.listeners.iter().filter(|l| l.asked == address).find(|l| address.port() != 0 || is_own(l))
    }

    /// The virtual server with these settings, new or as it was.
    fn establish(&mut self, clock: Clock, settings: VserverSettings, grounds: &Grounds) -> Arc<Vserver> {
        let name = settings.name.clone();
        let known = self.vservers.get(&name).cloned();
        let mut members: BTreeSet<_> = settings.balancer.members.iter().map(|m| m.name.clone()).collect();
        let vserver = match known {
            Some(vserver) => {
                for member in &vserver.settings().balancer.members {
                    members.remove(&member.name);
                }
                vserver.apply(settings);
                vserver
            }
            None => {
                let vserver = Vserver::new(clock, settings, grounds.stop.child_token());
                let keeping = keeper::keep(vserver.clone());
                grounds.tasks.spawn(grounds.faults.watch("a keeper", vserver.gone.clone(), keeping));
                self.vservers.insert(name, vserver.clone());
                vserver
            }
        };
        for member in members {
            self.repeat(clock.now(), &member, &vserver);
        }
        vserver
    }

    /// Tells a virtual server what was said of a service that is new to it.
    fn repeat(&self, now: Timestamp, name: &ServiceName, vserver: &Vserver) {
        let Some(said) = self.said.get(name) else { return };
        vserver.balancer(|balancer| {
            if let Some((state, response_time)) = said.health {
                balancer.handle_health(now, name, state, response_time);
            }
            if said.load.is_some() {
                balancer.handle_load(now, name, said.load);
            }
            if let Some(until) = said.drains_until {
                balancer.handle_drain(now, name, Some(until.since(now)));
            }
            if let Some(is_enabled) = said.is_enabled {
                balancer.handle_enabled(now, name, is_enabled);
            }
        });
    }

    /// Gives each address to its virtual server, opens the new ones and closes those that nobody wants.
    fn assign_listeners(&mut self, bound: Vec<(LbVserverName, Bound)>, grounds: &Grounds) {
        for (name, vserver) in &self.vservers {
            for address in &vserver.settings().listen {
                if let Some(listener) = self.listener(name, *address) {
                    listener.serve(vserver.clone());
                }
            }
        }
        let vservers = &self.vservers;
        self.listeners.retain(|listener| {
            let wants =
                |v: &Arc<Vserver>| listener.serves(v) && v.settings().listen.contains(&listener.asked);
            vservers.values().any(wants)
        });
        for (name, socket) in bound {
            if let Some(vserver) = self.vservers.get(&name) {
                self.listeners.push(Listener::open(socket, vserver.clone(), grounds));
            }
        }
    }
}
