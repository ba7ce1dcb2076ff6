//! What a compromised or broken peer can cause is bounded, and shown (threat T8): frames, rate, items, values, quarantine.

use crate::net::{Net, ms, node, secs};
use crate::refusals::{Scene, hello};
use gslb_types::{ServiceName, ServiceState, SiteName};
use mep_core::carrier::{CarrierCommand, ConnId, MAX_FRAME};
use mep_core::proto::{self, frame::Body, relayed::What};
use mep_core::{DownReason, Output, PeerState, ServiceMetric};

fn scene() -> Scene {
    let mut scene = Scene::among(&["fra/1", "par/1", "ber/1"]).with(proto::Hello { minor: 1, ..hello() });
    // A node that has just started asks nobody.
    scene.wait(secs(2));
    scene.say(Body::SnapshotBegin(proto::SnapshotBegin {}));
    scene.say(Body::SnapshotEnd(proto::SnapshotEnd {}));
    let link = proto::Link { site: "ber".to_owned(), node: "1".to_owned(), state: 2, word_age_ms: Some(1) };
    scene.say(Body::Links(proto::Links { links: vec![link] }));
    scene
}

fn said(outputs: Vec<Output>) -> Vec<Output> {
    outputs.into_iter().filter(|o| !matches!(o, Output::Carrier(_))).collect()
}

fn rows(micros: &[u32]) -> proto::RttRows {
    // Told in any order: the differences would be negative otherwise.
    let group = |(n, us): (usize, &u32)| proto::RttGroup {
        reach: proto::Reach::Known as i32,
        v4: vec![0x0A00_0001 + n as u32],
        v4_rtt_us: vec![*us],
        ..Default::default()
    };
    proto::RttRows { groups: micros.iter().enumerate().map(group).collect() }
}

fn relayed(rows: proto::RttRows) -> Body {
    Body::Relayed(proto::Relayed {
        site: "ber".to_owned(),
        word_age_ms: 5,
        what: Some(What::Rtts(rows)),
        column_age_ms: None,
    })
}

fn sessions(clients: u32) -> Body {
    let group = proto::SessionGroup {
        persistence: 1,
        service: "web".to_owned(),
        v4_prefix: 32,
        v4: (0..clients).map(|n| 0x0A00_0001 + n).collect(),
        ..Default::default()
    };
    Body::Sessions(proto::Sessions { groups: vec![group] })
}

#[test]
fn a_relayed_round_trip_lies_between_nothing_and_ten_seconds() {
    let mut scene = scene();
    let outputs = said(scene.say(relayed(rows(&[0, 1, 10_000_000, 10_000_001, u32::MAX]))));
    let Some(Output::Rtts { rows, .. }) = outputs.last() else { panic!("{outputs:?}") };
    assert_eq!((rows.len(), scene.status().violations), (2, 3));
}

#[test]
fn no_frame_holds_more_than_2000_sessions_or_rows_or_500_sites() {
    let mut scene = scene();
    let outputs = said(scene.say(sessions(2_000)));
    let [Output::Sessions { sessions: told, .. }] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!((told.len(), scene.status().violations), (2_000, 0));
    assert_eq!(said(scene.say(sessions(2_001))), []);
    let sites = vec!["ber".to_owned(); 501];
    scene.say(Body::RelayRequest(proto::RelayRequest { sites }));
    let group = proto::RttGroup {
        reach: proto::Reach::Unreachable as i32,
        v4: vec![0x0A00_0001; 2_001],
        ..Default::default()
    };
    scene.say(relayed(proto::RttRows { groups: vec![group] }));
    assert_eq!(scene.status().violations, 3);
}

#[test]
fn a_frame_of_new_bodies_longer_than_the_limit_is_no_frame() {
    let mut scene = scene();
    let sites = vec!["b".repeat(60); MAX_FRAME / 60];
    assert_eq!(said(scene.say(Body::RelayRequest(proto::RelayRequest { sites }))), []);
    assert_eq!((scene.status().violations, scene.status().state), (1, PeerState::Up));
}

#[test]
fn a_flood_of_links_ends_the_session_within_its_second() {
    let mut scene = scene();
    let mut frames = 0;
    while scene.status().state == PeerState::Up {
        scene.say(Body::Links(proto::Links { links: Vec::new() }));
        frames += 1;
        assert!(frames < 5_001);
    }
    assert_eq!(scene.status().reason, "closed for breaking the protocol: too many frames in a second");
}

#[test]
fn services_of_a_node_are_relayed_up_to_a_limit() {
    let mut net = Net::of(&["ber/1", "fra/1", "par/1"]);
    net.run_until(secs(6), Net::is_meshed);
    net.run(secs(3));
    net.part(0, 2);
    net.run_until(secs(12), |net| net.status(0, 2).relay.is_some());
    let service = |n| ServiceMetric::new(ServiceName::new(&format!("web-{n}")).unwrap(), ServiceState::Up);
    let begin = net.now;
    net.set_metrics(2, (0..9_000).map(service).collect());
    net.run(ms(900));
    let told = |o: &Output| match o {
        Output::Metrics { services, via: Some(_), .. } => services.len(),
        _ => 0,
    };
    let told: usize = net.outputs_since(0, begin).map(told).sum();
    assert!(told > 0 && told.is_multiple_of(8_192), "{told}");
}

fn is_dial(output: &Output) -> bool {
    matches!(output, Output::Carrier(CarrierCommand::Dial { peer, .. }) if *peer == node("fra/1"))
}

#[test]
fn a_quarantined_peer_is_neither_let_in_nor_dialled_for_a_minute() {
    let mut scene = scene();
    for _ in 0..1_001 {
        scene.frame(vec![0xFF; 10]);
    }
    assert_eq!(scene.status().state, PeerState::Down);
    let (quarantined, refusals) = (scene.now, scene.status().refusals);
    for n in 2..12 {
        let outputs = scene.wait(ms(5_900));
        assert!(!outputs.iter().any(is_dial));
        scene.conn = ConnId(n);
        let reason = "in quarantine for breaking the protocol".to_owned();
        let close = CarrierCommand::Close { conn: ConnId(n), reason };
        assert_eq!(scene.connect("fra/1"), [Output::Carrier(close)]);
    }
    assert_eq!((scene.now.since(quarantined), scene.status().refusals), (secs(59), refusals + 10));
    scene.wait(secs(1));
    scene.conn = ConnId(12);
    scene.connect("fra/1");
    scene.say(Body::Hello(proto::Hello { number: 2, ..hello() }));
    assert_eq!(scene.status().state, PeerState::Up);
}

#[test]
fn a_quarantined_peer_is_dialled_again_when_the_minute_is_over() {
    let mut scene = scene();
    scene.seq = 99;
    let outputs = scene.say(Body::Keepalive(proto::Keepalive {}));
    let is_end = |o: &Output| matches!(o, Output::PeerDown { reason: DownReason::Misbehaved(_), .. });
    assert!(outputs.iter().any(is_end));
    let begin = scene.now;
    loop {
        scene.now = scene.mep.poll_timeout().unwrap();
        if scene.turn().iter().any(is_dial) {
            break;
        }
    }
    assert_eq!(scene.now.since(begin), secs(60));
}

/// A peer claims to be next to everybody: its own column moves and no other, and an operator sees it.
#[test]
fn a_peer_that_claims_impossible_times_moves_its_own_column_and_is_shown() {
    let mut scene = scene();
    assert!(!scene.status().implausible);
    assert_eq!(said(scene.say(Body::Rtts(rows(&[0; 100])))), [], "no RTT at all is no row");
    assert_eq!((scene.status().implausible_rows, scene.status().implausible), (100, true));
    assert_eq!(scene.status().violations, 100);
    let outputs = said(scene.say(Body::Rtts(rows(&[1; 100]))));
    let [Output::Rtts { site, rows: told, via: None, .. }] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!((site, told.len()), (&SiteName::new("fra").unwrap(), 100));
    assert_eq!((scene.status().implausible_rows, scene.status().implausible), (200, true));
    assert_eq!(scene.status().state, PeerState::Up);
    // Honest values outweigh them.
    for _ in 0..3 {
        scene.say(Body::Rtts(rows(&[27_000; 100])));
    }
    assert_eq!((scene.status().implausible_rows, scene.status().implausible), (200, false));
}

/// A few of many, whoever measured them: the honest ones outweigh them.
#[test]
fn a_relay_of_a_few_impossible_times_among_many_is_not_shown_as_implausible() {
    let mut scene = scene();
    let times: Vec<u32> = (0..100).map(|n| if n < 50 { 1 } else { 27_000 }).collect();
    scene.say(relayed(rows(&times)));
    assert_eq!((scene.status().implausible_rows, scene.status().implausible), (50, false));
    scene.say(relayed(rows(&[1])));
    assert_eq!((scene.status().implausible_rows, scene.status().implausible), (51, true));
}

#[test]
fn an_honest_peer_is_not_shown_as_implausible() {
    let mut scene = scene();
    scene.say(Body::Rtts(rows(&[10, 35, 27_000])));
    assert_eq!((scene.status().implausible_rows, scene.status().implausible), (0, false));
    let peer = scene.mep.peers().find(|peer| peer.peer == node("ber/1")).unwrap();
    assert!(!peer.implausible);
}
