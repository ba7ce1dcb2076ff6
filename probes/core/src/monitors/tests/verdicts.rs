//! From results to verdicts.

use super::*;

#[test]
fn a_service_without_monitors_is_up_from_the_start() {
    let bench = Bench::new(vec![service(4, vec![])]);
    assert_eq!(bench.verdicts, [(4, Up)]);
    assert_eq!(bench.reason(4), "no monitors");
    assert_eq!(bench.machine.poll_timeout(), None);
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
fn a_report_counts_once() {
    let mut bench = Bench::new(vec![service(0, vec![MonitorSettings { fall: 2, ..tcp(80) }])]);
    bench.run("P");
    let request = bench.next_check();
    bench.reply(&request, failed());
    bench.reply(&request, failed());
    assert_eq!((bench.state(0), bench.machine.stats().late), (Up, 1));
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
