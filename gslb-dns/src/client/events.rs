//! Server-sent events (the HTML standard, section 9.2), as far as the admin API uses them.

use super::fetch::FetchError;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::Instant;

/// A stream shows every ten seconds that it lives; one silent for longer is taken for dead.
const SILENCE: Duration = Duration::from_secs(35);

/// The largest event, in bytes: more than all that is known of the peers of a large group.
const LARGEST: usize = 16 * 1024 * 1024;

/// An event.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Event {
    pub(super) name: String,
    /// What a stream is continued by.
    pub(super) id: Option<String>,
    pub(super) data: serde_json::Value,
}

/// The events of a node.
pub(super) struct Events {
    address: SocketAddr,
    body: Incoming,
    /// When something came last, a keep-alive at least: whoever waits for an event may give up waiting and begin again.
    heard: Instant,
    /// What has come of the next one.
    text: Text,
}

impl Events {
    pub(super) fn of(address: SocketAddr, body: Incoming) -> Self {
        Events { address, body, heard: Instant::now(), text: Text::default() }
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, FetchError> {
        let address = self.address;
        let broken = |reason: String| FetchError::Broken { address, reason };
        loop {
            if let Some(event) = self.text.next().map_err(broken)? {
                return Ok(Some(event));
            }
            let frame = tokio::time::timeout_at(self.heard + SILENCE, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| broken("the stream is silent".to_owned()))? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| broken(error.to_string()))?;
            self.heard = Instant::now();
            self.text.take(frame.into_data().unwrap_or_default());
        }
    }
}

/// Text that is not complete yet.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn take(&mut self, more: Bytes) {
        self.0.extend_from_slice(&more);
    }

    /// Takes the first event that is there as a whole. Comments are passed over.
    fn next(&mut self) -> Result<Option<Event>, String> {
        while let Some(end) = self.0.windows(2).position(|two| two == b"\n\n") {
            let rest = self.0.split_off(end + 2);
            let block = std::mem::replace(&mut self.0, rest);
            if let Some(event) = event(&block)? {
                return Ok(Some(event));
            }
        }
        if self.0.len() > LARGEST { Err("an event is too large".to_owned()) } else { Ok(None) }
    }
}

fn event(block: &[u8]) -> Result<Option<Event>, String> {
    let block = std::str::from_utf8(block).map_err(|error| error.to_string())?;
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let Some(data) = field("data") else { return Ok(None) };
    let data = serde_json::from_str(data).map_err(|error| error.to_string())?;
    let name = field("event").unwrap_or("message").to_owned();
    Ok(Some(Event { name, id: field("id").map(str::to_owned), data }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_whole_or_awaited() {
        let mut text = Text::default();
        for piece in
            [": keep-alive\n\n", "event: transition\ni", "d: 7-1\nda", "ta: {\"a\":1}\n", "\n\nevent"]
        {
            assert_eq!(text.next(), Ok(None));
            text.take(Bytes::from_static(piece.as_bytes()));
        }
        let data = serde_json::json!({ "a": 1 });
        let expected = Event { name: "transition".to_owned(), id: Some("7-1".to_owned()), data };
        assert_eq!((text.next(), text.next()), (Ok(Some(expected)), Ok(None)));
        text.take(Bytes::from_static(b": x\ndata: {\n\n"));
        assert!(text.next().is_err());
    }
}
