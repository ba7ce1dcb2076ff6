//! What is relayed: for each site what its nodes said, and how far those who asked for it have been told.
//!
//! Only what this node hears itself is in here, so nothing is relayed twice. Metrics are kept as they were told, since
//! nobody else keeps them by node; RTTs are read from the table when they are sent, as this site's own are.

use super::part::{Part, row};
use super::steps::Step;
use crate::log::{ChangeLog, Cursor};
use crate::wire::{self, CHUNK, Said};
use crate::{RttRow, ServiceMetric, Values};
use gslb_types::{Ldns, NodeId, ProbeKind, Reach, ServiceName, SiteName, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Services kept of one node; what a peer names beyond that is not relayed.
const MOST_SERVICES: usize = 8192;

/// What the nodes that are heard have said.
pub(super) struct Heard {
    nodes: BTreeMap<NodeId, Node>,
    logs: BTreeMap<SiteName, Log>,
}

/// A node of this or another site that has a session with this one.
struct Node {
    last_word: Timestamp,
    /// What it last said of its services, and when that was true.
    services: BTreeMap<ServiceName, (ServiceMetric, Timestamp)>,
}

/// The changes of a site's RTTs that not everybody who asked has been told.
struct Log {
    changes: ChangeLog<Ldns, Note>,
    due: u64,
}

/// The site's last word about an LDNS, for where the table does not have it: its entry may have been pushed out here, and the
/// words of this node would go on confirming what it told before. That a value no longer holds is told on only if it is the
/// site's word: this node may have no value for other reasons.
#[derive(Clone, Copy)]
struct Note {
    reach: Reach,
    kind: Option<ProbeKind>,
    told: Timestamp,
}

/// What one peer is told of one site.
#[derive(Debug)]
pub(super) struct Stream {
    stage: Stage,
    /// The nodes whose services are still to be told, and from which one.
    metrics: BTreeMap<NodeId, usize>,
    /// The nodes whose numbers have changed since, which may wait.
    numbers: BTreeSet<NodeId>,
    pub(super) rtts: Cursor,
    walk: Walk,
    /// The site's age is to be told, though nothing is new.
    word: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Begins { at: Timestamp },
    Goes,
    Ends,
    Over,
}

/// How far the telling of all RTTs has come.
#[derive(Clone, Copy, Debug)]
enum Walk {
    At { after: Option<Ldns> },
    Done,
}

impl Heard {
    pub(super) fn new() -> Self {
        Heard { nodes: BTreeMap::new(), logs: BTreeMap::new() }
    }

    pub(super) fn up(&mut self, now: Timestamp, node: &NodeId) {
        self.nodes.insert(node.clone(), Node { last_word: now, services: BTreeMap::new() });
    }

    /// The session with a node ended. Returns whether its site is not heard any longer.
    pub(super) fn down(&mut self, node: &NodeId) -> bool {
        self.nodes.remove(node).is_some() && !self.hears(&node.site)
    }

    pub(super) fn word(&mut self, now: Timestamp, node: &NodeId) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.last_word = now;
        }
    }

    /// Keeps what a node said. Returns whether a service is new or in another state.
    pub(super) fn metrics(&mut self, taken: Timestamp, node: &NodeId, services: &[ServiceMetric]) -> bool {
        let Some(node) = self.nodes.get_mut(node) else { return false };
        let mut changed = false;
        for service in services {
            let before = node.services.get(&service.name).map(|(before, _)| before.state);
            if before.is_some() || node.services.len() < MOST_SERVICES {
                changed |= before != Some(service.state);
                node.services.insert(service.name.clone(), (service.clone(), taken));
            }
        }
        changed
    }

    pub(super) fn hears(&self, site: &SiteName) -> bool {
        self.nodes.keys().any(|node| node.site == *site)
    }

    /// Notes what a site said of an LDNS. Returns the number the word before had.
    pub(super) fn note(&mut self, now: Timestamp, site: &SiteName, row: &RttRow) -> Option<u64> {
        let note = Note { reach: row.reach, kind: row.kind, told: now.before(row.age) };
        self.log(site).changes.note(row.ldns, |_| note)
    }

    /// Lets the changes noted so far be sent.
    pub(super) fn due(&mut self) {
        for log in self.logs.values_mut() {
            log.due = log.changes.last();
        }
    }

    /// Changes that wait for somebody.
    pub(super) fn len(&self) -> usize {
        self.logs.values().map(|log| log.changes.len()).sum()
    }

    /// Forgets what everybody has read, which is up to these numbers; sites not named have no readers.
    pub(super) fn forget(&mut self, read: &BTreeMap<&SiteName, u64>) {
        for (site, log) in &mut self.logs {
            log.changes.forget(read.get(site).copied().unwrap_or(log.changes.last()));
        }
    }

    /// A stream that begins at some time, with everything; one that ends at once if the site is not heard.
    pub(super) fn stream(&mut self, at: Timestamp, site: &SiteName) -> Stream {
        let stage = if self.hears(site) { Stage::Begins { at } } else { Stage::Ends };
        let from = self.nodes.keys().filter(|node| node.site == *site).map(|node| (node.clone(), 0));
        Stream {
            stage,
            metrics: from.collect(),
            numbers: BTreeSet::new(),
            rtts: Cursor::new(self.log(site).changes.last()),
            walk: Walk::At { after: None },
            word: false,
        }
    }

    /// Takes a stream that fell too far behind back to its beginning. The reader is told so: that values came to an end is not told
    /// again.
    pub(super) fn restart(&mut self, now: Timestamp, site: &SiteName, stream: &mut Stream) {
        if stream.stage == Stage::Goes {
            stream.stage = Stage::Begins { at: now };
        }
        stream.rtts = Cursor::new(self.log(site).changes.last());
        stream.walk = Walk::At { after: None };
    }

    /// What is to be told next of a site, the walk apart. Nothing may come of a step.
    pub(super) fn next(
        &self,
        now: Timestamp,
        site: &SiteName,
        stream: &mut Stream,
        values: &dyn Values,
    ) -> Step {
        let said = match stream.stage {
            Stage::Over => return Step::Idle,
            Stage::Begins { at } if now < at => return Step::Idle,
            Stage::Ends => {
                stream.stage = Stage::Over;
                Said::End
            }
            Stage::Begins { .. } => {
                stream.stage = Stage::Goes;
                Said::Begin
            }
            Stage::Goes if self.has_news(site, stream) => match self.news(now, site, stream, values) {
                Some(said) => said,
                None => return Step::Went(Vec::new()),
            },
            Stage::Goes if stream.word => Said::Nothing,
            Stage::Goes => return Step::Idle,
        };
        Step::Went(vec![self.part(now, site, stream, &said, values)])
    }

    fn has_news(&self, site: &SiteName, stream: &Stream) -> bool {
        let is_due = |log: &Log| stream.rtts.pending > 0 && stream.rtts.at < log.due;
        !stream.metrics.is_empty() || self.logs.get(site).is_some_and(is_due)
    }

    /// The next chunk of the walk over all RTTs.
    pub(super) fn walk(
        &self,
        now: Timestamp,
        site: &SiteName,
        stream: &mut Stream,
        values: &dyn Values,
    ) -> Option<Part> {
        let Walk::At { after } = stream.walk else { return None };
        if stream.stage != Stage::Goes {
            return None;
        }
        let chunk = values.column_after(site, after, CHUNK);
        let Some(last) = chunk.last().map(|known| known.ldns).filter(|last| Some(*last) > after) else {
            stream.walk = Walk::Done;
            return None;
        };
        stream.walk = Walk::At { after: Some(last) };
        let rows: Vec<RttRow> = chunk.iter().filter(|known| known.reach != Reach::Pending).map(row).collect();
        // A chunk of nothing is told as well: it has cost as much, and the walk keeps its pace.
        let said = if rows.is_empty() { Said::Nothing } else { Said::Rtts(rows) };
        Some(self.part(now, site, stream, &said, values))
    }

    /// What the table says of LDNS that somebody asked for.
    pub(super) fn answer(
        &self,
        now: Timestamp,
        site: &SiteName,
        stream: &mut Stream,
        asked: &[Ldns],
        values: &dyn Values,
    ) -> Option<Part> {
        if stream.stage != Stage::Goes {
            return None;
        }
        let known = values.columns(site, asked).into_iter().filter(|known| known.reach != Reach::Pending);
        let rows: Vec<RttRow> = known.map(|known| row(&known)).collect();
        (!rows.is_empty()).then(|| self.part(now, site, stream, &Said::Rtts(rows), values))
    }

    fn news(
        &self,
        now: Timestamp,
        site: &SiteName,
        stream: &mut Stream,
        values: &dyn Values,
    ) -> Option<Said> {
        while let Some((node, from)) = stream.metrics.pop_first() {
            let Some(said) = self.nodes.get(&node) else { continue };
            let chunk: Vec<&(ServiceMetric, Timestamp)> =
                said.services.values().skip(from).take(CHUNK).collect();
            if from + chunk.len() < said.services.len() {
                stream.metrics.insert(node.clone(), from + chunk.len());
            }
            if let Some(oldest) = chunk.iter().map(|(_, taken)| *taken).min() {
                let services = chunk.iter().map(|(service, _)| service.clone()).collect();
                return Some(Said::Metrics { node, age: now.since(oldest), services });
            }
        }
        let log = self.logs.get(site)?;
        if stream.rtts.pending == 0 || stream.rtts.at >= log.due {
            return None;
        }
        let due: Vec<(u64, Ldns, Note)> = log
            .changes
            .between(stream.rtts.at, log.due)
            .take(CHUNK)
            .map(|(number, ldns, note)| (number, ldns, *note))
            .collect();
        let upto = due.last().filter(|_| due.len() == CHUNK).map_or(log.due, |(number, ..)| *number);
        stream.rtts.read(upto, due.len());
        let asked: Vec<Ldns> = due.iter().map(|(_, ldns, _)| *ldns).collect();
        let known = values.columns(site, &asked).into_iter().filter(|known| known.reach != Reach::Pending);
        let known: BTreeMap<Ldns, RttRow> = known.map(|known| (known.ldns, row(&known))).collect();
        let column_age = values.column_age(site);
        let noted = |ldns: Ldns, note: Note| {
            // The words that came since confirm it.
            let age = now.since(note.told).min(column_age.unwrap_or(Duration::MAX));
            RttRow { ldns, reach: note.reach, kind: note.kind, age }
        };
        let in_table = |ldns: &Ldns| known.get(ldns).copied();
        let rows = due.iter().map(|(_, ldns, note)| in_table(ldns).unwrap_or_else(|| noted(*ldns, *note)));
        let rows: Vec<RttRow> = rows.collect();
        (!rows.is_empty()).then_some(Said::Rtts(rows))
    }

    fn part(
        &self,
        now: Timestamp,
        site: &SiteName,
        stream: &mut Stream,
        said: &Said,
        values: &dyn Values,
    ) -> Part {
        stream.word = false;
        let here = self.nodes.iter().filter(|(node, _)| node.site == *site);
        let last_word = here.map(|(_, said)| said.last_word).max();
        let age = last_word.map_or(Duration::MAX, |last_word| now.since(last_word));
        let rows = if let Said::Rtts(rows) = said { rows.len() as u64 } else { 0 };
        let column_age = values.column_age(site).unwrap_or(age);
        Part { relayed: rows, ..Part::new(wire::relayed(site, age, column_age, said)) }
    }

    fn log(&mut self, site: &SiteName) -> &mut Log {
        let new = || Log { changes: ChangeLog::new(), due: 0 };
        self.logs.entry(site.clone()).or_insert_with(new)
    }
}

impl Stream {
    /// A node of the site said something of its services; `at_once` if it does not wait for company.
    pub(super) fn metrics_came(&mut self, node: &NodeId, at_once: bool) {
        if at_once {
            self.metrics.insert(node.clone(), 0);
        } else {
            self.numbers.insert(node.clone());
        }
    }

    /// The age of the site's last word is to be told, and the numbers that came since.
    pub(super) fn word_due(&mut self) {
        self.word = true;
        self.metrics.extend(std::mem::take(&mut self.numbers).into_iter().map(|node| (node, 0)));
    }

    /// The site is not heard any longer.
    pub(super) fn lost(&mut self) {
        self.stage = Stage::Ends;
    }

    /// Whether its end was told.
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// When it may begin, if it has not.
    pub(super) fn begins_at(&self) -> Option<Timestamp> {
        match self.stage {
            Stage::Begins { at } => Some(at),
            Stage::Goes | Stage::Ends | Stage::Over => None,
        }
    }

    /// Whether there is more of its walk to come.
    pub(super) fn walks(&self) -> bool {
        matches!(self.walk, Walk::At { .. }) && self.stage == Stage::Goes
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.walks()
            || self.word
            || self.stage != Stage::Goes
            || !self.metrics.is_empty()
            || self.rtts.pending > 0
    }
}
