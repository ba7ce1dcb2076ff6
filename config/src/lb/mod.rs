//! `[[lb_vservers]]`: what listens in a site and proxies to services.

mod agree;
mod members;
mod model;

pub(crate) use agree::{is_fed, listeners_agree, services_agree};
pub(crate) use members::rate;
pub use model::*;

use crate::group::{Named, Overrides};
use crate::model::{Service, Site};
use crate::names::Names;
use crate::policy::LOCAL_METHODS;
use crate::reader::{Item, Table};
use crate::schema::LB_CERTIFICATE;
use crate::settings::{addresses, source_ip};
use gslb_types::{LbMethod, LbVserverName, SiteIndex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// The cookie's name, unless configured.
const COOKIE: &str = "gslb-service";

const FORWARDED: [(&str, LbForwarded); 3] = [
    ("x_forwarded", LbForwarded::XForwarded),
    ("rfc7239", LbForwarded::Rfc7239),
    ("none", LbForwarded::None),
];

/// Services with their tables.
pub(crate) struct Services<'a> {
    pub(crate) named: &'a Named<Service>,
    pub(crate) tables: &'a [Table<'a>],
}

impl Services<'_> {
    /// The service an index stands for, unless a table that is wrong has put them out of order: that has been said.
    pub(crate) fn get(&self, index: usize) -> Option<&Service> {
        self.named.all.get(index).filter(|_| self.named.all.len() == self.tables.len())
    }
}

/// The words of `kind`, before the settings that belong to one kind only are read.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Http,
    Ssl,
    Tcp,
}

const KINDS: [(&str, Kind); 3] = [("http", Kind::Http), ("ssl", Kind::Ssl), ("tcp", Kind::Tcp)];

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Persistence {
    #[default]
    None,
    SourceIp,
    Cookie,
}

const PERSISTENCE: [(&str, Persistence); 3] =
    [("none", Persistence::None), ("source_ip", Persistence::SourceIp), ("cookie", Persistence::Cookie)];

/// What the method by load needs.
pub(crate) const NEEDS_LOAD: &str = "'custom_load' needs a service whose load is told: by a monitor of kind \"user\" with `load_label`, or by a source with `load` in `source_metrics`";

/// Keys that stand for something only in virtual servers that read requests.
const OF_HTTP: [&str; 5] =
    ["first_byte_timeout", "request_header_timeout", "max_idle", "forwarded", "cookie"];

/// The names alone, so that services can refer to what refers to services.
pub(crate) fn names(tables: &[Table<'_>]) -> Names {
    let mut names = Names::new("LB virtual server");
    for (i, t) in tables.iter().enumerate() {
        if let Some(name) = t.parsed("name", LbVserverName::new) {
            names.give(name.as_str(), i, t);
        }
    }
    names
}

/// Virtual servers, each at the place of its table, `None` where something of it is wrong.
pub(crate) fn vservers(
    tables: &[Table<'_>],
    sites: &Named<Site>,
    services: &Services<'_>,
    own: &Overrides,
) -> Vec<Option<LbVserver>> {
    tables.iter().map(|t| vserver(t, sites, services, own)).collect()
}

fn vserver(
    t: &Table<'_>,
    sites: &Named<Site>,
    services: &Services<'_>,
    own: &Overrides,
) -> Option<LbVserver> {
    let site = t.item("site").and_then(|i| sites.names.find(&i)).and_then(SiteIndex::new);
    let word = t.word("kind", &KINDS);
    let method = t.word("method", &LOCAL_METHODS);
    if word == Kind::Tcp {
        nothing_of_http(t, method);
    }
    let members = members::members(t, site, services);
    let told = || agree::any_tells_load(members.iter().map(|member| member.service), services);
    if method == LbMethod::CustomLoad && !members.is_empty() && !told() {
        t.refuse("method", NEEDS_LOAD);
    }
    let vserver = LbVserver {
        // A name that is none has been refused by `names`.
        name: LbVserverName::new(t.quiet_text("name")?).ok()?,
        site: site?,
        kind: kind(t, word, own),
        listen: addresses(t, "listen"),
        method,
        startup_rr_factor: t.number("startup_rr_factor", 0..=10_000),
        slow_start: t.duration("slow_start", Duration::ZERO..=HOUR),
        persistence: persistence(t, word),
        members,
        source: t.parsed("source", source_ip),
        timeouts: LbTimeouts {
            connect: t.duration("connect_timeout", MS..=HOUR),
            first_byte: t.duration("first_byte_timeout", MS..=DAY),
            idle: t.duration("idle_timeout", MS..=DAY),
            request_header: t.duration("request_header_timeout", MS..=HOUR),
        },
        max_connections: t.number("max_connections", 1..=1_000_000),
        max_idle: t.number("max_idle", 0..=100_000),
        retries: t.number("retries", 0..=100),
        forwarded: t.word("forwarded", &FORWARDED),
    };
    Some(vserver)
}

/// Refuses what needs requests where there are only connections.
fn nothing_of_http(t: &Table<'_>, method: LbMethod) {
    if method == LbMethod::LeastResponseTime {
        t.refuse("method", "'least_response_time' needs responses of HTTP, so kind = \"http\" or \"ssl\": with \"tcp\" use 'lrtm'");
    }
    for key in OF_HTTP.into_iter().filter(|key| t.gives(key)) {
        t.refuse(key, "is of use only with kind = \"http\" or \"ssl\"");
    }
}

fn kind(t: &Table<'_>, word: Kind, own: &Overrides) -> LbKind {
    let (ssl, tcp) = (word == Kind::Ssl, word == Kind::Tcp);
    if !ssl && t.gives("certificates") {
        t.refuse("certificates", "is of use only with kind = \"ssl\"");
    }
    if !tcp && t.gives("proxy_protocol") {
        t.refuse("proxy_protocol", "is of use only with kind = \"tcp\": services learn by `forwarded`");
    }
    match word {
        Kind::Http => LbKind::Http,
        Kind::Ssl => LbKind::Ssl { certificates: certificates(t, own) },
        Kind::Tcp => LbKind::Tcp { proxy_protocol: t.flag("proxy_protocol") },
    }
}

fn certificates(t: &Table<'_>, own: &Overrides) -> Vec<LbCertificate> {
    if !t.gives("certificates") {
        t.refuse("certificates", "missing, write { certificate = \"FILE\", key = \"FILE\" } for each");
    }
    if t.gives_empty_list("certificates") {
        t.refuse("certificates", "must hold one at least");
    }
    let items = t.item("certificates").and_then(Item::into_list).unwrap_or_default();
    items.into_iter().filter_map(|item| certificate(item, own)).collect()
}

fn certificate(item: Item<'_>, own: &Overrides) -> Option<LbCertificate> {
    let t = item.into_table(&LB_CERTIFICATE)?;
    let certificate = t.item("certificate").and_then(|i| own.path(&i));
    let key = t.item("key").and_then(|i| own.path(&i));
    Some(LbCertificate { certificate: certificate?, key: key? })
}

fn persistence(t: &Table<'_>, kind: Kind) -> LbPersistence {
    let word = t.word("persistence", &PERSISTENCE);
    for key in ["persistence_timeout", "persistence_mask_v4", "persistence_mask_v6", "persistence_cap"] {
        if word != Persistence::SourceIp && t.gives(key) {
            t.refuse(key, "is of use only with persistence = \"source_ip\"");
        }
    }
    if word != Persistence::Cookie && kind != Kind::Tcp && t.gives("cookie") {
        t.refuse("cookie", "is of use only with persistence = \"cookie\"");
    }
    match word {
        Persistence::None => LbPersistence::None,
        Persistence::SourceIp => LbPersistence::SourceIp {
            mask_v4: or(t, "persistence_mask_v4", |i| i.number(8..=32), 32),
            mask_v6: or(t, "persistence_mask_v6", |i| i.number(16..=128), 128),
            timeout: or(t, "persistence_timeout", |i| i.duration(SECOND..=DAY), 120 * SECOND),
            cap: or(t, "persistence_cap", |i| i.number(1..=10_000_000), 100_000),
        },
        Persistence::Cookie => {
            if kind == Kind::Tcp {
                t.refuse("persistence", "there are no cookies with kind = \"tcp\": write \"source_ip\"");
            }
            LbPersistence::Cookie { name: or(t, "cookie", |i| i.parsed(cookie_name), COOKIE.to_owned()) }
        }
    }
}

/// The value of a key without a default of its own, since it is of use to some virtual servers only.
fn or<T>(t: &Table<'_>, key: &str, read: impl FnOnce(&Item<'_>) -> Option<T>, otherwise: T) -> T {
    t.item(key).and_then(|item| read(&item)).unwrap_or(otherwise)
}

/// A token (RFC 6265 section 4.1.1).
fn cookie_name(text: &str) -> Result<String, String> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if text.is_empty() || text.len() > 64 || !text.chars().all(token) {
        return Err(format!("'{text}' is no name of a cookie: 1 to 64 letters, digits, '-', '_' or '.'"));
    }
    Ok(text.to_owned())
}
