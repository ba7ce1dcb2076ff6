//! The side towards the services: connections, their reuse, and what was counted on them.

mod connection;
mod meter;
mod pool;
mod stream;

pub(crate) use connection::{Broken, ServiceConnection};
pub(crate) use meter::{Binding, Meter, Waiting};
pub(crate) use stream::ServiceStream;

use crate::dial::{Unreachable, dial};
use gslb_types::ServiceName;
use lb_core::ServiceId;
use pool::Pool;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Meters are tidied up when the list has grown to this, and then to twice what was left.
const FEW_METERS: usize = 64;

/// One service of one LB virtual server.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: ServiceName,
    pub(crate) id: ServiceId,
    pub(crate) address: SocketAddr,
    source: Option<IpAddr>,
    pool: Pool,
    meters: Mutex<Meters>,
    /// How often what ran here was cut. What began at an earlier number is to end, though it has no connection yet.
    cuts: watch::Sender<u64>,
}

/// Whether a socket served other requests before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freshness {
    /// It did, and waited for another; that it is dead says nothing against the service.
    Waiting,
    /// It was opened for this request; if it is dead at once, the service can't be reached.
    New,
}

/// All connections to a service, to cut them.
#[derive(Debug, Default)]
struct Meters {
    all: Vec<Weak<Meter>>,
    tidy_at: usize,
}

impl Service {
    pub(crate) fn new(
        name: ServiceName,
        address: SocketAddr,
        source: Option<IpAddr>,
        max_idle: usize,
    ) -> Arc<Self> {
        let id = ServiceId::of(&name);
        let (pool, meters) = (Pool::new(max_idle), Mutex::default());
        Arc::new(Service { name, id, address, source, pool, meters, cuts: watch::Sender::new(0) })
    }

    /// Whether it is the service that these words describe.
    pub(crate) fn is(&self, name: &ServiceName, address: SocketAddr, source: Option<IpAddr>) -> bool {
        self.name == *name && self.address == address && self.source == source
    }

    /// How often what ran here was cut so far.
    pub(crate) fn cuts(&self) -> u64 {
        *self.cuts.borrow()
    }

    /// A new socket, for what began after so many cuts.
    pub(crate) async fn dial(&self, within: Duration, cuts: u64) -> Result<TcpStream, Unreachable> {
        let mut told = self.cuts.subscribe();
        tokio::select! {
            biased;
            _ = told.wait_for(|now| *now != cuts) => Err(Unreachable::Drained),
            dialled = dial(self.address, self.source, within) => dialled,
        }
    }

    /// An HTTP connection for what began after so many cuts: one that waits for reuse, or a new one. Which of the two it is.
    pub(crate) async fn connect(
        &self,
        within: Duration,
        cuts: u64,
    ) -> Result<(Box<ServiceConnection>, Freshness), Unreachable> {
        if self.cuts() != cuts {
            return Err(Unreachable::Drained);
        }
        if let Some(waiting) = self.pool.take() {
            return Ok((waiting, Freshness::Waiting));
        }
        let connection = ServiceConnection::new(self.dial(within, cuts).await?, within).await;
        // The handshake of HTTP/1.1 is no word on the wire: it can't fail but by hyper's own words.
        let connection = connection.map_err(std::io::Error::other)?;
        self.watch(&connection.meter, cuts);
        Ok((connection, Freshness::New))
    }

    /// Keeps a connection whose request is over, if it can be used again.
    pub(crate) fn keep(&self, connection: Box<ServiceConnection>) {
        if connection.is_ready() && !connection.meter.is_cut() {
            self.pool.put(connection);
        }
    }

    /// Closes connections that waited too long, and those that the service has closed.
    pub(crate) fn sweep(&self, idle: Duration) {
        self.pool.sweep(idle);
    }

    /// The connections that wait for reuse.
    pub(crate) fn idle(&self) -> usize {
        self.pool.len()
    }

    /// From here on [`Service::cut`] ends what runs there; at once, if it has done so since so many cuts.
    pub(crate) fn watch(&self, meter: &Arc<Meter>, cuts: u64) {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        if self.cuts() != cuts {
            meter.cut();
        }
        if meters.all.len() >= meters.tidy_at.max(FEW_METERS) {
            meters.all.retain(|m| m.strong_count() > 0);
            meters.tidy_at = 2 * meters.all.len();
        }
        meters.all.push(Arc::downgrade(meter));
    }

    /// The connection leads elsewhere now.
    pub(crate) fn forget(&self, meter: &Arc<Meter>) {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.all.retain(|m| m.as_ptr() != Arc::as_ptr(meter));
    }

    /// Ends everything that runs there, at once.
    pub(crate) fn cut(&self) {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *meters);
        // Under the lock: a connection is in the list, or late; and one that leads elsewhere by now is not cut any more.
        self.cuts.send_modify(|cuts| *cuts += 1);
        for meter in all.all.iter().filter_map(Weak::upgrade) {
            meter.cut();
        }
        drop(meters);
        self.pool.clear();
    }
}
