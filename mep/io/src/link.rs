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
use std::fmt;
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
    /// Its round trip, unless that can't be told within `patience`. Fails if the peer is gone.
    fn rtt(&mut self, patience: Duration) -> impl Future<Output = Result<Option<Duration>, String>> + Send;

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
        let until = Until::of(&self.subject, self.own_expires, self.dialled, conn, unix_now());
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
        match until.age(own, unix_now(), shared.limits.path_rtt) {
            Age::Young => {}
            Age::Old { renew } => drop(shared.events.send(CarrierEvent::Ageing { conn, renew }).await), // as below
            Age::Over => shared.connections.close(conn, until.to_string()),
        }
        // Over QUIC a peer may move.
        if !dialled && let Some(reason) = shared.admission.refuses(peer, path.address().ip()) {
            shared.connections.close(conn, reason);
        }
        match path.rtt(shared.limits.path_rtt).await {
            Ok(None) => {}
            // `receive` notices the end
            Ok(Some(rtt)) => drop(shared.events.send(CarrierEvent::PathRtt { conn, rtt }).await),
            Err(lost) => return lost,
        }
    }
}

/// How long a connection may stand: no longer than the certificates it was made with (faults I-48).
///
/// ```text
/// Young ──> Old: a new one may take its place ──> Old, renew: this end makes it ──> Over
/// ```
struct Until {
    second: i64,
    /// Whether it is for this end to make a new one: its own certificate ends first.
    ours: bool,
    old: i64,
    /// When to make a new one, if this node has another certificate by then.
    renew: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Age {
    Young,
    Old { renew: bool },
    Over,
}

/// The longest time before the end at which a connection is made anew. All peers of a node get the connections of one
/// certificate: at the last second they would all come at once (faults I-49).
const SPREAD_S: i64 = 600;

/// What is left then at least, for a dial that has to be repeated.
const MARGIN_S: i64 = 30;

impl Until {
    /// `conn` draws the moment.
    fn of(peer: &Subject, own: i64, dialled: bool, conn: ConnId, now: i64) -> Self {
        let second = own.min(peer.expires);
        let spread = second.saturating_sub(now).clamp(0, 4 * SPREAD_S) / 4;
        let margin = (spread / 2).min(MARGIN_S);
        let drawn = i64::try_from(conn.0.wrapping_mul(GOLDEN) >> 32).unwrap_or(0); // below 2^32
        Until {
            second,
            ours: own < peer.expires || (own == peer.expires && dialled),
            // Twice as long, so that the peer whose clock differs a little is ready when we begin.
            old: second.saturating_sub(2 * spread),
            renew: second.saturating_sub(margin + (((spread - margin) * drawn) >> 32)),
        }
    }

    /// How old it will be at the next look. `own` is the expiry of this node's certificate in use.
    fn age(&self, own: i64, now: i64, next: Duration) -> Age {
        let next = now.saturating_add(i64::try_from(next.as_secs()).unwrap_or(i64::MAX));
        if next >= self.second {
            Age::Over
        } else if next >= self.old {
            Age::Old { renew: self.ours && own > self.second && next >= self.renew }
        } else {
            Age::Young
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.ours { "this node's" } else { "the peer's" };
        write!(f, "{whose} certificate of this connection expires on {}", Date::of(self.second))
    }
}

/// Spreads consecutive numbers evenly (Knuth, The Art of Computer Programming, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 10_000;
    const LOOK: Duration = Duration::from_secs(3);
    const OLD: Age = Age::Old { renew: false };

    fn until(own: i64, peer: i64, conn: u64) -> Until {
        let node = "fra/1".parse().unwrap();
        let peer = Subject { node, valid_from: 0, expires: peer, serial: String::new() };
        Until::of(&peer, own, true, ConnId(conn), NOW)
    }

    #[test]
    fn a_connection_ends_before_the_sooner_of_two_certificates() {
        for (own, peer, whose) in [(20_000, 30_000, "this node's"), (30_000, 20_000, "the peer's")] {
            let until = until(own, peer, 1);
            let age = |now| until.age(own, now, LOOK);
            assert_eq!([age(18_796), age(18_797), age(19_996)], [Age::Young, OLD, OLD]);
            assert_eq!(age(19_997), Age::Over);
            let reason = format!("{whose} certificate of this connection expires on 1970-01-01 05:33:20 UTC");
            assert_eq!(until.to_string(), reason);
        }
    }

    #[test]
    fn those_of_one_certificate_that_was_renewed_are_made_anew_one_after_the_other() {
        let renewed = |conn| {
            let until = until(20_000, 30_000, conn);
            (NOW..).find(|now| until.age(90_000, *now, LOOK) == Age::Old { renew: true }).unwrap()
        };
        let mut all: Vec<i64> = (1..=32).map(renewed).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] <= 40), "{all:?}");
        let (first, last) = (*all.first().unwrap(), *all.last().unwrap());
        assert!(first >= 20_000 - 2 * SPREAD_S && last <= 20_000 - MARGIN_S, "{first} {last}");
        let age = |own, peer, own_now| until(own, peer, 5).age(own_now, 19_990, LOOK);
        assert_eq!(age(20_000, 30_000, 20_000), OLD, "there is no other to make it with");
        assert_eq!(age(30_000, 20_000, 90_000), OLD, "the peer looks after its own");
    }

    #[test]
    fn one_end_renews_when_both_certificates_end_together() {
        let node = "fra/1".parse().unwrap();
        let peer = Subject { node, valid_from: 0, expires: 20_000, serial: String::new() };
        for dialled in [true, false] {
            let until = Until::of(&peer, 20_000, dialled, ConnId(1), NOW);
            assert_eq!(until.age(90_000, 19_990, LOOK), Age::Old { renew: dialled });
        }
    }

    #[test]
    fn a_certificate_of_a_minute_is_renewed_in_its_last_quarter() {
        let node = "fra/1".parse().unwrap();
        let peer = Subject { node, valid_from: 0, expires: 90_000, serial: String::new() };
        for conn in 1..100 {
            let until = Until::of(&peer, NOW + 60, false, ConnId(conn), NOW);
            let renew = until.renew - NOW;
            assert_eq!(until.old, NOW + 30);
            assert!((45..=53).contains(&renew), "{renew}");
        }
    }
}
