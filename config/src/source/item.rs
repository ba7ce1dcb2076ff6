//! What of a source's page speaks of a service.

use super::{Feed, Source};
use crate::group::Named;
use crate::reader::{Item, Table};
use crate::schema::SOURCE_METRICS;
use gslb_types::{Quantities, Series, SourceItem, SourceKind, TimeUnit, Timing};
use std::net::SocketAddr;

/// What the keys of a service say of its source. What is wrong with the source itself has been said.
pub(crate) fn feed(t: &Table<'_>, sources: &Named<Source>) -> Option<Feed> {
    let Some(item) = t.item("source") else {
        for key in ["source_name", "source_metrics"].into_iter().filter(|key| t.gives(key)) {
            t.refuse(key, "is of use only with `source`");
        }
        return None;
    };
    if t.gives("lb_vserver") {
        t.refuse("source", "its state is that of `lb_vserver`: one of the two can speak for it");
    }
    let at = sources.names.find(&item)?;
    let source = sources.all.get(at)?;
    Some(Feed { source: at, item: self::item(t, &source.name, source.kind)? })
}

/// The source that speaks for all services of a site.
pub(crate) fn feed_of_site(site: usize, sources: &Named<Source>) -> Option<Feed> {
    let speaks =
        |source: &Source| Some(&source.of_site.as_ref().filter(|(of, _)| of.get() == site)?.1).cloned();
    let mut items = sources.all.iter().enumerate().filter_map(|(at, source)| Some((at, speaks(source)?)));
    items.next().map(|(source, item)| Feed { source, item })
}

/// What `source_name` or `source_metrics` say, of a source of this name and kind.
pub(super) fn item(t: &Table<'_>, name: &str, kind: SourceKind) -> Option<SourceItem> {
    let (takes_name, takes_metrics) = match kind {
        SourceKind::Haproxy | SourceKind::Envoy => (true, false),
        SourceKind::Nginx => (false, false),
        SourceKind::Prometheus => (false, true),
    };
    for (key, takes) in [("source_name", takes_name), ("source_metrics", takes_metrics)] {
        match (takes, t.gives(key)) {
            (true, false) => t.refuse(key, format!("missing, {}", example(kind))),
            (false, true) => t.refuse(key, format!("source '{name}' is of kind {kind}: {}", example(kind))),
            (true, true) | (false, false) => {}
        }
    }
    Some(match kind {
        SourceKind::Haproxy => t.parsed("source_name", haproxy)?,
        SourceKind::Envoy => t.parsed("source_name", envoy)?,
        SourceKind::Nginx => SourceItem::Nginx,
        SourceKind::Prometheus => {
            let metrics = t.item("source_metrics")?.into_table(&SOURCE_METRICS)?;
            SourceItem::Prometheus(Box::new(quantities(&metrics)))
        }
    })
}

fn example(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Haproxy => "write source_name = \"PROXY/SERVER\", or \"PROXY/BACKEND\"",
        SourceKind::Envoy => "write source_name = \"CLUSTER\", or \"CLUSTER/ADDRESS:PORT\"",
        SourceKind::Nginx => "it speaks of all of nginx, so nothing is to be named",
        SourceKind::Prometheus => "write source_metrics = { active = 'NAME{LABEL=\"VALUE\"}' }",
    }
}

fn haproxy(text: &str) -> Result<SourceItem, String> {
    // Neither name can hold a slash: HAProxy allows letters, digits and -_.:
    match text.split_once('/') {
        Some((proxy, server)) if is_name(proxy) && is_name(server) => {
            Ok(SourceItem::Haproxy { proxy: proxy.to_owned(), server: server.to_owned() })
        }
        _ => Err(format!("'{text}' is not of the form PROXY/SERVER, PROXY/BACKEND or PROXY/FRONTEND")),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c))
}

/// A cluster's name may hold slashes and bars: only what is an address at the end is one.
fn envoy(text: &str) -> Result<SourceItem, String> {
    let host = text.rsplit_once('/').filter(|(_, host)| host.parse::<SocketAddr>().is_ok());
    let (cluster, host) = host.map_or((text, None), |(cluster, host)| (cluster, Some(host.to_owned())));
    if cluster.is_empty() || cluster.chars().any(char::is_control) {
        return Err(format!("'{text}' names no cluster"));
    }
    Ok(SourceItem::Envoy { cluster: cluster.to_owned(), host })
}

fn quantities(t: &Table<'_>) -> Quantities {
    let series = |key| t.parsed(key, Series::new);
    let quantities = Quantities {
        up: series("up"),
        active: series("active"),
        connections: series("connections"),
        bytes: bytes(t),
        requests: series("requests"),
        response_time: timing(t),
        load: series("load"),
    };
    if ["up", "active", "connections", "bytes", "requests", "response_time", "response_time_sum", "load"]
        .into_iter()
        .all(|key| !t.gives(key))
    {
        t.refuse("active", "missing, one metric at least must be named");
    }
    quantities
}

/// One series, or a list of them: received and sent, say.
fn bytes(t: &Table<'_>) -> Vec<Series> {
    match t.item("bytes") {
        Some(item) if item.is_text() => item.parsed(Series::new).into_iter().collect(),
        Some(_) => t.distinct("bytes", |item: &Item<'_>| item.parsed(Series::new)),
        None => Vec::new(),
    }
}

const UNITS: [(&str, TimeUnit); 3] =
    [("s", TimeUnit::Seconds), ("ms", TimeUnit::Millis), ("us", TimeUnit::Micros)];

fn timing(t: &Table<'_>) -> Option<Timing> {
    let unit = t.item("response_time_unit").and_then(|item| item.word(&UNITS)).unwrap_or_default();
    let (sum, count) = ("response_time_sum", "response_time_count");
    match (t.gives("response_time"), t.gives(sum), t.gives(count)) {
        (true, false, false) => Some(Timing::Gauge { gauge: t.parsed("response_time", Series::new)?, unit }),
        (false, true, true) => Some(Timing::Sums {
            sum: t.parsed(sum, Series::new)?,
            count: t.parsed(count, Series::new)?,
            unit,
        }),
        (false, false, false) => {
            if t.gives("response_time_unit") {
                t.refuse("response_time_unit", "is of use only with a response time");
            }
            None
        }
        (false, true, false) => {
            t.refuse(count, "missing, a mean is a sum divided by a count");
            None
        }
        (false, false, true) => {
            t.refuse(sum, "missing, a mean is a sum divided by a count");
            None
        }
        (true, _, _) => {
            t.refuse("response_time", "is given as a sum and a count already");
            None
        }
    }
}
