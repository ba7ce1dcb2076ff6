//! What a reload keeps.

use super::*;

#[test]
fn a_reload_keeps_what_stays_and_checks_at_once_what_is_new() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)]), service(1, vec![tcp(90)])]);
    bench.run("PP");
    let pending = bench.next_check();
    bench.verdicts.clear();
    // Service 0 goes, service 1 becomes the first, and there is a new one.
    let moved = ServiceSettings { service: 0, ..service(1, vec![tcp(90)]) };
    let since = bench.machine.view(1).unwrap().since;
    bench.machine.set_bindings(bench.now, vec![moved, service(2, vec![tcp(99)])]);
    bench.collect();
    assert_eq!(bench.verdicts, [(0, Up), (2, Learning)]);
    let view = bench.machine.view(0).unwrap();
    assert_eq!((view.response_time, view.since), (Some(ms(10)), since));
    assert_eq!(bench.machine.view(1), None);
    let ports: Vec<u16> = bench.checks.iter().map(|c| c.target.port()).collect();
    assert_eq!(ports, [99]);
    // The check in flight belongs to whom it was for: service 1's is still awaited, service 0's is nobody's.
    bench.reply(&pending, passed(30));
    let late = u64::from(pending.target.port() == 80);
    assert_eq!(bench.machine.stats().late, late);
}

#[test]
fn a_reload_with_another_pace_keeps_the_verdict_and_does_not_hurry_the_next_check() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("F");
    let slow = MonitorSettings { interval: secs(60), ..tcp(80) };
    bench.machine.set_bindings(at(1000), vec![service(0, vec![slow])]);
    bench.collect();
    assert_eq!(bench.verdicts, [(0, Learning), (0, Down), (0, Down)]);
    bench.next_check();
    assert!(bench.now >= at(60_000) && bench.now <= at(63_000), "{:?}", bench.now);
}

#[test]
fn another_target_is_another_monitor() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("F");
    bench.machine.set_bindings(at(10), vec![service(0, vec![tcp(81)])]);
    bench.collect();
    assert_eq!(bench.state(0), Learning);
    assert_eq!(bench.checks.len(), 1);
}
