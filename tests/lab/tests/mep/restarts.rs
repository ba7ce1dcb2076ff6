//! A site that dies and comes back (bar R10).

use crate::Test;
use crate::sites::{
    LDNS, NODES, SITES, Settings, Web, all_near, config, first, lines, map, ms, seconds, service, settle,
    until,
};
use lab::gslb::Group;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] =
    &[("a_dead_site_is_left_in_the_bound_and_not_before_and_comes_back_only_when_its_health_passes", death)];

const KEEPALIVE: Duration = Duration::from_secs(3);
const DOWN_DELAY: Duration = Duration::from_secs(5);

fn death() {
    let lab = map("death").up().expect("up");
    let mut webs: Vec<Web> = SITES.iter().map(|site| Web::start(&lab, site)).collect();
    let settings = Settings {
        service: "monitors = [\"port\"]",
        more: "[[monitors]]\nname = \"port\"\nkind = \"tcp\"\ninterval = \"1s\"\ntimeout = \"500ms\"\nfall = 2",
        ..Settings::new().mep("keepalive = \"3s\"\ndown_delay = \"5s\"\nmetrics_interval = \"500ms\"")
    };
    let mut group = Group::start(&lab, "lab", &config(&settings), &NODES).expect("three nodes");
    let watch = settle(&lab, &group);

    // The whole site: node and service.
    let killed = Instant::now();
    group.node_mut("sin/1").kill().expect("killed");
    drop(webs.pop());
    until(killed, KEEPALIVE + DOWN_DELAY + seconds(4));
    let left: Vec<_> =
        watch.changes_since(killed).into_iter().filter(|change| change.server != "sin").collect();
    let times: Vec<_> = left.iter().map(|change| change.at - killed).collect();
    println!(
        "R10: kill -9 of sin/1 with keepalive {KEEPALIVE:?} and delay {DOWN_DELAY:?}: left after {times:.2?}"
    );
    assert_eq!(left.len(), 2, "ldns-as at fra and iad:{}", lines(&left));
    for after in times {
        let bound = KEEPALIVE + DOWN_DELAY;
        assert!(after >= bound - KEEPALIVE / 2 && after <= bound + seconds(2), "{after:?}");
    }

    // The node is back; its service is not.
    let back = Instant::now();
    let node = group.node_mut("sin/1");
    node.restart().expect("restarted");
    node.wait_until_ready();
    let up = first(back, seconds(20), || {
        ["fra/1", "iad/1"].iter().all(|node| group.node(node).peer("sin/1")["state"] == "up")
    });
    until(back, up.expect("a session") + seconds(6));
    for (ldns, site, reply) in watch.last() {
        assert_ne!(reply, service(&lab, "sin"), "{ldns} at {site}: the service is down");
    }
    let web = Web::start(&lab, "sin");
    let served = Instant::now();
    let near = first(served, seconds(20), || all_near(&lab, &watch));
    println!("R10: sin/1 back: sessions after {up:.2?}, traffic {near:.2?} after its service passes again");
    assert!(near.is_some_and(|near| near >= ms(1) && near <= seconds(5) + DOWN_DELAY), "{:?}", watch.last());
    drop(web);
    let [eu, us] = [LDNS[0], LDNS[1]];
    let others: Vec<_> = watch
        .changes_since(killed)
        .into_iter()
        .filter(|c| (c.ldns == eu || c.ldns == us) && c.server != "sin")
        .collect();
    assert!(others.is_empty(), "{}", lines(&others));
}
