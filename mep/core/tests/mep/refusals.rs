//! Who is turned away, with which words, and where they stand. The peer is played by hand.

use crate::net::{ms, node, place_address, secs, settings};
use bytes::Bytes;
use gslb_types::{Ldns, Timestamp};
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId, Over};
use mep_core::proto::{self, frame::Body};
use mep_core::{DownReason, KnownLdns, Mep, Output, PeerState, Values};
use prost::Message;
use std::time::Duration;

/// Nothing to tell.
pub(crate) struct Nothing;

impl Values for Nothing {
    fn known(&self, _: Ldns) -> Option<KnownLdns> {
        None
    }

    fn known_after(&self, _: Option<Ldns>, _: usize) -> Vec<KnownLdns> {
        Vec::new()
    }
}

/// Node par/1, and fra/1 played by hand.
pub(crate) struct Scene {
    pub(crate) now: Timestamp,
    pub(crate) mep: Mep,
    pub(crate) conn: ConnId,
    pub(crate) seq: u64,
    /// What fra/1 says it has received.
    pub(crate) ack: u64,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Scene::among(&["fra/1", "par/1"])
    }

    /// A scene in which the group has more nodes than the two; fra/1 comes first.
    pub(crate) fn among(nodes: &[&str]) -> Self {
        let now = Timestamp::from_micros(5_000_000);
        let mep = Mep::new(now, node("par/1"), 7, settings(nodes), 1);
        Scene { now, mep, conn: ConnId(1), seq: 0, ack: 0 }
    }

    /// A scene in which the session stands and nothing is unsaid.
    pub(crate) fn up() -> Self {
        Scene::new().with(hello())
    }

    /// The scene in which a session stands after this hello.
    pub(crate) fn with(mut self, hello: proto::Hello) -> Self {
        self.connect("fra/1");
        let outputs = self.say(Body::Hello(hello));
        assert!(outputs.contains(&Output::PeerUp { peer: node("fra/1") }));
        self
    }

    /// Lets time pass, with a word of fra/1 now and then; what came of it.
    pub(crate) fn wait(&mut self, span: Duration) -> Vec<Output> {
        let end = self.now + span;
        let mut outputs = Vec::new();
        while let Some(at) = self.mep.poll_timeout().filter(|at| *at <= end) {
            self.now = at.min(self.now + secs(1));
            outputs.extend(self.turn());
            if self.status().last_word.is_none_or(|word| self.now.since(word) >= secs(1)) {
                outputs.extend(self.say(Body::Keepalive(proto::Keepalive {})));
            }
        }
        self.now = end;
        outputs
    }

    pub(crate) fn connect(&mut self, certificate: &str) -> Vec<Output> {
        self.seq = 0;
        let connected = CarrierEvent::Connected {
            conn: self.conn,
            peer: node(certificate),
            dialled: false,
            address: place_address(0),
            certificate_expires: 9,
            over: Over::Quic,
        };
        self.event(connected)
    }

    pub(crate) fn say(&mut self, body: Body) -> Vec<Output> {
        self.take(body);
        self.turn()
    }

    /// Takes a frame before the machine works.
    pub(crate) fn take(&mut self, body: Body) {
        self.seq += 1;
        let frame = proto::Frame { seq: self.seq, ack: self.ack, heard_ms: None, body: Some(body) };
        let frame = Bytes::from(frame.encode_to_vec());
        self.mep.handle_carrier(self.now, CarrierEvent::Received { conn: self.conn, frame });
    }

    pub(crate) fn frame(&mut self, frame: Vec<u8>) -> Vec<Output> {
        self.event(CarrierEvent::Received { conn: self.conn, frame: Bytes::from(frame) })
    }

    pub(crate) fn event(&mut self, event: CarrierEvent) -> Vec<Output> {
        self.mep.handle_carrier(self.now, event);
        self.turn()
    }

    pub(crate) fn turn(&mut self) -> Vec<Output> {
        self.mep.handle_timeout(self.now, &Nothing);
        assert!(self.mep.poll_timeout().is_none_or(|at| at > self.now));
        std::iter::from_fn(|| self.mep.poll_output()).collect()
    }

    pub(crate) fn status(&self) -> mep_core::PeerStatus {
        self.mep.peers().next().unwrap()
    }
}

pub(crate) fn hello() -> proto::Hello {
    proto::Hello {
        major_min: 1,
        major_max: 1,
        minor: 0,
        site: "fra".to_owned(),
        node: "1".to_owned(),
        boot: 77,
        number: 1,
        software: "0.1.0".to_owned(),
        group: "test".to_owned(),
        settings: vec![proto::Setting { name: "rtt_tolerance".to_owned(), hash: 5 }],
        config_hash: 5,
        keepalive_ms: 10_000,
        metrics_interval_ms: 1_000,
        rtt_interval_ms: 5_000,
    }
}

fn close(conn: u64, reason: &str) -> Output {
    Output::Carrier(CarrierCommand::Close { conn: ConnId(conn), reason: reason.to_owned() })
}

fn refused_with(hello: proto::Hello) -> String {
    let mut scene = Scene::new();
    scene.connect("fra/1");
    let outputs = scene.say(Body::Hello(hello));
    let [Output::Carrier(CarrierCommand::Close { reason, .. })] = outputs.as_slice() else {
        panic!("not refused: {outputs:?}")
    };
    let status = scene.status();
    assert_eq!((status.state, &status.reason), (PeerState::Connecting, reason));
    assert_eq!((status.refusals, status.last_attempt.as_ref()), (1, Some(reason)));
    reason.clone()
}

#[test]
fn a_hello_in_anothers_name_is_refused_by_name() {
    let reason = refused_with(proto::Hello { site: "ber".to_owned(), ..hello() });
    assert_eq!(reason, "the hello names ber/1, the certificate fra/1");
}

#[test]
fn another_group_is_refused_by_name() {
    let reason = refused_with(proto::Hello { group: "other".to_owned(), ..hello() });
    assert_eq!(reason, "the hello names group 'other', ours is 'test'");
}

#[test]
fn a_newer_major_version_is_refused_and_a_newer_minor_is_not() {
    let reason = refused_with(proto::Hello { major_min: 2, major_max: 2, ..hello() });
    assert_eq!(reason, "the hello speaks protocol 2 to 2, this node 1 to 1");
    let mut scene = Scene::new();
    scene.connect("fra/1");
    scene.say(Body::Hello(proto::Hello { major_max: 2, minor: 9, ..hello() }));
    assert_eq!(scene.status().state, PeerState::Up);
}

#[test]
fn nothing_is_taken_before_the_hello() {
    let rows = proto::RttRows {
        groups: vec![proto::RttGroup {
            reach: proto::Reach::Known as i32,
            v4: vec![0x0A00_0001],
            v4_rtt_us: vec![5],
            ..Default::default()
        }],
    };
    let mut scene = Scene::new();
    scene.connect("fra/1");
    assert_eq!(scene.say(Body::Rtts(rows)), [close(1, "the first frame is no hello")]);
    scene.conn = ConnId(2);
    scene.connect("fra/1");
    assert_eq!(scene.frame(vec![0xFF; 40]), [close(2, "the first frame is no hello")]);
    assert_eq!((scene.status().rows_in, scene.status().last_word), (0, None));
}

#[test]
fn a_connection_without_a_hello_is_closed_after_five_seconds() {
    let mut scene = Scene::new();
    scene.connect("fra/1");
    scene.now += ms(4_999);
    assert_eq!(scene.turn(), []);
    scene.now += ms(1);
    assert_eq!(scene.turn(), [close(1, "no hello within 5s")]);
    assert_eq!(scene.status().reason, "no hello within 5s");
}

#[test]
fn nodes_that_are_not_of_the_group_are_closed_and_counted() {
    let mut scene = Scene::new();
    assert_eq!(scene.connect("ber/9"), [close(1, "ber/9 is not a node of this group")]);
    assert_eq!(scene.connect("par/1"), [close(1, "par/1 is this node's own name")]);
    let refused =
        CarrierEvent::Refused { address: place_address(3), reason: "another CA\u{1b}[2J".to_owned() };
    assert_eq!(scene.event(refused), []);
    let strangers = scene.mep.strangers();
    assert_eq!((strangers.unknown_nodes, strangers.refused), (2, 1));
    assert_eq!(strangers.last, Some((place_address(3), "another CA[2J".to_owned())));
}

#[test]
fn more_than_four_connections_without_a_hello_are_too_many() {
    let mut scene = Scene::new();
    for n in 1..=4 {
        scene.conn = ConnId(n);
        let offered = scene.connect("fra/1").len();
        assert_eq!(offered, usize::from(n == 1), "one connection is offered at a time");
    }
    scene.conn = ConnId(5);
    assert_eq!(scene.connect("fra/1"), [close(5, "too many connections at once")]);
}

/// A hello that was on its way over a connection the peer has given up does not take the session from the later one.
#[test]
fn of_two_hellos_of_one_process_the_later_has_the_session() {
    let mut scene = Scene::new();
    scene.connect("fra/1");
    scene.say(Body::Hello(proto::Hello { number: 5, ..hello() }));
    scene.conn = ConnId(2);
    scene.connect("fra/1");
    let outputs = scene.say(Body::Hello(proto::Hello { number: 4, ..hello() }));
    assert_eq!(outputs, [close(2, "duplicate")]);
    assert_eq!(scene.status().sessions, 1);
    scene.conn = ConnId(3);
    scene.connect("fra/1");
    let outputs = scene.say(Body::Hello(proto::Hello { number: 6, ..hello() }));
    let down = Output::PeerDown { peer: node("fra/1"), reason: DownReason::Superseded };
    assert_eq!(
        outputs[..3],
        [close(1, "the peer has made a new connection"), down, Output::PeerUp { peer: node("fra/1") }]
    );
    assert_eq!((scene.status().sessions, scene.status().downs), (2, 1));
}

#[test]
fn a_dial_that_fails_says_why_and_is_tried_again() {
    let mut scene = Scene::new();
    let mut waits = Vec::new();
    for _ in 0..12 {
        let begin = scene.now;
        let over = loop {
            scene.now = scene.mep.poll_timeout().unwrap();
            let dial = |o| match o {
                Output::Carrier(CarrierCommand::Dial { over, .. }) => Some(over),
                _ => None,
            };
            if let Some(over) = scene.turn().into_iter().find_map(dial) {
                break over;
            }
        };
        waits.push(scene.now.since(begin));
        let reason = "connection refused".to_owned();
        assert_eq!(scene.event(CarrierEvent::DialFailed { peer: node("fra/1"), over, reason }), []);
    }
    assert!(waits[0] >= ms(500) && waits[0] <= ms(1_700), "{waits:?}");
    assert!(waits[1..].iter().all(|w| *w >= secs(2) && *w <= ms(7_600)), "{waits:?}");
    assert_eq!(scene.status().reason, "dial failed: connection refused");
}

#[test]
fn the_words_of_who_closed_stand_in_the_status() {
    let mut scene = Scene::new();
    scene.connect("fra/1");
    let reason = "the hello names group 'test', ours is 'other'".to_owned();
    scene.event(CarrierEvent::Closed { conn: ConnId(1), reason });
    assert_eq!(
        scene.status().reason,
        "connection closed before a session: the hello names group 'test', ours is 'other'"
    );
}
