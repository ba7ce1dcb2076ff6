//! What is known of one service by its source.

use super::SourceView;
use super::counter::Counter;
use super::reading::{Health, Reading, Timed};
use gslb_types::{Rtt, Timestamp};

/// See the diagram of [`sources`](super).
#[derive(Clone, Debug)]
enum State {
    Unheard,
    Heard(Box<Known>),
    Silent,
}

/// What the last answers said.
#[derive(Clone, Debug)]
struct Known {
    at: Timestamp,
    reading: Reading,
    bytes: Counter,
    requests: Counter,
    micros: Counter,
    answers: Counter,
}

pub(super) struct Feed {
    most_misses: u32,
    state: State,
    missed: u32,
    error: Option<String>,
}

/// How a service is in the eyes of its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hearing {
    /// Nothing was heard yet.
    Unheard,
    /// The source said this.
    Heard(Health),
    /// Nothing is heard any more.
    Silent,
}

/// What is known of a service by its source. Numbers are `None` while nobody says them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedView {
    /// The source.
    pub source: String,
    /// How the service is.
    pub hearing: Hearing,
    /// In the source's words.
    pub words: String,
    /// When that was said.
    pub heard: Option<Timestamp>,
    /// Why the last look brought nothing; `None` if it did.
    pub error: Option<String>,
    /// Active transactions.
    pub active: Option<u64>,
    /// Open connections.
    pub connections: Option<u64>,
    /// Bytes both ways of the last 14 s.
    pub bytes: Option<u64>,
    /// Requests since the first look.
    pub requests: Option<u64>,
    /// How long it takes to answer.
    pub response_time: Option<Rtt>,
    /// Its load, by the operator's own reckoning, in thousandths.
    pub load: Option<u64>,
}

impl Feed {
    pub(super) fn new(most_misses: u32) -> Self {
        Feed { most_misses: most_misses.max(1), state: State::Unheard, missed: 0, error: None }
    }

    pub(super) fn take(&mut self, now: Timestamp, reading: Result<Reading, String>) {
        match reading {
            Ok(reading) => {
                (self.missed, self.error) = (0, None);
                match &mut self.state {
                    State::Heard(known) => known.take(now, reading),
                    State::Unheard | State::Silent => {
                        self.state = State::Heard(Box::new(Known::new(now, reading)))
                    }
                }
            }
            Err(why) => {
                self.missed = self.missed.saturating_add(1);
                self.error = Some(why);
                if self.missed >= self.most_misses {
                    self.state = State::Silent;
                }
            }
        }
    }

    pub(super) fn view(&self, source: &SourceView) -> FeedView {
        let view = FeedView {
            source: source.name.clone(),
            hearing: Hearing::Unheard,
            words: String::new(),
            heard: None,
            error: self.error.clone(),
            active: None,
            connections: None,
            bytes: None,
            requests: None,
            response_time: None,
            load: None,
        };
        match &self.state {
            State::Unheard => view,
            State::Silent => FeedView { hearing: Hearing::Silent, ..view },
            State::Heard(known) => FeedView {
                hearing: Hearing::Heard(known.reading.health),
                words: known.reading.words.clone(),
                heard: Some(known.at),
                active: known.reading.active,
                connections: known.reading.connections,
                bytes: known.reading.bytes.as_ref().and(known.bytes.in_window()),
                requests: known.reading.requests.as_ref().map(|_| known.requests.total()),
                response_time: known.response_time(),
                load: known.reading.load,
                ..view
            },
        }
    }
}

impl Known {
    fn new(now: Timestamp, reading: Reading) -> Self {
        let mut known = Known {
            at: now,
            reading: Reading::default(),
            bytes: Counter::default(),
            requests: Counter::default(),
            micros: Counter::default(),
            answers: Counter::default(),
        };
        known.take(now, reading);
        known
    }

    fn take(&mut self, now: Timestamp, reading: Reading) {
        let counters = [(&mut self.bytes, &reading.bytes), (&mut self.requests, &reading.requests)];
        for (counter, counts) in counters {
            counts.iter().for_each(|counts| counter.note(now, counts));
        }
        if let Some(Timed::Sums { micros, answers }) = &reading.timing {
            self.micros.note(now, micros);
            self.answers.note(now, answers);
        }
        (self.at, self.reading) = (now, reading);
    }

    /// Of counters, the mean over the window; `None` without an answer in it.
    fn response_time(&self) -> Option<Rtt> {
        match &self.reading.timing {
            Some(Timed::Mean(mean)) => Some(*mean),
            Some(Timed::Sums { .. }) => {
                let mean = self.micros.in_window()?.checked_div(self.answers.in_window()?)?;
                Some(Rtt::from_micros(u32::try_from(mean).unwrap_or(u32::MAX)))
            }
            None => None,
        }
    }
}
