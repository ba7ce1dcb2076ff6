//! A connection that stands: frames in, frames out, and an end both sides know the reason of.
//!
//! ```text
//! greeting ──> live ──┬─ Flush: last frames, FIN ──> peer's FIN (or time is up) ──> close with the reason
//!                     ├─ peer's FIN: ours too      ──> peer's close (or time is up)
//!                     └─ Cut, broken framing       ──> close with the reason
//! ```
//! A close throws away what the peer has not read yet. So whoever ends a connection first ends the stream, and closes when
//! the peer has ended its own: by then it has taken every frame.

use super::{code, words};
use crate::carrier::Shared;
use crate::name::{GroupName, Subject};
use crate::outbox::{Ending, Frames, Queue};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use mep_core::carrier::{CarrierEvent, ConnId, MAX_FRAME, Over};
use quinn::{Connection, RecvStream, SendStream, VarInt};
use rustls_pki_types::CertificateDer;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

type Incoming = FramedRead<RecvStream, LengthDelimitedCodec>;
type Outgoing = FramedWrite<SendStream, LengthDelimitedCodec>;

/// The dialler's side of the greeting. An empty frame each way: QUIC shows a stream to the other end only once something
/// was written, and the answer proves that the other end has accepted our certificate.
pub(super) async fn greet_first(connection: &Connection) -> Result<(Incoming, Outgoing), String> {
    let (send, receive) = connection.open_bi().await.map_err(|error| words::handshake(&error))?;
    let (mut incoming, mut outgoing) = (FramedRead::new(receive, codec()), FramedWrite::new(send, codec()));
    outgoing.send(Bytes::new()).await.map_err(|error| ungreeted(connection, &error))?;
    take_greeting(connection, &mut incoming).await?;
    Ok((incoming, outgoing))
}

/// The other side of it.
pub(super) async fn greet_back(connection: &Connection) -> Result<(Incoming, Outgoing), String> {
    let (send, receive) = connection.accept_bi().await.map_err(|error| words::handshake(&error))?;
    let (mut incoming, mut outgoing) = (FramedRead::new(receive, codec()), FramedWrite::new(send, codec()));
    take_greeting(connection, &mut incoming).await?;
    outgoing.send(Bytes::new()).await.map_err(|error| ungreeted(connection, &error))?;
    Ok((incoming, outgoing))
}

async fn take_greeting(connection: &Connection, incoming: &mut Incoming) -> Result<(), String> {
    match incoming.next().await {
        Some(Ok(frame)) if frame.is_empty() => Ok(()),
        Some(Ok(_)) | None => {
            let reason = "the first frame was not the greeting";
            connection.close(code::PROTOCOL, reason.as_bytes());
            Err(reason.to_owned())
        }
        Some(Err(error)) => Err(ungreeted(connection, &error)),
    }
}

fn ungreeted(connection: &Connection, error: &io::Error) -> String {
    match connection.close_reason() {
        Some(closed) => words::handshake(&closed),
        None => {
            let reason = error.to_string();
            connection.close(code::PROTOCOL, reason.as_bytes());
            reason
        }
    }
}

fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .length_field_length(4)
        .big_endian()
        .max_frame_length(MAX_FRAME)
        .new_codec()
}

/// Whom the certificate that TLS has checked names.
pub(super) fn peer_of(connection: &Connection, group: &GroupName) -> Result<Subject, String> {
    let chain =
        connection.peer_identity().and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let leaf = chain.as_ref().and_then(|chain| chain.first()).ok_or("it showed no certificate")?;
    Subject::read(leaf, group).map_err(|error| error.to_string())
}

/// A greeted connection.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    pub(super) subject: Subject,
    pub(super) dialled: bool,
    pub(super) address: SocketAddr,
}

/// How a connection came to its end.
enum Last {
    /// We end it.
    Ours(VarInt, String),
    /// The peer ends the stream; its reason follows.
    Theirs,
    /// It is gone already.
    Lost(io::Error),
}

impl Link {
    /// Lives until the end. Fails, before anything was reported, if the peer has too many connections.
    pub(super) async fn run(self, shared: &Shared) -> Result<(), String> {
        let peer = self.subject.node.clone();
        let Some((conn, queue)) = shared.connections.add(&peer) else {
            let reason = format!("{peer} has too many connections");
            self.connection.close(code::REFUSED, reason.as_bytes());
            return Err(reason);
        };
        let connected = CarrierEvent::Connected {
            conn,
            peer,
            dialled: self.dialled,
            address: self.address,
            certificate_expires: self.subject.expires,
            over: Over::Quic,
        };
        let reason = match shared.events.send(connected).await {
            Ok(()) => self.live(shared, conn, queue).await,
            Err(_) => DEAF.to_owned(),
        };
        shared.connections.remove(conn);
        let _ = shared.events.send(CarrierEvent::Closed { conn, reason }).await; // nobody listens: stopping
        Ok(())
    }

    async fn live(mut self, shared: &Shared, conn: ConnId, mut queue: Queue) -> String {
        let last = {
            let mut receive = pin!(receive(shared, conn, &mut self.incoming));
            let mut transmit = pin!(transmit(&mut queue.frames, &mut self.outgoing));
            let watch = pin!(watch(shared, conn, &self.connection));
            tokio::select! {
                last = &mut receive => last,
                error = &mut transmit => Last::Lost(error),
                never = watch => match never {},
                ending = &mut queue.ending => match ending {
                    Ok(Ending::Flush(reason)) => {
                        // The outbox is gone, so `transmit` sends the rest and the FIN; the peer's FIN ends `receive`.
                        let flushed = async { tokio::select! { _ = receive => (), _ = transmit => () } };
                        let _ = timeout(shared.limits.flush, flushed).await; // then the rest is lost
                        Last::Ours(code::CLOSED, reason)
                    }
                    Ok(Ending::Cut(reason)) => Last::Ours(code::SLOW, reason),
                    Err(_) => Last::Ours(code::CLOSED, DEAF.to_owned()),
                },
            }
        };
        self.end(shared, last).await
    }

    /// Both ends learn the reason, and it is returned.
    async fn end(mut self, shared: &Shared, last: Last) -> String {
        match last {
            Last::Ours(code, reason) => {
                self.connection.close(code, words::fitting(&reason).as_bytes());
                reason
            }
            Last::Theirs => {
                let _ = self.outgoing.get_mut().finish(); // fails only if the stream has ended already
                match timeout(shared.limits.flush, self.connection.closed()).await {
                    Ok(closed) => words::closed(&closed),
                    Err(_) => "the other end finished without a reason".to_owned(),
                }
            }
            Last::Lost(error) => match self.connection.close_reason() {
                Some(closed) => words::closed(&closed),
                None => {
                    let reason = format!("the other end broke the framing: {error}");
                    self.connection.close(code::PROTOCOL, words::fitting(&reason).as_bytes());
                    reason
                }
            },
        }
    }
}

/// The reason when nobody takes events any more.
const DEAF: &str = "the node stops";

async fn receive(shared: &Shared, conn: ConnId, incoming: &mut Incoming) -> Last {
    loop {
        let frame = match incoming.next().await {
            Some(Ok(frame)) => frame.freeze(),
            Some(Err(error)) => return Last::Lost(error),
            None => return Last::Theirs,
        };
        // Waiting here is what slows the peer down when this node does not keep up.
        if shared.events.send(CarrierEvent::Received { conn, frame }).await.is_err() {
            return Last::Ours(code::CLOSED, DEAF.to_owned());
        }
    }
}

/// Sends until something breaks. After the last frame of an ended outbox comes the FIN, and nothing more.
async fn transmit(frames: &mut Frames, outgoing: &mut Outgoing) -> io::Error {
    while let Some(frame) = frames.next().await {
        if let Err(error) = outgoing.send(frame).await {
            return error;
        }
    }
    match outgoing.get_mut().finish() {
        Ok(()) => std::future::pending().await,
        Err(closed) => closed.into(),
    }
}

async fn watch(shared: &Shared, conn: ConnId, connection: &Connection) -> Infallible {
    let mut ticks = interval(shared.limits.path_rtt);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let rtt = connection.rtt();
        let _ = shared.events.send(CarrierEvent::PathRtt { conn, rtt }).await; // `receive` notices the end
    }
}
