//! What a client connection does at a moment: between requests, in a head, in a transaction.

use super::delivery::Delivery;
use super::scan::HeadScan;
use super::streams;
use crate::settings::Timeouts;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Bodies are tidied up when the list has grown to this, and then to twice what was left.
const FEW_BODIES: usize = 64;

/// Shared by the stream, which hyper owns, the requests on it, and the connection's task.
#[derive(Debug)]
pub(crate) struct Activity {
    start: Instant,
    /// Requests and their bodies under way; several requests in HTTP/2.
    running: AtomicU32,
    /// Microseconds from `start` to the end of the last request.
    rests_since: AtomicU64,
    /// The same to the first byte of a head that is not whole yet; 0 if there is none.
    head_since: AtomicU64,
    /// The same to when writing last stopped or went on, and which of the two it was.
    wrote_at: AtomicU64,
    is_blocked: AtomicBool,
    /// Bodies on their way to this client, and how many pieces of each had been taken at the last look; HTTP/2 alone.
    bodies: Mutex<Bodies>,
    /// The one response on its way; HTTP/1.1 alone.
    delivery: Arc<Delivery>,
    /// Part of a request was left unread.
    is_cut_short: AtomicBool,
    /// The head under way. Only the connection's own task takes this lock.
    scan: Mutex<HeadScan>,
    /// HTTP/2 has frames of its own between requests, and one way to tell lengths: neither is looked at.
    is_h2: bool,
}

impl Activity {
    pub(crate) fn new(is_h2: bool) -> Arc<Self> {
        Arc::new(Activity {
            start: Instant::now(),
            running: AtomicU32::new(0),
            rests_since: AtomicU64::new(0),
            head_since: AtomicU64::new(0),
            wrote_at: AtomicU64::new(0),
            is_blocked: AtomicBool::new(false),
            bodies: Mutex::new(Bodies { looked_at: Instant::now(), all: Vec::new(), tidy_at: FEW_BODIES }),
            delivery: Arc::default(),
            is_cut_short: AtomicBool::new(false),
            scan: Mutex::default(),
            is_h2,
        })
    }

    /// Bytes came from the client.
    pub(crate) fn read(&self, bytes: &[u8]) {
        if self.is_h2 || self.running.load(Relaxed) > 0 {
            return;
        }
        if self.head_since.load(Relaxed) == 0 {
            self.head_since.store(self.now(), Relaxed);
        }
        self.scan.lock().unwrap_or_else(PoisonError::into_inner).feed(bytes);
    }

    /// A write came to this.
    pub(crate) fn wrote(&self, is_blocked: bool) {
        if is_blocked != self.is_blocked.load(Relaxed) {
            self.is_blocked.store(is_blocked, Relaxed);
            self.wrote_at.store(self.now(), Relaxed);
        }
    }

    /// A head is whole. Returns whether its length can be read in two ways.
    pub(crate) fn begin(self: &Arc<Self>) -> (Running, bool) {
        self.head_since.store(0, Relaxed);
        let scan = std::mem::take(&mut *self.scan.lock().unwrap_or_else(PoisonError::into_inner));
        (self.run(), scan.has_flaw())
    }

    /// A request, or a part of one, is under way.
    pub(crate) fn run(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Relaxed);
        Running(self.clone())
    }

    /// Part of a request is left unread: the answer has been given without it.
    pub(crate) fn cut_short(&self) {
        self.is_cut_short.store(true, Relaxed);
    }

    pub(crate) fn is_cut_short(&self) -> bool {
        self.is_cut_short.load(Relaxed)
    }

    /// The delivery of a body to this client. In HTTP/2 the client can refuse one body alone, and nobody would ask that body for
    /// more; so it is looked at from here on. In HTTP/1.1 a client that takes nothing blocks writing.
    pub(crate) fn deliver(&self) -> Arc<Delivery> {
        let Some(delivery) = streams::delivery() else { return self.delivery.clone() };
        self.watch_body(&delivery);
        delivery
    }

    fn watch_body(&self, delivery: &Arc<Delivery>) {
        let mut bodies = self.lock_bodies();
        if bodies.all.len() >= bodies.tidy_at {
            bodies.all.retain(|(delivery, _)| delivery.strong_count() > 0);
            bodies.tidy_at = (2 * bodies.all.len()).max(FEW_BODIES);
        }
        bodies.all.push((Arc::downgrade(delivery), 0));
    }

    /// Ready when the client takes nothing, and what it does not take is to be broken off.
    pub(super) fn poll_broken(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.is_blocked.load(Relaxed) {
            true => self.delivery.poll_broken(cx).map(|_| ()),
            false => Poll::Pending,
        }
    }

    /// Since when nothing that must happen has happened, and how long it may take: a write, a body, a head, or a rest.
    pub(crate) fn deadline(&self, timeouts: &Timeouts) -> Instant {
        let since = |at: &AtomicU64| self.start + Duration::from_micros(at.load(Relaxed));
        if self.is_blocked.load(Relaxed) {
            return since(&self.wrote_at) + timeouts.idle;
        }
        if self.running.load(Relaxed) > 0 {
            return self.look_at_bodies(timeouts.idle);
        }
        match self.head_since.load(Relaxed) {
            0 => since(&self.rests_since) + timeouts.idle,
            _ => since(&self.head_since) + timeouts.request_header,
        }
    }

    /// Whether the client is between two requests.
    pub(crate) fn rests(&self) -> bool {
        self.running.load(Relaxed) == 0 && self.head_since.load(Relaxed) == 0
    }

    /// Gives up bodies that did not move for all of the time between two looks. When to look again.
    fn look_at_bodies(&self, idle: Duration) -> Instant {
        let mut bodies = self.lock_bodies();
        let (now, due) = (Instant::now(), bodies.looked_at + idle);
        if now < due {
            return due;
        }
        bodies.all.retain_mut(|(delivery, seen)| {
            let Some(delivery) = delivery.upgrade() else { return false };
            let pieces = delivery.pieces() + 1;
            if pieces == *seen {
                delivery.give_up();
            }
            *seen = pieces;
            true
        });
        bodies.looked_at = now;
        now + idle
    }

    fn lock_bodies(&self) -> MutexGuard<'_, Bodies> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

#[derive(Debug)]
struct Bodies {
    looked_at: Instant,
    /// Gone when the body is. One more than the pieces, so that a body is looked at twice before it can be stuck.
    all: Vec<(Weak<Delivery>, u64)>,
    /// At this length those that are gone are taken out, or a busy connection would gather them between two looks.
    tidy_at: usize,
}

/// A request, or its body, that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Running(Arc<Activity>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.rests_since.store(self.0.now(), Relaxed);
        self.0.running.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts() -> Timeouts {
        Timeouts {
            idle: Duration::from_secs(50),
            request_header: Duration::from_secs(10),
            ..Timeouts::default()
        }
    }

    /// How long from now until something must have happened.
    fn left(activity: &Activity) -> Duration {
        activity.deadline(&timeouts()).saturating_duration_since(Instant::now())
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_from_its_first_byte_and_a_rest_from_the_last_answer() {
        let activity = Activity::new(false);
        pass(3).await;
        assert_eq!(left(&activity), Duration::from_secs(47));
        activity.read(b"GET");
        pass(4).await;
        activity.read(b" /"); // another byte gives no more time
        assert_eq!((left(&activity), activity.rests()), (Duration::from_secs(6), false));
        let (running, _) = activity.begin();
        pass(100).await;
        assert!(left(&activity) > Duration::ZERO, "the service's time, which is not counted here");
        drop(running);
        pass(1).await;
        assert_eq!((left(&activity), activity.rests()), (Duration::from_secs(49), true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_has_the_idle_time() {
        let activity = Activity::new(false);
        let _running = activity.begin();
        pass(30).await;
        activity.wrote(true);
        pass(20).await;
        assert_eq!(left(&activity), Duration::from_secs(30));
        activity.wrote(false);
        activity.wrote(true);
        assert_eq!(left(&activity), Duration::from_secs(50), "it took something");
    }

    #[tokio::test(start_paused = true)]
    async fn an_http_2_body_must_move_between_two_looks() {
        let activity = Activity::new(true);
        let _running = activity.begin();
        let (moves, stuck) = (Arc::<Delivery>::default(), Arc::<Delivery>::default());
        activity.watch_body(&moves);
        activity.watch_body(&stuck);
        for _ in 0..2 {
            moves.moved();
            stuck.moved();
            pass(50).await;
            assert_eq!(left(&activity), Duration::from_secs(50));
            assert_eq!((is_broken(&moves), is_broken(&stuck)), (false, false));
        }
        moves.moved();
        pass(50).await;
        assert_eq!(left(&activity), Duration::from_secs(50));
        assert_eq!((is_broken(&moves), is_broken(&stuck)), (false, true));
    }

    fn is_broken(delivery: &Delivery) -> bool {
        delivery.poll_broken(&mut Context::from_waker(futures_util::task::noop_waker_ref())).is_ready()
    }

    #[test]
    fn bodies_that_are_gone_are_not_gathered() {
        let activity = Activity::new(true);
        let stays = Arc::default();
        activity.watch_body(&stays);
        for _ in 0..10_000 {
            activity.watch_body(&Arc::default());
        }
        assert!(activity.lock_bodies().all.len() <= FEW_BODIES);
    }
}
