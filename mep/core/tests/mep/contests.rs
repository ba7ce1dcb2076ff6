//! One peer alone claims to hear a site: it is believed, and everybody can see that the others contradict it (threat T8).

use crate::group::Group;
use crate::net::{ms, node, secs};
use crate::refusals::Nothing;
use gslb_types::SiteName;
use mep_core::Output;
use mep_core::proto::{self, frame::Body, relayed::What};

fn ams() -> SiteName {
    SiteName::new("ams").unwrap()
}

/// par hears fra, ber and sto, and nothing of ams.
fn group() -> Group {
    let mut group = Group::of(&["ams/1", "ams/2", "ber/1", "fra/1", "par/1", "sto/1"]);
    for peer in ["ber/1", "fra/1", "sto/1"] {
        group.meet(peer);
        group.links(peer, &[("ams/1", false), ("ams/2", false)]);
    }
    group.wait(secs(3), &Nothing);
    group
}

fn relays(group: &mut Group, relay: &str) {
    let what = Some(What::Begin(proto::RelayBegin {}));
    let word = proto::Relayed { site: "ams".to_owned(), word_age_ms: 5, what, column_age_ms: None };
    group.take(relay, Body::Relayed(word));
}

/// Seconds of it, with a word about ams from its relay in each.
fn go_on(group: &mut Group, relay: &str, seconds: u64) -> Vec<Output> {
    let mut outputs = Vec::new();
    for _ in 0..seconds {
        relays(group, relay);
        outputs.extend(group.wait(secs(1), &Nothing));
    }
    outputs
}

/// What was said aloud.
fn alarms(outputs: &[Output]) -> Vec<Output> {
    let is_alarm = |o: &&Output| matches!(o, Output::Contested { .. } | Output::Settled { .. });
    outputs.iter().filter(is_alarm).cloned().collect()
}

fn contested() -> Output {
    Output::Contested { site: ams(), via: node("fra/1"), deniers: vec![node("ber/1"), node("sto/1")] }
}

#[test]
fn a_site_that_one_peer_alone_claims_to_hear_is_relayed_and_contested_once() {
    let mut group = group();
    group.links("fra/1", &[("ams/1", true)]);
    group.turn(&Nothing);
    let begin = group.now;
    assert_eq!(alarms(&go_on(&mut group, "fra/1", 4)), [], "links may be under way");
    assert_eq!(group.status("ams/1").contested, None);
    assert_eq!(alarms(&go_on(&mut group, "fra/1", 60)), [contested()]);
    for peer in ["ams/1", "ams/2"] {
        let status = group.status(peer);
        assert_eq!((status.contested, status.relay), (Some(begin), Some(node("fra/1"))));
    }
    assert_eq!((group.status("fra/1").contests, group.status("ber/1").contests), (1, 0));
}

#[test]
fn a_site_that_others_hear_as_well_is_not_contested() {
    let mut group = group();
    group.links("fra/1", &[("ams/1", true)]);
    group.links("sto/1", &[("ams/2", true)]);
    group.turn(&Nothing);
    let outputs: Vec<Output> =
        ["fra/1", "sto/1"].iter().flat_map(|relay| go_on(&mut group, relay, 30)).collect();
    assert_eq!(alarms(&outputs), []);
}

/// Who does not know the site, or says nothing of its links, contradicts nobody.
#[test]
fn who_has_no_say_contests_nothing() {
    let mut group = group();
    group.links("ber/1", &[("fra/1", true)]);
    group.links("sto/1", &[]);
    group.links("fra/1", &[("ams/1", true)]);
    group.turn(&Nothing);
    assert_eq!(alarms(&go_on(&mut group, "fra/1", 30)), []);
    assert_eq!(group.status("ams/1").contested, None);
}

#[test]
fn a_contest_is_over_when_the_claim_is_and_counted_anew() {
    let mut group = group();
    for round in 1..=2 {
        group.links("fra/1", &[("ams/1", true)]);
        group.turn(&Nothing);
        assert_eq!(alarms(&go_on(&mut group, "fra/1", 10)), [contested()]);
        group.links("fra/1", &[("ams/1", false)]);
        assert_eq!(alarms(&group.wait(ms(50), &Nothing)), [Output::Settled { site: ams() }]);
        assert_eq!((group.status("ams/1").contested, group.status("fra/1").contests), (None, round));
        group.wait(secs(70), &Nothing);
    }
}

/// The mad one's words are replaced as soon as somebody else has some.
#[test]
fn another_relay_is_asked_when_somebody_else_hears_the_site_too() {
    let mut group = group();
    group.links("fra/1", &[("ams/1", true)]);
    group.turn(&Nothing);
    go_on(&mut group, "fra/1", 10);
    group.links("ber/1", &[("ams/1", true)]);
    let outputs = group.wait(ms(50), &Nothing);
    assert_eq!(alarms(&outputs), [Output::Settled { site: ams() }]);
    assert!(outputs.iter().any(|o| matches!(o, Output::RelayDown { via, .. } if *via == node("fra/1"))));
    let asked = group.told("ber/1", &outputs);
    assert!(asked.contains(&Body::RelayRequest(proto::RelayRequest { sites: vec!["ams".to_owned()] })));
    relays(&mut group, "ber/1");
    group.turn(&Nothing);
    assert_eq!(group.status("ams/1").relay, Some(node("ber/1")));
}

/// Else a peer that hears the site for a moment, or says so, would take it down though the first relay hears it all along.
#[test]
fn a_relay_that_was_left_is_asked_again_when_the_other_one_loses_the_site() {
    let mut group = group();
    group.links("fra/1", &[("ams/1", true)]);
    group.turn(&Nothing);
    go_on(&mut group, "fra/1", 10);
    group.links("ber/1", &[("ams/1", true)]);
    group.wait(ms(50), &Nothing);
    relays(&mut group, "ber/1");
    group.wait(secs(1), &Nothing);
    assert_eq!(group.status("ams/1").relay, Some(node("ber/1")));
    group.links("ber/1", &[("ams/1", false)]);
    let outputs = group.wait(ms(50), &Nothing);
    let asked = group.told("fra/1", &outputs);
    assert!(asked.contains(&Body::RelayRequest(proto::RelayRequest { sites: vec!["ams".to_owned()] })));
    relays(&mut group, "fra/1");
    group.turn(&Nothing);
    assert_eq!(group.status("ams/1").relay, Some(node("fra/1")));
}

/// Whichever the hash would choose.
#[test]
fn a_relay_that_others_agree_with_is_asked_first() {
    for mad in ["ber/1", "fra/1", "sto/1"] {
        let mut group = group();
        for peer in ["ber/1", "fra/1", "sto/1"] {
            let heard = if peer == mad { "ams/1" } else { "ams/2" };
            group.links(peer, &[(heard, true)]);
        }
        let outputs = group.turn(&Nothing);
        let is_asked = |body: &Body| matches!(body, Body::RelayRequest(_));
        assert!(!group.told(mad, &outputs).iter().any(is_asked), "{mad}");
    }
}
