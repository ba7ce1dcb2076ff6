//! Answers go on when everything they come from has stopped (bar R12, faults I-46).

use crate::Test;
use crate::sites::{LDNS, SITES, Settings, all_near, isolate, map, ms, seconds, start, until};
use lab::Kind;
use lab::gslb::Reply;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] =
    &[("with_all_exchange_and_all_probes_blocked_answers_go_on_and_age_out_to_the_backup_method", blocked)];

/// RTTs that were not confirmed for so long are unknown.
const MAX_AGE: Duration = Duration::from_secs(12);

fn blocked() {
    let lab = map("blocked").up().expect("up");
    // Sites stay up, so that it is seen how they are chosen.
    let (group, watch) = start(
        &lab,
        &Settings::new()
            .mep("keepalive = \"3s\"\nmetrics_interval = \"500ms\"\nmax_age = \"12s\"\ndown_delay = \"10m\""),
    );
    let begun = Instant::now();
    SITES.iter().for_each(|site| isolate(&lab, site));
    for ldns in LDNS {
        lab.drop_kinds(ldns, &[Kind::Icmp, Kind::Udp, Kind::Tcp]);
    }
    // One lost probe changes nothing, nor two.
    until(begun, seconds(2));
    assert!(all_near(&lab, &watch), "{:?}", watch.last());
    let mut left = None;
    let mut seen: Vec<BTreeSet<Reply>> = vec![BTreeSet::new(); SITES.len()];
    while begun.elapsed() < MAX_AGE + seconds(20) {
        if left.is_none() && !all_near(&lab, &watch) {
            left = Some(begun.elapsed());
        }
        if begun.elapsed() > MAX_AGE + seconds(5) {
            for (_, server, reply) in watch.last() {
                let place = SITES.iter().position(|site| *site == server).expect("a site");
                seen[place].insert(reply);
            }
        }
        thread::sleep(ms(50));
    }
    let each: Vec<_> = seen.iter().map(BTreeSet::len).collect();
    println!(
        "R12: all blocked for {:.0?}: first answer that was not the nearest site after {left:.1?}; in the end each node gives \
         {each:?} sites in turn; {} queries, {} failed",
        begun.elapsed(),
        watch.asked(),
        watch.failed()
    );
    assert_eq!(watch.failed(), 0, "{}", group.node("fra/1").log_tail());
    assert_eq!(each, [3, 3, 3], "round robin among all: {seen:?}");
}
