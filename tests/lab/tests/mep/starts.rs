//! Nodes that start while something is not as it should be: a service is dead (faults I-54), or their settings are others than those
//! of the group (faults I-50).

use crate::Test;
use crate::sites::{
    LDNS, NAME, NODES, PATIENCE, SITES, Settings, Web, config, eventually_says, first, map, ms, seconds,
    service, settle, wait_until_meshed,
};
use lab::Lab;
use lab::gslb::{Group, Reply, Watch, ask, eventually};
use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("a_node_that_starts_answers_at_once_and_offers_no_dead_service_once_that_is_known", dead_service),
    ("settings_that_differ_are_named_at_both_ends_and_every_site_goes_by_its_own", mismatch),
];

/// Between two queries of a start: 20 a second.
const PAUSE: Duration = Duration::from_millis(50);

/// A start, as whoever asks the node sees it.
struct Start {
    first_answer: Duration,
    /// The last answer that was the dead service.
    last_dead: Option<Duration>,
    /// Replies after the first answer that were none.
    failed: usize,
    asked: usize,
}

/// Kills the node at `site`, starts it again, and asks it from the LDNS that is near the dead service, twenty times a second.
fn restarted(lab: &Lab, group: &mut Group<'_>, site: &str, dead: &Reply) -> Start {
    let (source, server) = (IpAddr::V4(lab.v4(LDNS[1])), IpAddr::V4(lab.v4(site)));
    let node = group.node_mut(&format!("{site}/1"));
    node.kill().expect("killed");
    let begun = Instant::now();
    node.restart().expect("restarted");
    let asked = || {
        let mut start = Start { first_answer: Duration::ZERO, last_dead: None, failed: 0, asked: 0 };
        while begun.elapsed() < seconds(10) {
            let sent = Instant::now();
            let reply = ask(source, server, NAME, ms(500)).unwrap_or(Reply::Silence);
            let answers = matches!(reply, Reply::Addresses(_));
            if answers && start.first_answer.is_zero() {
                start.first_answer = begun.elapsed();
            }
            if !start.first_answer.is_zero() {
                start.asked += 1;
                start.failed += usize::from(!answers);
            }
            if reply == *dead {
                start.last_dead = Some(begun.elapsed());
            }
            thread::sleep(PAUSE.saturating_sub(sent.elapsed()));
        }
        start
    };
    lab.in_namespace(LDNS[1], asked).expect("namespace")
}

fn dead_service() {
    let lab = map("starts").up().expect("up");
    let mut webs: Vec<Web> = SITES.iter().map(|site| Web::start(&lab, site)).collect();
    let settings = Settings {
        service: "monitors = [\"port\"]",
        more: "[[monitors]]\nname = \"port\"\nkind = \"tcp\"\ninterval = \"2s\"\ntimeout = \"500ms\"\nfall = 2",
        ..Settings::new().mep("keepalive = \"3s\"\nmetrics_interval = \"500ms\"")
    };
    let mut group = Group::start(&lab, "lab", &config(&settings), &NODES).expect("three nodes");
    let watch = settle(&lab, &group);
    let dead = service(&lab, "iad");
    webs.retain(|web| web.site() != "iad");
    eventually("nobody answers iad's service any longer", PATIENCE, || {
        watch.last().iter().all(|(_, _, reply)| *reply != dead).then_some(())
    });
    // fra hears of it from iad, whose own monitor finds out for itself.
    for site in ["fra", "iad"] {
        let start = restarted(&lab, &mut group, site, &dead);
        println!(
            "I-54: {site}/1 started anew while iad's service is dead: first answer after {:.0?}, the dead service last after {:.0?}; \
             {} of {} queries from then on failed",
            start.first_answer, start.last_dead, start.failed, start.asked
        );
        assert!(start.asked > 50 && start.failed == 0, "{}", group.node("fra/1").log_tail());
        // Sooner than an interval of two seconds after the answers began: the first check runs at once.
        let known = start.last_dead.unwrap_or_default().saturating_sub(start.first_answer);
        assert!(known < ms(1500), "{known:?}");
        wait_until_meshed(&group);
    }
}

/// The text of a node whose administrator has gone his own way.
fn differs(text: &str) -> String {
    let text = text.replace("name = \"lab\"\n", "name = \"lab\"\nrtt_tolerance = \"50ms\"\n");
    let text = text.replace("name = \"www\"\n", "name = \"www\"\nmethod = \"round_robin\"\n");
    text.replace("name = \"www.gslb.test\"\n", "name = \"www.gslb.test\"\nttl = \"30s\"\n")
}

fn mismatch() {
    let lab = map("mismatch").up().expect("up");
    let text = config(&Settings::new().mep("keepalive = \"3s\"\nmetrics_interval = \"500ms\""));
    let mut group = Group::prepare("lab", &text, &NODES).expect("certificates");
    group.start_nodes(&lab, &[("fra/1", "fra"), ("sin/1", "sin")], &[]).expect("two nodes");
    eventually_says(group.node("fra/1"), "sin/1", "up");
    // Each node reads the file when it starts.
    let other = differs(&text);
    assert_eq!(other.matches("50ms").count() + other.matches("30s").count(), 2, "{other}");
    fs::write(group.folder().join("gslb.toml"), &other).expect("a file");
    let begun = Instant::now();
    group.start_nodes(&lab, &[("iad/1", "iad")], &[]).expect("a third");
    let named = |at: &str, of: &str| {
        let mismatches = group.node(at).peer(of)["mismatches"].clone();
        let names: Vec<String> = mismatches
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|m| m.as_str().map(str::to_owned))
            .collect();
        names
    };
    let all = ["domains", "rtt_tolerance", "vservers"];
    let is_all = |names: Vec<String>| all.iter().all(|name| names.iter().any(|other| other == name));
    let pairs = [("fra/1", "iad/1"), ("iad/1", "fra/1"), ("sin/1", "iad/1"), ("iad/1", "sin/1")];
    let after = first(begun, PATIENCE, || pairs.iter().all(|(at, of)| is_all(named(at, of))));
    println!(
        "I-50: named at both ends after {after:.1?}: {:?}; fra/1 of sin/1: {:?}",
        named("fra/1", "iad/1"),
        named("fra/1", "sin/1")
    );
    assert!(after.is_some());
    assert_eq!(named("fra/1", "sin/1"), [] as [String; 0], "whoever is alike is not blamed");
    assert!(group.node("fra/1").metric("gslb_peer_mismatches{peer=\"iad/1\"}").is_some_and(|n| n >= 3.0));
    // The sessions go on, and whoever has the same settings still answers alike.
    let watch = Watch::start(&lab, &LDNS, &["fra", "sin"], NAME, ms(100)).expect("a watch");
    wait_until_meshed(&group);
    let near = |watch: &Watch| {
        let last = watch.last();
        let is_near = |ldns: &str, reply: &Reply| {
            LDNS.iter().position(|l| *l == ldns).is_some_and(|i| *reply == service(&lab, SITES[i]))
        };
        last.len() == 6 && last.iter().all(|(ldns, _, reply)| is_near(ldns, reply))
    };
    let settled = first(begun, PATIENCE, || near(&watch));
    println!("I-50: fra/1 and sin/1 answer all LDNS with their nearest sites after {settled:.1?}");
    assert!(settled.is_some(), "{:?}", watch.last());
    assert_eq!(watch.failed(), 0);
}
