//! Frames that wait to be sent on one connection: bounded in number and bytes, whatever carries them.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{mpsc, oneshot};

/// How a connection is to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Send what waits, then close.
    Flush(String),
    /// Close at once: the peer does not keep up, or the frame can't be sent.
    Cut(String),
}

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

/// The filling end, kept by whoever obeys commands.
pub(crate) struct Outbox {
    frames: mpsc::Sender<Bytes>,
    waiting: Arc<AtomicUsize>,
    room: Room,
    ending: oneshot::Sender<Ending>,
}

/// The emptying end, kept by the connection's task.
pub(crate) struct Queue {
    pub(crate) frames: Frames,
    pub(crate) ending: oneshot::Receiver<Ending>,
}

/// The waiting frames, in order.
pub(crate) struct Frames {
    frames: mpsc::Receiver<Bytes>,
    waiting: Arc<AtomicUsize>,
}

/// The frame did not fit. It is lost, and with it the connection: a gap in the middle would be worse.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

pub(crate) fn outbox(room: Room) -> (Outbox, Queue) {
    let (sender, receiver) = mpsc::channel(room.frames.max(1));
    let (end, ending) = oneshot::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let frames = Frames { frames: receiver, waiting: waiting.clone() };
    (Outbox { frames: sender, waiting, room, ending: end }, Queue { frames, ending })
}

impl Outbox {
    /// Never waits. A single frame always fits into an empty outbox.
    pub(crate) fn push(&self, frame: Bytes) -> Result<(), Full> {
        let size = frame.len();
        let before = self.waiting.fetch_add(size, Ordering::Relaxed);
        let fits = before == 0 || before.saturating_add(size) <= self.room.bytes;
        if fits && self.frames.try_send(frame).is_ok() {
            return Ok(());
        }
        self.waiting.fetch_sub(size, Ordering::Relaxed);
        Err(Full { frames: self.room.frames.saturating_sub(self.frames.capacity()), bytes: before })
    }

    /// Takes no more frames.
    pub(crate) fn end(self, ending: Ending) {
        let _ = self.ending.send(ending); // nobody listens: the connection has just ended by itself
    }
}

impl Frames {
    /// The next frame; `None` once the outbox has ended and all its frames were taken.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let frame = self.frames.recv().await?;
        self.waiting.fetch_sub(frame.len(), Ordering::Relaxed);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(size: usize) -> Bytes {
        Bytes::from(vec![0; size])
    }

    #[tokio::test]
    async fn the_number_of_frames_is_bounded() {
        let (outbox, mut queue) = outbox(Room { frames: 2, bytes: 1000 });
        assert_eq!(outbox.push(frame(1)), Ok(()));
        assert_eq!(outbox.push(frame(1)), Ok(()));
        assert_eq!(outbox.push(frame(1)), Err(Full { frames: 2, bytes: 2 }));
        assert!(queue.frames.next().await.is_some());
        assert_eq!(outbox.push(frame(1)), Ok(()));
    }

    #[tokio::test]
    async fn their_bytes_are_bounded() {
        let (outbox, mut queue) = outbox(Room { frames: 9, bytes: 100 });
        assert_eq!(outbox.push(frame(60)), Ok(()));
        assert_eq!(outbox.push(frame(41)), Err(Full { frames: 1, bytes: 60 }));
        assert_eq!(outbox.push(frame(40)), Ok(()));
        assert!(queue.frames.next().await.is_some());
        assert_eq!(outbox.push(frame(60)), Ok(()));
    }

    #[test]
    fn one_frame_always_fits() {
        let (outbox, _queue) = outbox(Room { frames: 9, bytes: 100 });
        assert_eq!(outbox.push(frame(101)), Ok(()));
    }

    #[tokio::test]
    async fn what_waits_can_be_taken_after_the_end() {
        let (outbox, mut queue) = outbox(Room { frames: 9, bytes: 100 });
        outbox.push(frame(1)).unwrap();
        outbox.end(Ending::Flush("bye".into()));
        assert_eq!(queue.ending.await, Ok(Ending::Flush("bye".into())));
        assert_eq!(queue.frames.next().await, Some(frame(1)));
        assert_eq!(queue.frames.next().await, None);
    }
}
