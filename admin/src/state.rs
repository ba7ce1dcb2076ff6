//! What the API answers from.

use crate::api::View;
use gslb_core::Shared;
use gslb_types::Timestamp;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

/// What the API answers from: the node's shared state, a clock, and what only the process knows. Cheap to clone.
#[derive(Clone)]
pub struct State {
    shared: Arc<Shared>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    wall_clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    info: Arc<Info>,
    bound: Option<SocketAddr>,
    heavy: Arc<Semaphore>,
}

/// What the shared state does not hold: how this process was started. All of it is for people; nothing depends on it.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// Where DNS is answered, with the ports the system chose.
    pub dns: Vec<SocketAddr>,
    /// Where DNS over TLS is answered.
    pub dns_tls: Vec<SocketAddr>,
    /// Where peers are awaited.
    pub mep: Option<SocketAddr>,
    /// What IPv4 pings are sent by, or why they are not.
    pub icmp_v4: Option<String>,
    /// The same for IPv6.
    pub icmp_v6: Option<String>,
    /// Expiry of this node's certificate, seconds since the Unix epoch.
    pub certificate_expires: Option<i64>,
}

impl State {
    /// Answers from `shared`, at the time that `now` tells: the clock the node itself goes by.
    pub fn new(shared: Arc<Shared>, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        State {
            shared,
            now: Arc::new(now),
            wall_clock: Arc::new(unix_time),
            info: Arc::default(),
            bound: None,
            // One at a time: whoever asks for pages of a large table gets one core at most, and the rest stay with DNS.
            heavy: Arc::new(Semaphore::new(1)),
        }
    }

    /// Tells as well how the process was started.
    #[must_use]
    pub fn with_info(self, info: Info) -> Self {
        State { info: Arc::new(info), ..self }
    }

    /// Takes the seconds since the Unix epoch from elsewhere. Only the time left to certificates is reckoned by them.
    #[must_use]
    pub fn with_wall_clock(self, wall_clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        State { wall_clock: Arc::new(wall_clock), ..self }
    }

    pub(crate) fn bound_to(self, address: Option<SocketAddr>) -> Self {
        State { bound: address, ..self }
    }

    /// The address the API listens on, which a request may name beside the loopback ones.
    pub(crate) fn bound_address(&self) -> Option<IpAddr> {
        self.bound.map(|address| address.ip())
    }

    /// To be held by an answer that walks the RTT table.
    pub(crate) fn heavy(&self) -> Arc<Semaphore> {
        self.heavy.clone()
    }

    /// Everything as it is at this moment.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            shared: &self.shared,
            published: self.shared.published.load_full(),
            now: (self.now)(),
            unix_time: (self.wall_clock)(),
            info: &self.info,
            admin: self.bound,
        }
    }
}

/// Zero before 1970: a certificate then has all its life before it, as it should.
fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
