//! Families of numbers, as they are written down before they are encoded.

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt;

/// Labels of one number.
pub(super) type Labels = Vec<(&'static str, String)>;

/// All families, in the order they were written.
#[derive(Debug, Default)]
pub(super) struct Sheet(Vec<Family>);

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Counters(Vec<(Labels, u64)>),
    Gauges(Vec<(Labels, f64)>),
}

impl Sheet {
    /// A number that only grows. `_total` is added to the name.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.counters(name, help, [(Vec::new(), value)]);
    }

    /// Such numbers, told apart by labels.
    pub(super) fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        self.push(name, help, None, Values::Counters(values.into_iter().collect()));
    }

    /// A number of the moment.
    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.gauges(name, help, [(Vec::new(), value)]);
    }

    /// Such numbers, told apart by labels.
    pub(super) fn gauges(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        self.push(name, help, None, Values::Gauges(values.into_iter().collect()));
    }

    /// Times of the moment. `_seconds` is added to the name.
    pub(super) fn seconds(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        self.push(name, help, Some(Unit::Seconds), Values::Gauges(values.into_iter().collect()));
    }

    fn push(&mut self, name: &'static str, help: &'static str, unit: Option<Unit>, values: Values) {
        self.0.push(Family { name, help, unit, values });
    }

    /// Writes all families that have a number.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(encoder))
    }
}

impl Family {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match &self.values {
            Values::Counters(values) if !values.is_empty() => MetricType::Counter,
            Values::Gauges(values) if !values.is_empty() => MetricType::Gauge,
            Values::Counters(_) | Values::Gauges(_) => return Ok(()),
        };
        let mut metric = encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), kind)?;
        match &self.values {
            Values::Counters(values) => values.iter().try_for_each(|(labels, value)| {
                on(&mut metric, labels, |m| m.encode_counter::<Labels, _, u64>(value, None))
            }),
            Values::Gauges(values) => values
                .iter()
                .try_for_each(|(labels, value)| on(&mut metric, labels, |m| m.encode_gauge(value))),
        }
    }
}

fn on(
    metric: &mut MetricEncoder<'_>,
    labels: &Labels,
    encode: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() { encode(metric) } else { encode(&mut metric.encode_family(labels)?) }
}
