//! Foreign load balancers that a site's nodes read states and metrics from: what is read, and where.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What writes the page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// HAProxy: its statistics in CSV.
    #[default]
    Haproxy,
    /// Envoy: `/clusters?format=json` of its admin interface.
    Envoy,
    /// nginx: stub_status.
    Nginx,
    /// Whatever writes the Prometheus text format.
    Prometheus,
}

impl SourceKind {
    /// The word for it in configuration, API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            SourceKind::Haproxy => "haproxy",
            SourceKind::Envoy => "envoy",
            SourceKind::Nginx => "nginx",
            SourceKind::Prometheus => "prometheus",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a page is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourcePlace {
    /// By a GET over plain HTTP.
    Http {
        /// Who is asked.
        address: SocketAddr,
        /// Path and query.
        target: String,
    },
    /// By a command to a socket of the file system: HAProxy's.
    Socket(PathBuf),
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourcePlace::Http { address, target } => write!(f, "http://{address}{target}"),
            SourcePlace::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What of a page speaks of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceItem {
    /// One row of HAProxy's statistics.
    Haproxy {
        /// The proxy: `pxname`.
        proxy: String,
        /// A server of it, or `BACKEND` or `FRONTEND`: `svname`.
        server: String,
    },
    /// A cluster of Envoy's, or one host of it.
    Envoy {
        /// The cluster.
        cluster: String,
        /// `ADDRESS:PORT` of the host; all together if `None`.
        host: Option<String>,
    },
    /// All of nginx.
    Nginx,
    /// Metrics by name.
    Prometheus(Box<Quantities>),
}

/// Which metrics tell what of a service. Of several series that fit, counts and counters are added up, and it is up only if
/// all say so.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quantities {
    /// 1 while it can serve, 0 while it can't.
    pub up: Option<Series>,
    /// Active transactions.
    pub active: Option<Series>,
    /// Open connections.
    pub connections: Option<Series>,
    /// Counters of bytes, in either direction.
    pub bytes: Vec<Series>,
    /// A counter of requests.
    pub requests: Option<Series>,
    /// How long it takes to answer.
    pub response_time: Option<Timing>,
    /// Its load, by the operator's own reckoning.
    pub load: Option<Series>,
}

/// How a response time is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Timing {
    /// As it is, in a gauge.
    Gauge {
        /// The gauge.
        gauge: Series,
        /// What it counts in.
        unit: TimeUnit,
    },
    /// As a counter of time spent and one of answers given, `_sum` and `_count` of a histogram or a summary.
    Sums {
        /// The time.
        sum: Series,
        /// The answers.
        count: Series,
        /// What the time counts in.
        unit: TimeUnit,
    },
}

/// What a time is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeUnit {
    /// Seconds, as Prometheus recommends.
    #[default]
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
}

impl TimeUnit {
    /// Microseconds in one of it.
    pub const fn micros(self) -> u32 {
        match self {
            TimeUnit::Seconds => 1_000_000,
            TimeUnit::Millis => 1_000,
            TimeUnit::Micros => 1,
        }
    }
}

/// A metric and the labels it must have, written `name{label="value"}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Series {
    /// The metric.
    pub name: String,
    /// Labels and their values; others may stand beside them.
    pub labels: BTreeMap<String, String>,
}

impl Series {
    /// The series that a text is, and nothing but it.
    pub fn new(text: &str) -> Result<Self, String> {
        let (series, rest) = Series::split(text.trim())?;
        match rest.trim() {
            "" => Ok(series),
            rest => Err(format!("'{rest}' stands behind the series")),
        }
    }

    /// The series that a text begins with, and what follows.
    pub fn split(text: &str) -> Result<(Self, &str), String> {
        let end = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("no metric's name, as in 'name{label=\"value\"}'".to_owned());
        }
        let mut labels = BTreeMap::new();
        let Some(mut rest) = rest.trim_start().strip_prefix('{') else {
            return Ok((Series { name: name.to_owned(), labels }, rest));
        };
        loop {
            rest = rest.trim_start();
            if let Some(rest) = rest.strip_prefix('}') {
                return Ok((Series { name: name.to_owned(), labels }, rest));
            }
            let (label, value, after) = label(rest)?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(format!("label '{label}' stands there twice"));
            }
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None if rest.starts_with('}') => {}
                None => return Err(format!("no ',' or '}}' behind label '{label}'")),
            }
        }
    }

    /// Whether this one, met on a page, is one that `wanted` asks for.
    pub fn is_one_of(&self, wanted: &Series) -> bool {
        let has = |(label, value): (&String, &String)| self.labels.get(label) == Some(value);
        self.name == wanted.name && wanted.labels.iter().all(has)
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (nth, (label, value)) in self.labels.iter().enumerate() {
            let opening = if nth == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(f, "{opening}{label}=\"{value}\"")?;
        }
        if self.labels.is_empty() { Ok(()) } else { f.write_str("}") }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// `label="value"`, and what follows.
fn label(text: &str) -> Result<(&str, String, &str), String> {
    let end = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
    let (label, rest) = text.split_at(end);
    if label.is_empty() {
        return Err("no label, as in '{label=\"value\"}'".to_owned());
    }
    let quoted = rest.trim_start().strip_prefix('=').and_then(|rest| rest.trim_start().strip_prefix('"'));
    let quoted = quoted.ok_or_else(|| format!("no '=\"' behind label '{label}'"))?;
    let (value, rest) = unquoted(quoted).ok_or_else(|| format!("the value of label '{label}' has no end"))?;
    Ok((label, value, rest))
}

/// The text before the next quote that is not escaped, and what follows it. An escape that is none stays as it is.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped @ ('\\' | '"') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_read_as_it_is_written() {
        for text in ["up", "a:b_c", r#"x{a="1"}"#, r#"x{a="q\"\\\n,}",b=""}"#] {
            assert_eq!(Series::new(text).unwrap().to_string(), text);
        }
        let spaced = Series::new(r#" x { b = "2" , a="1", } "#).unwrap();
        assert_eq!(spaced.to_string(), r#"x{a="1",b="2"}"#);
        assert_eq!(Series::split("x{} 3 17").unwrap().1, " 3 17");
        assert_eq!(Series::new(r#"x{a="\d"}"#).unwrap().labels["a"], r"\d");
    }

    #[test]
    fn what_is_no_series_is_refused_in_words() {
        for (text, why) in [
            ("", "no metric's name, as in 'name{label=\"value\"}'"),
            ("1x", "no metric's name, as in 'name{label=\"value\"}'"),
            ("x y", "'y' stands behind the series"),
            ("x{", "no label, as in '{label=\"value\"}'"),
            ("x{a}", "no '=\"' behind label 'a'"),
            (r#"x{a="1"#, "the value of label 'a' has no end"),
            (r#"x{a="1"b="2"}"#, "no ',' or '}' behind label 'a'"),
            (r#"x{a="1",a="2"}"#, "label 'a' stands there twice"),
        ] {
            assert_eq!(Series::new(text), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_series_fits_whatever_labels_it_has_beside_those_asked_for() {
        let met = Series::new(r#"x{a="1",b="2"}"#).unwrap();
        for (wanted, fits) in [("x", true), (r#"x{b="2"}"#, true), (r#"x{b="1"}"#, false), ("y", false)] {
            assert_eq!(met.is_one_of(&Series::new(wanted).unwrap()), fits, "{wanted}");
        }
    }
}
