//! Messages of a gRPC call on a stream of HTTP/2, both ways.

use super::{status, trailers};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use http_body::{Body, Frame};
use mep_core::carrier::MAX_FRAME;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::codec::{DecodeBuf, Decoder};
use tonic::{Status, Streaming};

/// The messages that come.
pub(super) struct Messages(Streaming<Bytes>);

impl Messages {
    pub(super) fn new(stream: RecvStream) -> Self {
        Messages(Streaming::new_request(Whole, Incoming(stream), None, Some(MAX_FRAME)))
    }

    /// The next one; `None` when the other end has ended its direction.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        self.0.message().await
    }

    /// What the other end said when it ended its direction.
    pub(super) async fn last_words(&mut self) -> Option<Status> {
        let trailers = self.0.trailers().await.ok().flatten()?;
        status(trailers.into_headers())
    }
}

/// A message is a frame as it is.
struct Whole;

impl Decoder for Whole {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}

/// The stream as tonic reads it. Room is given back to the peer as its bytes are taken, and one message at most waits.
struct Incoming(RecvStream);

impl Body for Incoming {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let stream = &mut self.0;
        Poll::Ready(match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) => match stream.flow_control().release_capacity(data.len()) {
                Ok(()) => Some(Ok(Frame::data(data))),
                Err(error) => Some(Err(error)),
            },
            Some(Err(error)) => Some(Err(error)),
            None => match ready!(stream.poll_trailers(cx)) {
                Ok(Some(trailers)) => Some(Ok(Frame::trailers(trailers))),
                Ok(None) => None,
                Err(error) => Some(Err(error)),
            },
        })
    }
}

/// The messages that go.
pub(super) struct Sender {
    stream: SendStream<Bytes>,
    /// Whether a message has begun that has not ended.
    within: bool,
    finished: bool,
}

impl Sender {
    pub(super) fn new(stream: SendStream<Bytes>) -> Self {
        Sender { stream, within: false, finished: false }
    }

    /// Waits until the peer has room for all of it. Must not be given up in between, unless nothing is sent afterwards.
    pub(super) async fn send(&mut self, frame: &[u8]) -> Result<(), h2::Error> {
        let mut rest = message(frame);
        self.within = true;
        while rest.has_remaining() {
            let room = self.room(rest.remaining()).await?;
            let part = rest.split_to(room.min(rest.remaining()));
            self.stream.send_data(part, false)?;
        }
        self.within = false;
        Ok(())
    }

    /// Some room, at least a byte.
    async fn room(&mut self, wanted: usize) -> Result<usize, h2::Error> {
        self.stream.reserve_capacity(wanted);
        while self.stream.capacity() == 0 {
            match poll_fn(|cx| self.stream.poll_capacity(cx)).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(h2::Reason::STREAM_CLOSED.into()),
            }
        }
        Ok(self.stream.capacity())
    }

    /// Ends the direction with this status, after what was sent. Does nothing if it has ended or a message is half sent.
    pub(super) fn finish(&mut self, last: &Status) -> Result<(), h2::Error> {
        if self.finished || self.within {
            return Ok(());
        }
        self.finished = true;
        self.stream.send_trailers(trailers(last))
    }

    /// Whether a message is half sent: then nothing else can follow but a reset.
    pub(super) fn is_within(&self) -> bool {
        self.within
    }

    pub(super) fn reset(&mut self, reason: h2::Reason) {
        self.stream.send_reset(reason);
    }
}

/// Uncompressed: a zero, the length in four bytes, the frame.
fn message(frame: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(5 + frame.len());
    message.put_u8(0);
    message.put_u32(u32::try_from(frame.len()).unwrap_or(u32::MAX)); // MAX_FRAME is far below
    message.put_slice(frame);
    message.freeze()
}
