//! One transaction: from its dispatch to the end of the response or of the tunnel.

use crate::dial::Unreachable;
use crate::service::{Freshness, Meter, Service, ServiceConnection};
use crate::vserver::Vserver;
use gslb_types::Rtt;
use lb_core::MemberId;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Bytes that may pass before the balancer hears of them: its lock is not for every read.
const COARSE: u64 = 128 * 1024;

/// And how long it may be: the balancer's buckets are a second wide.
const LATELY: Duration = Duration::from_millis(500);

/// A pick that counts as active until this is dropped; and, if nothing of it reached the service by then, as no request of it.
#[derive(Debug)]
pub(crate) struct Transaction {
    vserver: Arc<Vserver>,
    pub(crate) service: Arc<Service>,
    member: MemberId,
    counted: Option<Counted>,
    /// How often the service had been cut when it began.
    cuts: u64,
    /// Something of it reached the service.
    has_reached: bool,
}

/// What passes on the connection to the service, and how much of it the balancer knows of.
#[derive(Debug)]
struct Counted {
    meter: Arc<Meter>,
    bytes: u64,
    segments: u64,
    at: Instant,
}

impl Transaction {
    pub(crate) fn new(vserver: Arc<Vserver>, service: Arc<Service>, member: MemberId) -> Self {
        let cuts = service.cuts();
        Transaction { vserver, service, member, counted: None, cuts, has_reached: false }
    }

    /// A new socket to the service.
    pub(crate) async fn dial(&self, within: Duration) -> Result<TcpStream, Unreachable> {
        self.service.dial(within, self.cuts).await
    }

    /// An HTTP connection to the service, and whether it is new.
    pub(crate) async fn connect(
        &self,
        within: Duration,
    ) -> Result<(Box<ServiceConnection>, Freshness), Unreachable> {
        self.service.connect(within, self.cuts).await
    }

    /// The end of a drain ends what runs on this connection.
    pub(crate) fn watch(&self, meter: &Arc<Meter>) {
        self.service.watch(meter, self.cuts);
    }

    /// The member, to name it among those tried.
    pub(crate) fn member(&self) -> MemberId {
        self.member
    }

    /// From here on, traffic on this connection is the transaction's.
    pub(crate) fn counts(&mut self, meter: &Arc<Meter>, now: Instant) {
        let (bytes, segments) = (meter.bytes(), meter.segments());
        self.counted = Some(Counted { meter: meter.clone(), bytes, segments, at: now });
    }

    /// The head of a response with status 200 came.
    pub(crate) fn first_byte(&mut self, now: Instant, after: Duration) {
        let (at, ttfb) = (self.vserver.clock.at(now), Rtt::from_duration(after));
        let is_new = !std::mem::replace(&mut self.has_reached, true);
        self.vserver.balancer(|balancer| {
            if is_new {
                balancer.reached(at, self.member);
            }
            balancer.first_byte(at, self.member, ttfb);
        });
    }

    /// Tells the balancer of the traffic if there is enough, or if it was long ago.
    pub(crate) fn report(&mut self, now: Instant) {
        let Some(counted) = &mut self.counted else { return };
        let enough = counted.meter.bytes() - counted.bytes >= COARSE;
        if enough || now.saturating_duration_since(counted.at) >= LATELY {
            let (bytes, packets) = counted.take(now);
            if bytes > 0 {
                self.reached();
                let at = self.vserver.clock.at(now);
                self.vserver.balancer(|balancer| balancer.traffic(at, self.member, bytes, packets));
            }
        }
    }

    /// By when the balancer is to hear of traffic that it does not know of yet, if there is any.
    pub(crate) fn owes(&self) -> Option<Instant> {
        let counted = self.counted.as_ref()?;
        (counted.meter.bytes() != counted.bytes).then(|| counted.at + LATELY)
    }

    /// The service knows of it, although no byte may have passed yet.
    pub(crate) fn reached(&mut self) {
        if !std::mem::replace(&mut self.has_reached, true) {
            let at = self.vserver.clock.now();
            self.vserver.balancer(|balancer| balancer.reached(at, self.member));
        }
    }
}

impl Counted {
    /// What came since the last time.
    fn take(&mut self, now: Instant) -> (u64, u64) {
        let (bytes, segments) = (self.meter.bytes(), self.meter.segments());
        let more = (bytes - self.bytes, segments - self.segments);
        (self.bytes, self.segments, self.at) = (bytes, segments, now);
        more
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let now = Instant::now();
        let (bytes, packets) = self.counted.as_mut().map_or((0, 0), |counted| counted.take(now));
        let at = self.vserver.clock.at(now);
        self.vserver.balancer(|balancer| {
            if bytes > 0 {
                balancer.traffic(at, self.member, bytes, packets);
            }
            match (self.has_reached, bytes > 0) {
                (true, _) => balancer.ended(at, self.member),
                (false, true) => {
                    balancer.reached(at, self.member);
                    balancer.ended(at, self.member);
                }
                (false, false) => balancer.unsent(at, self.member),
            }
        });
    }
}
