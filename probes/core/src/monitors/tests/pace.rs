//! When checks start: an interval apart, spread where they are many, never made up for.

use super::*;

#[test]
fn a_check_that_nobody_reported_is_given_up_half_a_second_after_its_timeout() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    let request = bench.next_check();
    assert_eq!(bench.machine.poll_timeout(), Some(at(2500)));
    bench.machine.handle_timeout(at(2499));
    assert_eq!(bench.machine.stats().overdue, 0);
    bench.machine.handle_timeout(at(2500));
    assert_eq!(bench.machine.stats().overdue, 1);
    bench.now = at(2501);
    bench.reply(&request, failed());
    assert_eq!((bench.machine.stats().late, bench.state(0)), (1, Learning));
}

#[test]
fn checks_start_an_interval_apart_or_a_little_more() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    let mut started = Vec::new();
    for _ in 0..200 {
        let request = bench.next_check();
        started.push(bench.now);
        bench.reply(&request, passed(1));
    }
    let gaps: Vec<Duration> = started.windows(2).map(|w| w[1].since(w[0])).collect();
    assert!(gaps.iter().all(|g| (5000..=5250).contains(&g.as_millis())), "{gaps:?}");
    assert!(gaps.iter().any(|g| g.as_millis() > 5100));
}

#[test]
fn thousands_of_first_checks_are_spread_over_seconds_and_the_first_start_at_once() {
    let services = (0..3000).map(|n| service(n, vec![tcp(80)])).collect();
    let mut bench = Bench::new(services);
    assert_eq!(bench.checks.len(), 50);
    let mut started = Vec::new();
    while started.len() < 3000 {
        let request = bench.next_check();
        started.push(bench.now);
        bench.reply(&request, passed(1));
    }
    assert!(started.last() < Some(&at(3500)), "{:?}", started.last());
    for start in &started {
        let within = started.iter().filter(|t| *t >= start && t.since(*start) < Duration::from_secs(1));
        assert!(within.count() <= 1200);
    }
}

#[test]
fn however_many_monitors_there_are_the_budget_does_not_stretch_their_interval() {
    let fast = MonitorSettings { interval: secs(1), timeout: Duration::from_millis(500), ..tcp(80) };
    let mut bench = Bench::new((0..2000).map(|n| service(n, vec![fast.clone()])).collect());
    while bench.now < at(5000) {
        let request = bench.next_check();
        bench.reply(&request, passed(1));
    }
    // 2,000 a second, less the jitter of a fortieth on average and the start.
    assert!(bench.machine.stats().checks > 8_500, "{}", bench.machine.stats().checks);
}

#[test]
fn after_a_sleep_each_monitor_checks_once_and_not_all_in_the_same_moment() {
    let services = (0..500).map(|n| service(n, vec![tcp(80)])).collect();
    let mut bench = Bench::new(services);
    for _ in 0..500 {
        let request = bench.next_check();
        bench.reply(&request, passed(1));
    }
    let woken = at(3_600_000);
    bench.machine.handle_timeout(woken);
    bench.collect();
    assert_eq!(bench.checks.len(), 50);
    bench.now = woken;
    for _ in 0..500 {
        let request = bench.next_check();
        bench.reply(&request, passed(1));
    }
    assert!(bench.now < woken + Duration::from_secs(1));
    // Each keeps its beat, and half an interval between two checks.
    bench.next_check();
    assert!(bench.now >= woken + Duration::from_millis(2_500));
}

/// How many checks start in each tenth of a second of this time.
fn tenths(bench: &mut Bench, from: u64, to: u64) -> Vec<u32> {
    let mut counts = vec![0; (to - from) as usize / 100];
    while bench.now < at(to) {
        let request = bench.next_check();
        if bench.now >= at(from)
            && let Some(count) = counts.get_mut((bench.now.since(at(from)).as_millis() / 100) as usize)
        {
            *count += 1;
        }
        bench.reply(&request, passed(1));
    }
    counts
}

/// A tenth of a second has 100 checks on average, and 10 more or less by chance; half a hundred is a comb.
fn assert_smooth(what: &str, counts: &[u32]) {
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    println!("{what}: {least} to {most} checks in each tenth of a second, 100 on average");
    assert!(*least > 50 && *most < 150, "{what}: {counts:?}");
}

#[test]
fn five_thousand_monitors_make_no_comb_neither_after_the_start_nor_after_a_sleep() {
    let mut bench = Bench::new((0..5000).map(|n| service(n, vec![tcp(80)])).collect());
    assert_smooth("10 s to 30 s after the start", &tenths(&mut bench, 10_000, 30_000));
    // The machine slept for ten minutes: everything is due at once.
    bench.now += secs(600);
    bench.machine.handle_timeout(bench.now);
    bench.collect();
    let woken = bench.now.since(at(0)).as_millis() as u64;
    assert_smooth("10 s to 30 s after a sleep", &tenths(&mut bench, woken + 10_000, woken + 30_000));
    assert_smooth("after ten minutes more", &tenths(&mut bench, woken + 630_000, woken + 650_000));
}

#[test]
fn no_check_follows_the_one_before_within_half_an_interval() {
    let mut bench = Bench::new((0..500).map(|n| service(n, vec![tcp(n as u16)])).collect());
    let mut last: BTreeMap<u16, Timestamp> = BTreeMap::new();
    let mut gaps = Vec::new();
    while bench.now < at(60_000) {
        let request = bench.next_check();
        if let Some(before) = last.insert(request.target.port(), bench.now) {
            gaps.push(bench.now.since(before));
        }
        bench.reply(&request, passed(1));
    }
    let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
    println!("{} gaps of {least:?} to {most:?}", gaps.len());
    assert!(*least >= Duration::from_millis(2_500) && *most <= Duration::from_millis(7_800));
}

#[test]
fn a_late_start_does_not_shift_the_beat() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    let first = bench.next_check();
    bench.reply(&first, passed(1));
    // 2 s late, as on a machine that hung.
    bench.now = bench.machine.poll_timeout().unwrap() + secs(2);
    let due = bench.now;
    bench.machine.handle_timeout(bench.now);
    bench.collect();
    let second = bench.next_check();
    bench.reply(&second, passed(1));
    bench.next_check();
    let gap = bench.now.since(due).as_millis();
    assert!((3_000..=3_250).contains(&gap), "{gap} ms");
}

#[test]
fn a_service_that_is_down_is_checked_at_its_own_pace_until_it_shows_life() {
    let slow = MonitorSettings { down_time: Some(secs(30)), ..tcp(80) };
    let mut bench = Bench::new(vec![service(0, vec![slow])]);
    let gap = |bench: &mut Bench, result: &str| {
        let before = bench.now;
        bench.run(result);
        bench.checks.clear();
        bench.now.since(before).as_millis() / 1000
    };
    // The first at once and up; then two failures that are not enough, and the third.
    assert_eq!(
        [gap(&mut bench, "P"), gap(&mut bench, "F"), gap(&mut bench, "F"), gap(&mut bench, "F")],
        [0, 5, 5, 5]
    );
    assert_eq!(bench.state(0), Down);
    // A first pass of the two that it takes: from then on the usual pace, unless it fails again.
    assert_eq!(
        [gap(&mut bench, "F"), gap(&mut bench, "P"), gap(&mut bench, "F"), gap(&mut bench, "P")],
        [30, 30, 5, 30]
    );
    assert_eq!([gap(&mut bench, "P"), gap(&mut bench, "P")], [5, 5]);
    assert_eq!(bench.state(0), Up);
}
