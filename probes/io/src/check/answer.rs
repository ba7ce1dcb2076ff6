//! Looking for a pattern in an answer while it comes.

use super::limit::{Limit, Passed};
use super::matcher::Matcher;
use super::stream::Times;
use super::words::quoted;
use super::{Fault, MOST, failed};
use gslb_types::{Receive, Rtt};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Between two searches of an answer that keeps coming. One that drips byte by byte would otherwise be searched as many times
/// as it has bytes.
const PAUSE: Duration = Duration::from_millis(1);

/// And at least so many times what the last search took: a long answer and a costly pattern must not keep a thread from
/// what else it has to do.
const REST: u32 = 20;

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
    /// Whether the protocol itself says where an answer ends. Where it does not, one has ended when the server closes, or
    /// when its time is over and what came last ends a line: a server that is asked for more keeps the connection.
    const SAYS_ITS_END: bool;

    /// Adds a piece to the answer and says when it came, or that there is no more. May be given up at any moment.
    fn next(&mut self, answer: &mut Vec<u8>) -> impl Future<Output = Result<Option<Instant>, Fault>> + Send;
}

/// How an answer ended without the pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Full,
    TooLate,
}

/// What an answer is searched for, and when again.
struct Search<'a> {
    receive: &'a Receive,
    matcher: &'a Matcher,
    times: &'a Times,
    limit: Limit,
    /// Not before then.
    next: Option<Instant>,
    /// Whether more came since the last search.
    is_due: bool,
}

/// Reads pieces of an answer until the pattern has come, or can't any more, and tells how long that took since the span
/// began.
///
/// A pattern that is not to come passes with the end of the answer, and the response time is that of its last byte. It fails
/// as long as more may come: of half an answer, or one that is longer than [`MOST`], nobody knows what the rest holds.
pub(super) async fn look_for<P: Pieces>(
    receive: &Receive,
    matcher: &Matcher,
    times: &Times,
    limit: Limit,
    mut pieces: P,
) -> Result<Rtt, Fault> {
    let mut answer = Answer::default();
    let mut search = Search { receive, matcher, times, limit, next: None, is_due: false };
    loop {
        let is_full = answer.bytes.len() > MOST;
        if search.is_due
            && (is_full || search.next.is_none_or(|at| Instant::now() >= at))
            && let Some(verdict) = search.verdict_on(&answer, false)
        {
            return verdict;
        }
        if is_full {
            return search.verdict_at_end::<P>(&answer, End::Full);
        }
        let piece = match search.next.filter(|_| search.is_due) {
            // Until it is time for the next search.
            Some(next) => {
                let wait =
                    timeout(next.saturating_duration_since(Instant::now()), pieces.next(&mut answer.bytes));
                match limit.wait(wait).await {
                    Ok(Err(_)) => continue,
                    Ok(Ok(piece)) => Ok(piece),
                    Err(Passed) => Err(Passed),
                }
            }
            None => limit.wait(pieces.next(&mut answer.bytes)).await,
        };
        match piece {
            Ok(Ok(Some(at))) => {
                answer.bytes.truncate(MOST + 1);
                answer.came(at);
                search.is_due = true;
            }
            Ok(Ok(None)) => return search.verdict_at_end::<P>(&answer, End::Closed),
            Ok(Err(fault)) => return search.verdict_on(&answer, false).unwrap_or(Err(fault)),
            Err(Passed) => return search.verdict_at_end::<P>(&answer, End::TooLate),
        }
    }
}

impl Search<'_> {
    /// The verdict if the pattern has come.
    fn verdict_on(&mut self, answer: &Answer, is_whole: bool) -> Option<Result<Rtt, Fault>> {
        let began = Instant::now();
        let end = self.matcher.end_in(&answer.bytes, is_whole);
        let pause = began.elapsed().saturating_mul(REST).max(PAUSE);
        (self.next, self.is_due) = (Instant::now().checked_add(pause), false);
        let came = answer.when(end?.max(1)).unwrap_or_else(Instant::now);
        Some(match self.receive.reverse {
            true => failed(format!("the answer holds {}, which must not come", self.receive.pattern)),
            false => Ok(self.times.span_to(came)),
        })
    }

    fn verdict_at_end<P: Pieces>(&mut self, answer: &Answer, end: End) -> Result<Rtt, Fault> {
        let (pattern, limit, came) = (&self.receive.pattern, self.limit, quoted(&answer.bytes));
        if answer.bytes.is_empty() {
            return match end {
                End::TooLate => failed(limit.missing("no answer")),
                End::Closed | End::Full => failed("connection closed without an answer"),
            };
        }
        let has_ended = match end {
            End::Closed => true,
            End::TooLate => !P::SAYS_ITS_END && answer.bytes.ends_with(b"\n"),
            End::Full => false,
        };
        // What must not come is refused also where it only may have come.
        if let Some(verdict) = self.verdict_on(answer, has_ended || self.receive.reverse) {
            return verdict;
        }
        match (self.receive.reverse, end) {
            (true, _) if has_ended => {
                Ok(self.times.span_to(answer.when(usize::MAX).unwrap_or_else(Instant::now)))
            }
            (true, End::Full) => {
                failed(format!("the answer is longer than {MOST} bytes, and {pattern} may follow"))
            }
            (true, End::Closed | End::TooLate) => {
                failed(format!("the answer did not end within {:?}, but {came}", limit.length()))
            }
            (false, End::TooLate) => {
                failed(format!("{pattern} did not come within {:?}, but {came}", limit.length()))
            }
            (false, End::Closed) => failed(format!("{pattern} is not in the answer {came}")),
            (false, End::Full) => {
                failed(format!("{pattern} is not in the first {MOST} bytes of the answer {came}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
