//! Places for clients: as many as `max_connections`, also after that has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one LB virtual server.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    /// Places taken by clients that came in while there were more: they go with those clients.
    surplus: AtomicUsize,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Places { free: Arc::new(Semaphore::new(max)), surplus: AtomicUsize::new(0) }
    }

    /// A place that is free, if there is one.
    pub(crate) fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    /// The next place that comes free.
    pub(crate) async fn take(&self) -> OwnedSemaphorePermit {
        match self.free.clone().acquire_owned().await {
            Ok(place) => place,
            Err(_) => std::future::pending().await, // it is never closed
        }
    }

    /// Gives a place back.
    pub(crate) fn leave(&self, place: OwnedSemaphorePermit) {
        let is_surplus =
            self.surplus.fetch_update(Relaxed, Relaxed, |surplus| surplus.checked_sub(1)).is_ok();
        if is_surplus {
            place.forget();
        }
    }

    /// From here on there are `to` places instead of `from`. Called by one at a time.
    pub(crate) fn resize(&self, from: usize, to: usize) {
        for _ in to..from {
            if self.free.forget_permits(1) == 0 {
                self.surplus.fetch_add(1, Relaxed);
            }
        }
        for _ in from..to {
            let was_surplus = self.surplus.fetch_update(Relaxed, Relaxed, |surplus| surplus.checked_sub(1));
            if was_surplus.is_err() {
                self.free.add_permits(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_places_are_fewer_as_soon_as_clients_leave() {
        let places = Places::new(3);
        let mut taken: Vec<_> = (0..3).map(|_| places.try_take().unwrap()).collect();
        places.resize(3, 1);
        places.leave(taken.remove(0));
        places.leave(taken.remove(0));
        assert!(places.try_take().is_none(), "one is in, and one may be");
        places.leave(taken.remove(0));
        let one = places.try_take().unwrap();
        assert!(places.try_take().is_none());
        places.resize(1, 2);
        assert!(places.try_take().is_some());
        places.leave(one);
        assert_eq!(places.free.available_permits(), 2);
    }

    #[test]
    fn places_that_were_to_go_and_come_back_are_counted_once() {
        let places = Places::new(2);
        let taken = [places.try_take().unwrap(), places.try_take().unwrap()];
        places.resize(2, 1);
        places.resize(1, 2);
        assert!(places.try_take().is_none());
        taken.into_iter().for_each(|place| places.leave(place));
        assert_eq!(places.free.available_permits(), 2);
    }
}
