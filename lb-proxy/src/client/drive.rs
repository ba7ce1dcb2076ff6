//! A connection under hyper, and the ends that hyper does not know: rests that are too long, a proxy that stops.

use super::activity::Activity;
use crate::alarm::Alarm;
use crate::http::Front;
use crate::settings::Timeouts;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// How long a client that rests may take to hear that its connection goes.
const FAREWELL: Duration = Duration::from_secs(1);

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// All that was asked is answered.
    Done,
    /// The client left, or was told that it speaks no HTTP.
    Failed,
    /// It is broken off.
    Broken,
}

/// Drives a connection, and ends it when it rests for too long, or when the proxy stops. `wind_up` tells hyper to take no more
/// requests.
pub(super) async fn drive<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<&mut C>,
    wind_up: impl Fn(Pin<&mut C>),
    front: &Front,
) -> End {
    let place = &front.place;
    let mut patience = Patience::new(&front.activity, &place.settings.timeouts);
    let (mut stopping, mut killed) = (pin!(place.stop.cancelled()), pin!(place.kill.cancelled()));
    let mut is_winding_up = false;
    let ended = |result: hyper::Result<()>| if result.is_ok() { End::Done } else { End::Failed };
    poll_fn(|cx| {
        if !is_winding_up && stopping.as_mut().poll(cx).is_ready() {
            is_winding_up = true;
            wind_up(connection.as_mut());
        }
        if let Poll::Ready(result) = connection.as_mut().poll(cx) {
            return Poll::Ready(ended(result));
        }
        // Nothing is broken off before it was told to wind up.
        if is_winding_up && killed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(End::Broken);
        }
        if front.activity.poll_broken(cx).is_ready() {
            return Poll::Ready(End::Broken);
        }
        while let Poll::Ready(worn_out) = patience.poll(cx) {
            if worn_out == WornOut::First {
                place.vserver.counters.timed_out.add();
            }
            if is_winding_up || !front.activity.rests() {
                return Poll::Ready(End::Broken);
            }
            // A client of HTTP/2 hears that its connection goes, so that it knows what became of a request sent just now.
            is_winding_up = true;
            wind_up(connection.as_mut());
            if let Poll::Ready(result) = connection.as_mut().poll(cx) {
                return Poll::Ready(ended(result));
            }
        }
        Poll::Pending
    })
    .await
}

/// What is left of the time in which something must happen.
struct Patience<'a> {
    activity: &'a Activity,
    timeouts: &'a Timeouts,
    alarm: Alarm,
    /// When the farewell is over, once it has begun.
    until: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WornOut {
    /// Nothing has happened in time.
    First,
    /// Nor has the farewell ended.
    Again,
}

impl<'a> Patience<'a> {
    fn new(activity: &'a Activity, timeouts: &'a Timeouts) -> Self {
        let alarm = Alarm::new(timeouts.request_header.min(timeouts.idle));
        Patience { activity, timeouts, alarm, until: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<WornOut> {
        while self.alarm.poll(cx).is_ready() {
            let deadline = self.until.unwrap_or_else(|| self.activity.deadline(self.timeouts));
            let now = Instant::now(); // not before the deadline was asked for, which may be the present
            if deadline > now {
                self.alarm.by(deadline);
                continue;
            }
            return Poll::Ready(match self.until.replace(now + FAREWELL) {
                Some(_) => WornOut::Again,
                None => WornOut::First,
            });
        }
        Poll::Pending
    }
}
