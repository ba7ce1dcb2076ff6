//! `/v1/peers/stream`: changes of peers' states as they happen, as server-sent events.
//!
//! The first event is `state`, all of `/v1/peers`; then there is a `transition` for each change, in order. The id of an event
//! names this process and the change's number, so that whoever comes back with it as Last-Event-ID goes on where it was, as
//! far as the changes are still known. Nothing is kept for a reader: each event is taken from what the node publishes when
//! there is room on the connection. What is no longer there by then is told as `lagged`, with how many changes were missed.
//! `end` comes when the node stops.

use crate::api;
use crate::refusal::Refusal;
use crate::state::{STREAMS, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use gslb_core::Published;
use serde::Serialize;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How often it is looked whether something has changed. A look that finds nothing costs next to nothing.
const LOOK: Duration = Duration::from_millis(100);

/// Between two comments on a stream without events: a reader knows that the node lives, and the node that the reader reads.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Opens a stream, from the start or from where the reader was.
pub(crate) fn open(state: State, headers: &HeaderMap) -> Result<Response, Refusal> {
    let Some(place) = state.stream() else {
        let reason = format!("{STREAMS} streams are open already, and no more are allowed");
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason));
    };
    let told = headers.get("last-event-id").and_then(|id| number(id.to_str().ok()?, state.life()));
    let reader = Reader { state, told, ended: false, _place: place };
    let events = stream::unfold(reader, |mut reader| async {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("keep-alive");
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

/// The number in an event's id, if this process gave it.
fn number(id: &str, life: u64) -> Option<u64> {
    let (of, number) = id.split_once('-')?;
    (u64::from_str_radix(of, 16).ok()? == life).then_some(number.parse().ok()?)
}

/// One who reads.
struct Reader {
    state: State,
    /// The last change it knows; `None` if it knows nothing.
    told: Option<u64>,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

/// What the next event is.
enum Next {
    /// Everything, up to this change.
    State(u64),
    /// So many changes were missed, up to this one.
    Lagged { missed: u64, last: u64 },
    /// The change of this number.
    Transition(u64),
}

impl Reader {
    /// The next event, once there is one; `None` after the last.
    async fn next(&mut self) -> Option<Event> {
        while !self.ended {
            if self.state.stop().is_cancelled() {
                self.ended = true;
                return Some(Event::default().event("end").data(r#"{"reason":"this node stops"}"#));
            }
            if let Some(event) = self.look() {
                return Some(event);
            }
            tokio::select! {
                () = self.state.stop().cancelled() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        None
    }

    /// The next event, if there is one.
    fn look(&mut self) -> Option<Event> {
        let published = self.state.published();
        let next = next(&published, self.told)?;
        let view = self.state.view_of(published);
        let (event, told) = match next {
            Next::State(last) => (written("state", &api::peers(&view)), last),
            Next::Lagged { missed, last } => (written("lagged", &Lagged { missed }), last),
            Next::Transition(number) => {
                let (peer, transition) = transitions(&view.published).find(|(_, t)| t.number == number)?;
                (written("transition", &api::transition(&view, peer, transition)), number)
            }
        };
        self.told = Some(told);
        Some(event.id(format!("{:016x}-{told}", self.state.life())))
    }
}

/// What comes after the change that was told last.
fn next(published: &Published, told: Option<u64>) -> Option<Next> {
    let newest = transitions(published).map(|(_, transition)| transition.number).max().unwrap_or(0);
    // A node task that was started anew counts from the beginning: the reader knows nothing of it.
    let Some(told) = told.filter(|told| *told <= newest) else { return Some(Next::State(newest)) };
    let later = transitions(published).map(|(_, transition)| transition.number).filter(|n| *n > told);
    let number = later.min()?;
    let last = number - 1;
    Some(if last > told { Next::Lagged { missed: last - told, last } } else { Next::Transition(number) })
}

fn transitions(
    published: &Published,
) -> impl Iterator<Item = (&gslb_core::PeerStatus, &gslb_core::Transition)> {
    published.peers.iter().flat_map(|peer| peer.transitions.iter().map(move |transition| (peer, transition)))
}

/// What was missed.
#[derive(Serialize)]
struct Lagged {
    /// How many changes.
    missed: u64,
}

fn written(name: &str, data: &impl Serialize) -> Event {
    // These types have no map with keys that are no text, the one thing JSON can't say.
    Event::default().event(name).json_data(data).unwrap_or_else(|_| Event::default().event(name).data("null"))
}
