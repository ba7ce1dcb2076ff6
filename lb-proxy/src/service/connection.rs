//! One HTTP/1.1 connection to a service, driven by whoever has a request on it.

use super::meter::{Binding, Meter};
use super::stream::ServiceStream;
use crate::alarm::Alarm;
use crate::http::Upload;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The largest head of a response, and as much of a body as is read ahead of a slow client.
const BUFFER: usize = 64 * 1024;

/// A connection with hyper's two ends of it.
///
/// hyper expects the connection to be spawned as a task of its own. Here the task that serves the client drives it: a request
/// then costs no wake-up of another task and no hop to another core. While the connection waits for reuse nobody polls it; what
/// happens to it meanwhile is found with the next request, before its first byte ([`Binding`]), or by the pool's sweep.
pub(crate) struct ServiceConnection {
    sender: SendRequest<Upload>,
    connection: Connection<TokioIo<ServiceStream>, Upload>,
    pub(crate) meter: Arc<Meter>,
    alarm: Alarm,
    is_closed: bool,
    pub(crate) idle_since: Instant,
}

impl ServiceConnection {
    pub(crate) async fn new(socket: TcpStream, alarm: Duration) -> hyper::Result<Box<Self>> {
        let meter = Arc::new(Meter::default());
        let stream = ServiceStream::new(socket, meter.clone());
        let (sender, connection) =
            http1::Builder::new().max_buf_size(BUFFER).handshake(TokioIo::new(stream)).await?;
        let alarm = Alarm::new(alarm);
        let idle_since = Instant::now();
        Ok(Box::new(ServiceConnection { sender, connection, meter, alarm, is_closed: false, idle_since }))
    }

    /// Gives it a request. The response comes as the connection is driven ([`ServiceConnection::drive`]).
    pub(crate) fn send(
        &mut self,
        request: Request<Upload>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<> {
        self.meter.bind(Binding::Unbound);
        let sent = self.sender.try_send_request(request);
        async move { sent.await.map_err(|error| error.into_error()) }
    }

    /// Lets it read and write. How it ends is told by the response or its body.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        self.meter.driven_by(cx.waker());
        if !self.is_closed {
            self.is_closed = self.connection.poll_without_shutdown(cx).is_ready();
        }
    }

    /// Whether another request can be sent: the one before is over on both sides.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_closed && self.sender.is_ready()
    }

    /// Whether either side has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether it was closed, or spoke, while it waited for reuse.
    pub(crate) fn is_dead(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        !self.is_ready()
    }

    /// After a response 101: the bare stream, and what the service has said already.
    pub(crate) fn into_tunnel(self) -> (ServiceStream, Bytes) {
        let parts = self.connection.into_parts();
        (parts.io.into_inner(), parts.read_buf)
    }

    /// Ready when `deadline` has passed.
    pub(crate) fn poll_deadline(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        loop {
            self.alarm.by(deadline);
            if self.alarm.poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
        }
    }
}

/// Why a response did not come whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// Its drain's deadline passed.
    #[error("cut: the service is drained")]
    Cut,
    /// Nothing moved for too long.
    #[error("the service was silent for too long")]
    Silent,
}
