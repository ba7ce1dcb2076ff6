//! The front of all carriers: takes commands, hands them to connections, and ends everything in order.

use crate::connections::Connections;
use crate::gate::Gate;
use crate::identity::Identity;
use crate::outbox::Room;
use crate::quic;
use crate::refusals::Refusals;
use gslb_types::NodeId;
use mep_core::carrier::{CarrierCommand, CarrierEvent, Over};
use quinn::Endpoint;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// What a carrier needs to begin.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The UDP address to listen on and dial from; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who this node is, and whom it trusts. Kept by the caller too, who reloads it.
    pub identity: Arc<Identity>,
    /// How much and how long.
    pub limits: Limits,
}

/// How much may wait and how long things may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// From the first packet to the greeting on the stream. Ten round trips across the globe fit well.
    pub handshake: Duration,
    /// What a closing connection gets to bring its last frames across. Less than the 2 s a node has to stop (bar R20).
    pub flush: Duration,
    /// How often the path's round trip is reported.
    pub path_rtt: Duration,
    /// A connection on which nothing came for this long is gone. Far above the session's own keepalive (10 s), which
    /// notices first and knows more; this one clears up after a machine that no longer asks.
    pub idle: Duration,
    /// Frames that may wait on one connection.
    pub queue_frames: usize,
    /// Their bytes. A session lets the peer acknowledge long before so much is under way; more would only be late, and 32
    /// peers that all hang must not eat the memory.
    pub queue_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            handshake: Duration::from_secs(5),
            flush: Duration::from_secs(1),
            path_rtt: Duration::from_secs(3),
            idle: Duration::from_secs(30),
            queue_frames: 1024,
            queue_bytes: 8 * 1024 * 1024,
        }
    }
}

/// The carrier can't begin.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is not ours, or taken.
    #[error("cannot listen for MEP on {0} (UDP): {1}")]
    Listen(SocketAddr, io::Error),
    /// The QUIC library refuses the configuration.
    #[error("cannot set up QUIC: {0}")]
    Setup(String),
}

/// What all tasks of a carrier share.
pub(crate) struct Shared {
    pub(crate) identity: Arc<Identity>,
    pub(crate) limits: Limits,
    pub(crate) connections: Connections,
    pub(crate) gate: Gate,
    pub(crate) refusals: Refusals,
    pub(crate) events: mpsc::Sender<CarrierEvent>,
    /// Ends handshakes that are under way; connections are told one by one.
    pub(crate) stopping: CancellationToken,
    pub(crate) transport: Arc<quinn::TransportConfig>,
}

/// Listens and dials on one UDP socket.
pub struct Carrier {
    settings: Settings,
    endpoint: Endpoint,
    tasks_of_quinn: quic::Tasks,
    local: SocketAddr,
}

impl Carrier {
    /// Takes the socket. Must be called within a tokio runtime. Nothing is answered before [`Carrier::run`].
    pub fn bind(settings: Settings) -> Result<Self, BindError> {
        let (endpoint, tasks_of_quinn) = quic::bind(&settings)?;
        let local = endpoint.local_addr().map_err(|error| BindError::Listen(settings.listen, error))?;
        Ok(Carrier { settings, endpoint, tasks_of_quinn, local })
    }

    /// The address it listens on, with the port the system chose.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Carries until `stop` is cancelled, or `commands` or `events` has lost its other end. Commands given before that are
    /// still obeyed: a goodbye that is queued is delivered if the peer takes it within [`Limits::flush`].
    ///
    /// Waits for `events` to be taken, never holding up `commands` meanwhile, so one task may do both in turn.
    pub async fn run(
        self,
        mut commands: mpsc::Receiver<CarrierCommand>,
        events: mpsc::Sender<CarrierEvent>,
        stop: CancellationToken,
    ) {
        let Carrier { settings, endpoint, tasks_of_quinn, .. } = self;
        let shared = Arc::new(shared(&settings, events));
        let mut work = Work { shared, endpoint, tasks: JoinSet::new() };
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = work.shared.events.closed() => break,
                command = commands.recv() => match command {
                    Some(command) => work.obey(command),
                    None => break,
                },
                incoming = work.endpoint.accept() => match incoming {
                    Some(incoming) => work.admit(incoming),
                    None => break,
                },
                Some(done) = work.tasks.join_next() => note(done),
            }
        }
        let endpoint = work.finish(&mut commands).await;
        quic::close(endpoint, tasks_of_quinn, STOPPING, LINGER).await;
    }
}

fn shared(settings: &Settings, events: mpsc::Sender<CarrierEvent>) -> Shared {
    let limits = settings.limits;
    Shared {
        identity: settings.identity.clone(),
        limits,
        connections: Connections::new(Room { frames: limits.queue_frames, bytes: limits.queue_bytes }),
        gate: Gate::default(),
        refusals: Refusals::new(Instant::now()),
        events,
        stopping: CancellationToken::new(),
        transport: Arc::new(quic::transport(&limits)),
    }
}

/// What this node says to its peers when it stops without a word of its own.
const STOPPING: &str = "the node stops";

/// After everything is closed, how long the last packets get to leave.
const LINGER: Duration = Duration::from_millis(300);

struct Work {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    tasks: JoinSet<()>,
}

impl Work {
    /// Never waits: whoever gives commands may be the one who takes events.
    fn obey(&mut self, command: CarrierCommand) {
        match command {
            CarrierCommand::Dial { peer, address, over: Over::Quic } => self.dial(peer, address),
            CarrierCommand::Dial { peer, over: Over::Grpc, .. } => {
                let reason = "this node speaks QUIC only".to_owned();
                let failed = CarrierEvent::DialFailed { peer, over: Over::Grpc, reason };
                let shared = self.shared.clone();
                self.tasks.spawn(async move {
                    let _ = shared.events.send(failed).await; // nobody listens: stopping
                });
            }
            CarrierCommand::Send { conn, frame } => self.shared.connections.send(conn, frame),
            CarrierCommand::Close { conn, reason } => self.shared.connections.close(conn, reason),
        }
    }

    fn dial(&mut self, peer: NodeId, address: SocketAddr) {
        self.tasks.spawn(quic::dial(self.shared.clone(), self.endpoint.clone(), peer, address));
    }

    fn admit(&mut self, incoming: quinn::Incoming) {
        if let Some(accepted) = quic::admit(&self.shared, incoming) {
            self.tasks.spawn(accepted);
        }
    }

    /// Obeys what is left, then ends all connections.
    async fn finish(mut self, commands: &mut mpsc::Receiver<CarrierCommand>) -> Endpoint {
        self.shared.stopping.cancel();
        while let Ok(command) = commands.try_recv() {
            self.obey(command);
        }
        self.shared.connections.close_all(STOPPING);
        let all = async {
            while let Some(done) = self.tasks.join_next().await {
                note(done);
            }
        };
        if timeout(self.shared.limits.flush + LINGER, all).await.is_err() {
            self.tasks.shutdown().await;
        }
        self.endpoint
    }
}

fn note(done: Result<(), JoinError>) {
    if let Err(error) = done
        && error.is_panic()
    {
        tracing::error!(%error, "a MEP connection's task broke");
    }
}
