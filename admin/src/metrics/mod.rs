//! `/metrics`: every number of the node under its Prometheus name. The names and their meanings stand here and nowhere else.
//!
//! LDNS are never a label: their number is a stranger's to choose. What there is one of per LDNS stands in `/v1/ldns`.

mod group;
mod lb;
mod node;
mod sheet;
mod sources;

use crate::api::View;
use crate::refusal::Refusal;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;
use sheet::Sheet;
use std::fmt;

/// The Prometheus text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let failed = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics can't be written");
    let text = text(view).map_err(failed)?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

fn text(view: &View<'_>) -> Result<String, fmt::Error> {
    let mut sheet = Sheet::default();
    node::write(&mut sheet, view);
    group::write(&mut sheet, view);
    sources::write(&mut sheet, view);
    lb::write(&mut sheet, view);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(sheet)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The numbers of one scrape: nothing is kept from one to the next, so nothing that went away lingers.
#[derive(Debug)]
struct Scrape(Sheet);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(&mut encoder)
    }
}
