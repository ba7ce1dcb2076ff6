//! The worked examples as the vectors hold them, for the tests that play them.

#![allow(unreachable_pub, reason = "each test is a crate of its own and includes this module")]

use gslb_types::{LbMethod, Weight};
use lb_core::SCORE_SCALE;
use serde::Deserialize;

/// One file of vectors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub method: LbMethod,
    /// Whether the numbers are Nw; else they are N.
    pub weighted: bool,
    pub uncounted_in_printed: Option<u32>,
    pub printed: Vec<Row>,
    pub calculated: Vec<Row>,
    pub service: Vec<Service>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub request: u32,
    pub service: String,
    pub before: Printed,
    pub after: Printed,
    /// Absent where the article does not say.
    pub tied: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub name: String,
    pub weight: Weight,
    pub active: Option<u32>,
    /// In the articles' unit, taken as microseconds.
    pub response_time: Option<u32>,
    pub bytes: Option<u64>,
    pub bytes_per_request: Option<u64>,
}

impl Table {
    /// The file with this text.
    pub fn read(text: &str) -> Self {
        toml::from_str(text).unwrap()
    }

    /// The number that belongs into the table for this N and weight: the score, and the hundredths that its rounding down
    /// left.
    pub fn exact(&self, n: u64, weight: Weight, score: u128) -> Exact {
        if self.weighted {
            let hundredths = u128::from(n) * SCORE_SCALE * 100 / u128::from(weight.get());
            Exact { whole: score, hundredths }
        } else {
            assert_eq!(score, u128::from(n) * SCORE_SCALE);
            Exact { whole: score / SCORE_SCALE, hundredths: u128::from(n) * 100 }
        }
    }
}

/// What the code says: the whole number from the score itself, hundredths from the definition.
#[derive(Debug, Clone, Copy)]
pub struct Exact {
    pub whole: u128,
    pub hundredths: u128,
}

/// A number as the articles print it: `23333.34`.
#[derive(Deserialize, Debug)]
#[serde(transparent)]
pub struct Printed(String);

impl Printed {
    /// Equal in the whole part, and in the second decimal up to the article's rounding (70000 / 3 is printed 23333.34).
    pub fn shows(&self, exact: Exact) -> bool {
        let (whole, decimals) = self.0.split_once('.').unwrap_or((&self.0, "0"));
        let whole: u128 = whole.parse().unwrap();
        let decimals: u128 = format!("{decimals:0<2}").parse().unwrap();
        whole == exact.whole && (whole * 100 + decimals).abs_diff(exact.hundredths) <= 1
    }
}
