//! The RTT table: for each LDNS a row, for each site a cell.
//!
//! One writer (the node task), many readers (the DNS threads). Only site S's word writes column S, so nothing is ever
//! merged. A reader holds a shard's lock for the copy of one row and no longer.

use crate::cell::{Cell, seconds};
use dashmap::DashMap;
use foldhash::fast::FixedState;
use gslb_types::{Ldns, SiteIndex, Timestamp};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// All that is known of one LDNS.
#[derive(Clone, Default)]
pub struct Row {
    first_seen: u32,
    last_seen: u32,
    cells: SmallVec<[Cell; 4]>,
}

impl Row {
    /// A row of that many pending cells.
    pub fn new(sites: usize, seen: Timestamp) -> Self {
        Row {
            first_seen: seconds(seen),
            last_seen: seconds(seen),
            cells: SmallVec::from_elem(Cell::default(), sites),
        }
    }

    /// The cell of a site; pending if the site is not in the table.
    pub fn cell(&self, site: SiteIndex) -> Cell {
        self.cells.get(site.get()).copied().unwrap_or_default()
    }

    /// When the LDNS was first heard of; whole seconds.
    pub fn first_seen(&self) -> Timestamp {
        Timestamp::from_micros(u64::from(self.first_seen) * 1_000_000)
    }

    /// When the LDNS last asked anybody in the group; whole seconds.
    pub fn last_seen(&self) -> Timestamp {
        Timestamp::from_micros(u64::from(self.last_seen) * 1_000_000)
    }
}

/// Parts with a lock of their own. A walk over the table (a page of the admin API) holds one at a time: with a million rows that
/// is some 4,000 rows, tens of microseconds in which the writer waits.
const SHARDS: usize = 256;

/// What happened to the row of an LDNS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// It was made, or written into.
    Row(Ldns),
    /// It was taken away.
    Gone(Ldns),
}

type Watcher = Box<dyn Fn(Written) + Send + Sync>;

/// The table itself.
pub struct RttTable {
    rows: DashMap<Ldns, Row, FixedState>,
    sites: usize,
    /// Who is told of every write.
    watcher: OnceLock<Watcher>,
}

impl RttTable {
    /// An empty table for that many sites. The seed is random in production (threat T12) and fixed in the simulator.
    pub fn new(sites: usize, seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let rows = DashMap::with_hasher_and_shard_amount(hasher, SHARDS);
        RttTable { rows, sites, watcher: OnceLock::new() }
    }

    /// Tells `watcher` of every write from here on, in order and before the writer goes on: for a simulator that looks at every
    /// change. The first one stays.
    pub fn watch(&self, watcher: impl Fn(Written) + Send + Sync + 'static) {
        let _ = self.watcher.set(Box::new(watcher));
    }

    fn note(&self, what: Written) {
        if let Some(watcher) = self.watcher.get() {
            watcher(what);
        }
    }

    /// A copy of the row of an LDNS.
    pub fn row(&self, ldns: Ldns) -> Option<Row> {
        self.rows.get(&ldns).map(|r| r.clone())
    }

    /// One cell of the row of an LDNS; nothing if it has no row.
    pub fn cell(&self, ldns: Ldns, site: SiteIndex) -> Option<Cell> {
        self.rows.get(&ldns).map(|row| row.cell(site))
    }

    /// When an LDNS last asked; nothing if it has no row.
    pub fn last_seen(&self, ldns: Ldns) -> Option<Timestamp> {
        self.rows.get(&ldns).map(|row| row.last_seen())
    }

    /// How many LDNS have a row.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no LDNS has a row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Makes the row of an LDNS that is new to this node at `now`, and asked somebody in the group at `seen`, before that
    /// perhaps. A row that is there stays.
    pub fn admitted(&self, ldns: Ldns, now: Timestamp, seen: Timestamp) {
        self.note(Written::Row(ldns));
        let mut row = self.rows.entry(ldns).or_insert_with(|| Row::new(self.sites, now));
        row.last_seen = seconds(seen);
    }

    /// Notes that an LDNS asked at `seen`, making its row if there is none. Returns whether the row is new.
    pub fn sighted(&self, ldns: Ldns, seen: Timestamp) -> bool {
        self.note(Written::Row(ldns));
        let mut new = false;
        let sites = self.sites;
        let mut row = self.rows.entry(ldns).or_insert_with(|| {
            new = true;
            Row::new(sites, seen)
        });
        row.last_seen = row.last_seen.max(seconds(seen));
        new
    }

    /// Every LDNS that has a row. Walks the whole table and copies its keys: for the start of a node task only.
    pub fn keys(&self) -> Vec<Ldns> {
        self.rows.iter().map(|row| *row.key()).collect()
    }

    /// Writes a cell. Does nothing if the LDNS has no row or the site no column.
    pub fn write(&self, ldns: Ldns, site: SiteIndex, cell: Cell) {
        self.note(Written::Row(ldns));
        if let Some(mut row) = self.rows.get_mut(&ldns)
            && let Some(place) = row.cells.get_mut(site.get())
        {
            *place = cell;
        }
    }

    /// Takes a row away.
    pub fn remove(&self, ldns: Ldns) {
        self.note(Written::Gone(ldns));
        self.rows.remove(&ldns);
    }

    /// The rows after `after` in address order, at most `limit`: a page for people, not for the query path. Walks the
    /// whole table, one shard's lock at a time.
    pub fn page(&self, after: Option<Ldns>, limit: usize) -> Vec<(Ldns, Row)> {
        let mut page = std::collections::BTreeMap::new();
        for entry in self.rows.iter() {
            let ldns = *entry.key();
            if after.is_some_and(|a| ldns <= a) {
                continue;
            }
            if page.len() == limit {
                match page.last_key_value() {
                    Some((last, _)) if ldns < *last => page.pop_last(),
                    _ => continue,
                };
            }
            page.insert(ldns, entry.value().clone());
        }
        page.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gslb_types::{Reach, Rtt};

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn known(ms: u32) -> Reach {
        Reach::Known(Rtt::from_micros(ms * 1000))
    }

    fn ldns(n: u8) -> Ldns {
        Ldns::exact([192, 0, 2, n].into())
    }

    /// The age of a query that a peer speaks of is the query's, not that of the row (behaviour 3: last-seen ages travel).
    #[test]
    fn a_row_made_on_a_peers_word_is_new_and_its_query_is_not() {
        let t = RttTable::new(2, 1);
        t.admitted(ldns(1), at(100), at(30));
        let row = t.row(ldns(1)).unwrap();
        assert_eq!((row.first_seen(), row.last_seen()), (at(100), at(30)));
        t.sighted(ldns(1), at(110));
        assert_eq!(t.row(ldns(1)).unwrap().last_seen(), at(110));
    }

    #[test]
    fn a_page_goes_on_after_the_last_address_of_the_one_before() {
        let t = RttTable::new(3, 1);
        for n in 0..10 {
            assert!(t.sighted(ldns(n), at(1)));
        }
        let first: Vec<Ldns> = t.page(None, 4).into_iter().map(|(l, _)| l).collect();
        assert_eq!(first, [ldns(0), ldns(1), ldns(2), ldns(3)]);
        let rest: Vec<Ldns> = t.page(first.last().copied(), 100).into_iter().map(|(l, _)| l).collect();
        assert_eq!(rest, (4..10).map(ldns).collect::<Vec<_>>());
    }

    #[test]
    fn whoever_watches_is_told_of_every_write_once() {
        let t = RttTable::new(2, 1);
        t.sighted(ldns(1), at(1));
        let (tell, told) = std::sync::mpsc::channel();
        t.watch(move |what| tell.send(what).unwrap());
        t.admitted(ldns(2), at(2), at(1));
        t.write(ldns(1), SiteIndex::new(0).unwrap(), Cell::new(known(9), None, at(2)));
        t.sighted(ldns(2), at(3));
        t.remove(ldns(1));
        let [one, two] = [1, 2].map(ldns);
        let written = [Written::Row(two), Written::Row(one), Written::Row(two), Written::Gone(one)];
        assert_eq!(told.try_iter().collect::<Vec<_>>(), written);
    }

    #[test]
    fn a_column_outside_the_table_and_a_row_nobody_sighted_are_not_written() {
        let t = RttTable::new(2, 1);
        let cell = Cell::new(known(9), None, at(1));
        t.write(ldns(1), SiteIndex::new(0).unwrap(), cell);
        assert!(t.is_empty());
        t.sighted(ldns(1), at(1));
        t.write(ldns(1), SiteIndex::new(5).unwrap(), cell);
        assert_eq!(t.row(ldns(1)).unwrap().cell(SiteIndex::new(1).unwrap()).reach(), Reach::Pending);
    }
}
