//! A request on a connection to a service: sent, and driven until the response's head has come.

use super::reply::Refusal;
use super::upload::{Gate, Upload};
use crate::dial::Unreachable;
use crate::service::{Binding, Freshness, ServiceConnection, Waiting};
use crate::settings::Timeouts;
use crate::transaction::Transaction;
use crate::vserver::Vserver;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use lb_core::{MemberId, NoService, ServiceId};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// How long a client that asked for it is kept waiting for the service's word to go on. RFC 9110 section 10.1.1: a service may
/// never give it, so one may not wait for it for ever.
const CONTINUE: Duration = Duration::from_secs(1);

/// Who asks, and for whom the choice has been made so far.
pub(crate) struct Attempts<'a> {
    pub(crate) vserver: &'a Arc<Vserver>,
    pub(crate) client: IpAddr,
    pub(crate) cookie: Option<ServiceId>,
    pub(crate) timeouts: &'a Timeouts,
    /// Members that may be tried after the first.
    pub(crate) retries: usize,
    /// Those that could not be reached.
    pub(crate) tried: Vec<MemberId>,
}

/// A request under way: its transaction, and the connection it is on.
pub(crate) struct Exchange {
    pub(crate) transaction: Transaction,
    pub(crate) connection: Box<ServiceConnection>,
    pub(crate) idle: Duration,
    freshness: Freshness,
    /// What had passed, and when that was looked at: silence is measured between looks.
    seen: u64,
    since: Instant,
    /// The request is through: since `since`, until the response's head has come.
    is_asked: bool,
}

impl Attempts<'_> {
    /// A service for the request, as far as nothing is known against it.
    fn pick(&self) -> Result<Transaction, Refusal> {
        self.vserver.pick(self.client, self.cookie, &self.tried).map_err(Refusal::NoService)
    }

    /// Gives a pick back, since nothing of the request reached it. Whether there may be another.
    fn failed(&mut self, transaction: Transaction, why: &Unreachable) -> Result<(), Refusal> {
        tracing::debug!(service = %transaction.service.name, reason = %why, "service not reached");
        self.tried.push(transaction.member());
        drop(transaction);
        if self.tried.len() <= self.retries {
            self.vserver.counters.retried.add();
            return Ok(());
        }
        Err(gave_up(why))
    }

    /// The next pick, after at least one failed. That none is left is a failure of those that were tried.
    fn pick_again(&self, why: &Unreachable) -> Result<Transaction, Refusal> {
        self.pick().map_err(|refusal| match refusal {
            Refusal::NoService(NoService::AllTried) => gave_up(why),
            other => other,
        })
    }

    /// A connection to a service that can be reached.
    async fn connect(&mut self) -> Result<Exchange, Refusal> {
        let mut transaction = self.pick()?;
        loop {
            match transaction.connect(self.timeouts.connect).await {
                Ok((connection, freshness)) => {
                    let now = Instant::now();
                    transaction.counts(&connection.meter, now);
                    let idle = self.timeouts.idle;
                    let seen = connection.meter.bytes();
                    let (since, is_asked) = (now, false);
                    return Ok(Exchange { transaction, connection, idle, freshness, seen, since, is_asked });
                }
                Err(why) => {
                    self.failed(transaction, &why)?;
                    transaction = self.pick_again(&why)?;
                }
            }
        }
    }

    /// Sends the request, and waits for the head of the response.
    pub(crate) async fn exchange(
        &mut self,
        mut request: Request<Upload>,
        gate: Option<&Arc<Gate>>,
    ) -> Result<(Response<Incoming>, Exchange), Refusal> {
        let mut exchange = self.connect().await?;
        request.body_mut().tells(&exchange.connection.meter);
        exchange.dispatched();
        let mut response = pin!(exchange.connection.send(request));
        loop {
            let step =
                poll_fn(|cx| exchange.poll_step(cx, response.as_mut(), self.timeouts.first_byte, gate));
            match step.await {
                Step::Head(Ok(head)) => {
                    let now = Instant::now();
                    if head.status() == StatusCode::OK {
                        exchange.transaction.first_byte(now, now.saturating_duration_since(exchange.since));
                    } else {
                        exchange.transaction.reached();
                    }
                    return Ok((head, exchange));
                }
                Step::Head(Err(error)) => return Err(self.broken(&exchange, &error)),
                Step::Refused(refusal) => return Err(refusal),
                Step::Stale => {
                    exchange = self.rebind(exchange).await?;
                    exchange.dispatched();
                }
            }
        }
    }

    /// Another socket for a request of which no byte was written. A service that closed a connection which waited for reuse is
    /// asked again first; one that closed a new connection at once can't be reached.
    async fn rebind(&mut self, mut exchange: Exchange) -> Result<Exchange, Refusal> {
        let mut dialled = match exchange.freshness {
            Freshness::Waiting => {
                self.vserver.counters.retried.add();
                exchange.transaction.dial(self.timeouts.connect).await
            }
            Freshness::New => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
        };
        exchange.freshness = Freshness::New;
        loop {
            match dialled {
                Ok(socket) => {
                    exchange.connection.meter.replace(socket);
                    return Ok(exchange);
                }
                Err(why) => exchange = self.move_on(exchange, &why)?,
            }
            dialled = exchange.transaction.dial(self.timeouts.connect).await;
        }
    }

    /// The same request, for another member. hyper's side of the connection goes with it.
    fn move_on(&mut self, exchange: Exchange, why: &Unreachable) -> Result<Exchange, Refusal> {
        let Exchange { transaction, connection, .. } = exchange;
        transaction.service.forget(&connection.meter);
        self.failed(transaction, why)?;
        let mut transaction = self.pick_again(why)?;
        transaction.counts(&connection.meter, Instant::now());
        connection.meter.uncut();
        transaction.watch(&connection.meter);
        Ok(Exchange { transaction, connection, ..exchange })
    }

    fn broken(&self, exchange: &Exchange, error: &hyper::Error) -> Refusal {
        tracing::debug!(service = %exchange.transaction.service.name, %error, "no response");
        match exchange.connection.meter.upload() {
            Waiting::Broken => Refusal::Body,
            Waiting::Nobody | Waiting::Service | Waiting::Client => Refusal::BadResponse,
        }
    }
}

fn gave_up(why: &Unreachable) -> Refusal {
    match why {
        Unreachable::Refused(_) => Refusal::ConnectFailed,
        Unreachable::Silent => Refusal::ConnectTimeout,
        Unreachable::Drained => Refusal::Cut,
    }
}

/// What an exchange comes to next.
enum Step {
    /// The response's head came, or will not come.
    Head(hyper::Result<Response<Incoming>>),
    /// Nothing is written yet, and the socket is of no use.
    Stale,
    /// It took too long, or was cut.
    Refused(Refusal),
}

impl Exchange {
    fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        response: std::pin::Pin<&mut impl Future<Output = hyper::Result<Response<Incoming>>>>,
        first_byte: Duration,
        gate: Option<&Arc<Gate>>,
    ) -> Poll<Step> {
        self.connection.drive(cx);
        let is_cut = self.connection.meter.is_cut();
        match self.connection.meter.binding() {
            Binding::Stale => return Poll::Ready(Step::Stale),
            Binding::Unbound if is_cut => return Poll::Ready(Step::Stale),
            Binding::Unbound | Binding::Settled => self.note_asked(),
        }
        if let Poll::Ready(head) = response.poll(cx) {
            return Poll::Ready(Step::Head(head));
        }
        if is_cut {
            return Poll::Ready(Step::Refused(Refusal::Cut));
        }
        self.poll_patience(cx, first_byte, gate).map(Step::Refused)
    }

    /// The request begins to go out.
    fn dispatched(&mut self) {
        self.since = Instant::now();
        self.is_asked = self.connection.meter.upload() == Waiting::Nobody;
    }

    /// Notes the time when the body of the request is through: the response is awaited from then on.
    fn note_asked(&mut self) {
        if !self.is_asked && self.connection.meter.upload() == Waiting::Nobody {
            (self.since, self.is_asked) = (Instant::now(), true);
        }
    }

    /// Until the request is through, either side's time runs since the last byte that passed; then the service's runs out, with
    /// whatever pieces it sends of a head.
    fn poll_patience(
        &mut self,
        cx: &mut Context<'_>,
        first_byte: Duration,
        gate: Option<&Arc<Gate>>,
    ) -> Poll<Refusal> {
        if !self.is_asked {
            self.look();
        }
        let (patience, refusal) = match self.connection.meter.upload() {
            Waiting::Client | Waiting::Broken => (self.idle, Refusal::RequestTimeout),
            Waiting::Service | Waiting::Nobody => (first_byte, Refusal::ResponseTimeout),
        };
        if let Some(gate) = gate.filter(|gate| !gate.is_open()) {
            if self.poll_until(cx, self.since + patience.min(CONTINUE)).is_pending() {
                return Poll::Pending;
            }
            gate.open();
        }
        self.poll_until(cx, self.since + patience).map(|()| refusal)
    }

    /// Notes the time if anything passed since the last look; and tells the balancer, if that is much.
    fn look(&mut self) {
        let bytes = self.connection.meter.bytes();
        if bytes != self.seen {
            let now = Instant::now();
            (self.seen, self.since) = (bytes, now);
            self.transaction.report(now);
        }
    }

    /// Ready when nothing has passed for the idle timeout.
    pub(crate) fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.look();
        self.poll_until(cx, self.since + self.idle)
    }

    /// Ready at the deadline. On the way there the balancer hears of what has passed.
    fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        loop {
            let next = self.transaction.owes().map_or(deadline, |at| at.min(deadline));
            if self.connection.poll_deadline(cx, next).is_pending() {
                return Poll::Pending;
            }
            if next == deadline {
                return Poll::Ready(());
            }
            self.transaction.report(Instant::now());
        }
    }
}
