//! What a monitor's checks saw, the last few of them.

use crate::wire::CheckOutcome;
use gslb_types::{Rtt, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Results kept of each monitor: enough to see a flap, at some hundred bytes.
const KEPT: usize = 10;

/// What one check saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It passed; what it measured, and what was said to it.
    Passed {
        /// Absent of a reversed monitor: that something fails takes no time.
        response_time: Option<Rtt>,
        /// A command's first line.
        words: Option<Arc<str>>,
    },
    /// It failed, for this reason.
    Failed(Arc<str>),
    /// It could not be done, for this reason.
    NotDone(Arc<str>),
    /// Nobody reported it (faults I-57).
    Unreported,
}

impl Seen {
    /// What an outcome, or that there is none, says of the service. To a monitor that is reversed a service which fails is
    /// one that passes.
    pub(super) fn of(outcome: Option<CheckOutcome>, is_reversed: bool) -> Self {
        match (outcome, is_reversed) {
            (None, _) => Seen::Unreported,
            (Some(CheckOutcome::NotPermitted), _) => Seen::NotDone("not permitted to this process".into()),
            (Some(CheckOutcome::Unable(why)), _) => Seen::NotDone(why.into()),
            (Some(CheckOutcome::Passed(rtt)), false) => {
                Seen::Passed { response_time: Some(rtt), words: None }
            }
            (Some(CheckOutcome::Reported { response_time, words, .. }), false) => {
                Seen::Passed { response_time: Some(response_time), words: Some(words.into()) }
            }
            (Some(CheckOutcome::Failed(why)), false) => Seen::Failed(why.into()),
            (Some(CheckOutcome::Passed(rtt)), true) => {
                Seen::Failed(format!("passed in {rtt}, and it is reversed").into())
            }
            (Some(CheckOutcome::Reported { words, .. }), true) => {
                Seen::Failed(format!("passed, and it is reversed: {words}").into())
            }
            (Some(CheckOutcome::Failed(why)), true) => {
                Seen::Passed { response_time: None, words: Some(format!("as it should: {why}").into()) }
            }
        }
    }

    /// Whether the service was found well; `None` if nothing was found out.
    pub fn passes(&self) -> Option<bool> {
        match self {
            Seen::Passed { .. } => Some(true),
            Seen::Failed(_) => Some(false),
            Seen::NotDone(_) | Seen::Unreported => None,
        }
    }
}

/// In words for an operator.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Passed { response_time: Some(rtt), words: None } => write!(f, "passed in {rtt}"),
            Seen::Passed { response_time: Some(rtt), words: Some(words) } => {
                write!(f, "passed in {rtt}: {words}")
            }
            Seen::Passed { response_time: None, words: Some(words) } => write!(f, "passed, {words}"),
            Seen::Passed { response_time: None, words: None } => f.write_str("passed"),
            Seen::Failed(why) => write!(f, "failed: {why}"),
            Seen::NotDone(why) => f.write_str(why),
            Seen::Unreported => f.write_str("no report from the checker"),
        }
    }
}

/// A result with its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastResult {
    /// When it was reported.
    pub at: Timestamp,
    /// What was seen.
    pub seen: Seen,
}

/// The last results, the newest last. Cheap to clone, since it is shown with every publication.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History(Arc<VecDeque<PastResult>>);

impl History {
    /// Adds what was seen then; the oldest beyond ten goes.
    pub fn add(&mut self, at: Timestamp, seen: Seen) {
        let results = Arc::make_mut(&mut self.0);
        if results.len() == KEPT {
            results.pop_front();
        }
        results.push_back(PastResult { at, seen });
    }

    /// The newest.
    pub fn last(&self) -> Option<&Seen> {
        self.0.back().map(|result| &result.seen)
    }

    /// The last ten at most, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PastResult> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1000)
    }

    #[test]
    fn the_last_ten_results_are_kept() {
        let mut history = History::default();
        assert_eq!(history.last(), None);
        let shown = history.clone();
        for n in 0..12 {
            history.add(at(n), Seen::Failed(n.to_string().into()));
        }
        let kept: Vec<String> = history.iter().map(|r| r.seen.to_string()).collect();
        assert_eq!((kept.len(), kept[0].as_str(), kept[9].as_str()), (10, "failed: 2", "failed: 11"));
        assert_eq!(shown.iter().count(), 0, "what was shown before stays as it was");
    }

    #[test]
    fn to_a_reversed_monitor_a_failure_passes_and_measures_nothing() {
        let failed = || Some(CheckOutcome::Failed("connection refused".to_owned()));
        let passed = Some(CheckOutcome::Passed(Rtt::from_micros(3000)));
        assert_eq!(Seen::of(failed(), false).to_string(), "failed: connection refused");
        assert_eq!(Seen::of(failed(), true).to_string(), "passed, as it should: connection refused");
        assert_eq!(Seen::of(passed, true).to_string(), "failed: passed in 3.000ms, and it is reversed");
        for outcome in [CheckOutcome::NotPermitted, CheckOutcome::Unable("no such command".to_owned())] {
            assert_eq!(Seen::of(Some(outcome.clone()), true), Seen::of(Some(outcome), false));
        }
        assert_eq!(Seen::of(None, true).passes(), None);
    }
}
