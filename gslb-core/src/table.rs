//! The RTT table: for each LDNS a row, for each site a cell.
//!
//! One writer (the node task), many readers (the DNS threads). Only site S's word writes column S, so nothing is ever
//! merged. A reader holds a shard's lock for the copy of one row and no longer.

use dashmap::DashMap;
use foldhash::fast::FixedState;
use gslb_types::{Ldns, ProbeKind, Reach, Rtt, SiteIndex, Timestamp};
use smallvec::SmallVec;
use std::time::Duration;

const PENDING: u32 = 0;
const UNREACHABLE: u32 = u32::MAX;

/// What one site advertises of its way to one LDNS: eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Microseconds, or one of the two marks above.
    reach: u32,
    /// Low 30 bits: seconds since start of the last confirmation. High 2 bits: kind of probe + 1, 0 for none.
    stamp: u32,
}

impl Cell {
    /// A cell with this value, confirmed at this time.
    pub fn new(reach: Reach, kind: Option<ProbeKind>, confirmed: Timestamp) -> Self {
        let reach = match reach {
            Reach::Pending => PENDING,
            Reach::Known(rtt) => rtt.as_micros(),
            Reach::Unreachable => UNREACHABLE,
        };
        let kind = match kind {
            None => 0,
            Some(ProbeKind::Ping) => 1,
            Some(ProbeKind::DnsUdp) => 2,
            Some(ProbeKind::DnsTcp) => 3,
        };
        Cell { reach, stamp: seconds(confirmed) | kind << 30 }
    }

    /// What is known, whatever its age.
    pub fn reach(self) -> Reach {
        match self.reach {
            PENDING => Reach::Pending,
            UNREACHABLE => Reach::Unreachable,
            micros => Reach::Known(Rtt::from_micros(micros)),
        }
    }

    /// The kind of probe that measured it.
    pub fn kind(self) -> Option<ProbeKind> {
        match self.stamp >> 30 {
            1 => Some(ProbeKind::Ping),
            2 => Some(ProbeKind::DnsUdp),
            3 => Some(ProbeKind::DnsTcp),
            _ => None,
        }
    }

    /// When its site last said so; whole seconds.
    pub fn confirmed(self) -> Timestamp {
        Timestamp::from_micros(u64::from(self.stamp & SECONDS) * 1_000_000)
    }
}

const SECONDS: u32 = (1 << 30) - 1;

fn seconds(t: Timestamp) -> u32 {
    u32::try_from(t.as_secs()).unwrap_or(SECONDS).min(SECONDS)
}

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

/// The table itself.
pub struct RttTable {
    rows: DashMap<Ldns, Row, FixedState>,
    sites: usize,
}

impl RttTable {
    /// An empty table for that many sites. The seed is random in production (threat T12) and fixed in the simulator.
    pub fn new(sites: usize, seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        RttTable { rows: DashMap::with_hasher_and_shard_amount(hasher, SHARDS), sites }
    }

    /// A copy of the row of an LDNS.
    pub fn row(&self, ldns: Ldns) -> Option<Row> {
        self.rows.get(&ldns).map(|r| r.clone())
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
        let mut row = self.rows.entry(ldns).or_insert_with(|| Row::new(self.sites, now));
        row.last_seen = seconds(seen);
    }

    /// Notes that an LDNS asked at `seen`, making its row if there is none. Returns whether the row is new.
    pub fn sighted(&self, ldns: Ldns, seen: Timestamp) -> bool {
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
        if let Some(mut row) = self.rows.get_mut(&ldns)
            && let Some(place) = row.cells.get_mut(site.get())
        {
            *place = cell;
        }
    }

    /// Takes a row away.
    pub fn remove(&self, ldns: Ldns) {
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

/// How old a value may be and still count, and since when a site's silence about it means "unchanged".
///
/// A site does not repeat a value that stays within the tolerance; every word it says in the session that delivered the
/// value confirms it. A value from an earlier session (of a restarted peer, say) is confirmed by nothing and ages out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Start of the session; values confirmed before it are on their own.
    pub since: Timestamp,
    /// The last word in it.
    pub last_word: Timestamp,
}

impl Cell {
    /// When the value was last true, as far as this node can tell.
    pub fn last_true(self, confirmed: Option<Confirmed>) -> Timestamp {
        match confirmed {
            // Stamps are whole seconds: a value of the session's first second must not fall before it.
            Some(c) if self.confirmed() + Duration::from_secs(1) > c.since => {
                c.last_word.max(self.confirmed())
            }
            Some(_) | None => self.confirmed(),
        }
    }

    /// What counts at `now`: a value older than `max_age` is pending again (faults I-46).
    pub fn current(self, now: Timestamp, max_age: Duration, confirmed: Option<Confirmed>) -> Reach {
        if now.since(self.last_true(confirmed)) > max_age { Reach::Pending } else { self.reach() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn known(ms: u32) -> Reach {
        Reach::Known(Rtt::from_micros(ms * 1000))
    }

    fn ldns(n: u8) -> Ldns {
        Ldns::exact([192, 0, 2, n].into())
    }

    #[test]
    fn a_cell_keeps_value_kind_and_second() {
        for reach in
            [Reach::Pending, Reach::Unreachable, known(27), Reach::Known(Rtt::MIN), Reach::Known(Rtt::MAX)]
        {
            for kind in [None, Some(ProbeKind::Ping), Some(ProbeKind::DnsUdp), Some(ProbeKind::DnsTcp)] {
                let cell = Cell::new(reach, kind, at(77));
                assert_eq!((cell.reach(), cell.kind(), cell.confirmed()), (reach, kind, at(77)));
            }
        }
        assert_eq!(size_of::<Cell>(), 8);
    }

    #[test]
    fn a_value_is_pending_once_it_is_older_than_the_maximum() {
        let cell = Cell::new(known(27), None, at(100));
        let max = Duration::from_secs(60);
        assert_eq!(cell.current(at(160), max, None), known(27));
        assert_eq!(cell.current(at(161), max, None), Reach::Pending);
    }

    #[test]
    fn words_of_the_session_that_delivered_a_value_confirm_it() {
        let cell = Cell::new(known(27), None, at(100));
        let max = Duration::from_secs(60);
        let same = Confirmed { since: at(90), last_word: at(500) };
        let later = Confirmed { since: at(110), last_word: at(500) };
        assert_eq!(cell.current(at(510), max, Some(same)), known(27));
        assert_eq!(cell.current(at(510), max, Some(later)), Reach::Pending);
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
