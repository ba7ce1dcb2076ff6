//! Claims about monitors, and a storm.

use super::*;
use crate::wire::CheckOutcome;
use ServiceState::{Down, Learning, Up};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1000)
}

fn ms(n: u32) -> Rtt {
    Rtt::from_micros(n * 1000)
}

fn tcp(port: u16) -> MonitorSettings {
    MonitorSettings { rise: 2, ..MonitorSettings::new(Check::Tcp, SocketAddr::from(([192, 0, 2, 1], port))) }
}

fn service(index: usize, monitors: Vec<MonitorSettings>) -> ServiceSettings {
    ServiceSettings {
        service: index,
        name: ServiceName::new(&format!("s{index}")).unwrap(),
        monitors,
        threshold: None,
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The machine with the clock and the answers of a checker.
struct Bench {
    machine: Monitors,
    now: Timestamp,
    checks: VecDeque<CheckRequest>,
    verdicts: Vec<(usize, ServiceState)>,
    measured: Vec<(usize, Rtt, Rtt)>,
}

impl Bench {
    fn new(services: Vec<ServiceSettings>) -> Self {
        let mut bench = Bench {
            machine: Monitors::new(7),
            now: at(0),
            checks: VecDeque::new(),
            verdicts: Vec::new(),
            measured: Vec::new(),
        };
        bench.machine.set_bindings(at(0), services);
        bench.collect();
        bench
    }

    fn collect(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Check(request) => self.checks.push_back(request),
                Output::Verdict { service, state, .. } => self.verdicts.push((service, state)),
                Output::Measured { service, response_time, mean, .. } => {
                    self.measured.push((service, response_time, mean));
                }
            }
        }
    }

    /// Lets time pass until the machine asks for the next check.
    fn next_check(&mut self) -> CheckRequest {
        loop {
            if let Some(request) = self.checks.pop_front() {
                return request;
            }
            self.now = self.machine.poll_timeout().expect("something to wait for");
            self.machine.handle_timeout(self.now);
            self.collect();
        }
    }

    fn reply(&mut self, request: &CheckRequest, outcome: CheckOutcome) {
        self.machine.handle_reply(self.now, CheckReply { id: request.id, outcome });
        self.collect();
    }

    fn run(&mut self, results: &str) {
        for result in results.chars() {
            let request = self.next_check();
            self.reply(&request, if result == 'P' { passed(10) } else { failed() });
        }
    }

    fn state(&self, service: usize) -> ServiceState {
        self.machine.view(service).unwrap().state
    }

    fn reason(&self, service: usize) -> String {
        self.machine.view(service).unwrap().reason
    }
}

fn passed(rtt: u32) -> CheckOutcome {
    CheckOutcome::Passed(ms(rtt))
}

fn failed() -> CheckOutcome {
    CheckOutcome::Failed("connection refused".to_owned())
}

#[test]
fn a_service_without_monitors_is_up_from_the_start() {
    let bench = Bench::new(vec![service(4, vec![])]);
    assert_eq!(bench.verdicts, [(4, Up)]);
    assert_eq!(bench.reason(4), "no monitors");
    assert_eq!(bench.machine.poll_timeout(), None);
}

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
    }
}

#[test]
fn it_takes_fall_failures_in_a_row_to_go_down() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("PFF");
    assert_eq!(bench.state(0), Up);
    bench.run("F");
    assert_eq!(bench.state(0), Down);
    assert_eq!(bench.reason(0), "tcp 192.0.2.1:80: connection refused");
}

#[test]
fn a_success_resets_the_count_of_failures() {
    // faults I-56.
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("P");
    bench.run(&"FP".repeat(1000));
    bench.run("FFPFFP");
    assert_eq!(bench.verdicts, [(0, Learning), (0, Up)]);
}

#[test]
fn it_takes_rise_passes_in_a_row_to_come_up() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("FPFPF");
    assert_eq!(bench.state(0), Down);
    bench.run("P");
    assert_eq!(bench.state(0), Down);
    bench.run("P");
    assert_eq!(bench.state(0), Up);
}

#[test]
fn counts_of_zero_mean_one() {
    let mut bench = Bench::new(vec![service(0, vec![MonitorSettings { rise: 0, fall: 0, ..tcp(80) }])]);
    bench.run("PF");
    assert_eq!(bench.state(0), Down);
    bench.run("P");
    assert_eq!(bench.state(0), Up);
}

#[test]
fn a_service_is_up_only_once_all_monitors_pass_and_down_as_soon_as_one_fails() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80), tcp(81)])]);
    let (a, b) = (bench.next_check(), bench.next_check());
    bench.reply(&a, passed(10));
    assert_eq!(bench.state(0), Learning);
    bench.reply(&b, passed(10));
    assert_eq!(bench.state(0), Up);

    let mut bench = Bench::new(vec![service(0, vec![tcp(80), tcp(81)])]);
    let b = bench.checks.pop_back().unwrap();
    bench.reply(&b, failed());
    assert_eq!(bench.state(0), Down);
    let a = bench.next_check();
    bench.reply(&a, passed(10));
    assert_eq!((bench.state(0), bench.reason(0).as_str()), (Down, "tcp 192.0.2.1:81: connection refused"));
}

#[test]
fn the_response_time_is_the_mean_of_the_last_passed_checks() {
    let mut bench = Bench::new(vec![service(3, vec![tcp(80), tcp(81)])]);
    let (a, b) = (bench.next_check(), bench.next_check());
    bench.reply(&a, passed(10));
    bench.reply(&b, passed(25));
    assert_eq!(bench.measured, [(3, ms(10), ms(10)), (3, ms(25), Rtt::from_micros(17_500))]);
    let next = bench.next_check();
    bench.reply(&next, failed());
    let view = bench.machine.view(3).unwrap();
    assert_eq!(view.response_time, Some(Rtt::from_micros(17_500)), "a failure measures nothing");
    assert_eq!(bench.measured.len(), 2);
}

#[test]
fn a_monitor_that_may_not_run_and_never_could_is_left_out() {
    let ping = MonitorSettings { check: Check::Ping.into(), ..tcp(80) };
    let mut bench = Bench::new(vec![service(0, vec![ping.clone(), tcp(80)]), service(1, vec![ping])]);
    for _ in 0..3 {
        let request = bench.next_check();
        let outcome = if *request.check == Check::Ping { CheckOutcome::NotPermitted } else { passed(9) };
        bench.reply(&request, outcome);
    }
    assert_eq!((bench.state(0), bench.reason(0).as_str()), (Up, "all monitors pass"));
    let reason = "no monitor can run: ping 192.0.2.1: not permitted to this process";
    assert_eq!((bench.state(1), bench.reason(1).as_str()), (Up, reason));
    assert_eq!(bench.machine.stats().not_permitted, 2);
}

#[test]
fn a_monitor_that_may_no_longer_run_keeps_its_verdict() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("F");
    for _ in 0..10 {
        let request = bench.next_check();
        bench.reply(&request, CheckOutcome::NotPermitted);
    }
    assert_eq!(bench.verdicts, [(0, Learning), (0, Down)]);
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
fn a_report_counts_once() {
    let mut bench = Bench::new(vec![service(0, vec![MonitorSettings { fall: 2, ..tcp(80) }])]);
    bench.run("P");
    let request = bench.next_check();
    bench.reply(&request, failed());
    bench.reply(&request, failed());
    assert_eq!((bench.state(0), bench.machine.stats().late), (Up, 1));
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
fn a_view_says_since_when_a_service_is_as_it_is() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("PFF");
    assert_eq!(bench.machine.view(0).unwrap().since, at(0));
    bench.run("F");
    let down = bench.now;
    bench.run("F");
    assert!(down > at(15_000) && bench.now > down);
    assert_eq!(bench.machine.view(0).unwrap().since, down);
}

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

#[test]
fn random_reports_never_break_the_machine() {
    for seed in 0..30 {
        let mut chance = Chance::new(seed);
        let services = (0..20).map(|n| service(n, (0..n as u16 % 4).map(tcp).collect())).collect();
        let mut bench = Bench::new(services);
        for _ in 0..2000 {
            match chance.up_to(5) {
                0 => {}
                1 => bench.reply(
                    &CheckRequest {
                        id: ProbeId(chance.up_to(u32::MAX).into()),
                        check: Check::Tcp.into(),
                        target: at_port(0),
                        source: None,
                        timeout: Duration::ZERO,
                    },
                    failed(),
                ),
                n => {
                    if let Some(request) = bench.checks.pop_front() {
                        let outcome = [passed(n), failed(), CheckOutcome::NotPermitted]
                            [chance.up_to(2) as usize]
                            .clone();
                        bench.reply(&request, outcome);
                    }
                }
            }
            if let Some(next) = bench.machine.poll_timeout() {
                // Not always in time, as a busy node is not.
                bench.now = bench.now.max(next) + Duration::from_millis(chance.up_to(300).into());
                bench.machine.handle_timeout(bench.now);
                bench.collect();
                assert!(bench.machine.poll_timeout() > Some(bench.now), "seed {seed}");
            }
            let state_of = |n: usize| bench.state(n);
            assert!((0..20).filter(|n| n % 4 == 0).all(|n| state_of(n) == Up), "seed {seed}");
        }
    }
}

fn at_port(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}
