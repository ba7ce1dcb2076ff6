//! `/metrics`: the format, the names, the numbers.

use crate::fixture::Fixture;
use crate::http::assert_golden;
use std::collections::{BTreeMap, BTreeSet};

async fn scrape() -> String {
    let server = Fixture::new().serve().await;
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    answer.body
}

#[tokio::test]
async fn metrics_as_a_whole() {
    assert_golden("metrics.txt", &scrape().await);
}

#[tokio::test]
async fn every_family_is_named_explained_typed_and_stands_together() {
    let text = scrape().await;
    let families = parse(&text);
    assert!(families.len() > 50, "{}", families.len());
    for (name, family) in &families {
        assert!(name.starts_with("gslb_"), "{name}");
        assert!(family.help.len() > 3 && !family.samples.is_empty(), "{name}");
        assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name}");
        let timed = ["_age", "_rtt", "_time", "_uptime", "_timestamp"].iter().any(|t| name.ends_with(t));
        assert!(!timed, "{name} is a time without its unit");
    }
}

#[tokio::test]
async fn numbers_stand_under_their_names() {
    let families = parse(&scrape().await);
    let value = |family: &str, labels: &str| families[family].samples[labels];
    for (family, labels, expected) in [
        ("gslb_dns_requests_total", r#"transport="tcp""#, 20.0),
        ("gslb_dns_replies_total", r#"rcode="nxdomain""#, 30.0),
        ("gslb_decisions_total", r#"by="backup""#, 40.0),
        ("gslb_probes_sent_total", r#"kind="dns-udp""#, 31.0),
        ("gslb_ldns_rows", "", 5.0),
        ("gslb_service_state", r#"service="down-fra",site="fra",state="down""#, 1.0),
        ("gslb_service_state", r#"service="down-fra",site="fra",state="up""#, 0.0),
        ("gslb_service_response_time_seconds", r#"service="web-fra",site="fra""#, 0.003),
        ("gslb_peer_state", r#"peer="ams/1",state="up""#, 1.0),
        ("gslb_peer_last_word_age_seconds", r#"peer="sin/1""#, 40.0),
        ("gslb_peer_rtt_seconds", r#"peer="ams/1""#, 0.00725),
        ("gslb_uptime_seconds", "", 1000.0),
        ("gslb_samples_within_tolerance_total", "", 170.0),
    ] {
        assert_eq!(value(family, labels), expected, "{family} {labels}");
    }
}

/// An alarm on what is not there any longer would fall silent together with it.
#[tokio::test]
async fn what_is_not_heard_of_is_not_up_and_its_counters_stay() {
    let fixture = Fixture::new();
    let scrape = async || parse(&fixture.serve().await.get("/metrics").await.body);
    let of = |families: &BTreeMap<String, Family>| -> BTreeSet<String> {
        let lb = families.iter().filter(|(name, _)| name.starts_with("gslb_lb_"));
        let series = lb.flat_map(|(name, f)| f.samples.keys().map(move |labels| format!("{name} {labels}")));
        // A time that is not known has no number.
        series.filter(|name| !name.contains("_seconds")).collect()
    };
    let live = scrape().await;
    fixture.change_all(|published| {
        let mut state = published.local[0].clone().unwrap();
        state.is_heard = false;
        state.state = gslb_types::ServiceState::Down;
        published.local = std::sync::Arc::new(vec![Some(state), None]);
    });
    let silent = scrape().await;
    fixture.change_all(|published| published.local = std::sync::Arc::new(vec![None, None]));
    let unknown = scrape().await;
    let (front, two) = (r#"lb_vserver="front-fra""#, r#"lb_vserver="front-fra",service="two-fra""#);
    let numbers = |families: &BTreeMap<String, Family>| {
        let value = |name: &str, labels: &str| families[name].samples[labels];
        [
            value("gslb_lb_up", front),
            value("gslb_lb_member_takes_part", two),
            value("gslb_lb_member_active", two),
            value("gslb_lb_member_requests_total", two),
        ]
    };
    assert_eq!(numbers(&live), [1.0, 1.0, 3.0, 1200.0]);
    assert_eq!(numbers(&silent), [0.0, 0.0, 0.0, 1200.0]);
    assert_eq!(numbers(&unknown), [0.0; 4]);
    assert_eq!((of(&silent), of(&unknown)), (of(&live), of(&live)));
}

struct Family {
    help: String,
    kind: String,
    /// By labels as written.
    samples: BTreeMap<String, f64>,
}

/// Reads the text format (version 0.0.4), and fails on whatever Prometheus would not take.
fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'));
    let mut families = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (name, help) = line.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        assert!(["counter", "gauge"].contains(&kind), "{kind}");
        let mut samples = BTreeMap::new();
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            let (series, value) = sample.rsplit_once(' ').unwrap();
            let labels = labels(series.strip_prefix(name).unwrap());
            let twice = samples.insert(labels, value.parse().unwrap());
            assert_eq!(twice, None, "{sample}");
        }
        let family = Family { help: help.to_owned(), kind: kind.to_owned(), samples };
        assert!(families.insert(name.to_owned(), family).is_none(), "{name} stands in two places");
    }
    families
}

/// What stands between the braces, if there are any; each label named once.
fn labels(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap();
    let mut names = BTreeSet::new();
    for label in inner.split("\",") {
        let (name, value) = label.split_once("=\"").unwrap();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert!(names.insert(name), "{name} twice");
        assert!(!value.trim_end_matches('"').contains(['"', '\n']));
    }
    inner.to_owned()
}
