//! The front of all carriers: takes commands, hands them to connections, and ends everything in order.

use crate::admission::{Admission, PeerAddresses};
use crate::connections::Connections;
use crate::gate::{Gate, Verdict};
use crate::identity::Identity;
use crate::outbox::Room;
use crate::refusals::Refusals;
use crate::tasks::Tasks;
use crate::{grpc, quic};
use gslb_types::NodeId;
use mep_core::carrier::{CarrierCommand, CarrierEvent, Over};
use quinn::Endpoint;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// What a carrier needs to begin.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on and dial from, by UDP for QUIC and by TCP for gRPC; port 0 takes one that is free in both.
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
    /// The same for TCP, where gRPC is spoken.
    #[error("cannot listen for MEP on {0} (TCP): {1}")]
    ListenTcp(SocketAddr, io::Error),
    /// The QUIC library refuses the configuration.
    #[error("cannot set up QUIC: {0}")]
    Setup(String),
}

/// What all tasks of a carrier share.
pub(crate) struct Shared {
    pub(crate) identity: Arc<Identity>,
    pub(crate) limits: Limits,
    pub(crate) connections: Connections,
    pub(crate) admission: Admission,
    /// One for each carrier: a flood of one leaves room in the other.
    pub(crate) quic_gate: Gate,
    pub(crate) grpc_gate: Gate,
    pub(crate) events: mpsc::Sender<CarrierEvent>,
    /// Ends handshakes that are under way; connections are told one by one.
    pub(crate) stopping: CancellationToken,
    /// The tasks below gRPC's connections.
    pub(crate) tasks: Tasks,
    pub(crate) transport: Arc<quinn::TransportConfig>,
    refusals: Refusals,
}

impl Shared {
    fn new(settings: &Settings, admission: Admission, events: mpsc::Sender<CarrierEvent>) -> Self {
        let limits = settings.limits;
        Shared {
            identity: settings.identity.clone(),
            limits,
            connections: Connections::new(Room { frames: limits.queue_frames, bytes: limits.queue_bytes }),
            admission,
            quic_gate: Gate::default(),
            grpc_gate: Gate::default(),
            events,
            stopping: CancellationToken::new(),
            tasks: Tasks::default(),
            transport: Arc::new(quic::transport(&limits)),
            refusals: Refusals::new(Instant::now()),
        }
    }

    pub(crate) fn judge(&self, gate: &Gate, address: IpAddr, proven: bool) -> Verdict {
        gate.judge(address, proven, self.admission.knows(address))
    }

    /// Reports that somebody was turned away, if there was not too much of that lately.
    pub(crate) async fn refused(&self, address: SocketAddr, reason: String) {
        if let Some(reason) = self.refusals.report(Instant::now(), reason) {
            tracing::debug!(%address, reason, "turned away");
            let _ = self.events.send(CarrierEvent::Refused { address, reason }).await; // nobody listens: stopping
        }
    }

    pub(crate) async fn dial_failed(&self, peer: NodeId, address: SocketAddr, over: Over, reason: String) {
        tracing::debug!(%peer, %address, %over, reason, "dial failed");
        let _ = self.events.send(CarrierEvent::DialFailed { peer, over, reason }).await; // nobody listens: stopping
    }
}

/// The address as people write it: an IPv4 peer of a socket that takes both families looks like IPv6.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Listens and dials by QUIC and by gRPC, at one address.
pub struct Carrier {
    settings: Settings,
    admission: Admission,
    sockets: Sockets,
    local: SocketAddr,
}

struct Sockets {
    quic: Endpoint,
    tasks_of_quinn: Tasks,
    grpc: grpc::Listener,
}

impl Sockets {
    fn bind(settings: &Settings) -> Result<(Self, SocketAddr), BindError> {
        let (quic, tasks_of_quinn) = quic::bind(settings)?;
        let local = quic.local_addr().map_err(|error| BindError::Listen(settings.listen, error))?;
        let grpc = grpc::listen(local).map_err(|error| BindError::ListenTcp(local, error))?;
        Ok((Sockets { quic, tasks_of_quinn, grpc }, local))
    }
}

/// A port that is free by UDP may be taken by TCP; so often another one is tried.
const FREE_PORTS: usize = 16;

impl Carrier {
    /// Takes the sockets. Must be called within a tokio runtime. Nothing is answered before [`Carrier::run`].
    pub fn bind(settings: Settings) -> Result<Self, BindError> {
        let tries = if settings.listen.port() == 0 { FREE_PORTS } else { 1 };
        let mut bound = Sockets::bind(&settings);
        for _ in 1..tries {
            if !matches!(bound, Err(BindError::ListenTcp(..))) {
                break;
            }
            bound = Sockets::bind(&settings);
        }
        let (sockets, local) = bound?;
        Ok(Carrier { settings, admission: Admission::default(), sockets, local })
    }

    /// Tells what is configured about the addresses of peers. Whoever is not among them may try as well: who is a peer is
    /// decided by the session.
    #[must_use]
    pub fn with_peers(self, peers: &[PeerAddresses]) -> Self {
        Carrier { admission: Admission::new(peers), ..self }
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
        let Carrier { settings, admission, sockets, local } = self;
        let mut work = Work {
            shared: Arc::new(Shared::new(&settings, admission, events)),
            sockets,
            from: local.ip(),
            running: JoinSet::new(),
        };
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = work.shared.events.closed() => break,
                command = commands.recv() => match command {
                    Some(command) => work.obey(command),
                    None => break,
                },
                incoming = work.sockets.quic.accept() => match incoming {
                    Some(incoming) => work.admit_quic(incoming),
                    None => break,
                },
                (tcp, address) = work.sockets.grpc.accept() => work.admit_grpc(tcp, address),
                Some(done) = work.running.join_next() => note(done),
            }
        }
        work.finish(&mut commands).await;
    }
}

/// What this node says to its peers when it stops without a word of its own.
const STOPPING: &str = "the node stops";

/// After everything is closed, how long the last packets get to leave.
const LINGER: Duration = Duration::from_millis(300);

struct Work {
    shared: Arc<Shared>,
    sockets: Sockets,
    /// Where gRPC dials from.
    from: IpAddr,
    running: JoinSet<()>,
}

impl Work {
    /// Never waits: whoever gives commands may be the one who takes events.
    fn obey(&mut self, command: CarrierCommand) {
        match command {
            CarrierCommand::Dial { peer, address, over } => self.dial(peer, address, over),
            CarrierCommand::Send { conn, frame } => self.shared.connections.send(conn, frame),
            CarrierCommand::Close { conn, reason } => self.shared.connections.close(conn, reason),
        }
    }

    fn dial(&mut self, peer: NodeId, address: SocketAddr, over: Over) {
        let shared = self.shared.clone();
        match over {
            Over::Quic => self.running.spawn(quic::dial(shared, self.sockets.quic.clone(), peer, address)),
            Over::Grpc => self.running.spawn(grpc::dial(shared, self.from, peer, address)),
        };
    }

    fn admit_quic(&mut self, incoming: quinn::Incoming) {
        if let Some(accepted) = quic::admit(&self.shared, self.sockets.quic.open_connections(), incoming) {
            self.running.spawn(accepted);
        }
    }

    fn admit_grpc(&mut self, tcp: TcpStream, address: SocketAddr) {
        if let Some(accepted) = grpc::admit(&self.shared, tcp, address) {
            self.running.spawn(accepted);
        }
    }

    /// Obeys what is left, then ends all connections, and with them all tasks and sockets.
    async fn finish(mut self, commands: &mut mpsc::Receiver<CarrierCommand>) {
        self.shared.stopping.cancel();
        while let Ok(command) = commands.try_recv() {
            self.obey(command);
        }
        self.shared.connections.close_all(STOPPING);
        let all = async {
            while let Some(done) = self.running.join_next().await {
                note(done);
            }
        };
        if timeout(self.shared.limits.flush + LINGER, all).await.is_err() {
            self.running.shutdown().await;
        }
        self.shared.tasks.clone().end().await;
        let Sockets { quic, tasks_of_quinn, grpc } = self.sockets;
        drop(grpc);
        quic::close(quic, tasks_of_quinn, STOPPING, LINGER).await;
    }
}

fn note(done: Result<(), JoinError>) {
    if let Err(error) = done
        && error.is_panic()
    {
        tracing::error!(%error, "a MEP connection's task broke");
    }
}
