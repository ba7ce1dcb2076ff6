//! Nodes with a carrier, and waiting for what they report.

use bytes::Bytes;
use gslb_types::NodeId;
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId, Over};
use mep_io::pki::Authority;
use mep_io::{Carrier, GroupName, Identity, Limits, Pem, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Runs each of these claims over both carriers.
macro_rules! over_both {
    ($($claim:ident,)*) => {
        mod quic {
            $(#[tokio::test]
            async fn $claim() {
                super::$claim(mep_core::carrier::Over::Quic).await;
            })*
        }

        mod grpc {
            $(#[tokio::test]
            async fn $claim() {
                super::$claim(mep_core::carrier::Over::Grpc).await;
            })*
        }
    };
}
pub(crate) use over_both;

/// Far above what anything takes here; reaching it is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn group() -> GroupName {
    "test".parse().unwrap()
}

pub(crate) fn authority() -> Authority {
    Authority::new(&group()).unwrap()
}

pub(crate) fn id(text: &str) -> NodeId {
    text.parse().unwrap()
}

pub(crate) fn identity(pem: &Pem, me: &str) -> Arc<Identity> {
    Arc::new(Identity::from_pem(pem, &group(), &id(me)).unwrap())
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A node's carrier, and both ends of its channels.
pub(crate) struct Node {
    /// What it dials over.
    pub(crate) over: Over,
    pub(crate) me: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) identity: Arc<Identity>,
    pub(crate) commands: mpsc::Sender<CarrierCommand>,
    pub(crate) events: mpsc::Receiver<CarrierEvent>,
    pub(crate) stop: CancellationToken,
    pub(crate) running: JoinHandle<()>,
}

impl Node {
    pub(crate) fn start(over: Over, ca: &Authority, me: &str) -> Node {
        Node::start_with(over, identity(&ca.issue(&id(me)).unwrap(), me), Limits::default(), 256)
    }

    pub(crate) fn start_with(over: Over, identity: Arc<Identity>, limits: Limits, room: usize) -> Node {
        Node::start_at(over, loopback(), identity, limits, room)
    }

    pub(crate) fn start_at(
        over: Over,
        listen: SocketAddr,
        identity: Arc<Identity>,
        limits: Limits,
        room: usize,
    ) -> Node {
        let settings = Settings { listen, identity: identity.clone(), limits };
        Node::run(over, identity, Carrier::bind(settings).unwrap(), room)
    }

    pub(crate) fn run(over: Over, identity: Arc<Identity>, carrier: Carrier, room: usize) -> Node {
        let (commands, obeyed) = mpsc::channel(256);
        let (reported, events) = mpsc::channel(room);
        let stop = CancellationToken::new();
        let me = identity.me().clone();
        let address = carrier.local_address();
        let running = tokio::spawn(carrier.run(obeyed, reported, stop.clone()));
        Node { over, me, address, identity, commands, events, stop, running }
    }

    pub(crate) async fn command(&self, command: CarrierCommand) {
        self.commands.send(command).await.unwrap();
    }

    pub(crate) async fn dial(&self, peer: &str, address: SocketAddr) {
        self.command(CarrierCommand::Dial { peer: id(peer), address, over: self.over }).await;
    }

    pub(crate) async fn send(&self, conn: ConnId, frame: impl Into<Bytes>) {
        self.command(CarrierCommand::Send { conn, frame: frame.into() }).await;
    }

    pub(crate) async fn close(&self, conn: ConnId, reason: &str) {
        self.command(CarrierCommand::Close { conn, reason: reason.into() }).await;
    }

    /// The next event, path round trips and age apart.
    pub(crate) async fn event(&mut self) -> CarrierEvent {
        let next = async {
            loop {
                match self.events.recv().await.expect("the carrier ended") {
                    CarrierEvent::PathRtt { .. } | CarrierEvent::Ageing { .. } => {}
                    event => return event,
                }
            }
        };
        timeout(PATIENCE, next).await.expect("no event came")
    }

    pub(crate) async fn any_event(&mut self) -> CarrierEvent {
        timeout(PATIENCE, self.events.recv()).await.expect("no event came").expect("the carrier ended")
    }

    /// The number of the next connection, and whom it is with.
    pub(crate) async fn connected(&mut self) -> (ConnId, NodeId) {
        match self.event().await {
            CarrierEvent::Connected { conn, peer, .. } => (conn, peer),
            other => panic!("{}: {other:?}", self.me),
        }
    }

    pub(crate) async fn received(&mut self) -> Bytes {
        match self.event().await {
            CarrierEvent::Received { frame, .. } => frame,
            other => panic!("{}: {other:?}", self.me),
        }
    }

    pub(crate) async fn closed(&mut self) -> String {
        match self.event().await {
            CarrierEvent::Closed { reason, .. } => reason,
            other => panic!("{}: {other:?}", self.me),
        }
    }

    pub(crate) async fn dial_failed(&mut self) -> String {
        match self.event().await {
            CarrierEvent::DialFailed { reason, .. } => reason,
            other => panic!("{}: {other:?}", self.me),
        }
    }

    pub(crate) async fn refused(&mut self) -> String {
        match self.event().await {
            CarrierEvent::Refused { reason, .. } => reason,
            other => panic!("{}: {other:?}", self.me),
        }
    }

    /// Nothing at all has been reported.
    pub(crate) fn assert_quiet(&mut self) {
        if let Ok(event) = self.events.try_recv() {
            panic!("{}: {event:?}", self.me);
        }
    }
}

/// Two nodes of one group and the connection that the first dialled.
pub(crate) struct Pair {
    pub(crate) a: Node,
    pub(crate) b: Node,
    pub(crate) at_a: ConnId,
    pub(crate) at_b: ConnId,
}

pub(crate) async fn pair(over: Over) -> Pair {
    let ca = authority();
    join(Node::start(over, &ca, "fra/1"), Node::start(over, &ca, "ams/1")).await
}

pub(crate) async fn join(mut a: Node, mut b: Node) -> Pair {
    a.dial(&b.me.to_string(), b.address).await;
    let ((at_a, _), (at_b, _)) = (a.connected().await, b.connected().await);
    Pair { a, b, at_a, at_b }
}
