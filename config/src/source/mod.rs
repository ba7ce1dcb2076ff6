//! `[[sources]]`: foreign load balancers, and what services take from them.

mod item;
mod model;

pub(crate) use item::{feed, feed_of_site};
pub use model::*;

use crate::group::{Named, Overrides};
use crate::model::Site;
use crate::reader::Table;
use gslb_types::{ServiceName, SiteIndex, SourceItem, SourceKind, SourcePlace};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const KINDS: [(&str, SourceKind); 4] = [
    (SourceKind::Haproxy.as_str(), SourceKind::Haproxy),
    (SourceKind::Envoy.as_str(), SourceKind::Envoy),
    (SourceKind::Nginx.as_str(), SourceKind::Nginx),
    (SourceKind::Prometheus.as_str(), SourceKind::Prometheus),
];

const LEAST: Duration = Duration::from_millis(100);
/// More seldom than this, and a window of 14 s would say nothing.
const MOST: Duration = Duration::from_secs(60);

/// Sources, each at the place of its table, lest an index mean another one.
pub(crate) fn sources(tables: &[Table<'_>], sites: &Named<Site>, own: &Overrides) -> Named<Source> {
    let mut sources = Named::new("source");
    let mut of_sites: BTreeMap<SiteIndex, String> = BTreeMap::new();
    for (i, t) in tables.iter().enumerate() {
        // The rule for names is the same everywhere.
        let name = t.parsed("name", ServiceName::new);
        let kind = t.word("kind", &KINDS);
        let place = place(t, kind, own);
        let shown = name.as_ref().map(|n| n.as_str().to_owned()).unwrap_or_default();
        let of_site = of_site(t, kind, &shown, sites);
        if let Some((site, _)) = &of_site
            && let Some(other) = of_sites.insert(*site, shown.clone())
        {
            t.refuse("site", format!("source '{other}' speaks for that site already"));
        }
        let source = Source {
            name: shown,
            kind,
            place: place.unwrap_or(SourcePlace::Socket("/".into())),
            interval: t.duration("interval", LEAST..=MOST),
            timeout: t.duration("timeout", Duration::from_millis(10)..=MOST),
            misses: t.number("misses", 1..=1000),
            of_site,
        };
        t.must_be_less("timeout", "interval");
        if let Some(name) = name {
            sources.names.give(name.as_str(), i, t);
        }
        sources.all.push(source);
    }
    sources
}

/// The site it speaks for, and what of its page.
fn of_site(
    t: &Table<'_>,
    kind: SourceKind,
    name: &str,
    sites: &Named<Site>,
) -> Option<(SiteIndex, SourceItem)> {
    let Some(site) = t.item("site") else {
        for key in ["source_name", "source_metrics"].into_iter().filter(|key| t.gives(key)) {
            t.refuse(key, "is of use only with `site`: else each service says what it takes");
        }
        return None;
    };
    let item = item::item(t, name, kind);
    Some((sites.names.find(&site).and_then(SiteIndex::new)?, item?))
}

fn place(t: &Table<'_>, kind: SourceKind, own: &Overrides) -> Option<SourcePlace> {
    match (t.gives("url"), t.gives("socket")) {
        (true, true) => t.refuse("socket", "url is given already, and a page is read at one place"),
        (false, false) => t.refuse("url", "missing, as in \"http://127.0.0.1:8404/;csv\""),
        (true, false) => {
            let (address, target) = t.parsed("url", url)?;
            return Some(SourcePlace::Http { address, target });
        }
        (false, true) if kind != SourceKind::Haproxy => {
            t.refuse("socket", "only for kind = \"haproxy\", which takes commands there: write `url`");
        }
        (false, true) => {
            let path = t.item("socket").and_then(|item| own.path(&item))?;
            return Some(SourcePlace::Socket(path));
        }
    }
    None
}

/// Address and target of a URL. Names are refused: a node that answers DNS must not wait for DNS.
fn url(text: &str) -> Result<(SocketAddr, String), String> {
    let rest = text.strip_prefix("http://").ok_or_else(|| match text.starts_with("https:") {
        true => {
            "only plain HTTP is spoken here: write a URL that begins with 'http://', on the loopback, say"
                .to_owned()
        }
        false => format!("'{text}' is no URL that begins with 'http://'"),
    })?;
    let (authority, target) = match rest.find(['/', '?', '#']) {
        Some(end) => rest.split_at(end),
        None => (rest, "/"),
    };
    if authority.contains('@') {
        return Err("holds a user's name, and passwords are not sent in the clear".to_owned());
    }
    let bracketed = authority.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
    let plain = bracketed.map_or_else(|| authority.parse::<IpAddr>(), |a| a.parse::<IpAddr>());
    let address = authority.parse::<SocketAddr>().ok().or(plain.ok().map(|ip| SocketAddr::new(ip, 80)));
    let address = address.filter(|a| a.port() != 0 && !a.ip().is_unspecified()).ok_or_else(|| {
        format!(
            "'{authority}' is no address, write one as in 'http://127.0.0.1:8404/': names are not looked up"
        )
    })?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~%!$&'()*+,;=:@/?".contains(c);
    if !target.starts_with('/') || !target.chars().all(fits) {
        return Err(format!("'{target}' is no path of a URL"));
    }
    Ok((address, target.to_owned()))
}
