//! A connection that stands, whatever carries it: frames in, frames out, and an end both sides know the reason of.
//!
//! ```text
//! greeting ──> live ──┬─ Flush: last frames, end of ours ──> end of the peer's (or time is up) ──> gone
//!                     ├─ end of the peer's: ours too     ──> gone
//!                     └─ Cut, broken framing             ──> gone
//! ```
//! To close throws away what the peer has not read yet. So whoever ends a connection first ends its own direction, and
//! closes when the peer has ended the other one: by then it has taken every frame.

use crate::carrier::Shared;
use crate::identity::{Date, unix_now};
use crate::name::Subject;
use crate::outbox::{Ending, Frames, Queue};
use bytes::Bytes;
use gslb_types::NodeId;
use mep_core::carrier::{CarrierEvent, ConnId, Over};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};

/// A greeted connection as its carrier sees it.
pub(crate) trait Wire: Send {
    /// What it runs over.
    const OVER: Over;
    /// Frames from the peer.
    type Incoming: Receive;
    /// Frames to the peer.
    type Outgoing: Transmit;
    /// The way between.
    type Path: Path;

    /// All three, to be used at once.
    fn parts(&mut self) -> (&mut Self::Incoming, &mut Self::Outgoing, &mut Self::Path);

    /// Ends it. Both ends learn the reason, and it is returned. Takes no longer than about `patience`.
    fn end(self, last: Last, patience: Duration) -> impl Future<Output = String> + Send;
}

/// The receiving direction.
pub(crate) trait Receive: Send {
    /// What comes next.
    fn next(&mut self) -> impl Future<Output = Next> + Send;
}

/// What comes from the peer.
pub(crate) enum Next {
    /// A whole frame.
    Frame(Bytes),
    /// The peer has ended its direction.
    Finished,
    /// The connection is gone, or the peer broke the framing.
    Lost(String),
}

/// The sending direction.
pub(crate) trait Transmit: Send {
    /// Sends a frame, waiting until the peer gives room.
    fn send(&mut self, frame: Bytes) -> impl Future<Output = Result<(), String>> + Send;

    /// Ends the direction after what was sent.
    fn finish(&mut self, reason: &str) -> Result<(), String>;
}

/// The way to the peer.
pub(crate) trait Path: Send {
    /// Its round trip. Fails if the peer is gone.
    fn rtt(&mut self) -> impl Future<Output = Result<Duration, String>> + Send;

    /// Where the peer is, which over QUIC may change.
    fn address(&self) -> SocketAddr;
}

/// Why this end closes, for machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// As asked for.
    Closed,
    /// The other end broke the framing.
    Protocol,
    /// The other end's certificate is genuine, and it is not welcome.
    Refused,
    /// The other end does not keep up.
    Slow,
}

/// How a connection came to its end.
pub(crate) enum Last {
    /// We end it.
    Ours(Why, String),
    /// The peer has ended its direction; its reason is known or follows.
    Theirs,
    /// It is gone already, or the peer broke the framing.
    Lost(String),
}

/// A greeted connection with a peer.
pub(crate) struct Link<W> {
    pub(crate) wire: W,
    pub(crate) subject: Subject,
    pub(crate) dialled: bool,
    pub(crate) address: SocketAddr,
    /// When this node's certificate of the handshake expires, in seconds since the Unix epoch.
    pub(crate) own_expires: i64,
}

impl<W: Wire> Link<W> {
    /// Lives until the end. Fails, before anything was reported, if the peer has too many connections.
    pub(crate) async fn run(self, shared: &Shared) -> Result<(), String> {
        let peer = self.subject.node.clone();
        let Some((conn, queue)) = shared.connections.add(&peer) else {
            let reason = format!("{peer} has too many connections");
            self.wire.end(Last::Ours(Why::Refused, reason.clone()), shared.limits.flush).await;
            return Err(reason);
        };
        let connected = CarrierEvent::Connected {
            conn,
            peer,
            dialled: self.dialled,
            address: self.address,
            certificate_expires: self.subject.expires,
            over: W::OVER,
        };
        let reason = match shared.events.send(connected).await {
            Ok(()) => self.live(shared, conn, queue).await,
            Err(_) => DEAF.to_owned(),
        };
        shared.connections.remove(conn);
        let _ = shared.events.send(CarrierEvent::Closed { conn, reason }).await; // nobody listens: stopping
        Ok(())
    }

    async fn live(mut self, shared: &Shared, conn: ConnId, mut queue: Queue) -> String {
        let until = Until::of(&self.subject, self.own_expires, conn, unix_now());
        let last = {
            let (incoming, outgoing, path) = self.wire.parts();
            let mut receive = pin!(receive(shared, conn, incoming));
            let stood = {
                let transmit = pin!(transmit(&mut queue.frames, outgoing));
                let watch = pin!(watch(shared, conn, path, &self.subject.node, self.dialled, &until));
                stand(receive.as_mut(), transmit, watch, &mut queue.ending, shared.limits.flush).await
            };
            match stood {
                Ok((reason, deadline)) => {
                    if outgoing.finish(&reason).is_ok() {
                        let _ = timeout_at(deadline, receive).await; // whoever does not answer by then never will
                    }
                    Last::Ours(Why::Closed, reason)
                }
                Err(last) => last,
            }
        };
        self.wire.end(last, shared.limits.flush).await
    }
}

/// The reason when nobody takes events any more.
const DEAF: &str = "the node stops";

/// Lives until the end comes. `Ok`: all frames were sent, and this reason is to be told before the time is up.
async fn stand(
    mut receive: Pin<&mut impl Future<Output = Last>>,
    mut transmit: Pin<&mut impl Future<Output = Result<(), String>>>,
    mut watch: Pin<&mut impl Future<Output = String>>,
    ending: &mut oneshot::Receiver<Ending>,
    flush: Duration,
) -> Result<(String, Instant), Last> {
    let mut sent = false;
    let reason = loop {
        tokio::select! {
            last = &mut receive => return Err(last),
            result = &mut transmit, if !sent => match result {
                Ok(()) => sent = true,
                Err(error) => return Err(Last::Lost(error)),
            },
            lost = &mut watch => return Err(Last::Lost(lost)),
            ending = &mut *ending => match ending {
                Ok(Ending::Flush(reason)) => break reason,
                Ok(Ending::Cut(reason)) => return Err(Last::Ours(Why::Slow, reason)),
                Err(_) => break DEAF.to_owned(),
            },
        }
    };
    let deadline = Instant::now() + flush;
    // The outbox is gone, so `transmit` sends what is left and is done.
    let done = sent
        || tokio::select! {
            _ = receive => false,
            result = transmit => result.is_ok(),
            () = sleep_until(deadline) => false,
        };
    if done { Ok((reason, deadline)) } else { Err(Last::Ours(Why::Closed, reason)) }
}

async fn receive(shared: &Shared, conn: ConnId, incoming: &mut impl Receive) -> Last {
    loop {
        let frame = match incoming.next().await {
            Next::Frame(frame) => frame,
            Next::Finished => return Last::Theirs,
            Next::Lost(error) => return Last::Lost(error),
        };
        // Waiting here is what slows the peer down when this node does not keep up.
        if shared.events.send(CarrierEvent::Received { conn, frame }).await.is_err() {
            return Last::Ours(Why::Closed, DEAF.to_owned());
        }
    }
}

/// Sends until the outbox has ended and all its frames were taken.
async fn transmit(frames: &mut Frames, outgoing: &mut impl Transmit) -> Result<(), String> {
    while let Some(frame) = frames.next().await {
        outgoing.send(frame).await?;
    }
    Ok(())
}

/// Reports the round trip, and ends what may not go on. Returns when the peer is gone.
async fn watch(
    shared: &Shared,
    conn: ConnId,
    path: &mut impl Path,
    peer: &NodeId,
    dialled: bool,
    until: &Until,
) -> String {
    let mut ticks = interval(shared.limits.path_rtt);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let own = shared.identity.current().subject().expires;
        if let Some(reason) = until.over(own, unix_now(), shared.limits.path_rtt) {
            shared.connections.close(conn, reason);
        }
        // Over QUIC a peer may move.
        if !dialled && let Some(reason) = shared.admission.refuses(peer, path.address().ip()) {
            shared.connections.close(conn, reason);
        }
        match path.rtt().await {
            // `receive` notices the end
            Ok(rtt) => drop(shared.events.send(CarrierEvent::PathRtt { conn, rtt }).await),
            Err(lost) => return lost,
        }
    }
}

/// How long a connection may stand: no longer than the certificates it was made with (faults I-48).
struct Until {
    second: i64,
    own: bool,
    /// When to go before that, if this node has another certificate by then.
    early: i64,
}

/// The longest time before the end at which a connection is made anew. All peers of a node get the connections of one
/// certificate: at the last second they would all come back at once (faults I-49).
const SPREAD_S: i64 = 600;

impl Until {
    /// `conn` draws the moment.
    fn of(peer: &Subject, own: i64, conn: ConnId, now: i64) -> Self {
        let second = own.min(peer.expires);
        let spread = second.saturating_sub(now).clamp(0, 4 * SPREAD_S) / 4;
        let drawn = i64::try_from(conn.0.wrapping_mul(GOLDEN) >> 32).unwrap_or(0); // below 2^32
        let early = second.saturating_sub((spread * drawn) >> 32);
        Until { second, own: own <= peer.expires, early }
    }

    /// The reason to end it, if that would be too late at the next look. `own` is this node's certificate in use.
    fn over(&self, own: i64, now: i64, next: Duration) -> Option<String> {
        let next = now.saturating_add(i64::try_from(next.as_secs()).unwrap_or(i64::MAX));
        let renews = self.own && own > self.second && next >= self.early;
        (renews || next >= self.second).then(|| {
            let whose = if self.own { "this node's" } else { "the peer's" };
            format!("{whose} certificate of this connection expires on {}", Date::of(self.second))
        })
    }
}

/// Spreads consecutive numbers evenly (Knuth, The Art of Computer Programming, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    fn until(own: i64, peer: i64, conn: u64) -> Until {
        let node = "fra/1".parse().unwrap();
        let peer = Subject { node, valid_from: 0, expires: peer, serial: String::new() };
        Until::of(&peer, own, ConnId(conn), 10_000)
    }

    #[test]
    fn a_connection_ends_before_the_sooner_of_two_certificates() {
        let next = Duration::from_secs(3);
        for (own, peer, whose) in [(20_000, 30_000, "this node's"), (30_000, 20_000, "the peer's")] {
            let until = until(own, peer, 1);
            assert_eq!(until.over(own, 19_996, next), None);
            let reason = until.over(own, 19_997, next).unwrap();
            assert_eq!(
                reason,
                format!("{whose} certificate of this connection expires on 1970-01-01 05:33:20 UTC")
            );
        }
    }

    #[test]
    fn those_of_one_certificate_that_was_renewed_are_made_anew_one_after_the_other() {
        let next = Duration::from_secs(3);
        let ends = |conn| {
            let until = until(20_000, 30_000, conn);
            (19_000..).find(|now| until.over(90_000, *now, next).is_some()).unwrap()
        };
        let mut all: Vec<i64> = (1..=32).map(ends).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] <= 40), "{all:?}");
        assert!(*all.first().unwrap() >= 20_000 - SPREAD_S - 3 && *all.last().unwrap() < 20_000, "{all:?}");
        assert_eq!(
            until(20_000, 30_000, 5).over(20_000, 19_500, next),
            None,
            "there is no other to make it with"
        );
        assert_eq!(until(30_000, 20_000, 5).over(90_000, 19_500, next), None, "the peer looks after its own");
    }
}
