//! Which connections there are. When all places are taken, the one that has been waited for longest goes.
//!
//! So a thousand clients that never finish a request keep nobody out: whoever asks is served before its turn to go has
//! come (reliability R7).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The places.
#[derive(Clone)]
pub(crate) struct Connections {
    open: Arc<Mutex<Open>>,
    places: usize,
    /// A connection without a request for this long is closed, whatever the other end is doing; so is a stream that could
    /// not send anything.
    idle: Duration,
}

#[derive(Default)]
struct Open {
    next: u64,
    entries: BTreeMap<u64, Entry>,
}

struct Entry {
    activity: Activity,
    /// Since when it has been so.
    since: Instant,
    close: CancellationToken,
}

/// What a connection is about, in the order in which it makes room for others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    /// A request is awaited, or the end of an answer is on its way.
    Waiting,
    /// Part of a stream went, and another will.
    Streaming,
    /// A request is being answered.
    Serving,
}

/// A connection's place; dropping it gives the place back.
pub(crate) struct Place {
    id: u64,
    connections: Connections,
    close: CancellationToken,
}

impl Connections {
    /// That many places, all free.
    pub(crate) fn new(places: usize, idle: Duration) -> Self {
        Connections { open: Arc::default(), places, idle }
    }

    /// Makes a place, if need be by closing another connection.
    pub(crate) fn admit(&self) -> Place {
        let mut open = self.lock();
        while open.entries.len() >= self.places && open.evict() {}
        let id = open.next;
        open.next += 1;
        let close = CancellationToken::new();
        open.entries
            .insert(id, Entry { activity: Activity::Waiting, since: Instant::now(), close: close.clone() });
        Place { id, connections: self.clone(), close }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // No critical section leaves the map half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn evict(&mut self) -> bool {
        let longest = self.entries.iter().min_by_key(|(id, entry)| (entry.activity, entry.since, **id));
        let Some(id) = longest.map(|(id, _)| *id) else { return false };
        if let Some(entry) = self.entries.remove(&id) {
            entry.close.cancel();
        }
        true
    }
}

impl Place {
    /// A request has come.
    pub(crate) fn asked(&self) {
        self.note(Activity::Serving);
    }

    /// It is answered, as far as this end is concerned.
    pub(crate) fn answered(&self) {
        self.note(Activity::Waiting);
    }

    /// A part of it that has no end in sight was taken by the connection, which is full when the other end does not read.
    pub(crate) fn streams(&self) {
        self.note(Activity::Streaming);
    }

    /// Returns when the connection must go: its place is needed, or it has been idle too long.
    pub(crate) async fn must_close(&self) {
        loop {
            let idle_since = match self.connections.lock().entries.get(&self.id) {
                Some(entry) if entry.activity == Activity::Serving => Instant::now(),
                Some(entry) => entry.since,
                None => return,
            };
            let end = idle_since + self.connections.idle;
            if end <= Instant::now() {
                return;
            }
            tokio::select! {
                () = self.close.cancelled() => return,
                () = tokio::time::sleep_until(end) => {}
            }
        }
    }

    fn note(&self, activity: Activity) {
        if let Some(entry) = self.connections.lock().entries.get_mut(&self.id) {
            *entry = Entry { activity, since: Instant::now(), close: entry.close.clone() };
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().entries.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(10);

    fn is_closed(place: &Place) -> bool {
        place.close.is_cancelled()
    }

    #[tokio::test]
    async fn the_connection_waited_for_longest_makes_room() {
        let connections = Connections::new(3, IDLE);
        let [first, second, third] = [connections.admit(), connections.admit(), connections.admit()];
        first.asked();
        first.answered();
        let fourth = connections.admit();
        assert_eq!([&first, &second, &third, &fourth].map(is_closed), [false, true, false, false]);
        let _fifth = connections.admit();
        assert_eq!([&first, &third, &fourth].map(is_closed), [false, true, false]);
    }

    #[tokio::test]
    async fn one_that_is_being_answered_goes_last() {
        let connections = Connections::new(2, IDLE);
        let (first, second) = (connections.admit(), connections.admit());
        first.asked();
        let _third = connections.admit();
        assert_eq!([&first, &second].map(is_closed), [false, true]);
    }

    #[tokio::test]
    async fn a_stream_outlasts_connections_that_only_wait() {
        let connections = Connections::new(2, IDLE);
        let watching = connections.admit();
        watching.asked();
        watching.answered();
        watching.streams();
        let waiting = [connections.admit(), connections.admit()];
        assert_eq!([&watching, &waiting[0], &waiting[1]].map(is_closed), [false, true, false]);
    }

    #[tokio::test]
    async fn a_place_given_back_is_free() {
        let connections = Connections::new(1, IDLE);
        drop(connections.admit());
        let one = connections.admit();
        assert_eq!((is_closed(&one), connections.lock().entries.len()), (false, 1));
        let _other = connections.admit();
        one.must_close().await;
    }
}
