//! The Prometheus text format. Only lines of metrics that are asked for are read: what is wrong with others is of no concern.

use super::super::reading::{Counts, Health, Reading, Timed};
use super::{OTHER_KIND, ends, printable};
use gslb_types::{Quantities, Rtt, Series, SourceItem, TimeUnit, Timing};
use std::collections::{BTreeMap, BTreeSet};

/// Series that one quantity may be the sum of: a metric without its labels must not make counters by the thousand.
const MOST_SERIES: usize = 1000;

/// By metric: each series with the value and the line that it has.
type Samples = BTreeMap<String, Vec<(Series, f64, usize)>>;

pub(super) fn read(page: &[u8], items: &[SourceItem]) -> Result<Vec<Result<Reading, String>>, String> {
    let page = std::str::from_utf8(page)
        .map_err(|e| format!("no text: byte {} is not UTF-8", e.valid_up_to().saturating_add(1)))?;
    ends(page.as_bytes())?;
    let quantities = || items.iter().filter_map(of_prometheus);
    let names: BTreeSet<&str> = quantities().flat_map(series_of).map(|series| series.name.as_str()).collect();
    let samples = samples(page, &names)?;
    let said = items.iter().map(|item| match of_prometheus(item) {
        Some(quantities) => reading(&samples, quantities),
        None => Err(OTHER_KIND.to_owned()),
    });
    Ok(said.collect())
}

fn of_prometheus(item: &SourceItem) -> Option<&Quantities> {
    match item {
        SourceItem::Prometheus(quantities) => Some(quantities),
        SourceItem::Haproxy { .. } | SourceItem::Envoy { .. } | SourceItem::Nginx => None,
    }
}

fn series_of(q: &Quantities) -> Vec<&Series> {
    let timing = match &q.response_time {
        Some(Timing::Gauge { gauge, .. }) => vec![gauge],
        Some(Timing::Sums { sum, count, .. }) => vec![sum, count],
        None => Vec::new(),
    };
    let single = [&q.up, &q.active, &q.connections, &q.requests, &q.load].into_iter().flatten();
    single.chain(&q.bytes).chain(timing).collect()
}

fn samples(page: &str, names: &BTreeSet<&str>) -> Result<Samples, String> {
    let mut samples = Samples::new();
    for (number, line) in (1..).zip(page.lines()) {
        let line = line.trim_start();
        let name = line.split(|c: char| c == '{' || c.is_whitespace()).next().unwrap_or_default();
        if !names.contains(name) {
            continue;
        }
        let (series, value) = sample(line).map_err(|why| format!("line {number}: {why}"))?;
        let of_name = samples.entry(name.to_owned()).or_default();
        of_name.push((series, value, number));
    }
    Ok(samples)
}

/// `name{labels} value`, maybe a time, maybe an exemplar.
fn sample(line: &str) -> Result<(Series, f64), String> {
    let (series, rest) = Series::split(line)?;
    let text = rest.split_ascii_whitespace().next().unwrap_or_default();
    // Rust reads NaN, +Inf and -Inf as Go writes them.
    let value = text.parse().map_err(|_| format!("'{}' is no value", printable(text)))?;
    Ok((series, value))
}

fn reading(samples: &Samples, q: &Quantities) -> Result<Reading, String> {
    let found = |series: &Series| find(samples, series);
    let up = q.up.as_ref().map(found).transpose()?;
    let gauge = |series: &Option<Series>, factor| -> Result<Option<u64>, String> {
        let Some(series) = series else { return Ok(None) };
        let values = found(series)?;
        let whole = values.iter().map(|sample| whole(sample, factor)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(whole.into_iter().fold(0, u64::saturating_add)))
    };
    let counter = |series: &Series, factor| -> Result<Counts, String> {
        found(series)?.iter().map(|sample| Ok((sample.0.to_string(), whole(sample, factor)?))).collect()
    };
    let mut bytes = Counts::new();
    for series in &q.bytes {
        bytes.extend(counter(series, 1)?);
    }
    Ok(Reading {
        health: match &up {
            None => Health::Unsaid,
            Some(values) if values.iter().all(|sample| is_up(sample)) => Health::Up,
            Some(_) => Health::Down,
        },
        words: up.as_ref().map_or_else(|| "answers".to_owned(), |values| words(values)),
        active: gauge(&q.active, 1)?,
        connections: gauge(&q.connections, 1)?,
        load: gauge(&q.load, 1000)?,
        bytes: (!q.bytes.is_empty()).then_some(bytes),
        requests: q.requests.as_ref().map(|series| counter(series, 1)).transpose()?,
        timing: match &q.response_time {
            None => None,
            Some(Timing::Gauge { gauge, unit }) => mean(&found(gauge)?, *unit)?,
            Some(Timing::Sums { sum, count, unit }) => {
                Some(Timed::Sums { micros: counter(sum, unit.micros())?, answers: counter(count, 1)? })
            }
        },
    })
}

/// The samples that are asked for: one at least.
fn find<'a>(samples: &'a Samples, wanted: &Series) -> Result<Vec<&'a (Series, f64, usize)>, String> {
    let of_name = samples.get(&wanted.name).map(Vec::as_slice).unwrap_or_default();
    let found: Vec<_> = of_name.iter().filter(|(series, _, _)| series.is_one_of(wanted)).collect();
    match found.len() {
        0 => Err(format!("no sample of {wanted}")),
        n if n > MOST_SERIES => {
            Err(format!("{n} samples of {wanted}, {MOST_SERIES} at most: name more labels"))
        }
        _ => Ok(found),
    }
}

/// NaN is not up.
fn is_up((_, value, _): &(Series, f64, usize)) -> bool {
    *value >= 1.0
}

/// The first that is not up, or the first.
fn words(values: &[&(Series, f64, usize)]) -> String {
    let blamed = values.iter().find(|sample| !is_up(sample)).or(values.first());
    blamed.map_or_else(String::new, |(series, value, _)| printable(&format!("{series} {value}")))
}

/// A gauge of the response time. One that says NaN or 0 has nothing to say: a summary without answers does so.
fn mean(values: &[&(Series, f64, usize)], unit: TimeUnit) -> Result<Option<Timed>, String> {
    let [sample @ (series, value, _)] = values else {
        return Err(format!("{} samples fit the response time: name more labels", values.len()));
    };
    if value.is_nan() || *value == 0.0 {
        return Ok(None);
    }
    let micros = whole(sample, unit.micros()).map_err(|why| format!("{series}: {why}"))?;
    Ok(Some(Timed::Mean(Rtt::from_micros(u32::try_from(micros).unwrap_or(u32::MAX)))))
}

/// A value times a factor, cut off to a whole number.
fn whole((series, value, line): &(Series, f64, usize), factor: u32) -> Result<u64, String> {
    let product = value * f64::from(factor);
    if !product.is_finite() || product < 0.0 {
        return Err(format!("line {line}: {value} is no count of {}", printable(&series.to_string())));
    }
    // Beyond the largest number it ends there: `as` saturates.
    Ok(product as u64)
}
