//! What happened, in order: to compare two runs, and to read the end of a failed one.

use crate::world::HostIndex;
use bytes::Bytes;
use gslb_types::{ProbeKind, Timestamp};
use mep_core::proto;
use probes_core::wire::ProbeOutcome;
use prost::Message as _;
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

/// Lines kept for a failure to show.
const TAIL: usize = 80;

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// When, in the world's time.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum What {
    /// A node did what time had come for.
    Woke(HostIndex),
    /// A node sent a probe.
    Probe(HostIndex, IpAddr, ProbeKind),
    /// A node was told what became of one.
    Reply(HostIndex, IpAddr, String),
    /// A node was told what a check of this service saw.
    Check(HostIndex, IpAddr, bool),
    /// A frame left.
    Frame(HostIndex, HostIndex, Bytes),
    /// A node was told of a frame.
    Heard(HostIndex, HostIndex),
    /// A node was told by its carrier.
    Carrier(HostIndex, String),
    /// A node told its carrier.
    Command(HostIndex, String),
    /// A query, and what came back.
    Query(HostIndex, IpAddr, String),
    /// Somebody did something to the world.
    Act(String),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Frame(from, to, frame) => {
                let told = proto::Frame::decode(frame.clone()).ok().and_then(|frame| frame.body);
                write!(f, "{:?} Frame({from}, {to}, {told:?})", self.at)
            }
            what => write!(f, "{:?} {what:?}", self.at),
        }
    }
}

/// The record of a run.
#[derive(Clone, Default)]
pub struct Log {
    all: Option<Vec<Line>>,
    tail: VecDeque<Line>,
    count: u64,
    hash: u64,
}

impl Log {
    /// Keeps every line from here on.
    pub fn keep_all(&mut self) {
        self.all.get_or_insert_default();
    }

    pub(crate) fn note(&mut self, at: Timestamp, what: What) {
        let line = Line { at, what };
        self.hash = hash(&(self.hash, at, &line.what));
        self.count += 1;
        if let Some(all) = &mut self.all {
            all.push(line.clone());
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// Every line, if they were kept.
    pub fn lines(&self) -> &[Line] {
        self.all.as_deref().unwrap_or_default()
    }

    /// Every line if they were kept, else the last ones.
    pub fn to_show(&self) -> impl Iterator<Item = &Line> {
        let tail = self.tail.iter().filter(|_| self.all.is_none());
        self.lines().iter().chain(tail)
    }

    /// How many lines there were, and a hash over all of them.
    pub fn fingerprint(&self) -> (u64, u64) {
        (self.count, self.hash)
    }
}

/// A hash that is the same in every run.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = SipHasher13::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// How a line shows what became of a probe.
pub(crate) fn outcome(outcome: ProbeOutcome) -> String {
    format!("{outcome:?}")
}
