//! Why a measurement ended early.

use std::io;
use std::time::Duration;

/// Why there is no figure. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The system refused something.
    #[error("{0}: {1}")]
    System(String, io::Error),
    /// One CPU is for the server, another for the load.
    #[error("two CPUs are needed, one for the server and one for the load: {0} can be used here")]
    Cpus(usize),
    /// A server ended by itself.
    #[error("{server} ended by itself; the end of its log:\n{log}")]
    Ended {
        /// Which.
        server: &'static str,
        /// The end of what it wrote.
        log: String,
    },
    /// A server does not get ready.
    #[error("{server} was not ready within {within:?}: {why}; the end of its log:\n{log}")]
    NotReady {
        /// Which.
        server: &'static str,
        /// How long it had.
        within: Duration,
        /// What is missing.
        why: String,
        /// The end of what it wrote.
        log: String,
    },
    /// A server's answers are not those that were to be measured.
    #[error("{0} gave {1} answers that are not one address")]
    Wrong(&'static str, u64),
    /// A proxy failed requests: what the others cost is not comparable.
    #[error("{0} gave {1} requests no whole answer with status 200")]
    Failed(&'static str, u64),
    /// Too few answers to divide by.
    #[error("{0} gave no answer")]
    Silent(&'static str),
    /// Answers of ours did not come from RTTs, so another path was measured.
    #[error("{by_rtt} of {answers} answers of gslb-dns were decided by RTT")]
    NotByRtt {
        /// Answers by RTT.
        by_rtt: u64,
        /// All answers.
        answers: u64,
    },
    /// Somebody wants it to end.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// Says what the system refused.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |error| Failure::System(what, error)
    }
}
