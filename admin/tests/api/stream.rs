//! The stream of changes of peers' states: what it tells, to whom, and when it ends.

use crate::fixture::{Fixture, NOW, transition};
use crate::http::Server;
use gslb_core::PeerState;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use PeerState::{Down, Up};

/// A reader of the stream.
struct Events {
    stream: BufReader<TcpStream>,
    /// Of the chunks that came, without their lengths.
    text: String,
    waiting: VecDeque<Event>,
}

#[derive(Clone, PartialEq, Debug)]
struct Event {
    name: String,
    id: String,
    data: Value,
}

impl Events {
    async fn open(server: &Server, last: Option<&str>) -> Self {
        let mut stream = server.connect().await;
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!("GET /v1/peers/stream HTTP/1.1\r\nHost: localhost\r\n{last}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).await.unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"), "{head}");
        Events { stream, text: String::new(), waiting: VecDeque::new() }
    }

    /// Reads a chunk; false at the end.
    async fn read(&mut self) -> bool {
        let mut length = String::new();
        if self.stream.read_line(&mut length).await.unwrap_or(0) == 0 {
            return false;
        }
        let mut chunk = vec![0; usize::from_str_radix(length.trim(), 16).unwrap()];
        if self.stream.read_exact(&mut chunk).await.is_err() {
            return false;
        }
        assert_eq!(self.stream.read_u16().await.unwrap(), u16::from_be_bytes(*b"\r\n"));
        self.text += std::str::from_utf8(&chunk).unwrap();
        while let Some((event, rest)) = self.text.split_once("\n\n") {
            let field =
                |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            if !event.starts_with(':') {
                let data = serde_json::from_str(field("data: ")).unwrap();
                let (name, id) = (field("event: ").to_owned(), field("id: ").to_owned());
                self.waiting.push_back(Event { name, id, data });
            }
            self.text = rest.to_owned();
        }
        !chunk.is_empty()
    }

    async fn next(&mut self) -> Option<Event> {
        while self.waiting.is_empty() {
            if !self.read().await {
                return None;
            }
        }
        self.waiting.pop_front()
    }

    async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await.unwrap_or_else(|| panic!("it ended before {name}"));
        assert_eq!(event.name, name, "{event:?}");
        event
    }
}

impl Fixture {
    /// A peer, by its place, changes its state; the number of the change is the next.
    fn happens(&self, peer: usize, to: PeerState, reason: &str) {
        self.happens_often(1, peer, to, reason);
    }

    /// So often before anybody looks.
    fn happens_often(&self, times: u64, peer: usize, to: PeerState, reason: &str) {
        self.change(|peers| {
            let numbers = peers.iter().flat_map(|peer| peer.transitions.iter()).map(|t| t.number);
            let last = numbers.max().unwrap();
            let status = &mut peers[peer];
            for number in last + 1..=last + times {
                // As the exchange keeps them.
                if status.transitions.len() == 32 {
                    status.transitions.pop_front();
                }
                status.transitions.push_back(transition(number, NOW, (status.state, to), "silent", reason));
                status.state = to;
            }
        });
    }
}

fn number(event: &Event) -> u64 {
    event.id.split_once('-').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn the_whole_state_comes_first_and_then_each_change() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let mut events = Events::open(&server, None).await;
    let state = events.expect("state").await;
    assert_eq!(state.data, server.json("/v1/peers").await);
    assert_eq!(number(&state), 6, "the last change it contains");

    fixture.happens(0, Down, "not heard for 10s");
    fixture.happens(1, Up, "session established");
    let (first, second) = (events.expect("transition").await, events.expect("transition").await);
    let expected = json!({
        "number": 7, "peer": "ams/1", "age_ms": 0, "from": "up", "to": "down", "kind": "silent",
        "reason": "not heard for 10s",
    });
    assert_eq!((&first.data, number(&first)), (&expected, 7));
    assert_eq!(
        (&second.data["peer"], &second.data["to"], number(&second)),
        (&json!("sin/1"), &json!("up"), 8)
    );
}

#[tokio::test]
async fn who_comes_back_goes_on_where_it_was() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let state = Events::open(&server, None).await.expect("state").await;
    for reason in ["one", "two", "three"] {
        fixture.happens(0, Down, reason);
    }
    let mut events = Events::open(&server, Some(&state.id)).await;
    let mut reasons = Vec::new();
    for _ in 0..3 {
        reasons.push(events.expect("transition").await.data["reason"].clone());
    }
    assert_eq!(reasons, ["one", "two", "three"]);
}

#[tokio::test]
async fn who_comes_from_elsewhere_starts_with_the_whole_state() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let id = Events::open(&server, None).await.expect("state").await.id;
    let (life, _) = id.split_once('-').unwrap();
    for other in ["0123456789abcdef-6", "6", "", "x-y", "-", &format!("{life}-7"), &format!("{life}-x")] {
        Events::open(&server, Some(other)).await.expect("state").await;
    }
}

#[tokio::test]
async fn who_was_away_too_long_is_told_how_much_it_missed() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let state = Events::open(&server, None).await.expect("state").await;
    fixture.happens(1, Up, "of the other peer, and kept");
    fixture.happens_often(100, 0, Down, "again");
    // Of number 7 and 8 to 107, 7 and the last 32 are still known.
    let mut events = Events::open(&server, Some(&state.id)).await;
    assert_eq!(number(&events.expect("transition").await), 7);
    let lagged = events.expect("lagged").await;
    assert_eq!((&lagged.data, number(&lagged)), (&json!({ "missed": 68 }), 75));
    for expected in 76..=107 {
        assert_eq!(number(&events.expect("transition").await), expected);
    }
    fixture.happens(0, Up, "and on");
    assert_eq!(events.expect("transition").await.data["reason"], "and on");
}

/// The node task was started anew: the numbers begin again.
#[tokio::test]
async fn a_stream_outlives_the_node_task() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let mut events = Events::open(&server, None).await;
    events.expect("state").await;
    fixture.change(|peers| peers.iter_mut().for_each(|peer| peer.transitions.clear()));
    assert_eq!(number(&events.expect("state").await), 0);
    fixture.change(|peers| {
        peers[0].transitions.push_back(transition(1, NOW, (Down, Up), "up", "session established"));
    });
    assert_eq!(number(&events.expect("transition").await), 1);
}

#[tokio::test]
async fn a_stream_without_events_shows_that_it_lives() {
    let server = Fixture::new().serve().await;
    let mut events = Events::open(&server, None).await;
    events.expect("state").await;
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    // Ten comments: longer than a connection without a stream may be idle.
    for _ in 0..10 {
        assert!(events.read().await);
    }
    // The first one counts from the event before it.
    assert!((95..=100).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(events.waiting.len(), 0);
}

/// Faults I-71: a stream has no end of its own, and stopping does not wait for it.
#[tokio::test]
async fn a_stream_ends_at_once_when_the_node_stops() {
    let server = Fixture::new().serve().await;
    let mut events = Events::open(&server, None).await;
    events.expect("state").await;
    let start = std::time::Instant::now();
    server.stop.cancel();
    server.task.await.unwrap();
    assert!(
        start.elapsed() < Duration::from_millis(400),
        "{:?}: cut off after the farewell",
        start.elapsed()
    );
    assert_eq!(events.expect("end").await.data, json!({ "reason": "this node stops" }));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn there_are_so_many_streams_and_no_more() {
    let server = Fixture::new().serve().await;
    let mut open = Vec::new();
    for _ in 0..16 {
        let mut events = Events::open(&server, None).await;
        events.expect("state").await;
        open.push(events);
    }
    let refused = server.get("/v1/peers/stream").await;
    assert_eq!(
        (refused.status, refused.reason().as_str()),
        (503, "16 streams are open already, and no more are allowed")
    );
    assert_eq!(server.get("/ready").await.status, 200, "asking goes on");
    open.pop();
    // Until the server has noticed.
    while server.connect_stream().await != 200 {}
}

impl Server {
    /// The status of a stream that is left again.
    async fn connect_stream(&self) -> u16 {
        let mut stream = self.connect().await;
        stream.write_all(b"GET /v1/peers/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
    }
}

/// A reader that does not read: nothing is kept for it beyond what the way to it holds, and its place is given back.
#[tokio::test]
async fn who_does_not_read_is_not_waited_for_and_told_what_it_missed() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let mut events = Events::open(&server, None).await;
    events.expect("state").await;
    tokio::time::pause();
    let long = "x".repeat(100_000);
    // Some megabytes fill the way; more than the ring holds comes between two looks.
    let mut happened = 6;
    for _ in 0..60 {
        fixture.happens_often(40, 0, Down, &long);
        happened += 40;
        tokio::time::sleep(Duration::from_millis(350)).await;
    }
    let (mut seen, mut missed, mut last) = (6, 0, 6);
    while last < happened {
        let event = events.next().await.expect("it is read again in time");
        match event.name.as_str() {
            "lagged" => missed += event.data["missed"].as_u64().unwrap(),
            _ => seen += 1,
        }
        last = number(&event);
    }
    assert_eq!(seen + missed, happened, "every change is told or counted");
    assert!(missed > 60, "{missed} missed");

    // And one who never reads again.
    for _ in 0..40 {
        fixture.happens_often(40, 0, Down, &long);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut end = 0;
    while events.next().await.is_some() {
        end += 1;
    }
    assert!(end < 1600, "{end}: closed after 30 s");
}
