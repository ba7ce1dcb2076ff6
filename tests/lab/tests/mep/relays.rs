//! What a relay is good for: values that go on changing, a relay that dies, and nodes that are stopped one after the other.

use crate::Test;
use crate::sites::{
    NODES, PATIENCE, SITES, Settings, Web, all_near, config, first, lines, map, ms, pairs, seconds, service,
    settle, start, until, wait_until_meshed, word,
};
use lab::gslb::{Change, Group, Watch, eventually};
use lab::{Lab, Signal};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("what_a_site_measures_and_says_of_its_services_arrives_by_a_relay", relayed_values),
    ("a_relay_that_dies_is_replaced_by_another_and_no_answer_changes", relay_dies),
    ("a_relay_whose_own_link_flaps_moves_an_answer_at_most_once_per_hold_time", relay_flaps),
    ("nodes_stopped_one_after_the_other_say_goodbye_and_move_no_answer_of_the_others", rolling),
];

fn settings() -> Settings {
    Settings::new().mep(
        "keepalive = \"3s\"\ndown_delay = \"5s\"\nmetrics_interval = \"500ms\"\nrtt_interval = \"500ms\"",
    )
}

/// Changes at servers other than this one.
fn elsewhere(watch: &Watch, then: Instant, but: &str) -> Vec<Change> {
    let mut changes = watch.changes_since(then);
    changes.retain(|change| change.server != but && change.asked >= then);
    changes
}

/// Waits until iad is relayed to fra; who does it.
fn wait_for_relay(group: &Group<'_>) -> String {
    eventually("iad is relayed to fra", PATIENCE, || {
        group.node("fra/1").peer("iad/1")["relay"].as_str().map(str::to_owned)
    })
}

fn relayed_values() {
    let lab = map("relayed-values").up().expect("up");
    let _others = [Web::start(&lab, "fra"), Web::start(&lab, "sin")];
    let web = Web::start(&lab, "iad");
    let settings = Settings {
        service: "monitors = [\"port\"]",
        more: "[[monitors]]\nname = \"port\"\nkind = \"tcp\"\ninterval = \"500ms\"\ntimeout = \"400ms\"\nfall = 2",
        ..settings()
    };
    let (group, watch) = start(&lab, &settings);
    lab.cut("fra", "iad");
    let relay = wait_for_relay(&group);
    let at_fra = |ldns: &str, site: &str| watch.last_of(ldns, "fra") == Some(service(&lab, site));

    // What iad measures: the LDNS beside it is far all of a sudden.
    let moved = Instant::now();
    lab.set_link("ldns-us", "iad", ms(80));
    let followed = first(moved, seconds(20), || at_fra("ldns-us", "fra"));
    lab.set_link("ldns-us", "iad", ms(6));
    let back = Instant::now();
    let returned = first(back, seconds(20), || at_fra("ldns-us", "iad"));
    println!(
        "via {relay}: fra follows an RTT of iad's after {followed:.1?} and {returned:.1?}, probed every 2 s"
    );
    assert!(
        followed.is_some_and(|after| after <= seconds(6))
            && returned.is_some_and(|after| after <= seconds(6))
    );

    // What iad says of its service.
    let died = Instant::now();
    drop(web);
    let down = first(died, seconds(20), || at_fra("ldns-us", "fra"));
    let web = Web::start(&lab, "iad");
    let revived = Instant::now();
    let up = first(revived, seconds(20), || at_fra("ldns-us", "iad"));
    println!("via {relay}: fra sees iad's service fail after {down:.1?} and pass after {up:.1?}");
    assert!(down.is_some_and(|after| after <= seconds(4)) && up.is_some_and(|after| after <= seconds(4)));
    let status = group.node("fra/1").peer(&relay);
    println!("via {relay}: {} rows relayed to fra; {}", status["relayed_rows_in"], pairs(&group));
    assert!(status["relayed_rows_in"].as_u64() >= Some(3), "{status}");
    assert_eq!(watch.failed(), 0);
    drop(web);
}

/// A fourth site, which hears everybody.
const FOURTH: &str = "[[sites]]\nname = \"gru\"\n[[nodes]]\nname = \"gru/1\"\nmep = \"198.18.7.1:4353\"\n";

fn with_a_fourth(name: &str) -> Lab {
    let plan = map(name).site("gru").link("gru", "fra", ms(90)).link("gru", "iad", ms(60)).link(
        "gru",
        "sin",
        ms(120),
    );
    plan.up().expect("up")
}

fn start_four<'lab>(lab: &'lab Lab) -> (Group<'lab>, Watch) {
    let settings = Settings { more: FOURTH, ..settings() };
    let ids = ["fra/1", "iad/1", "sin/1", "gru/1"];
    let group = Group::start(lab, "lab", &config(&settings), &ids).expect("four nodes");
    let watch = settle(lab, &group);
    (group, watch)
}

fn relay_dies() {
    let lab = with_a_fourth("relay-dies");
    let (mut group, watch) = start_four(&lab);
    let begun = Instant::now();
    lab.cut("fra", "iad");
    let relay = wait_for_relay(&group);
    group.node_mut(&relay).kill().expect("killed");
    let killed = Instant::now();
    let replaced = first(killed, seconds(20), || {
        group.node("fra/1").peer("iad/1")["relay"].as_str().is_some_and(|other| other != relay)
    });
    let other = word(&group.node("fra/1").peer("iad/1")["relay"]).to_owned();
    println!("kill -9 of the relay {relay}: {other} relays iad to fra after {replaced:.1?}");
    let node = group.node_mut(&relay);
    node.restart().expect("restarted");
    node.wait_until_ready();
    assert!(replaced.is_some_and(|after| after <= seconds(3 + 2)), "{}", pairs(&group));
    until(killed, seconds(20));
    let place = relay.split('/').next().expect("a site");
    let changes = elsewhere(&watch, begun, place);
    println!(
        "kill -9 of the relay {relay}: {} answers changed at the others; {}",
        changes.len(),
        pairs(&group)
    );
    assert!(changes.is_empty(), "{}", lines(&changes));
}

fn relay_flaps() {
    let lab = map("relay-flaps").up().expect("up");
    let (group, watch) = start(&lab, &settings());
    let begun = Instant::now();
    lab.cut("fra", "iad");
    wait_for_relay(&group);
    // Longer than it takes to be down: what fra is told of iad comes and goes.
    for wave in 0..4_u32 {
        lab.cut("iad", "sin");
        until(begun, seconds(12) * (wave + 1) - seconds(2));
        lab.heal("iad", "sin");
        until(begun, seconds(12) * (wave + 1));
    }
    let changes = watch.changes_since(begun);
    let hold = seconds(5);
    let at_fra: Vec<&Change> = changes.iter().filter(|c| c.server == "fra" && c.ldns == "ldns-us").collect();
    let closest = at_fra.windows(2).map(|two| two[1].at - two[0].at).min().unwrap_or(Duration::MAX);
    println!(
        "a relay whose link to iad flaps 4 times: ldns-us at fra gets {} other answers, at least {closest:.1?} apart; {} of {} \
         queries failed",
        at_fra.len(),
        watch.failed(),
        watch.asked()
    );
    assert!(closest >= hold - ms(300), "{}", lines(&changes));
    assert_eq!(watch.failed(), 0);
    lab.heal_all();
    eventually("everything is as before", PATIENCE, || all_near(&lab, &watch).then_some(()));
}

fn rolling() {
    let lab = map("rolling").up().expect("up");
    let (mut group, watch) = start(&lab, &settings());
    for (id, site) in NODES.iter().zip(SITES) {
        let begun = Instant::now();
        let node = group.node_mut(id);
        node.signal(Signal::SIGTERM).expect("asked to stop");
        let status = node.wait().expect("it ends");
        let ended = begun.elapsed();
        let others: Vec<&str> = NODES.iter().filter(|other| *other != id).copied().collect();
        let told = first(begun, seconds(10), || {
            others
                .iter()
                .all(|other| group.node(other).peer(id)["downs_by_reason"]["goodbye"].as_u64() == Some(1))
        });
        let node = group.node_mut(id);
        node.restart().expect("restarted");
        node.wait_until_ready();
        wait_until_meshed(&group);
        let meshed = begun.elapsed();
        eventually("it answers as before", PATIENCE, || all_near(&lab, &watch).then_some(()));
        let changes = elsewhere(&watch, begun, site);
        println!(
            "SIGTERM of {id}: ended after {ended:.2?} ({status}), others heard the goodbye by {told:.2?}; again with all after \
             {meshed:.1?}, as before after {:.1?}; {} answers of the others changed",
            begun.elapsed(),
            changes.len()
        );
        assert!(status.success() && ended <= seconds(2), "{status} after {ended:?}");
        assert!(told.is_some_and(|told| told <= ended + seconds(1)), "{}", pairs(&group));
        assert!(changes.is_empty(), "{}", lines(&changes));
    }
}
