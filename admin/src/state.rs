//! What the API answers from.

use crate::api::View;
use crate::control::Control;
use crate::turns::Turns;
use gslb_core::{Published, Shared};
use gslb_types::{Timestamp, VserverName};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Streams open at once: people and programs that watch, far fewer than connections, so that watching keeps nobody from
/// asking.
pub(crate) const STREAMS: usize = 16;

/// What the API answers from: the node's shared state, a clock, and what only the process knows. Cheap to clone.
#[derive(Clone)]
pub struct State {
    shared: Arc<Shared>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    wall_clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    info: Arc<Info>,
    identity: Arc<dyn Fn() -> Identity + Send + Sync>,
    control: Arc<dyn Fn(&Control) -> bool + Send + Sync>,
    failback: Arc<dyn Fn(&VserverName) -> bool + Send + Sync>,
    bound: Option<SocketAddr>,
    stop: CancellationToken,
    turns: Turns,
    streams: Arc<Semaphore>,
    /// Drawn anew at every start: numbers of events of an earlier process mean nothing in this one.
    life: u64,
}

/// What the shared state does not hold: how this process was started. All of it is for people; nothing depends on it.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// When it was, by the clock of [`State::new`].
    pub started: Timestamp,
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
}

/// This node's certificate, as the part of the process knows it that shows it to peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its expiry, seconds since the Unix epoch.
    pub expires: Option<i64>,
    /// How long ago it was read from its files.
    pub loaded_age: Option<Duration>,
    /// How often another one was taken since the start.
    pub reloads: u64,
    /// Why the files that are there now can't be used, and how long ago that was found.
    pub error: Option<(String, Duration)>,
}

impl State {
    /// Answers from `shared`, at the time that `now` tells: the clock the node itself goes by.
    pub fn new(shared: Arc<Shared>, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        State {
            shared,
            now: Arc::new(now),
            wall_clock: Arc::new(unix_time),
            info: Arc::default(),
            identity: Arc::new(Identity::default),
            control: Arc::new(|_| false),
            failback: Arc::new(|_| false),
            bound: None,
            stop: CancellationToken::new(),
            turns: Turns::new(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            life: RandomState::new().hash_one(()),
        }
    }

    /// Tells as well how the process was started.
    #[must_use]
    pub fn with_info(self, info: Info) -> Self {
        State { info: Arc::new(info), ..self }
    }

    /// Tells as well of the node's certificate; asked whenever somebody wants to know.
    #[must_use]
    pub fn with_identity(self, identity: impl Fn() -> Identity + Send + Sync + 'static) -> Self {
        State { identity: Arc::new(identity), ..self }
    }

    /// Hands on changes to the services behind this node's LB virtual servers; says whether they were taken.
    #[must_use]
    pub fn with_control(self, control: impl Fn(&Control) -> bool + Send + Sync + 'static) -> Self {
        State { control: Arc::new(control), ..self }
    }

    /// Hands on that clients of a GSLB virtual server are to come back to what is preferred; says whether that was taken.
    #[must_use]
    pub fn with_failback(self, failback: impl Fn(&VserverName) -> bool + Send + Sync + 'static) -> Self {
        State { failback: Arc::new(failback), ..self }
    }

    /// Takes the seconds since the Unix epoch from elsewhere. Only the time left to certificates is reckoned by them.
    #[must_use]
    pub fn with_wall_clock(self, wall_clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        State { wall_clock: Arc::new(wall_clock), ..self }
    }

    /// For an API that listens there, until `stop` is cancelled.
    pub(crate) fn serving(self, address: Option<SocketAddr>, stop: CancellationToken) -> Self {
        State { bound: address, stop, ..self }
    }

    /// Hands a change on; whether somebody took it.
    pub(crate) fn control(&self, control: &Control) -> bool {
        (self.control)(control)
    }

    /// Hands a failback on; whether somebody took it.
    pub(crate) fn failback(&self, vserver: &VserverName) -> bool {
        (self.failback)(vserver)
    }

    /// Cancelled when the node stops.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// A place among the streams that are open; `None` if all are taken.
    pub(crate) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        self.streams.clone().try_acquire_owned().ok()
    }

    /// See the field.
    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    /// The address the API listens on, which a request may name beside the loopback ones.
    pub(crate) fn bound_address(&self) -> Option<IpAddr> {
        self.bound.map(|address| address.ip())
    }

    /// For answers that walk the RTT table.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Everything as it is at this moment.
    pub(crate) fn view(&self) -> View<'_> {
        self.view_of(self.published())
    }

    /// What the node has published last.
    pub(crate) fn published(&self) -> Arc<Published> {
        self.shared.published.load_full()
    }

    /// Everything as it is, beside what was published.
    pub(crate) fn view_of(&self, published: Arc<Published>) -> View<'_> {
        View {
            shared: &self.shared,
            published,
            now: (self.now)(),
            unix_time: (self.wall_clock)(),
            info: &self.info,
            identity: (self.identity)(),
            admin: self.bound,
        }
    }
}

/// Zero before 1970: a certificate then has all its life before it, as it should.
fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
