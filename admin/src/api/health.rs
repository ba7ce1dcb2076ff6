//! `/live` and `/ready`, for whoever starts and watches the process.

use super::View;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The node task publishes every second; silence for this long means that it is stuck or gone (faults I-57).
const STALE: Duration = Duration::from_secs(5);

/// The process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Live {
    /// Always true: whoever can say so lives.
    pub live: bool,
}

/// Whether the node does its work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Whether the node task publishes.
    pub ready: bool,
    /// Why not.
    pub reason: Option<String>,
    /// How long ago it last published.
    pub published_age_ms: u64,
}

pub(crate) fn ready(view: &View<'_>) -> Ready {
    let age = view.age(view.published.at);
    let reason = if view.published.generation == 0 {
        Some("the node task has not published yet".to_owned())
    } else if age > STALE {
        Some(format!(
            "the node task has not published for {} s; DNS answers from what it published",
            age.as_secs()
        ))
    } else {
        None
    };
    Ready { ready: reason.is_none(), reason, published_age_ms: super::millis(age) }
}
