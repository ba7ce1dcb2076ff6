//! The foreign load balancers that this node looks at.

use super::sheet::{Labels, Sheet};
use crate::api::View;
use gslb_core::SourceView;

pub(super) fn write(sheet: &mut Sheet, view: &View<'_>) {
    let sources = &view.published.sources;
    sheet.gauges(
        "gslb_source_answers",
        "Whether the last look at the source was answered",
        sources.iter().map(|source| {
            let answers = source.answered.is_some() && source.error.is_none();
            (labels(source), if answers { 1.0 } else { 0.0 })
        }),
    );
    sheet.seconds(
        "gslb_source_answer_age",
        "Time since the source was last heard",
        sources.iter().filter_map(|source| Some((labels(source), view.age(source.answered?).as_secs_f64()))),
    );
    let count = |of: fn(&SourceView) -> u64| sources.iter().map(move |source| (labels(source), of(source)));
    sheet.counters("gslb_source_fetches", "Looks at the source", count(|source| source.fetches));
    sheet.counters(
        "gslb_source_failures",
        "Looks at the source that brought no page",
        count(|source| source.failures),
    );
}

fn labels(source: &SourceView) -> Labels {
    vec![("source", source.name.clone())]
}
