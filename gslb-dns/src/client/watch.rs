//! `gslb-dns peers --watch`: whatever changes is shown at once, by the node's stream of events.
//!
//! People see a table that is painted anew at each event, and every second, since ages grow. Programs get a line of JSON for
//! each event. From a node that gives no stream both see what is known every second, and are told why.

use super::events::{Event, Events};
use super::fetch::{FetchError, Node};
use super::{Failed, Format, Question, once, print};
use std::io::{self, Write};
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Before a stream that was refused is asked for again.
const RETRY: Duration = Duration::from_secs(10);

/// Moves the cursor home and clears the screen (ECMA-48).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows what is asked for until it can't be printed. A node that goes away is awaited; one that was never there is not.
pub(super) async fn watch(
    question: &Question,
    node: &Node,
    format: Format,
    out: &mut impl Write,
) -> Result<u8, Failed> {
    let mut stream = Stream::new(node);
    match format {
        Format::Table => {
            once(question, node, format, out).await?;
            loop {
                paint(question, node, &stream, out).await?;
                stream.event_or_look().await;
            }
        }
        Format::Json => {
            // Fails at once if nobody is there.
            node.get(&question.path).await?;
            loop {
                match stream.event_or_look().await {
                    Some(event) => print(out, &line(&event))?,
                    None if stream.refused.is_some() => poll(question, node, out).await?,
                    None => (),
                }
            }
        }
    }
}

async fn paint(
    question: &Question,
    node: &Node,
    stream: &Stream<'_>,
    out: &mut impl Write,
) -> Result<(), Failed> {
    let text = match node.get(&question.path).await {
        Ok(body) => (question.show)(&body)?.text,
        Err(error) => format!("{error}\n"),
    };
    let note = stream.refused.as_ref().map(|error| format!("\nshown every second only: {error}\n"));
    print(out, &format!("{CLEAR}{text}{}", note.unwrap_or_default()))?;
    Ok(())
}

/// For programs: the whole state where there are no events.
async fn poll(question: &Question, node: &Node, out: &mut impl Write) -> Result<(), Failed> {
    match node.get(&question.path).await {
        Ok(body) => {
            let data = serde_json::from_slice(&body)?;
            print(out, &line(&Event { name: "state".to_owned(), id: None, data }))?;
        }
        // Programs that read lines are not to find one that is no JSON.
        Err(error) => writeln!(io::stderr(), "gslb-dns: {error}")?,
    }
    Ok(())
}

/// An event as one line.
fn line(event: &Event) -> String {
    let Event { name, id, data } = event;
    format!("{}\n", serde_json::json!({ "event": name, "id": id, "data": data }))
}

/// The node's events, asked for again whenever they end.
struct Stream<'a> {
    node: &'a Node,
    events: Option<Events>,
    /// The last event seen: what came after it is asked for.
    last: Option<String>,
    /// Why there are none.
    refused: Option<FetchError>,
    looks: Interval,
    /// Before then it is not asked for again.
    retry_at: Instant,
}

impl<'a> Stream<'a> {
    fn new(node: &'a Node) -> Self {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Stream { node, events: None, last: None, refused: None, looks, retry_at: Instant::now() }
    }

    /// Returns with an event, or without one when it is time to look.
    async fn event_or_look(&mut self) -> Option<Event> {
        if self.events.is_none() {
            self.open().await;
        }
        let next = async {
            match &mut self.events {
                Some(events) => events.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = next => match event {
                Ok(Some(event)) => {
                    self.last = event.id.clone().or(self.last.take());
                    return Some(event);
                }
                // The node stops, or is gone: that shows with the next look.
                Ok(None) | Err(_) => self.events = None,
            },
            _ = self.looks.tick() => return None,
        }
        self.looks.tick().await;
        None
    }

    async fn open(&mut self) {
        if self.refused.is_some() && Instant::now() < self.retry_at {
            return;
        }
        match self.node.events(self.last.as_deref()).await {
            Ok(events) => (self.events, self.refused) = (Some(events), None),
            // A node that is gone refuses nothing.
            Err(FetchError::Unreachable { .. } | FetchError::TimedOut { .. }) => self.refused = None,
            Err(refused) => {
                self.retry_at = Instant::now() + RETRY;
                self.refused = Some(refused);
            }
        }
    }
}
