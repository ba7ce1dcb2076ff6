//! The worked examples of the articles, row by row: the service chosen, its score before and after, and who tied.
//!
//! `vectors/*.toml` hold the tables as printed and as calculated; each row is one request through [`lb_core::choose`].

#![allow(
    clippy::unwrap_used,
    reason = "an integration test is all test: a vector that cannot be read must fail it"
)]

use gslb_types::{LbMethod, Rtt, ServiceName, Weight};
use lb_core::{Candidate, Measure, SCORE_SCALE, ServiceId, Why, choose};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr};

#[test]
fn least_response_time_with_monitors() {
    check(include_str!("vectors/lrtm.toml"));
}

#[test]
fn least_response_time_with_monitors_and_weights() {
    check(include_str!("vectors/lrtm-weighted.toml"));
}

#[test]
fn least_response_time() {
    check(include_str!("vectors/lrt.toml"));
}

#[test]
fn least_response_time_with_weights() {
    check(include_str!("vectors/lrt-weighted.toml"));
}

#[test]
fn least_bandwidth() {
    check(include_str!("vectors/bandwidth.toml"));
}

#[test]
fn least_bandwidth_with_weights() {
    check(include_str!("vectors/bandwidth-weighted.toml"));
}

/// The erratum is real: with its first request counted, the printed table does not come out.
#[test]
fn the_weighted_bandwidth_table_as_printed_needs_its_first_request_uncounted() {
    let mut table = Table::read(include_str!("vectors/bandwidth-weighted.toml"));
    assert_eq!(table.uncounted_in_printed, Some(1));
    assert_eq!(table.mismatches(&table.printed, table.uncounted_in_printed), Vec::<String>::new());
    table.uncounted_in_printed = None;
    assert_ne!(table.mismatches(&table.printed, None), Vec::<String>::new());
}

fn check(text: &str) {
    let table = Table::read(text);
    assert_eq!((table.printed.len(), table.calculated.len()), (8, 16));
    let mut wrong = table.mismatches(&table.printed, table.uncounted_in_printed);
    wrong.extend(table.mismatches(&table.calculated, None));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One file of vectors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    method: LbMethod,
    /// Whether the numbers are Nw; else they are N.
    weighted: bool,
    uncounted_in_printed: Option<u32>,
    printed: Vec<Row>,
    calculated: Vec<Row>,
    service: Vec<Service>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    request: u32,
    service: String,
    before: Printed,
    after: Printed,
    /// Absent where the article does not say.
    tied: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    name: String,
    weight: Weight,
    active: Option<u32>,
    /// In the articles' unit, taken as microseconds.
    response_time: Option<u32>,
    bytes: Option<u64>,
    bytes_per_request: Option<u64>,
}

impl Table {
    fn read(text: &str) -> Self {
        toml::from_str(text).unwrap()
    }

    /// Plays the requests and says where the rows differ from what happens.
    fn mismatches(&self, rows: &[Row], uncounted: Option<u32>) -> Vec<String> {
        let mut candidates = self.candidates();
        let (mut pointer, mut wrong) = (None, Vec::new());
        for row in rows {
            let at = format!("request {}", row.request);
            let choice =
                choose(self.method, &candidates, pointer, 0, IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
            let (name, chosen) = (self.name(choice.index), choice.index);
            if name != row.service {
                wrong.push(format!("{at}: {name} chosen, not {}", row.service));
            }
            let before = self.shown(&candidates, chosen);
            if !row.before.shows(before) {
                wrong.push(format!("{at}: {before:?} before, not {:?}", row.before));
            }
            let tied: Vec<_> = self.tied(&candidates, chosen).collect();
            if row.tied.as_ref().is_some_and(|expected| *expected != tied) || choice.tied != tied.len() {
                wrong.push(format!("{at}: {tied:?} tied ({} counted), not {:?}", choice.tied, row.tied));
            }
            if (choice.why == Why::Tie) != (tied.len() > 1) || choice.took_turn {
                wrong.push(format!("{at}: {:?} is no reason", choice.why));
            }
            if uncounted != Some(row.request) {
                self.count(&mut candidates[chosen]);
            }
            let after = self.shown(&candidates, chosen);
            if !row.after.shows(after) {
                wrong.push(format!("{at}: {after:?} after, not {:?}", row.after));
            }
            pointer = Some(chosen);
        }
        wrong
    }

    fn candidates(&self) -> Vec<Candidate> {
        let build = |(position, s): (usize, &Service)| Candidate {
            active: s.active,
            response_time: s.response_time.map(Rtt::from_micros),
            ttfb: s.response_time.map(Rtt::from_micros),
            bytes: s.bytes,
            ..Candidate::new(
                position,
                ServiceId::of(&ServiceName::new(&s.name.to_lowercase()).unwrap()),
                s.weight,
            )
        };
        self.service.iter().enumerate().map(build).collect()
    }

    /// One more request stays open at the service, or its bytes pass.
    fn count(&self, candidate: &mut Candidate) {
        candidate.active = candidate.active.map(|a| a + 1);
        let more = self.service[candidate.position].bytes_per_request.unwrap_or(0);
        candidate.bytes = candidate.bytes.map(|b| b + more);
    }

    fn name(&self, index: usize) -> &str {
        &self.service[index].name
    }

    fn tied<'a>(&'a self, all: &'a [Candidate], chosen: usize) -> impl Iterator<Item = &'a str> {
        let score = |index: usize| Measure::of(self.method, all).unwrap().score(&all[index]);
        (0..all.len()).filter(move |i| score(*i) == score(chosen)).map(|i| self.name(i))
    }

    /// The number that belongs into the table: the score, and the hundredths that its rounding down left.
    fn shown(&self, all: &[Candidate], index: usize) -> Exact {
        let c = &all[index];
        let score = Measure::of(self.method, all).unwrap().score(c).unwrap().get();
        let n = match self.method {
            LbMethod::LeastBandwidth => c.bytes.unwrap(),
            _ => u64::from(c.active.unwrap()) * u64::from(c.response_time.unwrap().as_micros()),
        };
        if self.weighted {
            let hundredths = u128::from(n) * SCORE_SCALE * 100 / u128::from(c.weight.get());
            Exact { whole: score, hundredths }
        } else {
            assert_eq!(score, u128::from(n) * SCORE_SCALE);
            Exact { whole: score / SCORE_SCALE, hundredths: u128::from(n) * 100 }
        }
    }
}

/// What the code says: the whole number from the score itself, hundredths from the definition.
#[derive(Debug, Clone, Copy)]
struct Exact {
    whole: u128,
    hundredths: u128,
}

/// A number as the articles print it: `23333.34`.
#[derive(Deserialize, Debug)]
#[serde(transparent)]
struct Printed(String);

impl Printed {
    /// Equal in the whole part, and in the second decimal up to the article's rounding (70000 / 3 is printed 23333.34).
    fn shows(&self, exact: Exact) -> bool {
        let (whole, decimals) = self.0.split_once('.').unwrap_or((&self.0, "0"));
        let whole: u128 = whole.parse().unwrap();
        let decimals: u128 = format!("{decimals:0<2}").parse().unwrap();
        whole == exact.whole && (whole * 100 + decimals).abs_diff(exact.hundredths) <= 1
    }
}
