//! A group whose nodes are not all of one version, as in a rolling upgrade (behaviour 8). The other version is spoken by
//! hand: older and newer minors, and a newer major.

use crate::net::{address, ms, node, secs};
use crate::refusals::{Scene, hello};
use bytes::Bytes;
use gslb_types::{Reach, ServiceState};
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId};
use mep_core::proto::{self, frame::Body, relayed::What};
use mep_core::{Output, PeerState, SessionKey, VERSION};
use prost::Message;
use std::time::Duration;

const GROUP: [&str; 3] = ["fra/1", "par/1", "ber/1"];

fn minor(minor: u32) -> Scene {
    Scene::among(&GROUP).with(proto::Hello { minor, ..hello() })
}

fn frames(outputs: &[Output]) -> Vec<Bytes> {
    let frame = |o: &Output| match o {
        Output::Carrier(CarrierCommand::Send { frame, .. }) => Some(frame.clone()),
        _ => None,
    };
    outputs.iter().filter_map(frame).collect()
}

/// What is not for the carrier.
fn said(outputs: Vec<Output>) -> Vec<Output> {
    outputs.into_iter().filter(|o| !matches!(o, Output::Carrier(_))).collect()
}

/// The numbers of the fields a frame has.
fn fields(mut frame: Bytes) -> Vec<u32> {
    let mut numbers = Vec::new();
    while !frame.is_empty() {
        let (tag, kind) = prost::encoding::decode_key(&mut frame).unwrap();
        numbers.push(tag);
        prost::encoding::skip_field(kind, tag, &mut frame, Default::default()).unwrap();
    }
    numbers
}

fn row_group(reach: i32, kind: i32) -> proto::RttGroup {
    proto::RttGroup { reach, kind, v4: vec![0x0A00_0001], v4_rtt_us: vec![27_000], ..Default::default() }
}

fn service(state: i32) -> Body {
    let service = proto::Service { name: "web".to_owned(), state, ..Default::default() };
    Body::Metrics(proto::SiteMetrics { age_ms: 5, services: vec![service] })
}

fn everything_of_1_0() -> Vec<Body> {
    let groups =
        vec![proto::SightingGroup { age_ms: 5, fresh: true, v4: vec![0x0A00_0001], ..Default::default() }];
    vec![
        Body::SnapshotBegin(proto::SnapshotBegin {}),
        Body::Sightings(proto::Sightings { groups }),
        Body::Rtts(proto::RttRows { groups: vec![row_group(1, 1)] }),
        Body::SnapshotEnd(proto::SnapshotEnd {}),
        Body::Wanted(proto::Wanted { v4: vec![0x0A00_0001], ..Default::default() }),
        service(2),
        Body::Keepalive(proto::Keepalive {}),
    ]
}

#[test]
fn version_1_0_is_understood_and_hears_nothing_it_does_not_know() {
    let mut scene = minor(0);
    let mut outputs = Vec::new();
    for body in everything_of_1_0() {
        outputs.extend(scene.say(body));
    }
    let kinds: Vec<&str> = outputs
        .iter()
        .filter_map(|o| match o {
            Output::Sightings { .. } => Some("sightings"),
            Output::Rtts { .. } => Some("rtts"),
            Output::Synced { .. } => Some("synced"),
            Output::Metrics { .. } => Some("metrics"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["sightings", "rtts", "synced", "metrics"]);
    let now = scene.now;
    scene.mep.note_session(now, SessionKey::new(1, address(1), 32));
    scene.mep.note_sighting(now, address(2), Duration::ZERO, true);
    outputs.extend(scene.wait(secs(60)));
    for frame in frames(&outputs) {
        let new: Vec<u32> = fields(frame).into_iter().filter(|field| *field > 16).collect();
        assert_eq!(new, Vec::<u32>::new());
    }
    assert!(!scene.mep.can_be_asked(&node("fra/1")));
    assert!(!scene.mep.ask_snapshot(scene.now, &node("fra/1")), "it would not know what is asked");
    let status = scene.status();
    assert_eq!((status.violations, status.unknown, status.downs), (0, 0, 0));
}

#[test]
fn this_version_hears_what_is_new() {
    assert_eq!(VERSION, (1, 1));
    let mut scene = minor(1);
    let outputs = scene.wait(secs(10));
    assert!(frames(&outputs).into_iter().any(|frame| fields(frame).contains(&17)), "links are told");
}

/// A frame of a newer minor: fields 200 of the frame, and 90 and 91 of the body.
fn newer(seq: u64, body: Body) -> Vec<u8> {
    let plain = proto::Frame { seq, ack: 0, heard_ms: None, body: Some(body) }.encode_to_vec();
    let mut frame = Bytes::from(plain);
    let mut newer = Vec::new();
    while !frame.is_empty() {
        let (tag, kind) = prost::encoding::decode_key(&mut frame).unwrap();
        let before = frame.clone();
        prost::encoding::skip_field(kind, tag, &mut frame, Default::default()).unwrap();
        let value = before.slice(..before.len() - frame.len());
        prost::encoding::encode_key(tag, kind, &mut newer);
        match tag {
            1 => newer.extend(value),
            // The body: its length, then what is in it.
            _ => {
                let mut inner = value;
                prost::encoding::decode_varint(&mut inner).unwrap();
                let mut inner = inner.to_vec();
                inner.extend([0xD0, 0x05, 1, 0xDA, 0x05, 1, b'x']);
                prost::encoding::encode_varint(inner.len() as u64, &mut newer);
                newer.extend(inner);
            }
        }
    }
    newer.extend([0xC0, 0x0C, 7]);
    newer
}

/// In a rolling upgrade the newer nodes speak for hours to older ones: not one violation, and nothing lost.
#[test]
fn unknown_fields_everywhere_do_no_harm_however_often() {
    let mut scene = Scene::among(&GROUP);
    scene.connect("fra/1");
    let hello = newer(1, Body::Hello(proto::Hello { minor: 7, ..hello() }));
    assert!(scene.frame(hello).contains(&Output::PeerUp { peer: node("fra/1") }));
    scene.seq = 1;
    let mut said = 0;
    for _ in 0..500 {
        for body in everything_of_1_0() {
            scene.seq += 1;
            let outputs = scene.frame(newer(scene.seq, body));
            said += outputs.iter().filter(|o| !matches!(o, Output::Carrier(_))).count();
        }
        scene.wait(ms(500));
    }
    assert_eq!(said, 500 * 4);
    let status = scene.status();
    assert_eq!((status.state, status.violations, status.downs), (PeerState::Up, 0, 0));
    assert_eq!(status.unknown, 1 + 500 * 7);
}

/// Bodies 40 to 49, with anything in them.
#[test]
fn unknown_bodies_are_skipped_and_counted() {
    let mut scene = minor(7);
    for seq in 2..1_502_u64 {
        let mut frame = proto::Frame { seq, ack: 0, heard_ms: Some(3), body: None }.encode_to_vec();
        prost::encoding::encode_key(
            40 + (seq % 10) as u32,
            prost::encoding::WireType::LengthDelimited,
            &mut frame,
        );
        frame.extend([4, 8, 1, 16, 2]);
        assert!(scene.frame(frame).iter().all(|o| matches!(o, Output::Carrier(_))));
        scene.now += ms(2);
    }
    let status = scene.status();
    assert_eq!((status.state, status.violations, status.unknown), (PeerState::Up, 0, 1_500));
    assert_eq!(status.hears_us, Some(ms(3)), "what stands before the body counts");
}

#[test]
fn unknown_values_never_mean_healthy_or_reachable_and_are_no_violation() {
    let mut scene = minor(7);
    let up = proto::LinkState::Up as i32;
    for _ in 0..400 {
        let groups = vec![row_group(9, 1), row_group(1, 9)];
        let outputs = said(scene.say(Body::Rtts(proto::RttRows { groups })));
        let [Output::Rtts { rows, .. }] = outputs.as_slice() else { panic!("{outputs:?}") };
        // An unknown state says nothing; an unknown kind of probe has measured as well as any.
        assert_eq!(rows.len(), 1);
        assert!(matches!(rows[0].reach, Reach::Known(_)) && rows[0].kind.is_none());
        let outputs = said(scene.say(service(9)));
        let [Output::Metrics { services, .. }] = outputs.as_slice() else { panic!("{outputs:?}") };
        assert_eq!(services[0].state, ServiceState::Down);
        let link =
            |state| proto::Link { site: "ber".to_owned(), node: "1".to_owned(), state, word_age_ms: Some(1) };
        scene.say(Body::Links(proto::Links { links: vec![link(up + 7)] }));
        assert_eq!(scene.status().links[0].state, PeerState::Down);
        scene.wait(ms(100));
    }
    let status = scene.status();
    assert_eq!((status.state, status.violations, status.unknown), (PeerState::Up, 0, 1_200));
}

/// A relay of a newer version says something new of a site: its age counts, and the rest is skipped.
#[test]
fn an_unknown_word_of_a_relay_counts_for_its_age() {
    let mut scene = minor(7);
    scene.wait(secs(2));
    scene.say(Body::SnapshotBegin(proto::SnapshotBegin {}));
    scene.say(Body::SnapshotEnd(proto::SnapshotEnd {}));
    let link = proto::Link { site: "ber".to_owned(), node: "1".to_owned(), state: 2, word_age_ms: Some(1) };
    scene.say(Body::Links(proto::Links { links: vec![link] }));
    let begin = Body::Relayed(proto::Relayed {
        site: "ber".to_owned(),
        word_age_ms: 5,
        what: Some(What::Begin(proto::RelayBegin {})),
        column_age_ms: None,
    });
    scene.say(begin);
    scene.seq += 1;
    let word =
        Body::Relayed(proto::Relayed { site: "ber".to_owned(), word_age_ms: 30, ..Default::default() });
    let outputs = said(scene.frame(newer(scene.seq, word)));
    let [Output::Rtts { rows, word_age, via: Some(_), .. }] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!((rows.len(), *word_age), (0, ms(30)));
    assert_eq!(scene.status().violations, 0);
}

#[test]
fn a_newer_major_that_still_speaks_this_one_is_let_in() {
    let mut scene =
        Scene::among(&GROUP).with(proto::Hello { major_min: 1, major_max: 2, minor: 0, ..hello() });
    let outputs = scene.wait(secs(10));
    // The minor is that of its major 2: it knows all of major 1.
    assert!(frames(&outputs).into_iter().any(|frame| fields(frame).contains(&17)));
    for body in everything_of_1_0() {
        scene.say(body);
    }
    assert_eq!((scene.status().state, scene.status().violations), (PeerState::Up, 0));
}

#[test]
fn a_newer_major_without_this_one_is_refused_and_both_ends_know_why() {
    let mut scene = Scene::among(&GROUP);
    scene.connect("fra/1");
    let outputs = scene.say(Body::Hello(proto::Hello { major_min: 2, major_max: 3, ..hello() }));
    let why = "the hello speaks protocol 2 to 3, this node 1 to 1".to_owned();
    let close = CarrierCommand::Close { conn: ConnId(1), reason: why.clone() };
    assert_eq!(outputs, [Output::Carrier(close)], "the other end is told");
    assert_eq!((scene.status().last_attempt.as_ref(), scene.status().refusals), (Some(&why), 1));
    // And when it is the other end that refuses, its words stand here.
    scene.conn = ConnId(2);
    scene.connect("fra/1");
    let reason = "the hello speaks protocol 1 to 1, this node 2 to 3".to_owned();
    scene.event(CarrierEvent::Closed { conn: ConnId(2), reason: reason.clone() });
    assert_eq!(scene.status().reason, format!("connection closed before a session: {reason}"));
    // It is tried again, since the other end may be put back: less and less often.
    let dials = scene.wait(secs(300)).into_iter();
    let dials = dials.filter(|o| matches!(o, Output::Carrier(CarrierCommand::Dial { .. }))).count();
    assert!(dials >= 1, "{dials}");
}
