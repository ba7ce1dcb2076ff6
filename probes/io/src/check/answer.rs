//! Looking for a pattern in an answer while it comes.

use super::limit::{Limit, Passed};
use super::stream::Times;
use super::words::quoted;
use super::{Fault, failed};
use gslb_types::{Pattern, Receive, Rtt};
use regex::bytes::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Bytes of an answer that are looked into: a page of status, many times over.
pub(super) const MOST: usize = 64 * 1024;

/// Between two searches of an answer that keeps coming. One that drips byte by byte would otherwise be searched as many times
/// as it has bytes.
const PAUSE: Duration = Duration::from_millis(1);

/// Bytes of a compiled pattern; the configuration refuses larger ones.
const COMPILED: usize = 1 << 20;

/// Compiled patterns that are kept. A configuration has some dozens.
const KEPT: usize = 1024;

/// Patterns, compiled once.
#[derive(Default)]
pub(crate) struct Matchers(Mutex<HashMap<Pattern, Regex>>);

impl Matchers {
    pub(super) fn of(&self, pattern: &Pattern) -> Result<Regex, Fault> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = kept.get(pattern) {
            return Ok(regex.clone());
        }
        let regex = compiled(pattern)
            .map_err(|_| Fault::Ours(format!("the pattern {pattern} is no regular expression")))?;
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(pattern.clone(), regex.clone());
        Ok(regex)
    }
}

fn compiled(pattern: &Pattern) -> Result<Regex, regex::Error> {
    match pattern {
        Pattern::Regex(text) => RegexBuilder::new(text).size_limit(COMPILED).build(),
        Pattern::Bytes(bytes) => {
            let mut text = String::with_capacity(bytes.len() * 4);
            for byte in bytes {
                // Writing to a string does not fail.
                let _ = write!(text, "\\x{byte:02x}");
            }
            RegexBuilder::new(&text).unicode(false).size_limit(COMPILED).build()
        }
    }
}

/// An answer as far as it has come.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    /// Up to which byte it had come when.
    arrivals: Vec<(usize, Instant)>,
}

impl Answer {
    fn came(&mut self, at: Instant) {
        match self.arrivals.last_mut() {
            // What comes within a moment of the piece before is of that moment: an answer that drips has few.
            Some(last) if at.saturating_duration_since(last.1) < PAUSE / 10 => {
                *last = (self.bytes.len(), last.1)
            }
            _ => self.arrivals.push((self.bytes.len(), at)),
        }
    }

    /// When all bytes before this one had come.
    fn when(&self, end: usize) -> Option<Instant> {
        self.arrivals.iter().find(|(len, _)| *len >= end).or(self.arrivals.last()).map(|(_, at)| *at)
    }
}

/// Where an answer comes from.
pub(super) trait Pieces: Send {
    /// Adds a piece to the answer and says when it came, or that there is no more. May be given up at any moment.
    fn next(&mut self, answer: &mut Vec<u8>) -> impl Future<Output = Result<Option<Instant>, Fault>> + Send;
}

/// How an answer ended without the pattern.
enum End {
    Closed,
    Full,
    TooLate,
}

/// Reads pieces of an answer until the pattern has come, or can't any more, and tells how long that took since the span
/// began.
///
/// A pattern that is not to come passes with the end of the answer, be it that the server closes, that [`MOST`] is full, or
/// that the time is over: then the response time is that of the last byte.
pub(super) async fn look_for(
    receive: &Receive,
    matcher: &Regex,
    times: &Times,
    limit: Limit,
    mut pieces: impl Pieces,
) -> Result<Rtt, Fault> {
    let (mut answer, mut searched, mut is_dirty) = (Answer::default(), None::<Instant>, false);
    loop {
        let may_search = searched.is_none_or(|at| at.elapsed() >= PAUSE);
        if is_dirty && (may_search || answer.bytes.len() >= MOST) {
            if let Some(found) = matcher.find(&answer.bytes) {
                let came = answer.when(found.end().max(1)).unwrap_or_else(Instant::now);
                return verdict_on_match(receive, times.span_to(came));
            }
            (searched, is_dirty) = (Some(Instant::now()), false);
        }
        if answer.bytes.len() >= MOST {
            return verdict_at_end(receive, times, &answer, End::Full, limit);
        }
        let piece = if is_dirty {
            // Until it is time for the next search.
            match limit.wait(timeout(PAUSE, pieces.next(&mut answer.bytes))).await {
                Ok(Err(_)) => continue,
                Ok(Ok(piece)) => Ok(piece),
                Err(Passed) => Err(Passed),
            }
        } else {
            limit.wait(pieces.next(&mut answer.bytes)).await
        };
        match piece {
            Ok(Ok(Some(at))) => {
                answer.bytes.truncate(MOST);
                answer.came(at);
                is_dirty = true;
            }
            Ok(Err(fault)) => return Err(fault),
            ended => {
                if let Some(found) = is_dirty.then(|| matcher.find(&answer.bytes)).flatten() {
                    let came = answer.when(found.end().max(1)).unwrap_or_else(Instant::now);
                    return verdict_on_match(receive, times.span_to(came));
                }
                let end = if ended.is_ok() { End::Closed } else { End::TooLate };
                return verdict_at_end(receive, times, &answer, end, limit);
            }
        }
    }
}

fn verdict_on_match(receive: &Receive, took: Rtt) -> Result<Rtt, Fault> {
    if receive.reverse {
        return failed(format!("the answer holds {}, which must not come", receive.pattern));
    }
    Ok(took)
}

fn verdict_at_end(
    receive: &Receive,
    times: &Times,
    answer: &Answer,
    end: End,
    limit: Limit,
) -> Result<Rtt, Fault> {
    let (pattern, came) = (&receive.pattern, quoted(&answer.bytes));
    if answer.bytes.is_empty() {
        return match end {
            End::TooLate => failed(limit.missing("no answer")),
            End::Closed | End::Full => failed("connection closed without an answer"),
        };
    }
    if receive.reverse {
        return Ok(times.span_to(answer.when(usize::MAX).unwrap_or_else(Instant::now)));
    }
    match end {
        End::TooLate => failed(format!("{pattern} did not come within {:?}, but {came}", limit.length())),
        End::Closed => failed(format!("{pattern} is not in the answer {came}")),
        End::Full => failed(format!("{pattern} is not in the first {MOST} bytes of the answer {came}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &[u8]) -> Pattern {
        Pattern::Bytes(text.to_vec())
    }

    #[test]
    fn bytes_are_looked_for_as_they_are() {
        let matchers = Matchers::default();
        let all: Vec<u8> = (0..=255).collect();
        for pattern in [&all[..], b".*", b"\xff\x00", "grüß".as_bytes(), b"(?i)a"] {
            let matcher = matchers.of(&bytes(pattern)).unwrap();
            let text = [b"x\ny", pattern, b"z"].concat();
            assert_eq!(matcher.find(&text).map(|m| m.range()), Some(3..3 + pattern.len()));
            assert!(!matcher.is_match(b"xyz A \xfe"), "{pattern:?}");
        }
        assert!(matches!(matchers.of(&Pattern::Regex("(".into())), Err(Fault::Ours(_))));
    }

    #[test]
    fn a_pattern_is_compiled_once_and_a_bounded_number_kept() {
        let matchers = Matchers::default();
        for n in 0..KEPT + 10 {
            matchers.of(&bytes(n.to_string().as_bytes())).unwrap();
        }
        assert_eq!(matchers.0.lock().unwrap().len(), 10);
    }

    #[test]
    fn a_byte_came_with_the_piece_that_brought_it() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut answer = Answer::default();
        for (piece, ms) in [("+PO", 10), ("NG\r\n", 30), ("x", 90)] {
            answer.bytes.extend_from_slice(piece.as_bytes());
            answer.came(at(ms));
        }
        let when = [1, 3, 4, 7, 8, 99].map(|end| answer.when(end));
        assert_eq!(when, [at(10), at(10), at(30), at(30), at(90), at(90)].map(Some));
    }
}
