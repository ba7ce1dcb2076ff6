//! The connections that stand, by number, whatever carries them. Numbers are given out here, so that none is used twice
//! however many carriers there are.

use crate::outbox::{Ending, Outbox, Queue, Room, outbox};
use bytes::Bytes;
use gslb_types::NodeId;
use mep_core::carrier::{ConnId, MAX_FRAME};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Connections at most with one peer. A session needs one, a collision of dials two; a peer that reconnects while its last
/// connections are still being closed a few more. A broken peer can't take more than its share (threat T8).
const PER_PEER: usize = 8;

/// Which connections stand. The lock is held for a look-up, never across an await.
pub(crate) struct Connections {
    room: Room,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    standing: BTreeMap<ConnId, Standing>,
}

struct Standing {
    peer: NodeId,
    /// Absent once the connection was told to end.
    outbox: Option<Outbox>,
}

impl Connections {
    pub(crate) fn new(room: Room) -> Self {
        Connections { room, inner: Mutex::default() }
    }

    /// Makes room for a connection with this peer; `None` if it has too many already.
    pub(crate) fn add(&self, peer: &NodeId) -> Option<(ConnId, Queue)> {
        let mut inner = self.lock();
        if inner.standing.values().filter(|standing| standing.peer == *peer).count() >= PER_PEER {
            return None;
        }
        inner.last += 1;
        let conn = ConnId(inner.last);
        let (outbox, queue) = outbox(self.room);
        inner.standing.insert(conn, Standing { peer: peer.clone(), outbox: Some(outbox) });
        Some((conn, queue))
    }

    /// Queues a frame. Frames for a connection that ends or is gone are dropped: its `Closed` is on the way.
    pub(crate) fn send(&self, conn: ConnId, frame: Bytes) {
        let mut inner = self.lock();
        let Some(standing) = inner.standing.get_mut(&conn) else { return };
        let Some(outbox) = &standing.outbox else { return };
        let trouble = if frame.len() > MAX_FRAME {
            format!("asked to send a frame of {} bytes; {MAX_FRAME} are allowed", frame.len())
        } else if let Err(full) = outbox.push(frame) {
            format!("too slow: {} frames with {} bytes were waiting to be sent", full.frames, full.bytes)
        } else {
            return;
        };
        end(standing, Ending::Cut(trouble));
    }

    /// Ends a connection after what is queued on it.
    pub(crate) fn close(&self, conn: ConnId, reason: String) {
        if let Some(standing) = self.lock().standing.get_mut(&conn) {
            end(standing, Ending::Flush(reason));
        }
    }

    /// Ends all of them so.
    pub(crate) fn close_all(&self, reason: &str) {
        for standing in self.lock().standing.values_mut() {
            end(standing, Ending::Flush(reason.to_owned()));
        }
    }

    /// Forgets a connection that is gone.
    pub(crate) fn remove(&self, conn: ConnId) {
        self.lock().standing.remove(&conn);
    }

    /// A map is whole even if another holder of the lock panicked.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(standing: &mut Standing, ending: Ending) {
    if let Some(outbox) = standing.outbox.take() {
        outbox.end(ending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections() -> Connections {
        Connections::new(Room { frames: 2, bytes: 1 << 20 })
    }

    fn peer() -> NodeId {
        "fra/1".parse().unwrap()
    }

    #[test]
    fn a_number_is_never_given_twice() {
        let connections = connections();
        let (first, _queue) = connections.add(&peer()).unwrap();
        connections.remove(first);
        let (second, _queue) = connections.add(&peer()).unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn one_peer_can_not_have_ever_more_connections() {
        let connections = connections();
        let held: Vec<_> = (0..PER_PEER).map(|_| connections.add(&peer()).unwrap()).collect();
        assert!(connections.add(&peer()).is_none());
        assert!(connections.add(&"ams/1".parse().unwrap()).is_some(), "others are not affected");
        connections.remove(held.first().unwrap().0);
        assert!(connections.add(&peer()).is_some());
    }

    #[tokio::test]
    async fn a_full_queue_cuts_the_connection_and_says_so() {
        let connections = connections();
        let (conn, queue) = connections.add(&peer()).unwrap();
        for _ in 0..3 {
            connections.send(conn, Bytes::from_static(b"x"));
        }
        let slow = "too slow: 2 frames with 2 bytes were waiting to be sent".to_owned();
        assert_eq!(queue.ending.await, Ok(Ending::Cut(slow)));
        connections.send(conn, Bytes::from_static(b"dropped"));
    }

    #[tokio::test]
    async fn a_frame_above_the_maximum_is_not_sent() {
        let connections = connections();
        let (conn, mut queue) = connections.add(&peer()).unwrap();
        connections.send(conn, Bytes::from(vec![0; MAX_FRAME]));
        assert_eq!(queue.frames.next().await.map(|frame| frame.len()), Some(MAX_FRAME));
        connections.send(conn, Bytes::from(vec![0; MAX_FRAME + 1]));
        assert_eq!(queue.frames.next().await, None);
        assert!(matches!(queue.ending.await, Ok(Ending::Cut(_))));
    }
}
