//! Every route's answer as a whole.

use crate::fixture::{Fixture, at};
use crate::http::assert_golden;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

async fn golden(name: &str, path: &str) {
    let server = Fixture::new().serve().await;
    let mut value = server.json(path).await;
    // What this crate does not determine: the port the system chose, and the hash of the settings.
    if path == "/v1/status" {
        assert_eq!(value["listen"]["admin"], server.address.to_string());
        value["listen"]["admin"] = Value::from("127.0.0.1:8053");
        assert_eq!(value["config_hash"], format!("{:016x}", crate::fixture::config().group.hash));
        value["config_hash"] = Value::from("0123456789abcdef");
    }
    assert_golden(name, &format!("{}\n", serde_json::to_string_pretty(&value).unwrap()));
}

#[tokio::test]
async fn status_shows_the_node_and_what_is_wrong() {
    golden("status.json", "/v1/status").await;
}

#[tokio::test]
async fn peers_show_all_that_is_known_of_each() {
    golden("peers.json", "/v1/peers").await;
}

#[tokio::test]
async fn sites_show_their_nodes_and_services() {
    golden("sites.json", "/v1/sites").await;
}

/// Behaviour 4: after down_delay, 15 s, silence decides; a site that comes back is held.
#[tokio::test]
async fn a_site_shows_how_its_silence_goes_on_and_ends() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let is = |silent: Option<u64>, taken: Option<u64>, held: Option<u64>| {
        fixture.change_all(|published| {
            let sin = &mut published.sites[2];
            sin.relayed_via = None;
            (sin.silent_since, sin.taken_down, sin.held_until) =
                (silent.map(at), taken.map(at), held.map(at));
        });
    };
    let shown = async || {
        let site = server.json("/v1/sites").await["sites"][2].clone();
        let values =
            ["relay", "silent_ms", "down_in_ms", "taken_down_age_ms", "held_ms"].map(|key| site[key].clone());
        let status = server.json("/v1/status").await;
        let problems = status["problems"].as_array().unwrap().iter().filter_map(Value::as_str);
        (json!(values), problems.filter(|problem| problem.starts_with("site sin ")).collect::<String>())
    };
    is(Some(990), None, None);
    let silent = "site sin is silent: nobody has heard it for 10 s";
    assert_eq!(shown().await, (json!([null, 10_000, 5000, null, null]), silent.to_owned()));
    is(Some(980), Some(995), None);
    let silent = "site sin is silent: nobody has heard it for 20 s";
    assert_eq!(shown().await, (json!([null, 20_000, 0, 5000, null]), silent.to_owned()));
    is(None, Some(995), Some(1010));
    let held = "site sin is heard again, and held as if it were not for 10 s";
    assert_eq!(shown().await, (json!([null, null, null, 5000, 10_000]), held.to_owned()));
    is(None, None, None);
    assert_eq!(shown().await, (json!([null, null, null, null, null]), String::new()));
}

#[tokio::test]
async fn domains_show_what_stands_behind_them() {
    golden("domains.json", "/v1/domains").await;
}

#[tokio::test]
async fn vservers_show_policy_and_turns() {
    golden("vservers.json", "/v1/vservers").await;
}

#[tokio::test]
async fn services_show_states_reasons_and_monitors() {
    golden("services.json", "/v1/services").await;
}

#[tokio::test]
async fn ldns_show_what_each_site_says() {
    golden("ldns.json", "/v1/ldns").await;
}

#[tokio::test]
async fn the_index_lists_every_route() {
    let server = Fixture::new().serve().await;
    let index = server.get("/").await;
    assert_eq!(index.headers["content-type"], "text/plain; charset=utf-8");
    assert_golden("index.txt", &index.body);
    let gets = index.body.lines().skip(2).filter(|line| !line.starts_with("POST "));
    for path in gets.filter_map(|line| line.split(['?', ' ']).next()) {
        if path == "/v1/peers/stream" {
            // It has no end: see stream.rs.
            continue;
        }
        let path = path.replace("{ip}", "198.51.100.1");
        let arguments = if path == "/v1/explain" { "?name=www.gslb.test&ldns=192.0.2.1" } else { "" };
        assert_eq!(server.get(&format!("{path}{arguments}")).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn pages_follow_one_another_without_gap_or_overlap() {
    let server = Fixture::new().serve().await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.json(&format!("/v1/ldns?limit=2{after}")).await;
        let rows = page["ldns"].as_array().unwrap();
        assert!(rows.len() <= 2);
        assert_eq!(page["total"], 5);
        seen.extend(rows.iter().map(|row| row["ldns"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let all: Vec<_> = (1..=5).map(|n| format!("198.51.100.{n}")).collect();
    assert_eq!(seen, all);
}

#[tokio::test]
async fn a_page_that_ends_with_the_table_is_the_last() {
    let server = Fixture::new().serve().await;
    assert_eq!(server.json("/v1/ldns?limit=5").await["next"], Value::Null);
    assert_eq!(server.json("/v1/ldns?limit=4").await["next"], "198.51.100.4");
    let beyond = json!({ "ldns": [], "total": 5, "next": null });
    assert_eq!(server.json("/v1/ldns?after=2001:db8::").await, beyond);
}

#[tokio::test]
async fn one_site_alone_can_be_asked_for() {
    let server = Fixture::new().serve().await;
    let cell =
        json!([{ "site": "ams", "state": "known", "rtt_us": 42_000, "kind": "dns-udp", "age_ms": 1000 }]);
    assert_eq!(server.json("/v1/ldns?site=ams&limit=1").await["ldns"][0]["sites"], cell);
    assert_eq!(server.json("/v1/ldns/198.51.100.1?site=ams").await["sites"], cell);
}

#[tokio::test]
async fn one_ldns_is_found_by_its_address_in_either_form() {
    let server = Fixture::new().serve().await;
    let row = server.json("/v1/ldns/198.51.100.4").await;
    let sin = json!({ "site": "sin", "state": "pending", "rtt_us": null, "kind": "ping", "age_ms": 550_000 });
    assert_eq!((&row["ldns"], &row["sites"][2]), (&json!("198.51.100.4"), &sin));
    assert_eq!(server.json("/v1/ldns/::ffff:198.51.100.4").await, row);
    let absent = server.get("/v1/ldns/203.0.113.9").await;
    assert_eq!(absent.status, 404);
    assert_eq!(
        absent.reason(),
        "203.0.113.9 has not asked any node for a GSLB domain within the last 180s, or is never probed"
    );
}

#[tokio::test]
async fn ready_ends_when_the_node_task_falls_silent_and_live_does_not() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    assert_eq!(
        server.json("/ready").await,
        json!({ "ready": true, "reason": null, "published_age_ms": 400 })
    );
    // It published at 999.6 s: 5 s later it is still ready, 1 ms after that it is not.
    fixture.clock.store(1_004_600_000, Ordering::Relaxed);
    assert_eq!(server.get("/ready").await.status, 200);
    fixture.clock.store(1_004_601_000, Ordering::Relaxed);
    let stuck = server.get("/ready").await;
    let reason = "the node task has not published for 5 s; DNS answers from what it published";
    assert_eq!(stuck.status, 503);
    assert_eq!(stuck.json(), json!({ "ready": false, "reason": reason, "published_age_ms": 5001 }));
    assert_eq!(server.json("/live").await, json!({ "live": true }));
    let status = server.json("/v1/status").await;
    assert_eq!((&status["ready"], &status["problems"][0]), (&json!(false), &json!(reason)));
}

#[tokio::test]
async fn a_node_that_has_not_published_is_not_ready() {
    let config = crate::fixture::config();
    let shared = std::sync::Arc::new(gslb_core::Shared::new(&config, 7, at(0)));
    let server = crate::http::Server::start(admin::State::new(shared, || at(0))).await;
    let answer = server.get("/ready").await;
    assert_eq!(
        (answer.status, &answer.json()["reason"]),
        (503, &json!("the node task has not published yet"))
    );
    assert_eq!(server.json("/v1/peers").await["peers"], json!([]));
}
