//! One connection's bookkeeping: sequence numbers, acknowledgements, what is on its way.

use crate::carrier::{CarrierCommand, ConnId, MAX_IN_FLIGHT_BYTES, MAX_IN_FLIGHT_FRAMES};
use crate::wire::{self, Header, Incoming};
use bytes::Bytes;
use gslb_types::Timestamp;
use std::collections::VecDeque;

/// Values are held back beyond this; the rest is for words that wait for nothing.
const WINDOW_FRAMES: usize = MAX_IN_FLIGHT_FRAMES * 3 / 4;

/// Received frames and bytes that are acknowledged by themselves if nothing is sent back meanwhile; far below the window,
/// so that the sender never waits for an acknowledgement that is not coming.
const ACK_FRAMES: usize = 16;
const ACK_BYTES: usize = 64 * 1024;

/// Frames a peer may send within a second; several times what this code can send.
const MOST_FRAMES_A_SECOND: u32 = 5000;

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) conn: ConnId,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) last_word: Option<Timestamp>,
    in_flight: VecDeque<(u64, usize)>,
    in_flight_bytes: usize,
    unacknowledged_frames: usize,
    unacknowledged_bytes: usize,
    second: u64,
    frames_this_second: u32,
}

/// What is wrong with a frame's place in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disorder {
    /// It came before: skipped.
    Repeated,
    /// Others are missing before it, which an ordered carrier can't lose. What they said is unknown.
    Gap { expected: u64, found: u64 },
    /// It came too soon after too many others.
    TooMany,
}

impl Link {
    /// A connection nothing has passed over yet.
    pub(crate) fn new(conn: ConnId) -> Self {
        Link {
            conn,
            sent: 0,
            received: 0,
            last_word: None,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            unacknowledged_frames: 0,
            unacknowledged_bytes: 0,
            second: 0,
            frames_this_second: 0,
        }
    }

    /// The command that sends a body as the next frame, and the frame's length.
    pub(crate) fn send(&mut self, now: Timestamp, body: &Bytes) -> (CarrierCommand, usize) {
        self.sent += 1;
        self.unacknowledged_frames = 0;
        self.unacknowledged_bytes = 0;
        let heard = self.last_word.map(|at| now.since(at));
        let frame = wire::frame(Header { seq: self.sent, ack: self.received, heard }, body);
        self.in_flight.push_back((self.sent, frame.len()));
        self.in_flight_bytes += frame.len();
        let length = frame.len();
        (CarrierCommand::Send { conn: self.conn, frame }, length)
    }

    /// Whether values may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.len() < WINDOW_FRAMES && self.in_flight_bytes < MAX_IN_FLIGHT_BYTES
    }

    /// Notes that bytes came which are no frame; they take a number as a frame would.
    pub(crate) fn received_garbage(&mut self, now: Timestamp, length: usize) -> Result<(), Disorder> {
        self.received += 1;
        self.count(now, length)
    }

    /// Notes a frame. Returns whether what it acknowledges was sent at all.
    pub(crate) fn received(
        &mut self,
        now: Timestamp,
        frame: &Incoming,
        length: usize,
    ) -> Result<bool, Disorder> {
        let expected = self.received + 1;
        self.count(now, length)?;
        if frame.seq < expected {
            return Err(Disorder::Repeated);
        }
        if frame.seq > expected {
            return Err(Disorder::Gap { expected, found: frame.seq });
        }
        self.received = frame.seq;
        self.last_word = Some(now);
        Ok(self.acknowledged(frame.ack))
    }

    /// Whether enough has come to be acknowledged by itself.
    pub(crate) fn owes_acknowledgement(&self) -> bool {
        self.unacknowledged_frames >= ACK_FRAMES || self.unacknowledged_bytes >= ACK_BYTES
    }

    fn count(&mut self, now: Timestamp, length: usize) -> Result<(), Disorder> {
        self.unacknowledged_frames += 1;
        self.unacknowledged_bytes += length;
        if self.second != now.as_secs() {
            self.second = now.as_secs();
            self.frames_this_second = 0;
        }
        self.frames_this_second += 1;
        if self.frames_this_second > MOST_FRAMES_A_SECOND { Err(Disorder::TooMany) } else { Ok(()) }
    }

    fn acknowledged(&mut self, ack: u64) -> bool {
        if ack > self.sent {
            return false;
        }
        while let Some((seq, length)) = self.in_flight.front().copied()
            && seq <= ack
        {
            self.in_flight.pop_front();
            self.in_flight_bytes -= length;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Keepalive, frame::Body};

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1000)
    }

    fn incoming(seq: u64, ack: u64) -> Incoming {
        Incoming { seq, ack, heard: None, word: None, doubts: wire::Doubts::default() }
    }

    #[test]
    fn frames_are_numbered_and_say_what_was_heard() {
        let mut link = Link::new(ConnId(1));
        let body = wire::body(Body::Keepalive(Keepalive {}));
        let sent = |link: &mut Link, now| match link.send(now, &body).0 {
            CarrierCommand::Send { frame, .. } => wire::decode(frame).unwrap(),
            CarrierCommand::Dial { .. } | CarrierCommand::Close { .. } => panic!("a frame"),
        };
        let first = sent(&mut link, at(5));
        assert_eq!((first.seq, first.ack, first.heard), (1, 0, None));
        assert_eq!(link.received(at(10), &incoming(1, 1), 9), Ok(true));
        let second = sent(&mut link, at(17));
        assert_eq!((second.seq, second.ack, second.heard), (2, 1, Some(std::time::Duration::from_millis(7))));
    }

    #[test]
    fn the_room_is_bounded_until_the_peer_acknowledges() {
        let mut link = Link::new(ConnId(1));
        let body = Bytes::from(vec![0; 100_000]);
        let mut frames = 0;
        while link.has_room() {
            link.send(at(0), &body);
            frames += 1;
        }
        assert_eq!(frames, 11);
        assert_eq!(link.received(at(1), &incoming(1, 11), 9), Ok(true));
        assert!(link.has_room());
        assert_eq!((link.in_flight.len(), link.in_flight_bytes), (0, 0));
        while link.has_room() {
            link.send(at(0), &Bytes::new());
        }
        assert_eq!(link.in_flight.len(), WINDOW_FRAMES);
    }

    #[test]
    fn what_was_never_sent_can_not_be_acknowledged() {
        let mut link = Link::new(ConnId(1));
        link.send(at(0), &Bytes::new());
        assert_eq!(link.received(at(1), &incoming(1, 2), 9), Ok(false));
        assert_eq!(link.in_flight.len(), 1);
    }

    #[test]
    fn a_gap_and_a_repetition_are_told_apart() {
        let mut link = Link::new(ConnId(1));
        assert_eq!(link.received(at(1), &incoming(1, 0), 9), Ok(true));
        assert_eq!(link.received(at(1), &incoming(1, 0), 9), Err(Disorder::Repeated));
        assert_eq!(link.received(at(1), &incoming(3, 0), 9), Err(Disorder::Gap { expected: 2, found: 3 }));
        assert_eq!(link.received_garbage(at(1), 9), Ok(()));
        assert_eq!(link.received(at(1), &incoming(3, 0), 9), Ok(true));
    }

    #[test]
    fn a_flood_of_frames_is_noticed_within_its_second() {
        let mut link = Link::new(ConnId(1));
        for _ in 0..MOST_FRAMES_A_SECOND {
            assert_eq!(link.received_garbage(at(10), 1), Ok(()));
        }
        assert_eq!(link.received_garbage(at(999), 1), Err(Disorder::TooMany));
        assert_eq!(link.received_garbage(at(1000), 1), Ok(()));
    }
}
