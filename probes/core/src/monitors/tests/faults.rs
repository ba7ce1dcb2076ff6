//! The faults that such products have: I-54, I-56, I-57. Each test prints what it saw.

use super::*;

#[test]
fn the_first_check_runs_at_once_and_its_result_decides() {
    // faults I-54: neither all up nor all down, and not after one interval.
    for (result, state) in [("P", Up), ("F", Down)] {
        let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
        assert_eq!(bench.verdicts, [(0, Learning)]);
        assert_eq!(bench.checks.len(), 1, "at once");
        bench.run(result);
        assert_eq!(bench.verdicts, [(0, Learning), (0, state)]);
        assert_eq!(bench.now, at(0));
        println!("I-54: first result {result}: {state:?} at {:?}, the check asked for at once", bench.now);
    }
}

#[test]
fn what_is_down_at_the_start_is_found_out_within_one_check_however_many_there_are() {
    // faults I-54: 3,000 services, every tenth of them dead; none waits for an interval.
    let mut bench = Bench::new((0..3000).map(|n| service(n, vec![tcp(80)])).collect());
    let mut dead_down = Vec::new();
    for _ in 0..3000 {
        let request = bench.next_check();
        let asked = bench.verdicts.len();
        let outcome = if (request.id.0 / 2).is_multiple_of(10) { failed() } else { passed(1) };
        bench.reply(&request, outcome);
        let (_, state) = bench.verdicts[asked];
        if state == Down {
            dead_down.push(bench.now);
        }
    }
    assert_eq!(dead_down.len(), 300);
    println!("I-54: of 3000 services 300 are dead; the last is down at {:?}", dead_down.last().unwrap());
    assert!(dead_down.last() < Some(&at(3500)), "the interval is 5 s");
}

#[test]
fn a_success_resets_the_count_of_failures() {
    // faults I-56.
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("P");
    bench.run(&"FP".repeat(1000));
    bench.run("FFPFFP");
    assert_eq!(bench.verdicts, [(0, Learning), (0, Up)]);
    let stats = bench.machine.stats();
    println!(
        "I-56: {} passed, {} failed, never three in a row: verdicts {:?}",
        stats.passed, stats.failed, bench.verdicts
    );
    bench.run("FFF");
    assert_eq!(bench.state(0), Down, "three in a row");
}

#[test]
fn a_dead_checker_is_noticed_and_its_last_word_does_not_stand_for_ever() {
    // faults I-57.
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("P");
    for missed in 1..=3 {
        bench.next_check();
        while bench.machine.stats().overdue < missed {
            bench.now = bench.machine.poll_timeout().unwrap();
            bench.machine.handle_timeout(bench.now);
        }
        bench.collect();
        assert_eq!(bench.state(0), if missed < 3 { Up } else { Learning });
        println!("I-57: {missed} checks without a report, at {:?}: {:?}", bench.now, bench.state(0));
    }
    assert_eq!(bench.reason(0), "tcp 192.0.2.1:80: no report from the checker");
    bench.run("P");
    assert_eq!(bench.state(0), Up);
}

#[test]
fn a_report_between_two_silences_starts_their_count_anew() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("P");
    for round in 1..20 {
        bench.next_check();
        while bench.machine.stats().overdue < round {
            bench.now = bench.machine.poll_timeout().unwrap();
            bench.machine.handle_timeout(bench.now);
        }
        bench.collect();
        bench.run("P");
    }
    assert_eq!(bench.verdicts, [(0, Learning), (0, Up)]);
}

#[test]
fn a_checker_that_dies_takes_nobody_else_down() {
    // faults I-57: one of 200 checks is never reported; the others go on as ever.
    let mut bench = Bench::new((0..200).map(|n| service(n, vec![tcp(n as u16)])).collect());
    while bench.now < at(60_000) {
        let request = bench.next_check();
        if request.target.port() != 7 {
            bench.reply(&request, passed(1));
        }
    }
    let states: Vec<usize> = (0..200).filter(|n| bench.state(*n) != Up).collect();
    let stats = bench.machine.stats();
    println!(
        "I-57: in 60 s {} checks, {} of them unreported; not up: {states:?}",
        stats.checks, stats.overdue
    );
    assert_eq!(states, [7]);
    assert_eq!(bench.state(7), Learning);
    assert!(stats.overdue >= 7 && stats.checks > 2_000, "{stats:?}");
}
