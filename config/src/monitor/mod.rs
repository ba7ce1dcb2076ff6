//! `[[monitors]]`: what checks services, and how often.

mod kinds;
mod text;
mod watch;
mod words;

pub(crate) use watch::{sources_reach, threshold, watched};
pub(crate) use words::{canonical, canonical_watch};

use crate::files::Files;
use crate::group::Named;
use crate::model::Monitor;
use crate::reader::Table;
use crate::settings::source_ip;
use gslb_types::ServiceName;
use std::time::Duration;

const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(86_400);

pub(crate) fn monitors(tables: &[Table<'_>], files: &mut Files<'_>) -> Named<Monitor> {
    let mut monitors = Named::new("monitor");
    for t in tables {
        // The rule for names is the same everywhere.
        let name = t.parsed("name", ServiceName::new);
        let kind = kinds::check(t, files);
        let monitor = Monitor {
            name: name.as_ref().map(|n| n.as_str().to_owned()).unwrap_or_default(),
            check: kind.check.into(),
            port: t.item("port").and_then(|i| i.number(1..=u16::MAX)),
            source: t.parsed("source", source_ip),
            interval: t.duration("interval", LEAST..=MOST),
            down_time: t.item("down_time").and_then(|i| i.duration(LEAST..=MOST)),
            timeout: t.duration("timeout", Duration::from_millis(10)..=MOST),
            rise: t.number("rise", 1..=1000),
            fall: t.number("fall", 1..=1000),
            reverse: kind.reverse,
            measures: t.flag("response_time"),
        };
        t.must_be_less("timeout", "interval");
        if t.gives("down_time") {
            t.must_be_less("timeout", "down_time");
        }
        if let Some(name) = name {
            monitors.names.give(name.as_str(), monitors.all.len(), t);
            monitors.all.push(monitor);
        }
    }
    monitors
}
