//! A relay with a good certificate and bad manners (threat T8): what was not asked for changes nothing and is counted.

use crate::net::{ms, node, secs};
use crate::refusals::{Scene, hello};
use gslb_types::SiteName;
use mep_core::carrier::{CarrierCommand, ConnId};
use mep_core::proto::{self, frame::Body, relayed::What};
use mep_core::{Output, PeerState};
use prost::Message;

/// Node par/1 in a group of four; fra/1 speaks 1.1 and has told all it knows.
fn scene() -> Scene {
    let mut scene = Scene::among(&["fra/1", "par/1", "ber/1", "ber/2", "sto/1"])
        .with(proto::Hello { minor: 1, ..hello() });
    // A node that has just started asks nobody.
    scene.wait(secs(2));
    scene.say(Body::SnapshotBegin(proto::SnapshotBegin {}));
    scene.say(Body::SnapshotEnd(proto::SnapshotEnd {}));
    scene
}

fn links(sites: &[&str]) -> Body {
    let link = |site: &&str| proto::Link {
        site: (*site).to_owned(),
        node: "1".to_owned(),
        state: proto::LinkState::Up as i32,
        word_age_ms: Some(20),
    };
    Body::Links(proto::Links { links: sites.iter().map(link).collect() })
}

fn relayed(site: &str, word_age_ms: u32, what: Option<What>) -> Body {
    Body::Relayed(proto::Relayed { site: site.to_owned(), word_age_ms, what, column_age_ms: None })
}

fn rows() -> Option<What> {
    let group = proto::RttGroup {
        reach: proto::Reach::Known as i32,
        v4: vec![0x0A00_0001],
        v4_rtt_us: vec![27_000],
        ..Default::default()
    };
    Some(What::Rtts(proto::RttRows { groups: vec![group] }))
}

fn metrics(node: &str) -> Option<What> {
    let service = proto::Service { name: "web".to_owned(), state: 2, ..Default::default() };
    let metrics = Some(proto::SiteMetrics { age_ms: 5, services: vec![service] });
    Some(What::Metrics(proto::NodeMetrics { node: node.to_owned(), metrics }))
}

/// The sites asked for in these outputs, by each request.
fn requests(outputs: &[Output]) -> Vec<Vec<String>> {
    let request = |o: &Output| match o {
        Output::Carrier(CarrierCommand::Send { frame, .. }) => {
            match proto::Frame::decode(frame.clone()).unwrap().body {
                Some(Body::RelayRequest(request)) => Some(request.sites),
                _ => None,
            }
        }
        _ => None,
    };
    outputs.iter().filter_map(request).collect()
}

/// What is not for the carrier.
fn said(outputs: Vec<Output>) -> Vec<Output> {
    outputs.into_iter().filter(|o| !matches!(o, Output::Carrier(_))).collect()
}

#[test]
fn a_peer_is_asked_for_the_silent_sites_it_says_it_hears() {
    let mut scene = scene();
    assert_eq!(requests(&scene.say(links(&["ber", "par"]))), [["ber"]]);
    assert_eq!(requests(&scene.say(links(&["ber", "par", "sto"]))), [["ber", "sto"]]);
    assert_eq!(requests(&scene.say(links(&["par", "sto"]))), [["sto"]]);
    assert_eq!(requests(&scene.say(links(&["par", "sto"]))), Vec::<Vec<String>>::new());
}

#[test]
fn a_relays_word_is_marked_as_such() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    let (ber, fra) = (SiteName::new("ber").unwrap(), node("fra/1"));
    let outputs = said(scene.say(relayed("ber", 40, rows())));
    let [Output::RelayUp { site, via }, Output::Rtts { peer, site: column, rows, via: by, word_age }] =
        outputs.as_slice()
    else {
        panic!("{outputs:?}")
    };
    assert_eq!((site, column, via, peer, by.as_ref()), (&ber, &ber, &fra, &fra, Some(&fra)));
    assert_eq!((rows.len(), *word_age), (1, ms(40)));
    let outputs = said(scene.say(relayed("ber", 50, metrics("2"))));
    let [Output::Metrics { peer, site, services, via, word_age, .. }] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!((peer, site, via.as_ref()), (&node("ber/2"), &ber, Some(&fra)));
    assert_eq!((services.len(), *word_age), (1, ms(50)));
    let status = scene.mep.peers().find(|peer| peer.peer == node("ber/1")).unwrap();
    assert_eq!((status.relay, status.state), (Some(fra), PeerState::Connecting));
    assert_eq!(
        (scene.status().relayed_rows_in, scene.status().rows_in, scene.status().violations),
        (1, 0, 0)
    );
}

/// A site of two nodes: the one that tells its column may be silent while the other is heard.
#[test]
fn a_column_is_as_old_as_the_last_word_of_who_tells_it() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    let word =
        |what| proto::Relayed { site: "ber".to_owned(), word_age_ms: 40, what, column_age_ms: Some(15_000) };
    let outputs = said(scene.say(Body::Relayed(word(rows()))));
    let [Output::RelayUp { .. }, Output::Rtts { word_age, .. }] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(*word_age, secs(15));
    scene.wait(secs(1));
    let outputs = said(scene.say(Body::Relayed(word(None))));
    assert!(matches!(outputs.as_slice(), [Output::Rtts { .. }]), "the site is heard: {outputs:?}");
}

#[test]
fn a_site_nobody_asked_for_is_not_relayed_and_counted() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    // Not asked for, this node's own, the relay's own, nobody's.
    for (n, site) in ["sto", "par", "fra", "xyz"].into_iter().enumerate() {
        assert_eq!(said(scene.say(relayed(site, 40, rows()))), []);
        assert_eq!(said(scene.say(relayed(site, 40, metrics("1")))), []);
        assert_eq!(scene.status().violations, 2 * (n as u64 + 1), "{site}");
    }
    assert_eq!((scene.status().relayed_rows_in, scene.status().state), (0, PeerState::Up));
}

/// Another peer than the one that was asked speaks for the site.
#[test]
fn a_site_is_relayed_by_who_was_asked_and_by_nobody_else() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.say(relayed("ber", 40, rows()));
    scene.conn = ConnId(2);
    scene.connect("sto/1");
    scene.say(Body::Hello(proto::Hello { site: "sto".to_owned(), boot: 5, minor: 1, ..hello() }));
    scene.say(links(&["ber"]));
    assert_eq!(said(scene.say(relayed("ber", 40, rows()))), []);
    let sto = scene.mep.peers().find(|peer| peer.peer == node("sto/1")).unwrap();
    assert_eq!((sto.violations, sto.state, sto.relayed_rows_in), (1, PeerState::Up, 0));
    assert_eq!(scene.status().relayed_rows_in, 1);
}

#[test]
fn a_relay_speaks_for_nodes_of_the_group_only() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.say(relayed("ber", 40, None));
    let unknown = scene.status().unknown;
    assert_eq!(said(scene.say(relayed("ber", 40, metrics("9")))), []);
    // It may stand in the relay's configuration already.
    assert_eq!((scene.status().unknown, scene.status().violations), (unknown + 1, 0));
}

/// A thousand of them, and it is not listened to any longer.
#[test]
fn a_peer_that_relays_what_nobody_wants_is_left_alone() {
    let mut scene = scene();
    let mut words = 0;
    while scene.status().state == PeerState::Up {
        assert_eq!(said(scene.say(relayed("sto", 40, rows()))).len(), usize::from(words == 1000));
        words += 1;
    }
    assert_eq!(words, 1001);
    assert_eq!(scene.status().reason, "closed for breaking the protocol: more than 1000 violations");
}

/// The relay lost the site and has it again, as when it was restarted, and both words come at once.
#[test]
fn a_relay_that_ends_and_hears_the_site_again_is_asked_anew() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.ack = scene.status().sent_seq;
    scene.say(relayed("ber", 40, rows()));
    scene.take(relayed("ber", 0, Some(What::End(proto::RelayEnd {}))));
    scene.take(links(&["ber"]));
    let outputs = scene.turn();
    assert_eq!(requests(&outputs), [["ber"]]);
    assert!(matches!(said(outputs).as_slice(), [Output::RelayDown { .. }]));
    let outputs = said(scene.say(relayed("ber", 5, Some(What::Begin(proto::RelayBegin {})))));
    assert!(matches!(outputs.as_slice(), [Output::RelayUp { .. }, Output::Rtts { .. }]), "{outputs:?}");
}

/// It ended what was asked for first, before it has read that it is asked anew.
#[test]
fn the_end_of_an_earlier_request_does_not_end_a_later_one() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.ack = scene.status().sent_seq;
    scene.say(relayed("ber", 40, rows()));
    assert_eq!(requests(&scene.say(links(&["par"]))), [Vec::<String>::new()]);
    assert_eq!(requests(&scene.say(links(&["ber"]))), [["ber"]]);
    assert_eq!(said(scene.say(relayed("ber", 0, Some(What::End(proto::RelayEnd {}))))), []);
    scene.ack = scene.status().sent_seq;
    let outputs = said(scene.say(relayed("ber", 5, Some(What::Begin(proto::RelayBegin {})))));
    assert!(matches!(outputs.as_slice(), [Output::RelayUp { .. }, Output::Rtts { .. }]), "{outputs:?}");
    assert_eq!(scene.status().violations, 0);
}

#[test]
fn words_under_way_when_the_request_was_taken_back_are_no_violation() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.say(relayed("ber", 40, rows()));
    scene.say(links(&["par"]));
    assert_eq!(said(scene.say(relayed("ber", 40, rows()))), []);
    assert_eq!(scene.status().violations, 0);
    // However long it takes: what the peer says has a number of the last word it has heard.
    scene.wait(secs(60));
    assert_eq!(said(scene.say(relayed("ber", 40, rows()))), []);
    assert_eq!(scene.status().violations, 0);
    scene.ack = scene.status().sent_seq;
    assert_eq!(said(scene.say(relayed("ber", 40, rows()))), []);
    assert_eq!(scene.status().violations, 1);
}

#[test]
fn a_word_as_old_as_the_keepalive_ends_the_relay_and_is_not_asked_for_again_at_once() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.say(relayed("ber", 9_999, None));
    let outputs = scene.say(relayed("ber", 10_000, rows()));
    assert_eq!(requests(&outputs), [Vec::<String>::new()]);
    let outputs = said(outputs);
    assert!(matches!(outputs.as_slice(), [Output::RelayDown { .. }]), "{outputs:?}");
    for _ in 0..5 {
        assert_eq!(requests(&scene.wait(secs(10))), Vec::<Vec<String>>::new());
        assert_eq!(requests(&scene.say(links(&["ber"]))), Vec::<Vec<String>>::new());
    }
    scene.wait(secs(11));
    assert_eq!(requests(&scene.say(links(&["ber"]))), [["ber"]]);
}

#[test]
fn a_relay_that_says_nothing_is_given_up_after_the_keepalive() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.say(relayed("ber", 40, None));
    let outputs = scene.wait(ms(9_900));
    assert!(!outputs.iter().any(|o| matches!(o, Output::RelayDown { .. })));
    let outputs = said(scene.wait(ms(100)));
    assert!(matches!(outputs.as_slice(), [Output::RelayDown { .. }]), "{outputs:?}");
    let reason = "the relay has not heard the site for the keepalive".to_owned();
    let down = Output::RelayDown { site: SiteName::new("ber").unwrap(), via: node("fra/1"), reason };
    assert_eq!(outputs, [down]);
}

#[test]
fn links_that_are_old_are_no_reason_to_ask() {
    let mut scene = scene();
    let link = proto::Link {
        site: "ber".to_owned(),
        node: "1".to_owned(),
        state: proto::LinkState::Up as i32,
        word_age_ms: Some(10_000),
    };
    let never = proto::Link { word_age_ms: None, ..link.clone() };
    for link in [link, never] {
        let outputs = scene.say(Body::Links(proto::Links { links: vec![link] }));
        assert_eq!(requests(&outputs), Vec::<Vec<String>>::new());
    }
}

#[test]
fn a_request_for_what_a_node_may_not_have_relayed_is_counted() {
    let mut scene = scene();
    let sites = ["par", "fra", "xyz", "ber", "ber"].map(str::to_owned).to_vec();
    let mut outputs = scene.say(Body::RelayRequest(proto::RelayRequest { sites }));
    assert_eq!(scene.status().violations, 3);
    // Of the one it may ask for this node hears nothing, and says so.
    outputs.extend(scene.wait(ms(20)));
    let ends = outputs.iter().filter(|o| match o {
        Output::Carrier(CarrierCommand::Send { frame, .. }) => {
            let body = proto::Frame::decode(frame.clone()).unwrap().body;
            matches!(body, Some(Body::Relayed(proto::Relayed { what: Some(What::End(_)), site, .. })) if site == "ber")
        }
        _ => false,
    });
    assert_eq!(ends.count(), 1);
}

/// When a site dies, the relay's last word about it may turn too old a moment before the relay says so itself. That is no
/// reason not to ask it when it hears the site again.
#[test]
fn a_relay_that_lost_the_site_as_well_is_asked_again_when_it_hears_it() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.say(relayed("ber", 40, None));
    let outputs = scene.wait(secs(10));
    assert!(outputs.iter().any(|o| matches!(o, Output::RelayDown { .. })));
    scene.say(links(&["par"]));
    assert_eq!(requests(&scene.say(links(&["ber"]))), [["ber"]]);
}

/// The relay was restarted, and what its earlier process had said of the site turns too old a moment after the session of the
/// new one began.
#[test]
fn a_relay_that_was_restarted_is_asked_again_as_soon_as_it_has_told_all() {
    let mut scene = scene();
    scene.say(links(&["ber"]));
    scene.say(relayed("ber", 40, None));
    scene.wait(secs(9));
    (scene.conn, scene.ack) = (ConnId(2), 0);
    scene.connect("fra/1");
    scene.say(Body::Hello(proto::Hello { minor: 1, boot: hello().boot + 1, ..hello() }));
    scene.say(Body::SnapshotBegin(proto::SnapshotBegin {}));
    scene.say(links(&["ber"]));
    let outputs = said(scene.wait(secs(1)));
    assert!(matches!(outputs.as_slice(), [Output::RelayDown { .. }]), "{outputs:?}");
    assert_eq!(requests(&scene.say(Body::SnapshotEnd(proto::SnapshotEnd {}))), [["ber"]]);
}
