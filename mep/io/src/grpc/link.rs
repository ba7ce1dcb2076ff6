//! One call that carries frames: its greeting, and how it ends.

use super::messages::{Messages, Sender};
use super::{code, words};
use crate::link::{Last, Next, Path, Receive, Transmit, Why, Wire};
use crate::words::{SILENT, fitting};
use bytes::Bytes;
use h2::{Ping, PingPong};
use mep_core::carrier::Over;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::sync::DropGuard;
use tonic::Status;

/// What a peer that does not take our last words gets to see the reset that comes instead. It passes all queues of HTTP/2,
/// but not those of a kernel whose process stands still.
const RESET: Duration = Duration::from_millis(200);

/// A call that stands.
pub(super) struct Exchange {
    pub(super) incoming: Incoming,
    pub(super) outgoing: Sender,
    pub(super) path: Pinged,
    /// Keeps the connection going until it is dropped.
    pub(super) driver: Driver,
}

/// The task that reads and writes a connection for its streams.
pub(super) struct Driver {
    pub(super) _guard: DropGuard,
    /// Fails when the connection is gone.
    pub(super) gone: oneshot::Receiver<()>,
}

/// The receiving direction.
pub(super) struct Incoming {
    pub(super) messages: Messages,
    pub(super) idle: Duration,
}

/// The way to the peer, measured by pings of HTTP/2, one at a time.
pub(super) struct Pinged {
    pings: Option<PingPong>,
    /// When the one that is under way was sent.
    sent: Option<Instant>,
    address: SocketAddr,
    idle: Duration,
}

impl Pinged {
    pub(super) fn new(pings: Option<PingPong>, address: SocketAddr, idle: Duration) -> Self {
        Pinged { pings, sent: None, address, idle }
    }
}

impl Exchange {
    /// Ends the call in order if the peer takes it within the time, and by a reset if it does not.
    async fn close(mut self, why: Why, reason: &str, patience: Duration) {
        let last = Status::new(code::of(why), fitting(reason));
        if self.outgoing.finish(&last).is_ok() && !self.outgoing.is_within() {
            let (messages, gone) = (&mut self.incoming.messages, &mut self.driver.gone);
            let rest = async {
                while let Ok(message) = messages.next().await {
                    if message.is_none() {
                        return;
                    }
                }
                // What it sends can't be read, so only its hanging up shows that it has our last words.
                let _ = gone.await;
            };
            if timeout(patience, rest).await.is_ok() {
                return;
            }
        }
        self.outgoing.reset(code::reset(why));
        let _ = timeout(RESET, self.driver.gone).await; // then it is cut without
    }
}

impl Wire for Exchange {
    const OVER: Over = Over::Grpc;
    type Incoming = Incoming;
    type Outgoing = Sender;
    type Path = Pinged;

    fn parts(&mut self) -> (&mut Incoming, &mut Sender, &mut Pinged) {
        (&mut self.incoming, &mut self.outgoing, &mut self.path)
    }

    async fn end(mut self, last: Last, patience: Duration) -> String {
        match last {
            Last::Ours(why, reason) => {
                // After a flush the peer has had its time already.
                let patience = if why == Why::Refused { patience } else { patience.min(RESET) };
                self.close(why, &reason, patience).await;
                reason
            }
            Last::Theirs => {
                let reason = words::closed(self.incoming.messages.last_words().await.as_ref());
                if self.outgoing.is_within() {
                    self.outgoing.reset(code::reset(Why::Closed));
                }
                let _ = self.outgoing.finish(&Status::ok("")); // fails only if it is gone already
                let _ = timeout(patience, self.driver.gone).await; // the other end hangs up when it has seen this
                reason
            }
            Last::Lost(reason) => {
                self.close(Why::Protocol, &reason, patience.min(RESET)).await;
                reason
            }
        }
    }
}

impl Receive for Incoming {
    /// Silence is told from frames, whatever TCP and HTTP/2 say to each other meanwhile (faults I-44).
    async fn next(&mut self) -> Next {
        match timeout(self.idle, self.messages.next()).await {
            Ok(Ok(Some(frame))) => Next::Frame(frame),
            Ok(Ok(None)) => Next::Finished,
            Ok(Err(status)) => Next::Lost(words::lost(&status)),
            Err(_) => Next::Lost(SILENT.to_owned()),
        }
    }
}

impl Transmit for Sender {
    async fn send(&mut self, frame: Bytes) -> Result<(), String> {
        Sender::send(self, &frame).await.map_err(|error| words::gone(&error))
    }

    fn finish(&mut self, reason: &str) -> Result<(), String> {
        let last = Status::new(code::of(Why::Closed), fitting(reason));
        Sender::finish(self, &last).map_err(|error| words::gone(&error))
    }
}

impl Path for Pinged {
    /// A peer whose HTTP/2 does not answer is gone, though the kernel of its machine may acknowledge every byte.
    async fn rtt(&mut self, patience: Duration) -> Result<Option<Duration>, String> {
        let Some(pings) = &mut self.pings else { return Ok(None) };
        let sent = match self.sent {
            Some(sent) => sent,
            None => {
                pings.send_ping(Ping::opaque()).map_err(|error| words::gone(&error))?;
                *self.sent.insert(Instant::now())
            }
        };
        match timeout(patience, poll_fn(|cx| pings.poll_pong(cx))).await {
            Ok(Ok(_)) => {
                self.sent = None;
                Ok(Some(sent.elapsed()))
            }
            Ok(Err(error)) => Err(words::gone(&error)),
            Err(_) if sent.elapsed() >= self.idle => Err(SILENT.to_owned()),
            Err(_) => Ok(None),
        }
    }

    fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Reads the empty message that comes first.
pub(super) async fn take_greeting(messages: &mut Messages) -> Result<(), String> {
    match messages.next().await {
        Ok(Some(first)) if first.is_empty() => Ok(()),
        Ok(Some(_)) => Err("the first frame was not the greeting".to_owned()),
        Ok(None) => Err(words::refused(messages.last_words().await.as_ref())),
        Err(status) => Err(words::unread(&status)),
    }
}
