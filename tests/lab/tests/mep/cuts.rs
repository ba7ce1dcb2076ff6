//! Links that fail between the sites (faults I-43, bar R11).

use crate::Test;
use crate::sites::{
    LDNS, NODES, PATIENCE, Settings, all_near, first, heal, isolate, lines, map, ms, pairs, seconds, service,
    start, until, word,
};
use lab::gslb::{Change, Group, eventually};
use lab::{Lab, Link};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("a_cut_between_two_sites_changes_no_answer_while_a_third_hears_both", one_link),
    ("a_glitch_of_3_s_and_one_of_12_s_change_no_answer", glitches),
    ("an_isolated_site_is_answered_until_the_down_delay_has_passed_and_back_within_15_s", isolation),
    ("under_a_flapping_link_an_answer_changes_at_most_once_per_hold_time", square_wave_of_a_site),
    ("a_flapping_link_between_two_sites_changes_no_answer", square_wave_of_a_link),
    ("a_third_of_all_packets_lost_takes_no_site_down", loss),
];

/// The defaults.
const KEEPALIVE: Duration = Duration::from_secs(10);
const DOWN_DELAY: Duration = Duration::from_secs(15);

/// What a busy machine may add to a time.
const SLACK: Duration = Duration::from_secs(2);

fn one_link() {
    let lab = map("one-link").up().expect("up");
    let (group, watch) = start(&lab, &Settings::new());
    let begun = Instant::now();
    lab.cut("fra", "iad");
    // Past the time at which the site would be down if nobody relayed it.
    let ends = [("fra/1", "iad/1"), ("iad/1", "fra/1")];
    let suspect = first(begun, KEEPALIVE + SLACK, || group.node("fra/1").peer("iad/1")["state"] == "suspect");
    println!("cut fra-iad: suspect at fra/1 after {suspect:.1?}");
    assert!(suspect.is_some_and(|suspect| suspect < KEEPALIVE));
    let shown = ends.map(|(node, peer)| {
        first(begun, KEEPALIVE + SLACK, || group.node(node).peer(peer)["state"] == "down")
    });
    // What all say of their links, as everybody sees it.
    for id in NODES {
        let is_the_cut = |link: &Value| {
            let ends = BTreeSet::from([word(&link["from"]), word(&link["to"])]);
            link["kind"] == "cut" && ends == BTreeSet::from(["fra/1", "iad/1"])
        };
        let degraded = eventually("the matrix names the link that is cut, and no other", KEEPALIVE, || {
            let degraded = matrix(&group, id)["degraded"].as_array().cloned().unwrap_or_default();
            (degraded.len() == 1 && is_the_cut(&degraded[0])).then(|| degraded[0].clone())
        });
        println!("cut fra-iad: at {id}: {}, relay {}", degraded["text"], degraded["relay"]);
        assert_eq!(matrix(&group, id)["unheard"], json!([]));
    }
    until(begun, KEEPALIVE + DOWN_DELAY + seconds(10));
    println!("cut fra-iad: down at both ends after {shown:.1?}; {}", pairs(&group));
    for (node, peer) in ends {
        let status = group.node(node).peer(peer);
        let steps: Vec<_> =
            status["transitions"].as_array().into_iter().flatten().map(|step| word(&step["to"])).collect();
        println!("cut fra-iad: at {node}, {peer} was {steps:?}: {}", status["downs_by_reason"]);
        assert!(steps.ends_with(&["suspect", "down"]), "{status}");
        assert_eq!(status["state"], "down", "{status}");
        assert_eq!(status["relay"], "sin/1", "{status}");
    }
    for node in ["fra/1", "iad/1"] {
        assert_eq!(group.node(node).peer("sin/1")["state"], "up");
    }
    lab.heal("fra", "iad");
    let healed = Instant::now();
    let up = first(healed, PATIENCE, || {
        ends.iter().all(|(node, peer)| {
            let status = group.node(node).peer(peer);
            status["state"] == "up" && status["relay"].is_null()
        })
    });
    until(healed, seconds(5));
    let changes = watch.changes_since(begun);
    println!(
        "cut fra-iad for {:.0?}: {} queries, {} failed, {} answers changed; healed after {up:.1?}",
        healed - begun,
        watch.asked(),
        watch.failed(),
        changes.len()
    );
    assert!(up.is_some_and(|up| up <= seconds(15)), "{}", pairs(&group));
    assert!(changes.is_empty(), "{}", lines(&changes));
    assert_eq!(watch.failed(), 0);
}

/// Whether all nodes say the same of all RTTs.
fn tables_are_equal(group: &Group<'_>, lab: &Lab) -> bool {
    let row = |id: &str, ldns: &str| {
        let answer = group.node(id).get(&format!("/v1/ldns/{}", lab.v4(ldns))).ok()?.json().ok()?;
        let cell =
            |cell: &Value| (word(&cell["site"]).to_owned(), cell["state"].clone(), cell["rtt_us"].as_u64());
        Some(answer["sites"].as_array()?.iter().map(cell).collect::<Vec<_>>())
    };
    let table = |id: &&str| LDNS.map(|ldns| row(id, ldns));
    let tables: Vec<_> = NODES.iter().map(table).collect();
    tables.windows(2).all(|two| two[0] == two[1])
}

/// Who hears whom, as a node has been told.
fn matrix(group: &Group<'_>, id: &str) -> Value {
    group.node(id).get("/v1/peers").and_then(|answer| answer.json()).expect("an answer")["matrix"].clone()
}

fn glitches() {
    let lab = map("glitch").up().expect("up");
    let (group, watch) = start(&lab, &Settings::new());
    for length in [seconds(3), seconds(12)] {
        let begun = Instant::now();
        isolate(&lab, "iad");
        until(begun, length);
        println!("glitch of {length:?}, at its end: {}", pairs(&group));
        heal(&lab, "iad");
        crate::sites::wait_until_meshed(&group);
        println!("glitch of {length:?}: meshed again {:.1?} after its end", begun.elapsed() - length);
        until(begun, length + seconds(15));
        let changes = watch.changes_since(begun);
        println!("glitch of {length:?}: {} answers changed", changes.len());
        assert!(changes.is_empty(), "{}", lines(&changes));
    }
    assert_eq!(watch.failed(), 0);
}

fn isolation() {
    let lab = map("isolation").up().expect("up");
    let (group, watch) = start(&lab, &Settings::new());
    let begun = Instant::now();
    isolate(&lab, "iad");
    // So that the tables are not equal: beyond the tolerance, and still the nearest.
    lab.set_link("ldns-us", "iad", ms(20));
    until(begun, KEEPALIVE + DOWN_DELAY + seconds(8));
    assert!(!tables_are_equal(&group, &lab));
    let left = watch.changes_since(begun);
    println!("isolated iad:{}", lines(&left));
    // At fra and sin nobody is sent to iad any more; at iad nobody to the others.
    let earliest = KEEPALIVE + DOWN_DELAY - KEEPALIVE / 3;
    for change in &left {
        let after = change.at - begun;
        assert!(after >= earliest && after <= KEEPALIVE + DOWN_DELAY + SLACK, "{change}");
    }
    for id in ["fra/1", "sin/1"] {
        assert_eq!(matrix(&group, id)["unheard"], json!(["iad/1"]), "nobody hears it");
    }
    for (ldns, site, _) in watch.last() {
        let at_iad = site == "iad";
        let answer = watch.last_of(&ldns, &site).expect("asked");
        assert_eq!(answer == service(&lab, "iad"), at_iad, "{ldns} at {site}: {answer}");
    }
    assert_eq!(left.len(), 4, "ldns-us at fra and sin, ldns-eu and ldns-as at iad, once each");

    heal(&lab, "iad");
    let healed = Instant::now();
    let (mut met, mut equal) = (None, None);
    let back = first(healed, seconds(40), || {
        let is_up = || {
            group.node("fra/1").peer("iad/1")["state"] == "up"
                && group.node("sin/1").peer("iad/1")["state"] == "up"
        };
        met = met.or_else(|| is_up().then(|| healed.elapsed()));
        equal = equal.or_else(|| tables_are_equal(&group, &lab).then(|| healed.elapsed()));
        met.is_some() && equal.is_some() && all_near(&lab, &watch)
    });
    println!("R11: healed iad: sessions after {met:.1?}, tables equal after {equal:.1?}");
    let (met, equal) = (met.expect("sessions"), equal.expect("equal tables"));
    assert!(equal <= met + seconds(2), "tables are equal within 2 s of the sessions");
    until(healed, seconds(20));
    let changes = watch.changes_since(healed);
    println!("healed iad: everything as before after {back:.1?}:{}", lines(&changes));
    assert!(back.is_some_and(|back| back <= seconds(15)), "{}", pairs(&group));
    // At iad both others come back, one after the other: an answer may follow each of them.
    let mut at_others = changes.iter().filter(|change| change.server != "iad");
    assert!(at_others.all(|change| change.to == service(&lab, "iad")), "each answer changes back once");
    assert!(changes.len() <= 6, "{}", lines(&changes));
    println!("isolation: {} queries, {} failed", watch.asked(), watch.failed());
    assert_eq!(watch.failed(), 0);
}

/// 5 s up, 5 s down.
const HALF_WAVE: Duration = Duration::from_secs(5);

fn square_wave_of_a_site() {
    let lab = map("wave").up().expect("up");
    // Shorter than the default, so that a wave takes the site down again and again.
    let (group, watch) = start(
        &lab,
        &Settings::new().mep("keepalive = \"2s\"\ndown_delay = \"4s\"\nmetrics_interval = \"500ms\""),
    );
    let hold = seconds(4);
    let begun = Instant::now();
    let waves = 9;
    for wave in 0..waves {
        isolate(&lab, "iad");
        until(begun, HALF_WAVE * (2 * wave + 1));
        heal(&lab, "iad");
        until(begun, HALF_WAVE * (2 * wave + 2));
    }
    let changes = watch.changes_since(begun);
    // At iad two services come and go, each of which an answer may follow.
    let mut closest = Duration::MAX;
    for (ldns, site) in LDNS.iter().flat_map(|ldns| ["fra", "sin"].map(|site| (*ldns, site))) {
        let of: Vec<&Change> = changes.iter().filter(|c| c.ldns == ldns && c.server == site).collect();
        closest = of.windows(2).map(|two| two[1].at - two[0].at).min().unwrap_or(Duration::MAX).min(closest);
    }
    let mut returns = Duration::MAX;
    for (i, away) in changes.iter().enumerate() {
        let same = |c: &&Change| (&c.ldns, &c.server, &c.to) == (&away.ldns, &away.server, &away.from);
        let back = changes.iter().skip(i + 1).find(same);
        returns = back.map_or(returns, |back| returns.min(back.at - away.at));
    }
    let downs = group.node("fra/1").peer("iad/1")["downs"].as_u64();
    println!(
        "{waves} waves of {HALF_WAVE:?}: fra/1 lost iad/1 {downs:?} times; {} answers changed, those of one asker at \
         fra and sin at least {closest:.1?} apart, none back to a site it left within {returns:.1?}; {} queries, {} failed",
        changes.len(),
        watch.asked(),
        watch.failed()
    );
    assert!(closest >= hold - ms(300) && returns >= hold - ms(300), "{}", lines(&changes));
    assert_eq!(watch.failed(), 0);
    eventually("after the waves everything is as before", PATIENCE, || all_near(&lab, &watch).then_some(()));
}

fn square_wave_of_a_link() {
    let lab = map("link-wave").up().expect("up");
    let (group, watch) = start(
        &lab,
        &Settings::new().mep("keepalive = \"2s\"\ndown_delay = \"2s\"\nmetrics_interval = \"500ms\""),
    );
    let begun = Instant::now();
    for wave in 0..6 {
        lab.cut("fra", "iad");
        until(begun, HALF_WAVE * (2 * wave + 1));
        lab.heal("fra", "iad");
        until(begun, HALF_WAVE * (2 * wave + 2));
    }
    let changes = watch.changes_since(begun);
    let downs = group.node("fra/1").peer("iad/1")["downs"].as_u64();
    println!("6 waves of fra-iad: fra/1 lost iad/1 {downs:?} times, {} answers changed", changes.len());
    assert!(downs.is_some_and(|downs| downs >= 3), "the waves are felt");
    assert!(changes.is_empty(), "{}", lines(&changes));
    assert_eq!(watch.failed(), 0);
}

fn loss() {
    let lab = map("loss").up().expect("up");
    let (group, watch) = start(&lab, &Settings::new());
    let begun = Instant::now();
    lab.set_link("fra", "iad", Link::from(ms(42)).loss(300));
    lab.set_link("iad", "sin", Link::from(ms(110)).loss(300));
    until(begun, seconds(45));
    let lossy = [("fra/1", "iad/1"), ("iad/1", "fra/1"), ("iad/1", "sin/1"), ("sin/1", "iad/1")];
    let status = lossy.map(|(node, peer)| group.node(node).peer(peer));
    let downs: u64 = status.iter().filter_map(|peer| peer["downs"].as_u64()).sum();
    let states: Vec<_> = status.iter().map(|peer| word(&peer["state"]).to_owned()).collect();
    let changes = watch.changes_since(begun);
    println!("30 % loss for 45 s: {downs} sessions lost, now {states:?}, {} answers changed", changes.len());
    assert!(changes.is_empty(), "{}", lines(&changes));
    // A session may be lost by chance, rarely; the site is not.
    assert!(downs <= 2, "{}", pairs(&group));
    assert_eq!(watch.failed(), 0);
}
