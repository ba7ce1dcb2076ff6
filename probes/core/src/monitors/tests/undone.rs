//! Checks that can't be done, or are not reported: never a reason for a service to be up, or to stay so.

use super::*;

fn ping() -> MonitorSettings {
    MonitorSettings { check: Check::Ping.into(), ..tcp(80) }
}

#[test]
fn a_service_whose_checks_can_not_be_done_is_never_up() {
    for results in ["U", "UUUU", "N", "NNNN", "-", "----", "U-N"] {
        let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
        bench.run(results);
        assert!(
            bench.verdicts.iter().all(|(_, state)| *state == Learning),
            "{results}: {:?}",
            bench.verdicts
        );
        bench.run("P");
        assert_eq!(bench.state(0), Up, "{results}");
    }
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("U");
    assert_eq!(bench.reason(0), "tcp 192.0.2.1:80: no such command");
}

#[test]
fn a_service_is_up_no_longer_once_fall_checks_in_a_row_could_not_be_done() {
    // Of either kind, in any mixture.
    for results in ["UU", "--", "U-", "N-", "UN"] {
        let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
        bench.run("P");
        bench.run(results);
        assert_eq!(bench.state(0), Up, "{results}: two of three");
        bench.run("U");
        assert_eq!(
            (bench.state(0), bench.reason(0).as_str()),
            (Learning, "tcp 192.0.2.1:80: no such command")
        );
        println!("I-57: up, then {results}U: {:?} at {:?}, {}", bench.state(0), bench.now, bench.reason(0));
    }
}

#[test]
fn one_result_among_them_starts_their_count_anew() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("P");
    bench.run(&"UUP--FU-P".repeat(20));
    assert_eq!(bench.verdicts, [(0, Learning), (0, Up)]);
}

#[test]
fn a_service_that_was_found_down_is_not_the_better_for_checks_that_can_not_be_done() {
    for results in ["UUUUUU", "------"] {
        let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
        bench.run("F");
        bench.run(results);
        assert_eq!(bench.verdicts, [(0, Learning), (0, Down)], "{results}");
    }
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("FU");
    let refused = "tcp 192.0.2.1:80: connection refused";
    assert_eq!(bench.reason(0), format!("{refused}; the last check: no such command"));
    bench.run("U");
    assert_eq!(bench.reason(0), format!("{refused}; the last 2 checks: no such command"));
    bench.run("F");
    assert_eq!(bench.reason(0), refused);
}

#[test]
fn another_reason_for_knowing_nothing_is_told() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("UU-U");
    // At the start, that it can't be done, that nobody reported, and again that it can't be done.
    assert_eq!(bench.verdicts, [(0, Learning); 4]);
    assert_eq!(bench.machine.view(0).unwrap().since, at(0));
}

#[test]
fn a_ping_that_this_process_may_not_send_is_left_out_beside_another_monitor_and_alone_is_no_reason_to_be_up()
{
    let mut bench = Bench::new(vec![service(0, vec![ping(), tcp(80)]), service(1, vec![ping()])]);
    for _ in 0..3 {
        let request = bench.next_check();
        let outcome = if *request.check == Check::Ping { CheckOutcome::NotPermitted } else { passed(9) };
        bench.reply(&request, outcome);
    }
    assert_eq!((bench.state(0), bench.reason(0).as_str()), (Up, "all monitors pass"));
    let reason = "no monitor can run: ping 192.0.2.1: not permitted to this process";
    assert_eq!((bench.state(1), bench.reason(1).as_str()), (Learning, reason));
    assert_eq!(bench.machine.stats().not_permitted, 2);
}

#[test]
fn a_ping_that_may_no_longer_be_sent_says_nothing_after_fall_of_them() {
    let mut bench = Bench::new(vec![service(0, vec![ping()])]);
    bench.run("PNN");
    assert_eq!(bench.state(0), Up);
    bench.run("N");
    assert_eq!(bench.state(0), Learning);
}

#[test]
fn pings_that_are_left_out_lower_the_threshold_to_what_is_left() {
    let weigh = |monitor: MonitorSettings, weight| MonitorSettings {
        weight: Weight::new(weight).unwrap(),
        rise: 1,
        fall: 1,
        ..monitor
    };
    for (outcome, state) in [(CheckOutcome::NotPermitted, Up), (unable(), Learning), (failed(), Down)] {
        let monitors = vec![weigh(ping(), 3), weigh(tcp(80), 1)];
        let mut bench = Bench::new(vec![ServiceSettings { threshold: Some(3), ..service(0, monitors) }]);
        let (heavy, light) = (bench.next_check(), bench.next_check());
        bench.reply(&heavy, outcome.clone());
        bench.reply(&light, passed(1));
        assert_eq!(bench.state(0), state, "{outcome:?}");
    }
}

#[test]
fn only_what_passes_is_in_the_mean_of_response_times() {
    // Behaviour 5: one of two is enough, and the quick one stops passing.
    let monitors = || vec![MonitorSettings { fall: 2, ..tcp(80) }, MonitorSettings { fall: 2, ..tcp(81) }];
    let settings = |index| ServiceSettings { threshold: Some(1), ..service(index, monitors()) };
    for outcome in [failed(), unable()] {
        let mut bench = Bench::new(vec![settings(4)]);
        let answer = |bench: &mut Bench, quick: CheckOutcome, slow: u32| {
            for _ in 0..2 {
                let request = bench.next_check();
                let quick = if request.target.port() == 80 { quick.clone() } else { passed(slow) };
                bench.reply(&request, quick);
            }
        };
        answer(&mut bench, passed(10), 30);
        assert_eq!(bench.machine.view(4).unwrap().response_time, Some(ms(20)));
        answer(&mut bench, outcome.clone(), 30);
        assert_eq!(bench.machine.view(4).unwrap().response_time, Some(ms(20)), "one is not enough");
        answer(&mut bench, outcome.clone(), 30);
        let view = bench.machine.view(4).unwrap();
        assert_eq!((view.state, view.response_time), (Up, Some(ms(30))), "{outcome:?}");
        assert_eq!(bench.remeaned, [(4, Some(ms(30)))]);
    }
}

#[test]
fn a_service_that_is_down_has_no_response_time_until_it_is_up_again() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("PFFF");
    assert_eq!((bench.state(0), bench.machine.view(0).unwrap().response_time), (Down, None));
    assert_eq!(bench.remeaned, [(0, None)]);
    // It takes two to rise: the first of them is of a service that is still down.
    bench.run("P");
    assert_eq!((bench.measured.len(), bench.machine.view(0).unwrap().response_time), (1, None));
    bench.run("P");
    assert_eq!((bench.measured.len(), bench.machine.view(0).unwrap().response_time), (2, Some(ms(10))));
    assert_eq!(bench.remeaned.len(), 1);
}
