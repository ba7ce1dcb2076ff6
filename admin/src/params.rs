//! The arguments of a request: those in the query string, each of them known, none given twice.

use crate::refusal::{Refusal, quoted};
use axum::extract::Query;
use axum::http::Uri;
use std::str::FromStr;

/// The arguments of one request.
#[derive(Debug)]
pub(crate) struct Params {
    given: Vec<(String, String)>,
    /// What the path's `{…}` stood for.
    segment: Option<String>,
}

impl Params {
    /// Those of `uri`; refused if one is not among `known`, or given twice: a misspelt argument must not pass for an absent
    /// one.
    pub(crate) fn of(uri: &Uri, segment: Option<String>, known: &[&str]) -> Result<Self, Refusal> {
        let Query(given) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Refusal::bad(format!("the query string can't be read: {error}")))?;
        for (position, (name, _)) in given.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let instead = match known {
                    [] => "there is none here".to_owned(),
                    known => format!("there are: {}", known.join(", ")),
                };
                return Err(Refusal::bad(format!("unknown argument {}; {instead}", quoted(name))));
            }
            if given.iter().take(position).any(|(earlier, _)| earlier == name) {
                return Err(Refusal::bad(format!("the argument '{name}' is given twice")));
            }
        }
        Ok(Params { given, segment })
    }

    /// An argument as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// An argument that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.text(name).ok_or_else(|| Refusal::bad(format!("the argument '{name}' is missing")))
    }

    /// An argument as a value; `what` says what it should be.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, Refusal> {
        self.text(name).map(|text| parse(name, text, what)).transpose()
    }

    /// What the path's `{…}` stood for, as a value.
    pub(crate) fn segment<T: FromStr>(&self, name: &str, what: &str) -> Result<T, Refusal> {
        parse(name, self.segment.as_deref().unwrap_or_default(), what)
    }
}

/// A value of its text.
pub(crate) fn parse<T: FromStr>(name: &str, text: &str, what: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| Refusal::bad(format!("{name}: expected {what}, not {}", quoted(text))))
}
