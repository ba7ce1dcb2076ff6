//! What a foreign load balancer says of a service, as a part of `/v1/services`.

use super::View;
use gslb_core::{FeedView, Hearing, SourceHealth};
use serde::{Deserialize, Serialize};

/// What the source of a service says of it, to this node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub source: String,
    /// `up` or `down`; `unsaid` if it does not look at the service, `unknown` if it says what is not understood; `unheard`
    /// before its first word, and `silent` when nothing is known any more.
    pub state: String,
    /// That in its own words.
    pub words: String,
    /// How old they are; `null` if there are none.
    pub age_ms: Option<u64>,
    /// Why the last look brought nothing; `null` if it did.
    pub error: Option<String>,
}

pub(super) fn source(view: &View<'_>, feed: &FeedView) -> Source {
    let state = match feed.hearing {
        Hearing::Unheard => "unheard",
        Hearing::Silent => "silent",
        Hearing::Heard(SourceHealth::Up) => "up",
        Hearing::Heard(SourceHealth::Down) => "down",
        Hearing::Heard(SourceHealth::Unsaid) => "unsaid",
        Hearing::Heard(SourceHealth::Unknown) => "unknown",
    };
    Source {
        source: feed.source.clone(),
        state: state.to_owned(),
        words: feed.words.clone(),
        age_ms: feed.heard.map(|at| view.age_ms(at)),
        error: feed.error.clone(),
    }
}
