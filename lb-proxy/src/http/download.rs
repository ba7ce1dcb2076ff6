//! The body of a response on its way to the client.

use super::exchange::Exchange;
use super::upload::Gate;
use crate::client::{Activity, Delivery};
use crate::listen::Place;
use crate::service::{Broken, Service, ServiceConnection, Waiting};
use crate::transaction::Transaction;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A service's body, passed on piece by piece as the client takes it. The transaction ends with it.
pub(crate) struct Download {
    incoming: Incoming,
    state: State,
    error: Option<io::Error>,
    /// Hears of what the client takes.
    delivery: Option<Arc<Delivery>>,
}

/// Who drives the connection.
///
/// ```text
///             response came before its request was through
///           +----------------------------------------------> Detached --+
///   start --+                                                           +--> Over
///           +----------------------------------------------> Driving ---+     connection to the pool, transaction ended
/// ```
enum State {
    /// Whoever reads the body.
    Driving(Exchange),
    /// A task of its own, since the rest of the request must go on even while the client reads nothing.
    Detached(Transaction),
    /// Nobody: all of the body is here.
    Over,
}

impl Download {
    /// The body that follows a head; `None` if none follows. A request whose `gate` is still shut has held its body back until the
    /// service asks for it, and the service has answered without: nothing of it is to go on, and the connection ends with the answer.
    pub(crate) fn new(
        incoming: Incoming,
        exchange: Exchange,
        gate: Option<&Gate>,
        place: &Place,
        activity: &Activity,
    ) -> Option<Box<Self>> {
        let meter = exchange.connection.meter.clone();
        let is_held_back = gate.is_some_and(|gate| !gate.is_open());
        let state = if is_held_back || meter.upload() == Waiting::Nobody {
            State::Driving(exchange)
        } else {
            let Exchange { transaction, connection, idle, .. } = exchange;
            place.tasks.spawn(drive(transaction.service.clone(), connection, idle, place.kill.clone()));
            State::Detached(transaction)
        };
        let mut download = Download { incoming, state, error: None, delivery: None };
        download.notice_end();
        if download.is_end_stream() {
            return None;
        }
        let delivery = activity.deliver();
        delivery.begins(&meter);
        download.delivery = Some(delivery);
        Some(Box::new(download))
    }

    /// Ends the transaction with the last piece, without waiting to be asked for more.
    fn notice_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let State::Driving(exchange) = std::mem::replace(&mut self.state, State::Over) {
            let Exchange { transaction, connection, .. } = exchange;
            let service = transaction.service.clone();
            drop(transaction); // has counted before the next one begins to
            service.keep(connection);
        }
    }

    /// Ends in the middle. What came before is still to reach the client, and hyper throws away what it has not written when a
    /// body fails; so the failure waits for the next poll.
    fn fail<T>(
        &mut self,
        cx: &mut Context<'_>,
        why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Poll<T> {
        self.state = State::Over;
        self.error = Some(io::Error::other(why));
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Drives the connection until it has more of the body, has broken, or has kept silent for too long.
    fn poll_driven(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let State::Driving(exchange) = &mut self.state {
            exchange.connection.drive(cx);
        }
        Pin::new(&mut self.incoming).poll_frame(cx)
    }

    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        match &mut self.state {
            State::Driving(exchange) if exchange.connection.meter.is_cut() => Poll::Ready(Broken::Cut),
            State::Driving(exchange) => exchange.poll_silence(cx).map(|()| Broken::Silent),
            State::Detached(_) | State::Over => Poll::Pending,
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if let Some(delivery) = &self.delivery {
            delivery.ended();
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        if let Some(error) = this.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut frame = Pin::new(&mut this.incoming).poll_frame(cx);
        if frame.is_pending() {
            frame = this.poll_driven(cx);
        }
        match frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(delivery) = &this.delivery {
                    delivery.moved();
                }
                if let State::Detached(transaction) = &mut this.state {
                    transaction.report(Instant::now());
                }
                this.notice_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => this.fail(cx, error),
            Poll::Ready(None) => {
                this.end();
                Poll::Ready(None)
            }
            Poll::Pending => match this.poll_broken(cx) {
                Poll::Ready(broken) => this.fail(cx, broken),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Over) && self.error.is_none() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// Drives a connection whose request is not through, until it ends, is cut, or keeps silent for too long.
async fn drive(
    service: Arc<Service>,
    mut connection: Box<ServiceConnection>,
    idle: Duration,
    kill: CancellationToken,
) {
    let (mut seen, mut since) = (connection.meter.bytes(), Instant::now());
    let mut killed = pin!(kill.cancelled());
    std::future::poll_fn(|cx| {
        connection.drive(cx);
        let is_over = connection.is_closed() || connection.is_ready() || connection.meter.is_cut();
        if is_over || killed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let bytes = connection.meter.bytes();
        if bytes != seen {
            (seen, since) = (bytes, Instant::now());
        }
        connection.poll_deadline(cx, since + idle)
    })
    .await;
    service.keep(connection);
}
