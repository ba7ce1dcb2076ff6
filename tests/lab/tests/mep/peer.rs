//! A peer made of the project's own parts, which says what a test wants it to say.

use bytes::Bytes;
use lab::Lab;
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId, Over};
use mep_core::proto::{self, frame::Body};
use mep_io::{Carrier, Identity, Limits, Pem, Settings};
use prost::Message;
use prost::encoding::decode_varint;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Frames on their way, sent and not acknowledged; a session allows more.
const IN_FLIGHT: u64 = 64;

/// Runs `work` on the laboratory's node `place`, in a runtime of its own.
pub(crate) fn at<T: Send>(lab: &Lab, place: &str, work: impl AsyncFnOnce() -> T + Send) -> T {
    lab.in_namespace(place, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(work())
    })
    .expect("namespace")
}

/// The carrier of a node that does not exist otherwise.
pub(crate) struct Peer {
    me: String,
    commands: mpsc::Sender<CarrierCommand>,
    events: mpsc::Receiver<CarrierEvent>,
    stop: CancellationToken,
    hellos: u64,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Ended {
    DialFailed(String),
    Closed(String),
}

/// A session of it.
pub(crate) struct Session {
    conn: ConnId,
    sent: u64,
    received: u64,
    acknowledged: u64,
    /// Field numbers of the bodies that have come, in order.
    heard: Vec<u32>,
}

impl Session {
    /// Field numbers of the bodies that have come, in order.
    pub(crate) fn heard(&self) -> &[u32] {
        &self.heard
    }
}

/// The field number of what a frame says: the first field that is a message, behind the numbers before it.
fn body_number(frame: &[u8]) -> Option<u32> {
    let mut rest = frame;
    while !rest.is_empty() {
        let key = decode_varint(&mut rest).ok()?;
        match key & 7 {
            0 => drop(decode_varint(&mut rest).ok()?),
            2 => return u32::try_from(key >> 3).ok(),
            _ => return None,
        }
    }
    None
}

impl Peer {
    /// Within [`at`].
    pub(crate) fn start(pem: &Pem, me: &str) -> Peer {
        let group = "lab".parse().expect("a name");
        let id = me.parse().expect("SITE/NODE");
        let identity = Arc::new(Identity::from_pem(pem, &group, &id).expect("an identity"));
        let listen = "0.0.0.0:0".parse().expect("an address");
        let carrier =
            Carrier::bind(Settings { listen, identity, limits: Limits::default() }).expect("a free port");
        let (commands, obeyed) = mpsc::channel(256);
        let (reported, events) = mpsc::channel(256);
        let stop = CancellationToken::new();
        tokio::spawn(carrier.run(obeyed, reported, stop.clone()));
        Peer { me: me.to_owned(), commands, events, stop, hellos: 0 }
    }

    /// Dials, says `hello`, and waits for the first word of the other end.
    pub(crate) async fn session(
        &mut self,
        with: &str,
        address: SocketAddr,
        hello: proto::Hello,
    ) -> Result<Session, Ended> {
        let dial = CarrierCommand::Dial { peer: with.parse().expect("SITE/NODE"), address, over: Over::Quic };
        self.command(dial).await;
        // The other end may have dialled us at the same time; its connections get nothing from us.
        let conn = loop {
            match self.event().await {
                CarrierEvent::Connected { conn, dialled: true, .. } => break conn,
                CarrierEvent::DialFailed { reason, .. } => return Err(Ended::DialFailed(reason)),
                _ => {}
            }
        };
        let mut session = Session { conn, sent: 0, received: 0, acknowledged: 0, heard: Vec::new() };
        self.say(&mut session, &Body::Hello(hello)).await?;
        while session.received == 0 {
            self.hear(&mut session).await?;
        }
        Ok(session)
    }

    /// A hello that will do, under its own name.
    pub(crate) fn hello(&mut self) -> proto::Hello {
        self.hellos += 1;
        let (site, node) = self.me.split_once('/').expect("SITE/NODE");
        proto::Hello {
            major_min: 1,
            major_max: 1,
            minor: 1,
            site: site.to_owned(),
            node: node.to_owned(),
            boot: 4711,
            number: self.hellos,
            software: "a test".to_owned(),
            group: "lab".to_owned(),
            keepalive_ms: 10_000,
            ..Default::default()
        }
    }

    /// Sends a frame with this body, once there is room on the way.
    pub(crate) async fn say(&mut self, session: &mut Session, body: &Body) -> Result<(), Ended> {
        let frame = proto::Frame { body: Some(body.clone()), ..Default::default() };
        self.send(session, &frame.encode_to_vec()).await
    }

    /// The same with the octets of a body, whatever they are: the header before them is right.
    pub(crate) async fn send(&mut self, session: &mut Session, body: &[u8]) -> Result<(), Ended> {
        while session.sent - session.acknowledged >= IN_FLIGHT {
            self.hear(session).await?;
        }
        session.sent += 1;
        let head = proto::Frame { seq: session.sent, ack: session.received, heard_ms: Some(0), body: None };
        let mut frame = head.encode_to_vec();
        frame.extend_from_slice(body);
        self.command(CarrierCommand::Send { conn: session.conn, frame: Bytes::from(frame) }).await;
        Ok(())
    }

    /// Takes the next word of the session.
    pub(crate) async fn hear(&mut self, session: &mut Session) -> Result<(), Ended> {
        loop {
            match self.event().await {
                CarrierEvent::Received { conn, frame } if conn == session.conn => {
                    session.heard.extend(body_number(&frame));
                    let frame = proto::Frame::decode(frame).expect("the node speaks its protocol");
                    (session.received, session.acknowledged) = (frame.seq, frame.ack);
                    return Ok(());
                }
                CarrierEvent::Closed { conn, reason } if conn == session.conn => {
                    return Err(Ended::Closed(reason));
                }
                _ => {}
            }
        }
    }

    async fn command(&mut self, command: CarrierCommand) {
        self.commands.send(command).await.expect("the carrier runs");
    }

    async fn event(&mut self) -> CarrierEvent {
        let event = timeout(Duration::from_secs(30), self.events.recv()).await;
        event.expect("the node says something").expect("the carrier runs")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
