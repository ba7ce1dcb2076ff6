//! One bidirectional stream of frames, opened by the dialler: its greeting, and how it ends.

use super::{code, words};
use crate::link::{Last, Next, Path, Receive, Transmit, Why, Wire};
use crate::name::{self, GroupName, Subject};
use crate::words::fitting;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use mep_core::carrier::{MAX_FRAME, Over};
use quinn::{Connection, RecvStream, SendStream};
use rustls_pki_types::CertificateDer;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

type Incoming = FramedRead<RecvStream, LengthDelimitedCodec>;
type Outgoing = FramedWrite<SendStream, LengthDelimitedCodec>;

/// The dialler's side of the greeting. An empty frame each way: QUIC shows a stream to the other end only once something
/// was written, and the answer proves that the other end has accepted our certificate.
pub(super) async fn greet_first(connection: &Connection) -> Result<(Incoming, Outgoing), String> {
    let (send, receive) = connection.open_bi().await.map_err(|error| words::handshake(&error))?;
    let (mut incoming, mut outgoing) = (FramedRead::new(receive, codec()), FramedWrite::new(send, codec()));
    SinkExt::send(&mut outgoing, Bytes::new()).await.map_err(|error| ungreeted(connection, &error))?;
    take_greeting(connection, &mut incoming).await?;
    Ok((incoming, outgoing))
}

/// The other side of it.
pub(super) async fn greet_back(connection: &Connection) -> Result<(Incoming, Outgoing), String> {
    let (send, receive) = connection.accept_bi().await.map_err(|error| words::handshake(&error))?;
    let (mut incoming, mut outgoing) = (FramedRead::new(receive, codec()), FramedWrite::new(send, codec()));
    take_greeting(connection, &mut incoming).await?;
    SinkExt::send(&mut outgoing, Bytes::new()).await.map_err(|error| ungreeted(connection, &error))?;
    Ok((incoming, outgoing))
}

async fn take_greeting(connection: &Connection, incoming: &mut Incoming) -> Result<(), String> {
    match StreamExt::next(incoming).await {
        Some(Ok(frame)) if frame.is_empty() => Ok(()),
        Some(Ok(_)) | None => {
            let reason = "the first frame was not the greeting";
            connection.close(code::of(Why::Protocol), reason.as_bytes());
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
            connection.close(code::of(Why::Protocol), reason.as_bytes());
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
    name::peer_of(chain.as_deref().map(Vec::as_slice), group)
}

/// A greeted connection and its stream.
pub(super) struct Stream {
    pub(super) connection: Connection,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
}

impl Wire for Stream {
    const OVER: Over = Over::Quic;
    type Incoming = Incoming;
    type Outgoing = Outgoing;
    type Path = Connection;

    fn parts(&mut self) -> (&mut Incoming, &mut Outgoing, &mut Connection) {
        (&mut self.incoming, &mut self.outgoing, &mut self.connection)
    }

    async fn end(mut self, last: Last, patience: Duration) -> String {
        match last {
            Last::Ours(why, reason) => {
                self.connection.close(code::of(why), fitting(&reason).as_bytes());
                reason
            }
            Last::Theirs => {
                let _ = self.outgoing.get_mut().finish(); // fails only if the stream has ended already
                match timeout(patience, self.connection.closed()).await {
                    Ok(closed) => words::closed(&closed),
                    Err(_) => "the other end finished without a reason".to_owned(),
                }
            }
            Last::Lost(error) => match self.connection.close_reason() {
                Some(closed) => words::closed(&closed),
                None => {
                    let reason = format!("the other end broke the framing: {error}");
                    self.connection.close(code::of(Why::Protocol), fitting(&reason).as_bytes());
                    reason
                }
            },
        }
    }
}

impl Receive for Incoming {
    async fn next(&mut self) -> Next {
        match StreamExt::next(self).await {
            Some(Ok(frame)) => Next::Frame(frame.freeze()),
            Some(Err(error)) => Next::Lost(error.to_string()),
            None => Next::Finished,
        }
    }
}

impl Transmit for Outgoing {
    async fn send(&mut self, frame: Bytes) -> Result<(), String> {
        SinkExt::send(self, frame).await.map_err(|error| error.to_string())
    }

    /// The reason travels in the close that follows.
    fn finish(&mut self, _reason: &str) -> Result<(), String> {
        self.get_mut().finish().map_err(|closed| closed.to_string())
    }
}

impl Path for Connection {
    /// Quinn measures all the time, and the idle timeout is its own.
    async fn rtt(&mut self, _patience: Duration) -> Result<Option<Duration>, String> {
        Ok(Some(Connection::rtt(self)))
    }

    fn address(&self) -> SocketAddr {
        self.remote_address()
    }
}
