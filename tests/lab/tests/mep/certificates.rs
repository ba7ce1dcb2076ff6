//! Certificates that are renewed, broken or over while nodes talk (bar R16, faults I-48).

use crate::Test;
use crate::misbehaving::write_pem;
use crate::sites::{
    NODES, PATIENCE, Settings, config, eventually_says, first, lines, map, pairs, seconds, settle, until,
};
use lab::gslb::{Group, Node, Transport, dig, eventually};
use mep_io::Pem;
use mep_io::pki::{Authority, Validity};
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const TESTS: &[Test] = &[
    ("a_renewed_certificate_is_used_without_losing_a_session_and_a_bad_pair_keeps_the_old_one", rotation),
    ("a_session_is_made_anew_before_its_certificate_is_over_and_no_answer_changes", expiry),
    ("a_node_with_an_expired_certificate_says_so_and_answers", expired_at_start),
];

/// How soon a changed file must be noticed.
const NOTICED: Duration = Duration::from_secs(12);

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64
}

fn authority() -> Authority {
    Authority::new(&"lab".parse().expect("a name")).expect("a CA")
}

fn issue(authority: &Authority, id: &str, valid: Duration) -> Pem {
    let validity = Validity { from: now() - 3600, until: now() + valid.as_secs() as i64 };
    authority.issue_for(&id.parse().expect("an id"), validity).expect("a certificate")
}

fn write(group: &Group<'_>, id: &str, certificate: Option<&str>, key: Option<&str>) {
    let stem = group.folder().join("pki").join(id.replace('/', "-"));
    for (text, extension) in [(certificate, "crt"), (key, "key")] {
        if let Some(text) = text {
            fs::write(stem.with_extension(extension), text).expect("written");
        }
    }
}

/// What a node says of its own certificate.
fn identity(node: &Node<'_>) -> Value {
    node.get("/v1/peers").and_then(|answer| answer.json()).unwrap_or_default()["identity"].clone()
}

fn prepared<'lab>(ours: &Authority, settings: &Settings) -> Group<'lab> {
    let group = Group::prepare("lab", &config(settings), &NODES).expect("certificates");
    NODES.iter().for_each(|id| write_pem(&group, ours, id));
    group
}

const PLACES: [(&str, &str); 3] = [("fra/1", "fra"), ("iad/1", "iad"), ("sin/1", "sin")];

fn downs(group: &Group<'_>) -> u64 {
    let peers = group.nodes().iter().flat_map(|node| node.peers().unwrap_or_default());
    peers.filter_map(|peer| peer["downs"].as_u64()).sum()
}

fn rotation() {
    let lab = map("rotation").up().expect("up");
    let ours = authority();
    let mut group = prepared(&ours, &Settings::new());
    group.start_nodes(&lab, &PLACES, &[]).expect("three nodes");
    let watch = settle(&lab, &group);
    let begun = Instant::now();
    let new = issue(&ours, "fra/1", seconds(30 * 86_400));
    let expires = |value: &Value| value.as_i64();
    let own = || identity(group.node("fra/1"));
    let before = expires(&own()["expires"]);

    // The certificate alone: no pair.
    write(&group, "fra/1", Some(&new.certificate), None);
    let error =
        eventually("fra/1 names the bad pair", NOTICED, || own()["error"].as_str().map(str::to_owned));
    println!("R16: certificate without its key: after {:.1?}: {error}", begun.elapsed());
    assert!(error.contains("does not belong"), "{error}");
    assert_eq!(expires(&own()["expires"]), before, "the old pair stays in force");
    assert_eq!(downs(&group), 0);

    write(&group, "fra/1", None, Some(&new.key));
    let written = Instant::now();
    eventually("fra/1 uses the new pair", NOTICED, || {
        let own = own();
        (own["error"].is_null() && expires(&own["expires"]) != before).then_some(())
    });
    let after = expires(&own()["expires"]);
    println!("R16: the key as well: used after {:.1?}; expires {before:?} -> {after:?}", written.elapsed());

    // Garbage, and the right pair again.
    write(&group, "fra/1", Some("no certificate"), None);
    eventually("fra/1 names the broken file", NOTICED, || own()["error"].as_str().map(str::to_owned));
    write(&group, "fra/1", Some(&new.certificate), None);
    eventually("fra/1 is content again", NOTICED, || own()["error"].is_null().then_some(()));
    assert_eq!(downs(&group), 0, "no session was lost");
    let changes = watch.changes_since(begun);
    assert!(changes.is_empty(), "{}", lines(&changes));
    assert_eq!(watch.failed(), 0);
    drop(watch);

    // A new handshake shows it.
    let node = group.node_mut("iad/1");
    node.kill().expect("killed");
    node.restart().expect("restarted");
    node.wait_until_ready();
    eventually_says(group.node("iad/1"), "fra/1", "up");
    let shown = expires(&group.node("iad/1").peer("fra/1")["certificate_expires"]);
    println!("R16: 0 sessions lost; a new handshake shows {shown:?}");
    assert_eq!(shown, after);
}

fn expiry() {
    let lab = map("expiry").up().expect("up");
    let ours = authority();
    let mut group = prepared(&ours, &Settings::new());
    let short = seconds(40);
    let (pem, begun) = (issue(&ours, "fra/1", short), Instant::now());
    write(&group, "fra/1", Some(&pem.certificate), Some(&pem.key));
    group.start_nodes(&lab, &PLACES, &[]).expect("three nodes");
    let watch = settle(&lab, &group);
    let watched = Instant::now();
    let warned = identity(group.node("fra/1"));
    println!("R16: a certificate for {short:?}: {warned}");
    until(begun, seconds(15));
    let new = issue(&ours, "fra/1", seconds(30 * 86_400));
    write(&group, "fra/1", Some(&new.certificate), Some(&new.key));
    // Everybody shows the new one before the old one is over.
    let shown = first(begun, short + seconds(5), || {
        ["iad/1", "sin/1"].iter().all(|node| {
            group.node(node).peer("fra/1")["certificate_expires_in_s"].as_i64() > Some(short.as_secs() as i64)
        })
    });
    until(begun, short + seconds(8));
    let changes = watch.changes_since(watched);
    println!(
        "R16: renewed at 15 s: sessions with the new certificate after {shown:.1?}; 8 s past the expiry {} sessions lost, {} \
         answers changed; {}",
        downs(&group),
        changes.len(),
        pairs(&group)
    );
    assert!(shown.is_some_and(|shown| shown <= short + seconds(1)));
    assert!(changes.is_empty(), "{}", lines(&changes));
    assert_eq!((watch.failed(), downs(&group)), (0, 0));
}

fn expired_at_start() {
    let lab = map("expired").up().expect("up");
    let ours = authority();
    let mut group = prepared(&ours, &Settings::new());
    let validity = Validity { from: now() - 7200, until: now() - 60 };
    let pem = ours.issue_for(&"fra/1".parse().expect("an id"), validity).expect("a certificate");
    write(&group, "fra/1", Some(&pem.certificate), Some(&pem.key));
    group.start_nodes(&lab, &PLACES, &[]).expect("three nodes");
    let answer = dig(&lab, "ldns-eu", lab.v4("fra").into(), crate::sites::NAME, "A", Transport::Udp);
    println!("expired at start: answers {answer:?}; {}", identity(group.node("fra/1")));
    assert!(answer.is_ok());
    let said = identity(group.node("fra/1")).to_string() + &group.node("fra/1").log();
    assert!(said.contains("expired"), "{said}");
    assert_ne!(group.node("iad/1").peer("fra/1")["state"], "up");
    // A good pair mends it, without a restart.
    let new = issue(&ours, "fra/1", seconds(30 * 86_400));
    write(&group, "fra/1", Some(&new.certificate), Some(&new.key));
    let renewed = Instant::now();
    eventually_says(group.node("iad/1"), "fra/1", "up");
    println!("expired at start: renewed, and heard after {:.1?}", renewed.elapsed());
    assert!(renewed.elapsed() < PATIENCE);
}
