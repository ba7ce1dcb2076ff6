//! The machine, with answers made by hand.

use super::*;
use gslb_types::{Rtt, SourceItem, SourceKind, SourcePlace};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1000)
}

fn settings() -> SourceSettings {
    let item = |server: &str| SourceItem::Haproxy { proxy: "web".to_owned(), server: server.to_owned() };
    let fetch = Fetch {
        kind: SourceKind::Haproxy,
        place: SourcePlace::Socket("/run/haproxy.sock".into()),
        items: vec![item("s1"), item("s2")],
    };
    SourceSettings {
        name: "lb1".to_owned(),
        fetch: Arc::new(fetch),
        services: vec![3, 5],
        interval: Duration::from_secs(1),
        timeout: Duration::from_millis(500),
        misses: 3,
    }
}

fn outputs(machine: &mut Sources) -> Vec<Output> {
    std::iter::from_fn(|| machine.poll_output()).collect()
}

/// The look that it asks for next, and when.
fn look(machine: &mut Sources) -> (Timestamp, ProbeId) {
    let mut when = Timestamp::ZERO;
    for _ in 0..4 {
        for output in outputs(machine) {
            if let Output::Fetch(request) = output {
                return (when, request.id);
            }
        }
        when = machine.poll_timeout().unwrap();
        machine.handle_timeout(when);
    }
    panic!("it asks for nothing");
}

fn answer(machine: &mut Sources, readings: Vec<Result<Reading, String>>) -> Timestamp {
    let (when, id) = look(machine);
    let now = when + Duration::from_millis(10);
    machine.handle_reply(now, FetchReply { id, outcome: Ok(readings) });
    now
}

fn fail(machine: &mut Sources) {
    let (when, id) = look(machine);
    machine.handle_reply(
        when + Duration::from_millis(10),
        FetchReply { id, outcome: Err("refused".to_owned()) },
    );
}

fn up(active: u64, bin: u64) -> Result<Reading, String> {
    Ok(Reading {
        health: Health::Up,
        words: "UP".to_owned(),
        active: Some(active),
        bytes: Some(Counts::from([("bin".to_owned(), bin)])),
        timing: Some(Timed::Mean(Rtt::from_micros(7000))),
        ..Reading::default()
    })
}

#[test]
fn the_first_look_is_at_once_and_the_next_an_interval_later() {
    let mut machine = Sources::new(at(0), vec![settings()], 1);
    let Some(Output::Fetch(request)) = machine.poll_output() else { panic!() };
    assert_eq!((request.timeout, request.fetch.items.len()), (Duration::from_millis(500), 2));
    assert_eq!(machine.feed(3).unwrap().hearing, Hearing::Unheard);
    assert_eq!(machine.feed(4), None);
    machine.handle_timeout(at(1));
    assert_eq!(machine.poll_output(), None, "one look at a time");
    machine.handle_reply(at(20), FetchReply { id: request.id, outcome: Ok(vec![up(1, 10), up(2, 20)]) });
    let turned = Output::Turned { source: "lb1".to_owned(), error: None };
    assert_eq!(outputs(&mut machine), [turned, Output::Told { service: 3 }, Output::Told { service: 5 }]);
    let (when, _) = look(&mut machine);
    assert!(when >= at(1000) && when <= at(1050), "{when:?}");
}

#[test]
fn what_was_heard_ages_and_is_forgotten_at_the_third_miss() {
    let mut machine = Sources::new(at(0), vec![settings()], 1);
    answer(&mut machine, vec![up(4, 100), up(2, 20)]);
    let heard = answer(&mut machine, vec![up(5, 150), up(2, 20)]);
    let known = machine.feed(3).unwrap();
    assert_eq!((known.active, known.bytes, known.heard), (Some(5), Some(50), Some(heard)));
    for _ in 0..2 {
        fail(&mut machine);
        let view = machine.feed(3).unwrap();
        assert_eq!(view.error.as_deref(), Some("refused"));
        assert_eq!(FeedView { error: None, ..view }, known, "it stands, and its age says how old it is");
    }
    fail(&mut machine);
    let view = machine.feed(3).unwrap();
    assert_eq!((view.hearing, view.active, view.bytes), (Hearing::Silent, None, None), "unknown, never zero");
    assert_eq!((view.response_time, view.heard, view.words.as_str()), (None, None, ""));
    // What passed while nobody looked is not counted at the moment it is seen again.
    answer(&mut machine, vec![up(1, 1_000_000), up(2, 20)]);
    let view = machine.feed(3).unwrap();
    assert_eq!((view.hearing, view.active, view.bytes), (Hearing::Heard(Health::Up), Some(1), None));
    let source = machine.sources().next().unwrap();
    assert_eq!((source.fetches, source.failures, source.error.as_deref()), (6, 3, None));
}

#[test]
fn a_page_without_a_service_is_a_miss_of_that_service_alone() {
    let mut machine = Sources::new(at(0), vec![settings()], 1);
    for _ in 0..3 {
        answer(&mut machine, vec![up(1, 1), Err("haproxy has no 'web/s2'".to_owned())]);
    }
    let (one, other) = (machine.feed(3).unwrap(), machine.feed(5).unwrap());
    assert_eq!((one.hearing, other.hearing), (Hearing::Heard(Health::Up), Hearing::Silent));
    assert_eq!(other.error.as_deref(), Some("haproxy has no 'web/s2'"));
    assert_eq!(machine.sources().next().unwrap().failures, 0);
}

#[test]
fn a_source_that_never_answers_is_silent_too() {
    let mut machine = Sources::new(at(0), vec![settings()], 1);
    (0..2).for_each(|_| fail(&mut machine));
    assert_eq!(machine.feed(3).unwrap().hearing, Hearing::Unheard);
    fail(&mut machine);
    assert_eq!(machine.feed(3).unwrap().hearing, Hearing::Silent);
}

#[test]
fn a_look_that_nobody_reports_counts_as_failed_and_its_late_report_as_nothing() {
    let mut machine = Sources::new(at(0), vec![settings()], 1);
    let (_, lost) = look(&mut machine);
    machine.handle_timeout(at(1499));
    assert_eq!(machine.sources().next().unwrap().failures, 0);
    machine.handle_timeout(at(1500));
    assert_eq!(machine.sources().next().unwrap().failures, 1);
    assert!(machine.poll_timeout().unwrap() > at(1500));
    machine.handle_reply(at(1600), FetchReply { id: lost, outcome: Ok(vec![up(1, 1), up(1, 1)]) });
    assert_eq!(machine.feed(3).unwrap().hearing, Hearing::Unheard);
    // A report with too little in it is a miss of what is not in it.
    answer(&mut machine, vec![up(1, 1)]);
    assert_eq!(
        machine.feed(5).unwrap().error.as_deref(),
        Some("the look at it brought nothing of this service")
    );
}

#[test]
fn turns_are_told_once() {
    let mut machine = Sources::new(at(0), vec![settings()], 1);
    let mut turns = Vec::new();
    for is_up in [false, false, true, true, false] {
        let (when, id) = look(&mut machine);
        let outcome = if is_up { Ok(vec![up(1, 1), up(1, 1)]) } else { Err("refused".to_owned()) };
        machine.handle_reply(when + Duration::from_millis(1), FetchReply { id, outcome });
        turns.extend(std::iter::from_fn(|| machine.poll_output()).filter_map(|output| match output {
            Output::Turned { error, .. } => Some(error.is_some()),
            Output::Fetch(_) | Output::Told { .. } => None,
        }));
    }
    assert_eq!(turns, [true, false, true]);
}

#[test]
fn a_response_time_of_sums_is_the_mean_of_the_window() {
    let mut machine = Sources::new(at(0), vec![settings()], 1);
    let sums = |micros, answers| {
        let counts = |n| Counts::from([("x".to_owned(), n)]);
        let timing = Timed::Sums { micros: counts(micros), answers: counts(answers) };
        Ok(Reading { timing: Some(timing), ..Reading::default() })
    };
    let mut times = Vec::new();
    for (micros, answers) in [(9_000_000, 10), (9_500_000, 15), (9_500_000, 15)] {
        answer(&mut machine, vec![sums(micros, answers), sums(1, 1)]);
        times.push(machine.feed(3).unwrap().response_time.map(Rtt::as_micros));
    }
    assert_eq!(times, [None, Some(100_000), Some(100_000)]);
    assert_eq!(machine.feed(5).unwrap().response_time, None, "no answer, no time");
}
