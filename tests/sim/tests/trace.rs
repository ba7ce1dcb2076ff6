//! Replays of small made-up traces, whose figures can be worked out by hand.

use sim::trace::{Trace, group, replay};

/// One LDNS and two sites: slices of 15 s, with the RTTs of both at each.
fn trace(rtts: &[(&str, &str)]) -> Trace {
    let mut csv = String::from("time_s,ldns,site,rtt_ms\n");
    for (n, (a, b)) in rtts.iter().enumerate() {
        csv += &format!("{0},192.0.2.1,a,{a}\n{0},192.0.2.1,b,{b}\n", n * 15);
    }
    match Trace::parse(&csv) {
        Ok(trace) => trace,
        Err(error) => unreachable!("{error}"),
    }
}

#[test]
fn on_steady_ways_nothing_is_lost_and_nothing_is_told() {
    let trace = trace(&[("20", "50"); 20]);
    let figures = replay(&trace, group(&trace), 1).unwrap();
    // 18 slices after the warm-up, three queries in each.
    assert_eq!((figures.answers, figures.left_out), (54, 0));
    assert_eq!(
        (figures.mean_regret, figures.changes, figures.advertised, figures.rows),
        (0.0, 0.0, 0.0, 0.0)
    );
    assert!((figures.oracle - 20.0).abs() < 1e-9 && (figures.round_robin_regret - 15.0).abs() < 1e-9);
    assert_eq!(figures.within_tolerance, 100.0);
}

#[test]
fn a_change_costs_the_answers_until_the_next_round() {
    let mut rtts = vec![("20", "50"); 10];
    rtts.extend([("90", "50"); 10]);
    let trace = trace(&rtts);
    let figures = replay(&trace, group(&trace), 1).unwrap();
    // One query at the moment of the change, and perhaps the next, before the values have arrived everywhere.
    let lost = figures.mean_regret * figures.answers as f64;
    assert!((lost - 40.0).abs() < 1e-6 || (lost - 80.0).abs() < 1e-6, "{lost}");
    let hours = 53.0 * 5.0 / 3600.0;
    assert!((figures.changes * hours - 1.0).abs() < 1e-6, "{figures:?}");
    assert!((figures.advertised * hours - 1.0).abs() < 1e-6, "{figures:?}");
}

#[test]
fn an_answer_whose_site_was_silent_is_left_out() {
    let mut rtts = vec![("20", "50"); 10];
    rtts.extend([("", "50"); 1]);
    rtts.extend([("20", "50"); 4]);
    let trace = trace(&rtts);
    let figures = replay(&trace, group(&trace), 1).unwrap();
    assert_eq!((figures.left_out, figures.mean_regret), (3, 0.0));
}
