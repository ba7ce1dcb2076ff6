//! The requests of an HTTP/2 connection: tasks of their own, each of which can be broken off without the others.

use super::delivery::{Broken, Delivery};
use crate::listen::Place;
use hyper::rt::Executor;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio_util::task::TaskTracker;

tokio::task_local! {
    /// The one of the request whose task this is.
    static DELIVERY: Arc<Delivery>;
}

/// Runs what hyper makes of each request. A task dropped in the middle resets its stream alone.
#[derive(Clone)]
pub(super) struct Streams {
    place: Arc<Place>,
    tasks: TaskTracker,
}

impl Streams {
    pub(super) fn new(place: &Place) -> Self {
        Streams { tasks: place.tasks.clone(), place: Arc::new(place.clone()) }
    }
}

/// The delivery of the request that is being polled, in HTTP/2.
pub(super) fn delivery() -> Option<Arc<Delivery>> {
    DELIVERY.try_with(Arc::clone).ok()
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let (delivery, place) = (Arc::<Delivery>::default(), self.place.clone());
        self.tasks.spawn(DELIVERY.scope(delivery.clone(), async move {
            let mut stream = pin!(stream);
            let broken = poll_fn(|cx| match stream.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => delivery.poll_broken(cx).map(Some),
            });
            if broken.await == Some(Broken::GivenUp) {
                place.vserver.counters.timed_out.add();
            }
        }));
    }
}
