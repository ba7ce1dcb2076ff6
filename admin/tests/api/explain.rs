//! `/v1/explain`: each way to an answer, and that a look changes nothing.

use crate::fixture::{Fixture, NOW};
use crate::http::{Server, assert_golden};
use gslb_core::decide::Place;
use gslb_core::dns::{Transport, answer};
use serde_json::{Value, json};
use std::net::IpAddr;

/// What is decided for a domain and an LDNS: verdict, service, and the reasons in order.
async fn explained(server: &Server, domain: &str, ldns: u8) -> (String, Value, String) {
    let value = server.json(&format!("/v1/explain?name={domain}.gslb.test&ldns=198.51.100.{ldns}")).await;
    let reasons = value["reasons"].as_array().unwrap().iter().map(|step| step["reason"].as_str().unwrap());
    let reasons = reasons.collect::<Vec<_>>().join(" ");
    (value["answer"]["verdict"].as_str().unwrap().to_owned(), value["answer"]["service"].clone(), reasons)
}

#[tokio::test]
async fn every_way_to_an_answer_is_told() {
    let server = Fixture::new().serve().await;
    let cases = [
        ("www", 1, "service", json!("web-fra"), "up site site site nearest chosen only_service"),
        ("www", 2, "service", json!("web-ams"), "up site site site waiting chosen only_service"),
        ("www", 3, "service", json!("web-ams"), "up site site site no_rtt chosen only_service"),
        ("www", 4, "service", json!("web-ams"), "up site site site nearest chosen only_service"),
        ("www", 5, "service", json!("web-sin"), "up site site site nearest chosen only_service"),
        ("www", 9, "service", json!("web-ams"), "up unknown_ldns chosen only_service"),
        ("tolerant", 1, "service", json!("web-fra"), "up site site site nearest equal chosen only_service"),
        ("patient", 1, "service", json!("web-fra"), "up site site nearest chosen only_service"),
        ("patient", 2, "drop", Value::Null, "up site site waiting dropped"),
        ("turns", 1, "service", json!("web-fra"), "up chosen service"),
        ("two", 1, "service", json!("two-fra"), "up only_site service"),
        ("all", 1, "service", json!("down-fra"), "all_down site site nearest chosen only_service"),
        ("empty", 1, "empty", Value::Null, "all_down"),
        ("backup", 1, "backup_ip", Value::Null, "all_down"),
        ("last", 1, "service", json!("down-ams"), "all_down only_site only_service"),
        ("learning", 1, "service", json!("new-sin"), "learning only_site only_service"),
    ];
    for (domain, ldns, verdict, service, reasons) in cases {
        let expected = (verdict.to_owned(), service, reasons.to_owned());
        assert_eq!(explained(&server, domain, ldns).await, expected, "{domain} {ldns}");
    }
    let (verdict, service, reasons) = explained(&server, "hash", 1).await;
    assert!(service.is_string());
    assert_eq!((verdict.as_str(), reasons.as_str()), ("service", "up chosen only_service"));
}

#[tokio::test]
async fn an_explanation_reads_for_people_and_programs() {
    let server = Fixture::new().serve().await;
    for (file, domain, ldns) in [
        ("nearest", "tolerant", 1),
        ("waiting", "www", 2),
        ("all_down", "backup", 1),
        ("unreachable", "www", 3),
        ("dropped", "patient", 2),
    ] {
        let path = format!("/v1/explain?name={domain}.gslb.test&ldns=198.51.100.{ldns}");
        let text = serde_json::to_string_pretty(&server.json(&path).await).unwrap();
        assert_golden(&format!("explain_{file}.json"), &format!("{text}\n"));
    }
}

#[tokio::test]
async fn the_other_family_has_services_of_its_own() {
    let server = Fixture::new().serve().await;
    let ask = |domain: &str| format!("/v1/explain?name={domain}.gslb.test&type=aaaa&ldns=2001:db8::53");
    let none = server.json(&ask("www")).await;
    assert_eq!((&none["type"], &none["answer"]["verdict"]), (&json!("AAAA"), &json!("empty")));
    assert_eq!(
        none["reasons"],
        json!([{ "reason": "no_service_of_family", "text": "no service of www has an IPv6 address" }])
    );
    let backup = server.json(&ask("backup")).await;
    assert_eq!(backup["reasons"][0]["reason"], "no_service_of_family");
    let disabled = server.json(&ask("off")).await;
    let words: Vec<_> = disabled["reasons"].as_array().unwrap().iter().map(|r| r["reason"].clone()).collect();
    assert_eq!(words, ["all_down", "nothing_left"]);
}

#[tokio::test]
async fn a_client_subnet_is_taken_and_said_not_to_count() {
    let server = Fixture::new().serve().await;
    let ask = |ecs: &str| format!("/v1/explain?name=www.gslb.test&ldns=198.51.100.1&ecs={ecs}");
    let with = server.json(&ask("203.0.113.0/24")).await;
    let expected = json!({
        "subnet": "203.0.113.0/24",
        "used": false,
        "scope": 0,
        "text": "not used for decisions: the LDNS address decides",
    });
    assert_eq!(with["ecs"], expected);
    assert_eq!(server.json(&ask("2001:db8::%2F56")).await["ecs"]["subnet"], "2001:db8::/56");
    let without = server.json("/v1/explain?name=www.gslb.test&ldns=198.51.100.1").await;
    assert_eq!((&without["ecs"], &without["answer"]), (&Value::Null, &with["answer"]));
}

#[tokio::test]
async fn a_look_takes_no_turn_and_tells_the_next_answer() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let path = "/v1/explain?name=turns.gslb.test&ldns=198.51.100.1";
    let mut answered = Vec::new();
    for round in 0..6 {
        let first = server.json(path).await;
        assert_eq!(server.json(path).await, first, "a look moved the turn");
        assert_eq!((&first["turn"]["round"], &first["takes_turn"]), (&json!(round), &json!(true)));
        let told = first["answer"]["addresses"][0].as_str().unwrap().parse::<IpAddr>().unwrap();
        let given = dns_answer(&fixture, "turns");
        assert_eq!(given, told, "round {round}");
        answered.push(given);
    }
    answered.sort();
    answered.dedup();
    assert_eq!(answered.len(), 3, "all three services had their turns");
}

/// The address a real query gets: the last four bytes of a reply with one A record.
fn dns_answer(fixture: &Fixture, domain: &str) -> IpAddr {
    let mut query = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in [domain, "gslb", "test"] {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    let mut reply = [0; 512];
    let (published, source) = (fixture.shared.published.load_full(), [198, 51, 100, 1].into());
    let done = answer(&fixture.shared, &published, &query, source, Transport::Udp, NOW, &mut reply);
    assert_eq!(reply[6..8], [0, 1], "one answer record");
    let address: [u8; 4] = reply[done.len - 4..done.len].try_into().unwrap();
    address.into()
}

#[tokio::test]
async fn an_ipv4_address_written_as_ipv6_is_the_ipv4_address() {
    let server = Fixture::new().serve().await;
    let plain = server.json("/v1/explain?name=hash.gslb.test&ldns=198.51.100.1").await;
    assert_eq!(server.json("/v1/explain?name=hash.gslb.test&ldns=::ffff:198.51.100.1").await, plain);
}

#[tokio::test]
async fn the_name_may_be_written_in_any_case_and_with_its_dot() {
    let server = Fixture::new().serve().await;
    let plain = server.json("/v1/explain?name=www.gslb.test&ldns=198.51.100.1").await;
    let other = server.json("/v1/explain?name=WWW.Gslb.Test.&ldns=198.51.100.1&type=A").await;
    assert_eq!(plain, other);
    assert_eq!(plain["name"], "www.gslb.test.");
}

/// All that could have been answered, with what stands in the way of each.
#[tokio::test]
async fn each_candidate_has_its_value_where_that_comes_from_and_what_removed_it() {
    let fixture = Fixture::new();
    let server = fixture.serve().await;
    let value = server.json("/v1/explain?name=www.gslb.test&ldns=198.51.100.1").await;
    let candidates = value["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 3);
    for candidate in candidates {
        let is_answered = candidate["service"] == value["answer"]["service"];
        assert_eq!(candidate["removed"].is_null(), is_answered, "{candidate}");
        assert!(candidate["rtt"]["state"].is_string(), "{candidate}");
    }
    let margin = &value["margin"];
    assert!(margin["text"].as_str().unwrap().contains("would share the answers if it were"), "{margin}");
    let down = server.json("/v1/explain?name=two.gslb.test&ldns=198.51.100.1").await;
    let removed: Vec<_> =
        down["candidates"].as_array().unwrap().iter().map(|c| c["removed"].clone()).collect();
    assert_eq!(removed[2], "it is down");
    assert_eq!(removed.iter().filter(|removed| removed.is_null()).count(), 1);
}

#[tokio::test]
async fn a_session_and_a_place_that_stands_are_told() {
    let fixture = Fixture::new();
    fixture.change_all(|published| {
        let config = published.config.clone();
        let index = config.vservers.iter().position(|v| v.name.as_str() == "hash").unwrap();
        published.standing = vec![[None; 2]; config.vservers.len()];
        published.standing[index] = [Some(Place { link: 0, order: 1 }), None];
    });
    let server = fixture.serve().await;
    let (_, _, reasons) = explained(&server, "hash", 1).await;
    assert_eq!(reasons, "standing chosen only_service");
}
