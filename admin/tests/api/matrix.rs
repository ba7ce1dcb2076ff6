//! Who hears whom, and what a failing link is called (issue faults I-43 to I-45).

use crate::fixture::{Fixture, at, link, transition};
use gslb_core::{LinkStatus, PeerState, PeerStatus};
use serde_json::{Value, json};
use std::time::Duration;

use PeerState::{Connecting, Down, Suspect, Up};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The peers ams/1 and sin/1 of fra/1 at 1000 s, all well.
fn well(peers: &mut [PeerStatus]) {
    let [ams, sin] = peers else { panic!("two peers") };
    for (peer, other) in [(&mut *ams, "sin/1"), (&mut *sin, "ams/1")] {
        peer.state = Up;
        peer.last_word = Some(at(999));
        peer.relay = None;
        peer.transitions.clear();
        peer.links_at = Some(at(998));
        peer.links = vec![link("fra/1", Up, secs(1)), link(other, Up, secs(1))].into();
    }
}

/// The state of a peer at this node, and when its last word came.
fn here(peer: &mut PeerStatus, state: PeerState, last_word: u64) {
    peer.state = state;
    peer.last_word = Some(at(last_word));
}

/// What a peer says of its link to another.
fn says(peer: &mut PeerStatus, of: &str, state: PeerState, word_age: u64) {
    let link: &mut LinkStatus = peer.links.iter_mut().find(|link| link.peer.to_string() == of).unwrap();
    (link.state, link.word_age) = (state, Some(secs(word_age)));
}

async fn matrix(change: impl FnOnce(&mut PeerStatus, &mut PeerStatus)) -> Value {
    let fixture = Fixture::new();
    fixture.change(|peers| {
        well(peers);
        let [ams, sin] = peers else { panic!("two peers") };
        change(ams, sin);
    });
    fixture.serve().await.json("/v1/peers").await["matrix"].clone()
}

/// Kind, from, to and relay of each link that fails; and the nodes that nobody hears.
async fn found(change: impl FnOnce(&mut PeerStatus, &mut PeerStatus)) -> (Vec<String>, Value) {
    let matrix = matrix(change).await;
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let links = matrix["degraded"].as_array().unwrap().iter();
    let links = links.map(|l| ["kind", "from", "to", "relay"].map(|key| word(&l[key])).join(" ")).collect();
    (links, matrix["unheard"].clone())
}

#[tokio::test]
async fn a_group_that_is_well_has_a_row_of_each_node_and_no_fault() {
    let matrix = matrix(|_, _| {}).await;
    let up = |peer| json!({ "peer": peer, "state": "up", "word_age_ms": 1000 });
    let row = |node, age, links| json!({ "node": node, "age_ms": age, "current": true, "links": links });
    let expected = json!({
        "rows": [
            row("fra/1", 0, [up("ams/1"), up("sin/1")]),
            // The words were a second old when that was said, two seconds ago.
            row("ams/1", 2000, [up("fra/1"), up("sin/1")]),
            row("sin/1", 2000, [up("fra/1"), up("ams/1")]),
        ],
        "unheard": [],
        "degraded": [],
    });
    assert_eq!(matrix, expected);
}

#[tokio::test]
async fn a_cut_link_is_named_with_who_relays() {
    let cut = found(|ams, sin| {
        here(sin, Down, 960);
        sin.relay = Some(ams.peer.clone());
    });
    assert_eq!(cut.await, (vec!["cut sin/1 fra/1 ams/1".to_owned()], json!([])));
}

#[tokio::test]
async fn a_link_that_only_others_have_is_named_too() {
    let cut = found(|ams, sin| {
        says(ams, "sin/1", Down, 30);
        says(sin, "ams/1", Down, 31);
    });
    assert_eq!(cut.await, (vec!["cut ams/1 sin/1 -".to_owned()], json!([])));
    let one_end = found(|ams, _| says(ams, "sin/1", Down, 30));
    assert_eq!(one_end.await.0, ["one_way sin/1 ams/1 -"], "sin/1 hears ams/1");
}

/// Faults I-45: both ends end the session; the one that was not heard has heard the other until then.
#[tokio::test]
async fn a_link_that_carries_words_one_way_is_told_from_one_that_carries_none() {
    let by_age = |ams_heard, sin_heard| {
        found(move |ams, sin| {
            says(ams, "sin/1", Down, ams_heard);
            says(sin, "ams/1", Down, sin_heard);
        })
    };
    // The keepalive is 10 s, of which a half is more than words are late.
    assert_eq!(by_age(30, 24).await.0, ["one_way sin/1 ams/1 -"]);
    assert_eq!(by_age(24, 30).await.0, ["one_way ams/1 sin/1 -"]);
    assert_eq!(by_age(30, 25).await.0, ["cut ams/1 sin/1 -"]);
    let not_heard = found(|_, sin| {
        here(sin, Down, 960);
        let reason = "it has not heard this node for 10s";
        sin.transitions.push_back(transition(9, at(961), (Up, Down), "not_heard", reason));
    });
    assert_eq!(not_heard.await, (vec!["one_way fra/1 sin/1 -".to_owned()], json!([])));
}

#[tokio::test]
async fn a_link_whose_words_are_late_is_suspect() {
    let here_late = found(|_, sin| here(sin, Suspect, 994));
    assert_eq!(here_late.await.0, ["suspect sin/1 fra/1 -"]);
    let there = found(|ams, _| says(ams, "fra/1", Suspect, 6));
    assert_eq!(there.await.0, ["suspect fra/1 ams/1 -"]);
    // Its words come, and say that ours do not arrive.
    let not_heard = found(|_, sin| here(sin, Suspect, 999));
    assert_eq!(not_heard.await.0, ["suspect fra/1 sin/1 -"]);
}

#[tokio::test]
async fn a_node_that_nobody_hears_is_one_fault_and_not_many() {
    let gone = found(|ams, sin| {
        here(sin, Down, 960);
        says(ams, "sin/1", Down, 40);
    });
    assert_eq!(gone.await, (vec![], json!(["sin/1"])));
    let never = found(|ams, sin| {
        here(sin, Connecting, 0);
        sin.last_word = None;
        (sin.links, sin.links_at) = (Vec::new().into(), None);
        says(ams, "sin/1", Connecting, 40);
    });
    assert_eq!(never.await, (vec![], json!(["sin/1"])));
}

#[tokio::test]
async fn what_was_said_long_ago_or_in_an_ended_session_does_not_count() {
    let old = |links_at| {
        found(move |ams, _| {
            says(ams, "sin/1", Down, 1);
            ams.links_at = Some(at(links_at));
        })
    };
    assert_eq!(old(990).await.0, ["one_way sin/1 ams/1 -"], "the keepalive is 10 s");
    assert_eq!(old(989).await, (vec![], json!([])));
    let ended = matrix(|_, sin| here(sin, Down, 960)).await;
    assert_eq!((&ended["rows"][2]["current"], &ended["rows"][2]["age_ms"]), (&json!(false), &json!(2000)));
}

#[tokio::test]
async fn what_a_node_has_not_said_is_not_known() {
    let matrix = matrix(|ams, sin| {
        (ams.links, ams.links_at) = (Vec::new().into(), None);
        sin.links.truncate(1);
    })
    .await;
    let unsaid = |peer| json!({ "peer": peer, "state": null, "word_age_ms": null });
    let rows = [
        json!({ "node": "ams/1", "age_ms": null, "current": false, "links": [unsaid("fra/1"), unsaid("sin/1")] }),
        json!([{ "peer": "fra/1", "state": "up", "word_age_ms": 1000 }, unsaid("ams/1")]),
    ];
    assert_eq!([&matrix["rows"][1], &matrix["rows"][2]["links"]], [&rows[0], &rows[1]]);
    assert_eq!((&matrix["degraded"], &matrix["unheard"]), (&json!([]), &json!([])));
}
