//! The node does the same work whatever happens around it (bar R19).

use crate::Test;
use crate::sites::{LDNS, NAME, SITES, Settings, isolate, map, ms, start};
use lab::{Flood, Lab};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

pub(crate) const TESTS: &[Test] =
    &[("neither_a_flood_nor_a_failed_site_makes_a_burst_of_exchange_or_probes", constant_work)];

/// Counted over this time: several rounds of everything.
const WINDOW: Duration = Duration::from_secs(12);

/// Packets of the exchange between all sites, and probes to all LDNS.
#[derive(Clone, Copy, Debug)]
struct Work {
    exchange: u64,
    octets: u64,
    probes: u64,
}

fn work(lab: &Lab, within: Duration) -> Work {
    let count = || {
        let mut work = Work { exchange: 0, octets: 0, probes: 0 };
        for site in SITES {
            for other in SITES.iter().filter(|other| **other != site) {
                let seen = lab.stats(site, other);
                (work.exchange, work.octets) = (work.exchange + seen.packets, work.octets + seen.octets);
            }
            for ldns in LDNS {
                let seen = lab.stats(site, ldns);
                work.probes += seen.pings + seen.requests + seen.connects;
            }
        }
        work
    };
    let before = count();
    thread::sleep(within);
    let after = count();
    Work {
        exchange: after.exchange - before.exchange,
        octets: after.octets - before.octets,
        probes: after.probes - before.probes,
    }
}

fn constant_work() {
    let lab = map("constant-work").host("mallory").link("mallory", "fra", ms(2)).up().expect("up");
    let settings = Settings::new()
        .mep("keepalive = \"3s\"\ndown_delay = \"2s\"\nmetrics_interval = \"500ms\"\nrtt_interval = \"1s\"");
    let (group, watch) = start(&lab, &settings);
    let at_rest = work(&lab, WINDOW);

    // The three LDNS ask 600 times a second in place of 30.
    let flood = Flood::new(lab.prefix_v4("ldns-eu"), SocketAddr::new(lab.v4("fra").into(), 53), NAME);
    let flood = flood.first_sources(2).rate(600).count(100_000).at_most(WINDOW);
    let flooded = thread::scope(|scope| {
        let sent = scope.spawn(|| lab.flood("mallory", &flood).expect("a flood"));
        let flooded = work(&lab, WINDOW);
        (flooded, sent.join().expect("a flood").sent)
    });

    isolate(&lab, "sin");
    let failing = work(&lab, WINDOW);
    let failed = work(&lab, WINDOW);
    println!(
        "R19: in {WINDOW:?}: at rest {at_rest:?}; under {} queries {:?}; while a site fails {failing:?}, when it has failed \
         {failed:?}; {} queries failed",
        flooded.1,
        flooded.0,
        watch.failed()
    );
    // .0 beside .1 is one LDNS more.
    let allowed_probes = at_rest.probes * 2;
    for (what, seen) in [("flood", flooded.0), ("failing", failing), ("failed", failed)] {
        assert!(seen.exchange <= at_rest.exchange * 2, "{what}: {seen:?} against {at_rest:?}");
        assert!(seen.octets <= at_rest.octets * 2, "{what}: {seen:?} against {at_rest:?}");
        assert!(seen.probes <= allowed_probes, "{what}: {seen:?} against {at_rest:?}");
    }
    let ceiling = 500.0 * 3.0 * WINDOW.as_secs_f64();
    assert!((at_rest.probes as f64) < ceiling);
    assert_eq!(group.nodes().len(), SITES.len());
}
