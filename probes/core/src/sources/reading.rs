//! What one look at a page says of one service.

use gslb_types::Rtt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a page says of one service. What it does not say is `None`, never 0.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reading {
    /// Whether it can serve.
    pub health: Health,
    /// That in the source's own words.
    pub words: String,
    /// Active transactions.
    pub active: Option<u64>,
    /// Open connections.
    pub connections: Option<u64>,
    /// Bytes in both directions, ever counting.
    pub bytes: Option<Counts>,
    /// Requests, ever counting.
    pub requests: Option<Counts>,
    /// How long it takes to answer.
    pub timing: Option<Timed>,
    /// Its load, by the operator's own reckoning, in thousandths.
    pub load: Option<u64>,
}

/// Counters by name. Each may begin anew by itself, as its process restarts: their sum would not show it.
pub type Counts = BTreeMap<String, u64>;

/// Whether a service can serve, in the eyes of its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It can.
    Up,
    /// It can't, or is to get nothing new.
    Down,
    /// The source does not look.
    #[default]
    Unsaid,
    /// It says something that is not understood here: never healthy (behaviour 8).
    Unknown,
}

/// How a page tells a response time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timed {
    /// As a mean.
    Mean(Rtt),
    /// By what was spent on how many.
    Sums {
        /// Microseconds spent.
        micros: Counts,
        /// Answers given.
        answers: Counts,
    },
}
