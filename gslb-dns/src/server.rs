//! One running node: sockets, tasks and channels around `gslb_core::Node`. Assembly only, no policy.

use crate::clock::Clock;
use crate::identity;
use crate::listen::{self, Context, Listeners};
use crate::local::{Ear, Local};
use crate::locations;
use crate::node_task::{self, Channels};
use crate::tasks::Tasks;
use config::Config;
use gslb_core::{Birth, Node, Shared};
use gslb_types::Timestamp;
use mep_io::{BindError, Carrier, Identity};
use probes_io::{ProbeIo, StartError as ProbeError};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Probes, replies, frames and commands that may wait for one another; none of the machines needs more to keep going.
const QUEUE: usize = 4096;

/// How long changes of health wait for others before queries see them together.
const COALESCE: Duration = Duration::from_millis(50);

/// Why a node can't start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// A DNS address can't be taken, or the certificate for DNS over TLS can't be used.
    #[error(transparent)]
    Listen(#[from] listen::BindError),
    /// The exchange's address can't be taken.
    #[error(transparent)]
    Mep(#[from] BindError),
    /// An LB virtual server can't listen, or its certificates can't be used.
    #[error(transparent)]
    Local(#[from] lb_proxy::StartError),
    /// Probes can't be sent.
    #[error("probes: {0}")]
    Probe(#[from] ProbeError),
    /// The admin address can't be taken.
    #[error("cannot listen for the admin API on {0} (TCP): {1}")]
    Admin(SocketAddr, io::Error),
    /// The runtime doesn't take a socket, or the system gives no thread.
    #[error("cannot start to answer DNS: {0}")]
    Answer(io::Error),
}

/// A node that runs.
pub(crate) struct Server {
    /// Where it answers DNS, with the ports the system chose.
    pub(crate) dns: Vec<SocketAddr>,
    /// Where it answers the admin API.
    pub(crate) admin: Option<SocketAddr>,
    /// Where it listens for peers.
    pub(crate) mep: SocketAddr,
    /// Where its LB virtual servers listen.
    pub(crate) lb: Vec<SocketAddr>,
    /// What pings are sent by.
    pub(crate) icmp: probes_io::IcmpSockets,
    /// What it publishes.
    pub(crate) shared: Arc<Shared>,
    certificates: Arc<Notify>,
    stop: CancellationToken,
    tasks: Tasks,
}

impl Server {
    /// Starts a node: everything is bound before anything is answered. Must be called within a runtime.
    pub(crate) async fn start(config: Arc<Config>, identity: Arc<Identity>) -> Result<Self, StartError> {
        let clock = Clock::start();
        let started = clock.now();
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared::new(&config, rand::random(), started));

        let listeners = Listeners::bind(&config.dns)?;
        let carrier = Carrier::bind(mep_io::Settings {
            listen: config.mep.listen,
            identity: identity.clone(),
            limits: mep_io::Limits::default(),
        })?
        .with_peers(&peer_addresses(&config));
        let admin = match config.admin.listen {
            Some(address) => {
                let error = |error| StartError::Admin(address, error);
                let listener = tokio::net::TcpListener::bind(address).await.map_err(error)?;
                Some((listener.local_addr().map_err(error)?, listener))
            }
            None => None,
        };
        let local = Local::start(&config, &stop)?;
        let ear = local.as_ref().map_or_else(Ear::default, Local::ear);
        let (request_sender, requests) = mpsc::channel(QUEUE);
        let (reply_sender, replies) = mpsc::channel(QUEUE);
        let probing = ProbeIo::start(probe_settings(&config), requests, reply_sender, &stop)?;
        let (sightings, sighting_queue) = listen::sighting_channel(shared.clone());

        let mut server = Server {
            dns: listeners.addresses(),
            admin: admin.as_ref().map(|(address, _)| *address),
            mep: carrier.local_address(),
            lb: local.as_ref().map(Local::addresses).unwrap_or_default(),
            icmp: probing.icmp(),
            shared: shared.clone(),
            certificates: Arc::default(),
            stop: stop.clone(),
            tasks: Tasks::default(),
        };
        let noted = sightings.clone();
        let context = Context { shared: shared.clone(), clock, sightings, stop: stop.clone() };
        listeners.serve(&context, &mut server.tasks).map_err(StartError::Answer)?;
        if let Some((_, listener)) = admin {
            let (known, asked) = (identity.clone(), ear.clone());
            let state = admin::State::new(shared.clone(), move || clock.now())
                .with_info(server.info(&config, started))
                .with_identity(move || identity::told(&known))
                .with_control(move |control| asked.control(control))
                .with_failback(move |vserver| noted.failback(vserver));
            server.tasks.spawn("the admin API", admin::serve(listener, state, stop.clone()));
        }
        server.tasks.spawn("the sender of probes", probing.join());
        let watching = identity::watch(identity, server.certificates.clone(), stop.clone());
        server.tasks.spawn("the watcher of certificates", watching);
        let watching = locations::watch(config.clone(), shared.clone(), stop.clone());
        server.tasks.spawn("the watcher of locations", watching);

        let (command_sender, commands) = mpsc::channel(QUEUE);
        let (event_sender, events) = mpsc::channel(QUEUE);
        // The carrier ends when the node task has dropped its commands: goodbyes get through.
        server.tasks.spawn(
            "the carrier of the metric exchange",
            carrier.run(commands, event_sender, CancellationToken::new()),
        );
        let (view_sender, views) = watch::channel(Vec::new());
        if let Some(local) = local {
            server.tasks.spawn("the LB virtual servers", local.serve(view_sender, stop.clone()));
        }
        let channels = Channels {
            sightings: sighting_queue,
            replies,
            events,
            requests: request_sender,
            commands: command_sender,
            local: views,
            ear,
        };
        let make = move |now| Node::new(config.clone(), shared.clone(), &birth(), now);
        server.tasks.spawn("the node task", node_task::supervise(make, clock, channels, stop));
        Ok(server)
    }

    /// What the admin API tells of this process.
    fn info(&self, config: &Config, started: Timestamp) -> admin::Info {
        admin::Info {
            started,
            dns: self.dns.clone(),
            dns_tls: config.dns.tls.as_ref().map(|tls| tls.listen.clone()).unwrap_or_default(),
            mep: Some(self.mep),
            icmp_v4: Some(self.icmp.v4.to_string()),
            icmp_v6: Some(self.icmp.v6.to_string()),
        }
    }

    /// Notified, it makes the node look at its certificate's files at once.
    pub(crate) fn certificates(&self) -> Arc<Notify> {
        self.certificates.clone()
    }

    /// Stops: peers are told, sockets are closed. Returns when all has ended.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.ended().await.is_some() {}
    }

    /// Returns when a task has ended that should not have: the node can't go on. Says which.
    pub(crate) async fn failed(&mut self) -> String {
        self.tasks.ended().await.unwrap_or_else(|| "every task ended".to_owned())
    }
}

/// Drawn anew for each node task. By its boot id peers see at once that it knows nothing of the sessions of one that failed,
/// and by the seed a late reply to that one's probe names none of its own.
fn birth() -> Birth {
    Birth { seed: rand::random(), boot: rand::random(), local: local_addresses(), coalesce: COALESCE }
}

fn peer_addresses(config: &Config) -> Vec<mep_io::PeerAddresses> {
    let peers = config.nodes.iter().map(|node| mep_io::PeerAddresses {
        node: node.id.clone(),
        address: node.mep.ip(),
        allowed: node.addresses.clone(),
    });
    peers.collect()
}

fn probe_settings(config: &Config) -> probes_io::Settings {
    probes_io::Settings {
        port: config.probe.port,
        source_v4: config.probe.source_v4,
        source_v6: config.probe.source_v6,
        ..probes_io::Settings::default()
    }
}

/// The addresses of this machine's interfaces.
fn local_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    });
    addresses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_node_tasks_are_born_alike() {
        let (one, other) = (birth(), birth());
        assert_ne!(one.boot, other.boot);
        assert_ne!(one.seed, other.seed);
    }
}
