//! The machine of foreign sources: looks at the pages of load balancers that stand in front of this site's services, and says
//! what they say of them.
//!
//! ```text
//!            an answer               `misses` looks without one
//!   Unheard -----------> Heard ----------------------------------> Silent
//!      |                   ^                an answer                |
//!      |                   +-----------------------------------------+
//!      +-- `misses` looks without one -------------------------------^
//! ```
//! What was heard ages while looks fail, and is forgotten once the source counts as silent: unknown, never zero. A page
//! without the row of a service is no answer for that service, since a load balancer that was just told of it, or just
//! forgot it, says nothing of how it is.

mod counter;
mod feed;
pub mod page;
mod reading;
#[cfg(test)]
mod tests;

pub use feed::{FeedView, Hearing};
pub use reading::{Counts, Health, Reading, Timed};

use crate::chance::{Chance, Ids};
use crate::wire::{Fetch, FetchReply, FetchRequest, ProbeId};
use feed::Feed;
use gslb_types::{Timers, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// After its timeout a fetch has this long to be reported, until it counts as failed: the sender is given the time to do so.
const SLACK: Duration = Duration::from_secs(1);

/// A page, and the services that it speaks of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceSettings {
    /// Its name, for reasons.
    pub name: String,
    /// What is fetched. Its items are those of `services`, in the same order.
    pub fetch: Arc<Fetch>,
    /// What outputs call the services: their indices in the configuration.
    pub services: Vec<usize>,
    /// From one look to the next.
    pub interval: Duration,
    /// How long one may take; less than the interval.
    pub timeout: Duration,
    /// Looks without an answer, in a row, after which nothing is known any more; 0 counts as 1.
    pub misses: u32,
}

/// What the machine wants done, or wants known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Look at this page.
    Fetch(FetchRequest),
    /// Something is known of this service, or no longer: see [`Sources::feed`].
    Told {
        /// The service.
        service: usize,
    },
    /// A source began to answer, or to fail.
    Turned {
        /// Its name.
        source: String,
        /// Why it fails; `None` if it answers.
        error: Option<String>,
    },
}

/// What is known of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceView {
    /// Its name.
    pub name: String,
    /// When it was last answered by.
    pub answered: Option<Timestamp>,
    /// Why the last look failed; `None` if it did not.
    pub error: Option<String>,
    /// Looks asked for.
    pub fetches: u64,
    /// Those that failed.
    pub failures: u64,
}

struct Source {
    settings: SourceSettings,
    feeds: Vec<Feed>,
    started: Timestamp,
    awaited: Option<ProbeId>,
    view: SourceView,
}

/// Looks at the pages of all sources.
pub struct Sources {
    sources: Vec<Source>,
    /// By service: the source, and the place there.
    places: BTreeMap<usize, (usize, usize)>,
    /// When each source is looked at again, or given up on.
    due: Timers<usize>,
    ids: Ids,
    chance: Chance,
    outputs: VecDeque<Output>,
}

impl Sources {
    /// A machine that looks at these pages, at once for the first time. The seed gives jitter and the first number.
    pub fn new(now: Timestamp, settings: Vec<SourceSettings>, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let ids = Ids::of_fetches(&mut chance);
        let mut due = Timers::new();
        let mut places = BTreeMap::new();
        let sources = settings.into_iter().enumerate().map(|(at, settings)| {
            due.set(at, now);
            places.extend(settings.services.iter().enumerate().map(|(nth, service)| (*service, (at, nth))));
            Source::new(settings, now)
        });
        let sources = sources.collect();
        let mut machine = Sources { sources, places, due, ids, chance, outputs: VecDeque::new() };
        machine.handle_timeout(now);
        machine
    }

    /// Takes in what became of a look. One that is not awaited is ignored.
    pub fn handle_reply(&mut self, now: Timestamp, reply: FetchReply) {
        let Some(at) = self.sources.iter().position(|source| source.awaited == Some(reply.id)) else {
            return;
        };
        self.settle(now, at, reply.outcome);
    }

    /// Does what time has come for.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(at) = self.due.expired(now) {
            match self.sources.get(at).map(|source| source.awaited) {
                Some(None) => self.start(now, at),
                Some(Some(_)) => self.settle(now, at, Err("nothing came of the look at it".to_owned())),
                None => {}
            }
        }
    }

    /// The next thing to do or to know. To be called after each `handle_…` until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Sources::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.due.next()
    }

    /// What is known of a service; `None` if it has no source.
    pub fn feed(&self, service: usize) -> Option<FeedView> {
        let (at, nth) = self.places.get(&service)?;
        let source = self.sources.get(*at)?;
        Some(source.feeds.get(*nth)?.view(&source.view))
    }

    /// The services that have a source.
    pub fn services(&self) -> impl Iterator<Item = usize> + '_ {
        self.places.keys().copied()
    }

    /// All sources, in the order they were given.
    pub fn sources(&self) -> impl Iterator<Item = &SourceView> {
        self.sources.iter().map(|source| &source.view)
    }

    fn start(&mut self, now: Timestamp, at: usize) {
        let Some(source) = self.sources.get_mut(at) else { return };
        let id = self.ids.next();
        let (fetch, timeout) = (source.settings.fetch.clone(), source.settings.timeout);
        source.started = now;
        source.awaited = Some(id);
        source.view.fetches += 1;
        self.due.set(at, now + timeout + SLACK);
        self.outputs.push_back(Output::Fetch(FetchRequest { id, fetch, timeout }));
    }

    fn settle(&mut self, now: Timestamp, at: usize, outcome: Result<Vec<Result<Reading, String>>, String>) {
        let Some(source) = self.sources.get_mut(at) else { return };
        source.awaited = None;
        let turned = source.learn(now, outcome);
        self.due.set(at, self.chance.next_turn(now, source.started, source.settings.interval));
        if turned {
            let (source, error) = (source.settings.name.clone(), source.view.error.clone());
            self.outputs.push_back(Output::Turned { source, error });
        }
        self.outputs
            .extend(source.settings.services.iter().map(|service| Output::Told { service: *service }));
    }
}

impl Source {
    fn new(settings: SourceSettings, now: Timestamp) -> Self {
        let view =
            SourceView { name: settings.name.clone(), answered: None, error: None, fetches: 0, failures: 0 };
        let feeds = settings.services.iter().map(|_| Feed::new(settings.misses)).collect();
        Source { settings, feeds, started: now, awaited: None, view }
    }

    /// Takes in what came of a look. Says whether the source turned from answering to failing or back.
    fn learn(&mut self, now: Timestamp, outcome: Result<Vec<Result<Reading, String>>, String>) -> bool {
        let is_first = self.view.answered.is_none() && self.view.failures == 0;
        let failed_before = self.view.error.is_some();
        match outcome {
            Ok(readings) => {
                (self.view.answered, self.view.error) = (Some(now), None);
                let mut readings = readings.into_iter();
                for feed in &mut self.feeds {
                    let missing = || Err("the look at it brought nothing of this service".to_owned());
                    feed.take(now, readings.next().unwrap_or_else(missing));
                }
            }
            Err(why) => {
                self.view.failures += 1;
                self.feeds.iter_mut().for_each(|feed| feed.take(now, Err(why.clone())));
                self.view.error = Some(why);
            }
        }
        is_first || failed_before != self.view.error.is_some()
    }
}
