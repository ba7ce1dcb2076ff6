//! What is compared, and what one turn of it cost.

use super::load::Answers;
use crate::Failure;
use std::time::Duration;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// HTTP, connections kept.
    Http,
    /// HTTP, a connection for each request.
    HttpNew,
    /// HTTP in TLS 1.3, connections kept.
    Ssl,
    /// The same requests through a TCP virtual server, connections kept.
    Tcp,
}

impl Case {
    /// All, in the order of the last lines.
    pub const ALL: [Case; 4] = [Case::Http, Case::HttpNew, Case::Ssl, Case::Tcp];

    /// Its name in the last lines.
    pub const fn name(self) -> &'static str {
        match self {
            Case::Http => "http",
            Case::HttpNew => "http-new",
            Case::Ssl => "ssl",
            Case::Tcp => "tcp",
        }
    }
}

/// What the requests of one turn cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// CPU microseconds of the proxy for each request.
    pub micros: f64,
    /// Requests answered a second.
    pub per_second: f64,
    /// Milliseconds that one request of a hundred took longer than.
    pub p99: f64,
}

impl Turn {
    /// Fails if a request did: then something else was measured.
    pub(super) fn new(
        server: &'static str,
        answers: Answers,
        cpu: Duration,
        time: Duration,
    ) -> Result<Self, Failure> {
        if answers.failed > 0 {
            return Err(Failure::Failed(server, answers.failed));
        }
        let mut micros = answers.micros;
        micros.sort_unstable();
        let p99 = *micros.get(micros.len() * 99 / 100).ok_or(Failure::Silent(server))?;
        let count = micros.len() as f64;
        Ok(Turn {
            micros: cpu.as_secs_f64() * 1e6 / count,
            per_second: count / time.as_secs_f64(),
            p99: f64::from(p99) / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_cpu_time_over_answers() {
        let answers = Answers { micros: (1..=1000).rev().collect(), failed: 0 };
        let turn = Turn::new("x", answers, Duration::from_millis(20), Duration::from_secs(2)).unwrap();
        assert_eq!(turn, Turn { micros: 20.0, per_second: 500.0, p99: 0.991 });
    }

    #[test]
    fn a_turn_in_which_a_request_failed_has_no_figure() {
        let answers = Answers { micros: vec![1; 1000], failed: 1 };
        assert!(Turn::new("x", answers, Duration::from_millis(20), Duration::from_secs(2)).is_err());
        assert!(Turn::new("x", Answers::default(), Duration::ZERO, Duration::from_secs(2)).is_err());
    }
}
