//! Several monitors on a service: weights and threshold, which of them measure, what is turned round, what is shown.

use super::*;

/// Monitors of these weights, of which so much must pass.
fn weighted(weights: &[u64], threshold: Option<u32>) -> Bench {
    let monitor = |(n, weight): (usize, &u64)| {
        let weight = Weight::new(*weight).unwrap();
        MonitorSettings { weight, rise: 1, fall: 1, ..tcp(n as u16) }
    };
    let monitors = weights.iter().enumerate().map(monitor).collect();
    Bench::new(vec![ServiceSettings { threshold, ..service(0, monitors) }])
}

/// Answers the first check of each monitor, in order; '-' not at all.
fn answer(bench: &mut Bench, results: &str) -> ServiceState {
    let requests: Vec<CheckRequest> = bench.checks.drain(..).collect();
    for (request, result) in requests.iter().zip(results.chars()) {
        match result {
            'P' => bench.reply(request, passed(10)),
            'F' => bench.reply(request, failed()),
            _ => {}
        }
    }
    bench.state(0)
}

#[test]
fn a_service_is_up_once_the_weights_reach_the_threshold_and_down_once_they_can_not() {
    for (weights, threshold, results, state) in [
        // Without a threshold all must pass.
        (&[1, 1, 1][..], None, "PPP", Up),
        (&[1, 1, 1], None, "PP-", Learning),
        (&[1, 1, 1], None, "--F", Down),
        // One of three.
        (&[1, 1, 1], Some(1), "F-P", Up),
        (&[1, 1, 1], Some(1), "FF-", Learning),
        (&[1, 1, 1], Some(1), "FFF", Down),
        // Two of three.
        (&[1, 1, 1], Some(2), "P-P", Up),
        (&[1, 1, 1], Some(2), "PF-", Learning),
        (&[1, 1, 1], Some(2), "F-F", Down),
        // The heavy one decides.
        (&[5, 1, 1], Some(5), "P--", Up),
        (&[5, 1, 1], Some(5), "F--", Down),
        (&[5, 1, 1], Some(5), "PFF", Up),
        // Exactly the threshold is enough, one less is not.
        (&[3, 2, 2], Some(5), "PPF", Up),
        (&[3, 2, 2], Some(6), "PPF", Down),
    ] {
        let mut bench = weighted(weights, threshold);
        assert_eq!(answer(&mut bench, results), state, "{weights:?} {threshold:?} {results}");
    }
}

#[test]
fn the_reason_says_what_passes_and_what_fails() {
    let reason = |threshold, results: &str| {
        let mut bench = weighted(&[3, 1], threshold);
        answer(&mut bench, results);
        bench.reason(0)
    };
    let refused = "tcp 192.0.2.1:1: connection refused";
    assert_eq!(reason(Some(3), "PF"), format!("monitors of weight 3 pass, 3 is needed; {refused}"));
    assert_eq!(reason(Some(4), "PF"), format!("monitors of weight 3 pass, 4 is needed; {refused}"));
    assert_eq!(reason(None, "PF"), refused);
    assert_eq!(reason(Some(3), "PP"), "all monitors pass");
    assert_eq!(reason(Some(3), "P-"), "enough monitors pass");
    assert_eq!(reason(Some(3), "-F"), "tcp 192.0.2.1:0: not checked yet");
}

#[test]
fn another_threshold_counts_from_the_reload_on() {
    let mut bench = weighted(&[1, 1], Some(1));
    assert_eq!(answer(&mut bench, "PF"), Up);
    let monitors = bench.machine.services[0].monitors.iter().map(|m| m.settings.clone()).collect();
    bench.machine.set_bindings(bench.now, vec![ServiceSettings { threshold: None, ..service(0, monitors) }]);
    bench.collect();
    assert_eq!(bench.state(0), Down);
}

#[test]
fn only_monitors_that_measure_make_the_response_time() {
    let quiet = MonitorSettings { measures: false, ..tcp(81) };
    let mut bench =
        Bench::new(vec![service(0, vec![tcp(80), quiet.clone(), tcp(82)]), service(1, vec![quiet])]);
    for (request, took) in bench.checks.clone().iter().zip([10, 90, 20, 40]) {
        bench.reply(request, passed(took));
    }
    assert_eq!(bench.measured, [(0, ms(10), ms(10)), (0, ms(20), ms(15))]);
    let view = bench.machine.view(0).unwrap();
    assert_eq!(view.response_time, Some(ms(15)));
    assert_eq!(view.monitors[1].response_time, Some(ms(90)), "shown all the same");
    assert_eq!((bench.state(1), bench.machine.view(1).unwrap().response_time), (Up, None));
}

#[test]
fn a_reversed_monitor_passes_while_the_check_fails_and_measures_nothing() {
    let closed = MonitorSettings { reverse: true, rise: 1, fall: 2, ..tcp(99) };
    let mut bench = Bench::new(vec![service(0, vec![closed])]);
    bench.run("F");
    assert_eq!((bench.state(0), bench.measured.len()), (Up, 0));
    assert_eq!(bench.machine.view(0).unwrap().monitors[0].last, "passed, as it should: connection refused");
    bench.run("P");
    assert_eq!(bench.state(0), Up);
    bench.run("P");
    assert_eq!(bench.state(0), Down);
    assert_eq!(bench.reason(0), "tcp 192.0.2.1:99: passed in 10.000ms, and it is reversed");
    assert_eq!(bench.measured, []);
}

#[test]
fn a_monitor_that_is_turned_round_is_another_one() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("P");
    let turned = MonitorSettings { reverse: true, ..tcp(80) };
    bench.machine.set_bindings(bench.now, vec![service(0, vec![turned])]);
    bench.collect();
    assert_eq!(bench.state(0), Learning);
}

#[test]
fn a_view_has_the_last_results_and_how_many_say_the_same() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    bench.run("PFFPPPPFFFFF");
    let view = bench.machine.view(0).unwrap().monitors.remove(0);
    assert_eq!((view.passing, view.in_a_row), (Some(false), 5));
    let results: String =
        view.history.iter().map(|r| if r.seen.passes() == Some(true) { 'P' } else { 'F' }).collect();
    assert_eq!(results, "FPPPPFFFFF", "the last ten");
    let third = view.history.iter().nth_back(2).unwrap().at;
    assert_eq!(view.since, third, "down since the third failure in a row");
    assert_eq!(view.last, "failed: connection refused");
    assert_eq!(view.response_time, Some(ms(10)));
}

#[test]
fn what_a_command_says_is_shown() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80)])]);
    let request = bench.next_check();
    let words = "DISK OK - 5% used".to_owned();
    bench.reply(&request, CheckOutcome::Reported { response_time: ms(7), words, load: None });
    assert_eq!(bench.machine.view(0).unwrap().monitors[0].last, "passed in 7.000ms: DISK OK - 5% used");
    assert_eq!(bench.measured, [(0, ms(7), ms(7))]);
}

#[test]
fn the_load_is_the_mean_of_what_passing_monitors_tell() {
    let mut bench = Bench::new(vec![service(0, vec![tcp(80), tcp(81), tcp(82)])]);
    // One round of checks: what each port tells, `Err` failing.
    let round = |bench: &mut Bench, tells: [Result<Option<u64>, ()>; 3]| {
        let mut asked = [false; 3];
        while asked != [true; 3] {
            let request = bench.next_check();
            let nth = usize::from(request.target.port() - 80);
            asked[nth] = true;
            let outcome = match tells[nth] {
                Ok(load) => CheckOutcome::Reported { response_time: ms(7), words: "OK".to_owned(), load },
                Err(()) => CheckOutcome::Failed("refused".to_owned()),
            };
            bench.reply(&request, outcome);
        }
        std::mem::take(&mut bench.loads).pop()
    };
    let (some, none) = (|load| Ok(Some(load)), Ok(None));
    assert_eq!(round(&mut bench, [some(1_500), some(500), none]), Some((0, Some(1_000))), "two tell one");
    assert_eq!(bench.machine.view(0).unwrap().load, Some(1_000));
    assert_eq!(round(&mut bench, [some(1_500), some(500), none]), None, "no news");
    assert_eq!(round(&mut bench, [Err(()), some(500), none]), None, "it still counts as passing");
    assert_eq!(round(&mut bench, [Err(()), some(500), none]), None);
    assert_eq!(
        round(&mut bench, [Err(()), some(500), none]),
        Some((0, Some(500))),
        "down, and out of the mean"
    );
    assert_eq!(round(&mut bench, [Err(()), none, none]), Some((0, None)), "none tells one any more");
    let most = [some(u64::MAX), some(u64::MAX), some(u64::MAX)];
    assert_eq!(round(&mut bench, most), Some((0, Some(u64::MAX))), "no sum overflows");
}
