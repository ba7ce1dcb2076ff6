//! A peer with a good certificate and bad manners (threat T8): nothing panics, what is wrong is counted, and only its own
//! site's values can move.

use crate::net::{node, secs};
use crate::refusals::{Scene, hello};
use gslb_types::{NodeId, ServiceState, SiteName};
use mep_core::carrier::{CarrierCommand, CarrierEvent, MAX_FRAME, Over};
use mep_core::proto::{self, frame::Body, relayed::What};
use mep_core::{DownReason, Output, PeerState};
use proptest::prelude::*;
use prost::Message;

fn one_row(micros: u32) -> proto::RttRows {
    proto::RttRows {
        groups: vec![proto::RttGroup {
            reach: proto::Reach::Known as i32,
            v4: vec![0x0A00_0001],
            v4_rtt_us: vec![micros],
            ..Default::default()
        }],
    }
}

fn encoded(seq: u64, body: Body) -> Vec<u8> {
    proto::Frame { seq, ack: 0, heard_ms: None, body: Some(body) }.encode_to_vec()
}

#[test]
fn a_peer_speaks_for_its_own_site_only() {
    let mut scene = Scene::up();
    let outputs = scene.say(Body::Rtts(one_row(5)));
    let [Output::Rtts { peer, site, rows, via: None, .. }] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!((peer, site, rows.len()), (&node("fra/1"), &SiteName::new("fra").unwrap(), 1));
}

#[test]
fn values_out_of_range_are_skipped_and_counted() {
    let mut scene = Scene::up();
    assert_eq!(scene.say(Body::Rtts(one_row(0))), []);
    assert_eq!(scene.say(Body::Rtts(one_row(10_000_001))), []);
    assert_eq!((scene.status().violations, scene.status().rows_in), (2, 0));
    assert_eq!(scene.status().state, PeerState::Up);
}

#[test]
fn fields_bodies_and_states_of_a_newer_minor_version_are_skipped_and_counted() {
    let mut scene = Scene::up();
    // A row frame with a field 99 of the frame itself.
    let mut newer = encoded(2, Body::Rtts(one_row(5)));
    newer.extend([0x98, 0x06, 0x01]);
    assert_eq!(scene.frame(newer).len(), 1);
    // A body 50 that this version does not know: sequence number 3, then a message of two bytes.
    assert_eq!(scene.frame(vec![0x08, 3, 0x92, 0x03, 2, 0x08, 1]), []);
    scene.seq = 3;
    let service = proto::Service { name: "web".to_owned(), state: 9, ..Default::default() };
    let outputs = scene.say(Body::Metrics(proto::SiteMetrics { age_ms: 0, services: vec![service] }));
    let [Output::Metrics { services, .. }] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(services[0].state, ServiceState::Down, "never healthy");
    let status = scene.status();
    assert_eq!((status.unknown, status.violations, status.state), (3, 0, PeerState::Up));
}

#[test]
fn a_repeated_frame_is_skipped_and_a_missing_one_ends_the_session() {
    let mut scene = Scene::up();
    let frame = encoded(2, Body::Rtts(one_row(5)));
    assert_eq!(scene.frame(frame.clone()).len(), 1);
    assert_eq!(scene.frame(frame), []);
    assert_eq!((scene.status().violations, scene.status().state), (1, PeerState::Up));
    let outputs = scene.frame(encoded(4, Body::Rtts(one_row(5))));
    let reason = DownReason::Misbehaved("frame 4 came in place of 3".to_owned());
    assert!(outputs.contains(&Output::PeerDown { peer: node("fra/1"), reason }), "{outputs:?}");
    assert_eq!((scene.status().rows_in, scene.status().violations), (1, 2));
}

#[test]
fn a_second_hello_and_an_acknowledgement_of_the_future_are_counted() {
    let mut scene = Scene::up();
    assert_eq!(scene.say(Body::Hello(hello())), []);
    let keepalive = Some(Body::Keepalive(proto::Keepalive {}));
    scene.frame(proto::Frame { seq: 3, ack: 99_999, heard_ms: None, body: keepalive }.encode_to_vec());
    assert_eq!((scene.status().violations, scene.status().state), (2, PeerState::Up));
}

#[test]
fn a_peer_that_never_stops_breaking_the_rules_is_left_alone() {
    let mut scene = Scene::up();
    let mut frames = 0;
    while scene.status().state == PeerState::Up {
        scene.frame(vec![0xFF; 10]);
        frames += 1;
    }
    assert_eq!(frames, 1001);
    assert_eq!(scene.status().reason, "closed for breaking the protocol: more than 1000 violations");
}

#[test]
fn a_frame_longer_than_the_limit_is_no_frame() {
    let mut scene = Scene::up();
    let long = proto::Goodbye { reason: "x".repeat(MAX_FRAME) };
    assert_eq!(scene.say(Body::Goodbye(long)), []);
    assert_eq!((scene.status().violations, scene.status().state), (1, PeerState::Up));
}

#[test]
fn a_peer_that_says_it_has_not_heard_us_ends_the_session() {
    let mut scene = Scene::up();
    let body = Some(Body::Keepalive(proto::Keepalive {}));
    let outputs = scene.frame(proto::Frame { seq: 2, ack: 0, heard_ms: Some(10_000), body }.encode_to_vec());
    let reason = DownReason::NotHeard(secs(10));
    assert!(outputs.contains(&Output::PeerDown { peer: node("fra/1"), reason }), "{outputs:?}");
}

#[test]
fn an_impatient_peer_does_not_make_us_hurry_without_end() {
    let mut scene = Scene::new();
    scene.connect("fra/1");
    scene.say(Body::Hello(proto::Hello { keepalive_ms: 1, ..hello() }));
    let (begin, before) = (scene.now, scene.status().frames_out);
    while scene.mep.poll_timeout().is_some_and(|at| at <= begin + secs(1)) {
        scene.now = scene.mep.poll_timeout().unwrap();
        scene.turn();
    }
    assert!(scene.status().frames_out - before <= 21, "{}", scene.status().frames_out - before);
}

#[test]
fn what_a_peer_asks_for_is_bounded() {
    let mut scene = Scene::up();
    for chunk in 0..30 {
        let v4 = (0..2_000).map(|n| 0x0A00_0001 + chunk * 2_000 + n).collect();
        scene.take(Body::Wanted(proto::Wanted { v4, ..Default::default() }));
    }
    assert_eq!((scene.status().outbox, scene.status().asks_dropped), (16_000, 44_000));
}

#[test]
fn reports_about_connections_nobody_knows_are_ignored() {
    let mut scene = Scene::up();
    scene.conn = mep_core::carrier::ConnId(99);
    let frame = encoded(1, Body::Hello(hello()));
    assert_eq!(scene.frame(frame), []);
    let closed = CarrierEvent::Closed { conn: scene.conn, reason: String::new() };
    assert_eq!(scene.event(closed), []);
    let failed = CarrierEvent::DialFailed { peer: node("fra/1"), over: Over::Quic, reason: String::new() };
    assert_eq!(scene.event(failed), []);
    assert_eq!(scene.status().state, PeerState::Up);
}

/// Frames as a peer might send them, so that mutations reach deep.
fn any_body() -> impl Strategy<Value = Body> {
    let column = || proptest::collection::vec(any::<u32>(), 0..20);
    let octets = || proptest::collection::vec(any::<u8>(), 0..70).prop_map(bytes::Bytes::from);
    let group = (any::<i32>(), any::<i32>(), any::<u32>(), column(), column(), octets(), column()).prop_map(
        |(reach, kind, age_ms, v4, v4_rtt_us, v6, v6_rtt_us)| proto::RttGroup {
            reach: reach % 5,
            kind: kind % 6,
            age_ms,
            v4,
            v4_rtt_us,
            v6,
            v6_rtt_us,
        },
    );
    let sightings = (any::<u32>(), any::<bool>(), column(), octets())
        .prop_map(|(age_ms, fresh, v4, v6)| proto::SightingGroup { age_ms, fresh, v4, v6 });
    let service = (".{0,70}", any::<i32>(), any::<Option<u32>>(), any::<Option<u64>>()).prop_map(
        |(name, state, response_time_us, active)| proto::Service {
            name,
            state,
            response_time_us,
            active,
            ..Default::default()
        },
    );
    let link = ("[a-z]{1,3}", "[0-9]", any::<i32>(), any::<Option<u32>>()).prop_map(
        |(site, node, state, word_age_ms)| proto::Link { site, node, state: state % 6, word_age_ms },
    );
    let site = || prop_oneof![Just("ber".to_owned()), "(fra|par|ber|.{0,9})"];
    let what = prop_oneof![
        Just(None),
        Just(Some(What::Begin(proto::RelayBegin {}))),
        Just(Some(What::End(proto::RelayEnd {}))),
        proptest::collection::vec(group.clone(), 0..3)
            .prop_map(|groups| Some(What::Rtts(proto::RttRows { groups }))),
        ("[0-9]", proptest::collection::vec(service.clone(), 0..3)).prop_map(|(node, services)| {
            let metrics = Some(proto::SiteMetrics { age_ms: 1, services });
            Some(What::Metrics(proto::NodeMetrics { node, metrics }))
        }),
    ];
    let session = (any::<u32>(), ".{0,9}", 0..40_u32, column(), 0..140_u32, octets()).prop_map(
        |(persistence, service, v4_prefix, v4, v6_prefix, v6)| proto::SessionGroup {
            persistence,
            service,
            idle_ms: 1,
            v4_prefix,
            v4,
            v6_prefix,
            v6,
        },
    );
    prop_oneof![
        proptest::collection::vec(link, 0..5).prop_map(|links| Body::Links(proto::Links { links })),
        proptest::collection::vec(site(), 0..5)
            .prop_map(|sites| Body::RelayRequest(proto::RelayRequest { sites })),
        (site(), any::<u32>(), what).prop_map(|(site, age, what)| {
            Body::Relayed(proto::Relayed { site, word_age_ms: age % 20_000, what, column_age_ms: Some(age) })
        }),
        Just(Body::SnapshotRequest(proto::SnapshotRequest {})),
        proptest::collection::vec(session, 0..4)
            .prop_map(|groups| Body::Sessions(proto::Sessions { groups })),
        proptest::collection::vec(group, 0..4).prop_map(|groups| Body::Rtts(proto::RttRows { groups })),
        proptest::collection::vec(sightings, 0..4)
            .prop_map(|groups| Body::Sightings(proto::Sightings { groups })),
        (column(), octets()).prop_map(|(v4, v6)| Body::Wanted(proto::Wanted { v4, v6 })),
        (any::<u32>(), proptest::collection::vec(service, 0..4))
            .prop_map(|(age_ms, services)| Body::Metrics(proto::SiteMetrics { age_ms, services })),
        ".{0,300}".prop_map(|reason| Body::Goodbye(proto::Goodbye { reason })),
        Just(Body::Hello(hello())),
        Just(Body::SnapshotBegin(proto::SnapshotBegin {})),
        Just(Body::SnapshotEnd(proto::SnapshotEnd {})),
        Just(Body::Keepalive(proto::Keepalive {})),
    ]
}

/// Of other sites, the one it says it hears and this node does not.
fn is_asked_for(site: &SiteName, via: &Option<NodeId>) -> bool {
    site.as_str() == "ber" && *via == Some(node("fra/1"))
}

/// Only what belongs to the peer may come out of a session with it.
fn is_its_own(output: &Output) -> bool {
    let fra = node("fra/1");
    match output {
        Output::Carrier(CarrierCommand::Dial { .. }) => true,
        Output::PeerUp { peer }
        | Output::PeerDown { peer, .. }
        | Output::PeerTurned { peer, .. }
        | Output::Synced { peer }
        | Output::Sightings { peer, .. }
        | Output::Sessions { peer, .. } => *peer == fra,
        Output::Rtts { peer, site, via, .. } | Output::Metrics { peer, site, via, .. } => {
            (*peer == fra && *site == fra.site && via.is_none()) || is_asked_for(site, via)
        }
        Output::RelayUp { site, via } | Output::RelayDown { site, via, .. } => {
            is_asked_for(site, &Some(via.clone()))
        }
        Output::Contested { site, via, .. } => is_asked_for(site, &Some(via.clone())),
        Output::Settled { site } => is_asked_for(site, &Some(fra)),
        Output::Carrier(CarrierCommand::Send { .. } | CarrierCommand::Close { .. }) => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_that_are_no_frames_do_no_harm(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..20),
    ) {
        for mut scene in [Scene::up(), { let mut s = Scene::new(); s.connect("fra/1"); s }] {
            for frame in &frames {
                prop_assert!(scene.frame(frame.clone()).iter().all(is_its_own));
            }
        }
    }

    #[test]
    fn frames_with_flipped_bytes_do_no_harm(
        frames in proptest::collection::vec(
            (any_body(), any::<u32>(), proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4)),
            1..12,
        ),
    ) {
        let mut scene = Scene::among(&["fra/1", "par/1", "ber/1"]).with(proto::Hello { minor: 1, ..hello() });
        let link = proto::Link { site: "ber".to_owned(), node: "1".to_owned(), state: 2, word_age_ms: Some(1) };
        scene.wait(secs(2));
        for body in [
            Body::SnapshotBegin(proto::SnapshotBegin {}),
            Body::SnapshotEnd(proto::SnapshotEnd {}),
            Body::Links(proto::Links { links: vec![link] }),
        ] {
            scene.say(body);
        }
        for (body, ack, flips) in frames {
            scene.seq += 1;
            let frame = proto::Frame { seq: scene.seq, ack: u64::from(ack % 4), heard_ms: None, body: Some(body) };
            let mut bytes = frame.encode_to_vec();
            for (at, with) in flips {
                let place = at.index(bytes.len());
                bytes[place] ^= with;
            }
            prop_assert!(scene.frame(bytes).iter().all(is_its_own));
            if scene.status().state != PeerState::Up {
                break;
            }
        }
    }
}
