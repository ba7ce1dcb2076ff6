//! This site's column of the RTT table: what is advertised, and when it changes.
//!
//! A sample within the tolerance of the advertised value confirms it and changes nothing (behaviour 3, [S-RTT]); one beyond
//! it becomes the advertised value. A value that nothing has confirmed for the maximum age is withdrawn (faults I-46).
//!
//! With several nodes in the site each measures its share of the LDNS, and takes the values of the others from them: the
//! column is the site's. What a neighbour told is confirmed by its words, as the columns of other sites are.

use super::entries::Entries;
use crate::cell::{Cell, Confirmed, seconds};
use crate::table::RttTable;
use gslb_types::{Ldns, ProbeKind, Reach, Rtt, SiteIndex, Timestamp};
use std::time::Duration;

/// The column, its rules, and the LDNS that have an entry.
pub(crate) struct OwnColumn {
    site: SiteIndex,
    tolerance: Duration,
    max_age: Duration,
    /// The LDNS with an entry, in address order, for snapshots; those with a value are looked at again when they may be too old.
    entries: Entries,
}

/// A change that peers must be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Advertised {
    pub(crate) ldns: Ldns,
    /// Whether nothing was advertised before: told at once, since somebody waits for it.
    pub(crate) first: bool,
}

impl OwnColumn {
    /// An empty column.
    pub(crate) fn new(site: SiteIndex, tolerance: Duration, max_age: Duration) -> Self {
        OwnColumn { site, tolerance, max_age, entries: Entries::default() }
    }

    /// There is a new entry.
    pub(crate) fn admitted(&mut self, ldns: Ldns) {
        self.entries.insert(ldns);
    }

    /// There is a new entry whose row is older than this column: its value is looked after as if it were our own.
    pub(crate) fn adopted(&mut self, now: Timestamp, ldns: Ldns, table: &RttTable) {
        self.admitted(ldns);
        if table.row(ldns).is_some_and(|row| row.cell(self.site).reach() != Reach::Pending) {
            self.review(now, ldns);
        }
    }

    /// An entry is gone.
    pub(crate) fn removed(&mut self, ldns: Ldns) {
        self.entries.remove(ldns);
    }

    /// The entries after this one, in address order.
    pub(crate) fn entries_after(&self, after: Option<Ldns>) -> impl Iterator<Item = Ldns> + '_ {
        self.entries.after(after)
    }

    /// One RTT of ours.
    pub(crate) fn sample(
        &mut self,
        now: Timestamp,
        ldns: Ldns,
        rtt: Rtt,
        kind: ProbeKind,
        table: &RttTable,
    ) -> Option<Advertised> {
        let before = table.cell(ldns, self.site)?.current(now, self.max_age, None);
        self.review(now, ldns);
        let (value, change) = match before {
            Reach::Known(advertised) if !advertised.differs(rtt, self.tolerance) => (advertised, None),
            Reach::Known(_) => (rtt, Some(Advertised { ldns, first: false })),
            Reach::Pending | Reach::Unreachable => (rtt, Some(Advertised { ldns, first: true })),
        };
        table.write(ldns, self.site, Cell::measured(Reach::Known(value), Some(kind), now));
        change
    }

    /// The last rounds failed.
    pub(crate) fn unreachable(&mut self, now: Timestamp, ldns: Ldns, table: &RttTable) -> Option<Advertised> {
        let before = table.cell(ldns, self.site)?.reach();
        table.write(ldns, self.site, Cell::measured(Reach::Unreachable, None, now));
        (before != Reach::Unreachable).then_some(Advertised { ldns, first: before == Reach::Pending })
    }

    /// What a neighbour says of an LDNS of its share.
    pub(crate) fn told(
        &mut self,
        now: Timestamp,
        ldns: Ldns,
        cell: Cell,
        table: &RttTable,
    ) -> Option<Advertised> {
        let before = table.cell(ldns, self.site)?.reach();
        table.write(ldns, self.site, cell);
        if matches!(cell.reach(), Reach::Known(_)) {
            self.review(now, ldns);
        }
        (before != cell.reach()).then_some(Advertised { ldns, first: before == Reach::Pending })
    }

    /// The LDNS were shared out anew. What neighbours told so far was true at their last words, which `confirmed` holds, and
    /// ages from then on, unless whoever has it now confirms it; what `is_unconfirmed` only samples confirm, or a neighbour that
    /// tells it anew. Walks the whole column.
    pub(crate) fn shared_out(
        &self,
        confirmed: Option<Confirmed>,
        is_unconfirmed: impl Fn(Ldns) -> bool,
        table: &RttTable,
    ) {
        for ldns in self.entries.after(None) {
            let Some(cell) = table.cell(ldns, self.site) else { continue };
            if cell.is_measured() || cell.reach() == Reach::Pending {
                continue;
            }
            let last_true = cell.last_true(confirmed);
            let kept = if is_unconfirmed(ldns) {
                Cell::measured(cell.reach(), cell.kind(), last_true)
            } else {
                cell.restamped(last_true)
            };
            table.write(ldns, self.site, kept);
        }
    }

    /// When [`OwnColumn::withdraw_stale`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let second = Timestamp::from_micros(u64::from(self.entries.next_look()?) * 1_000_000);
        // Stamps are whole seconds, the time at which a value is too old is none.
        Some(second + self.max_age + Duration::from_secs(1))
    }

    /// Withdraws what has not been confirmed for the maximum age, by samples or, if neighbours told it, by their words.
    pub(crate) fn withdraw_stale(
        &mut self,
        now: Timestamp,
        confirmed: Option<Confirmed>,
        table: &RttTable,
    ) -> Vec<Advertised> {
        let mut withdrawn = Vec::new();
        while self.poll_timeout().is_some_and(|at| at <= now) {
            for ldns in self.entries.take_looks() {
                let Some(cell) = table.cell(ldns, self.site) else { continue };
                if !matches!(cell.reach(), Reach::Known(_)) {
                    continue;
                }
                if cell.current(now, self.max_age, confirmed) == Reach::Pending {
                    table.write(ldns, self.site, Cell::measured(Reach::Pending, None, now));
                    withdrawn.push(Advertised { ldns, first: false });
                } else {
                    self.review(now, ldns);
                }
            }
        }
        withdrawn
    }

    /// Queues a look at the value, unless it waits for one. All looks are equally far ahead, so the queue is in order; a value
    /// confirmed meanwhile is looked at again, so a stale one goes at twice the maximum age at the latest. Readers take the
    /// age itself.
    fn review(&mut self, now: Timestamp, ldns: Ldns) {
        self.entries.look(seconds(now), ldns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE_MS: Duration = Duration::from_millis(5);
    const MINUTE: Duration = Duration::from_secs(60);

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn ms(n: u32) -> Rtt {
        Rtt::from_micros(n * 1000)
    }

    struct Bench {
        column: OwnColumn,
        table: RttTable,
        ldns: Ldns,
    }

    fn bench() -> Bench {
        let ldns = Ldns::exact([192, 0, 2, 1].into());
        let table = RttTable::new(3, 1);
        table.sighted(ldns, at(0));
        let mut column = OwnColumn::new(SiteIndex::new(1).unwrap(), FIVE_MS, MINUTE);
        column.admitted(ldns);
        Bench { column, table, ldns }
    }

    impl Bench {
        fn sample(&mut self, now: u64, rtt: u32) -> Option<Advertised> {
            self.column.sample(at(now), self.ldns, ms(rtt), ProbeKind::Ping, &self.table)
        }

        fn advertised(&self) -> Reach {
            self.table.row(self.ldns).unwrap().cell(SiteIndex::new(1).unwrap()).reach()
        }
    }

    /// The worked example of behaviour 3: advertised 27; 27, 25, 29, 32 are not sent, 33 is; so is 35 against 27.
    #[test]
    fn a_change_within_the_tolerance_is_not_advertised() {
        let mut b = bench();
        assert_eq!(b.sample(0, 27), Some(Advertised { ldns: b.ldns, first: true }));
        for (second, rtt) in [(5, 27), (10, 25), (15, 29), (20, 32)] {
            assert_eq!(b.sample(second, rtt), None, "{rtt}");
            assert_eq!(b.advertised(), Reach::Known(ms(27)));
        }
        assert_eq!(b.sample(25, 33), Some(Advertised { ldns: b.ldns, first: false }));
        assert_eq!(b.advertised(), Reach::Known(ms(33)));
    }

    #[test]
    fn the_tolerance_is_around_the_advertised_value_and_does_not_creep() {
        let mut b = bench();
        b.sample(0, 27);
        assert_eq!(b.sample(5, 30), None);
        assert!(b.sample(10, 35).is_some(), "35 is within 5 of 30, but 30 was never advertised");
    }

    #[test]
    fn a_value_nobody_confirms_is_withdrawn_once() {
        let mut b = bench();
        b.sample(0, 27);
        assert_eq!(b.column.withdraw_stale(at(60), None, &b.table), []);
        assert_eq!(b.column.poll_timeout(), Some(at(61)));
        assert_eq!(
            b.column.withdraw_stale(at(61), None, &b.table),
            [Advertised { ldns: b.ldns, first: false }]
        );
        assert_eq!(b.advertised(), Reach::Pending);
        assert_eq!(
            (b.column.poll_timeout(), b.column.withdraw_stale(at(999), None, &b.table)),
            (None, vec![])
        );
    }

    #[test]
    fn a_sample_within_the_tolerance_keeps_the_value_alive() {
        let mut b = bench();
        b.sample(0, 27);
        b.sample(50, 28);
        assert_eq!(b.column.withdraw_stale(at(61), None, &b.table), []);
        assert_eq!(b.advertised(), Reach::Known(ms(27)));
        assert_eq!(b.column.withdraw_stale(at(122), None, &b.table).len(), 1);
    }

    #[test]
    fn unreachable_is_told_once_and_the_next_sample_at_once() {
        let mut b = bench();
        b.sample(0, 27);
        let told = Some(Advertised { ldns: b.ldns, first: false });
        assert_eq!(b.column.unreachable(at(20), b.ldns, &b.table), told);
        assert_eq!(b.column.unreachable(at(30), b.ldns, &b.table), None);
        assert_eq!(b.sample(40, 27), Some(Advertised { ldns: b.ldns, first: true }));
    }

    /// What a neighbour told at `now`, to be told on.
    fn told(b: &mut Bench, now: u64, rtt: u32) -> Option<Advertised> {
        let cell = Cell::new(Reach::Known(ms(rtt)), Some(ProbeKind::Ping), at(now));
        b.column.told(at(now), b.ldns, cell, &b.table)
    }

    #[test]
    fn what_a_neighbour_tells_is_the_sites_value_and_told_on_when_it_changes() {
        let mut b = bench();
        assert_eq!(told(&mut b, 0, 27), Some(Advertised { ldns: b.ldns, first: true }));
        assert_eq!(told(&mut b, 5, 27), None);
        // The neighbour has kept the tolerance already.
        assert_eq!(told(&mut b, 10, 28), Some(Advertised { ldns: b.ldns, first: false }));
        assert_eq!(b.advertised(), Reach::Known(ms(28)));
    }

    #[test]
    fn a_neighbours_words_keep_its_values_alive() {
        let mut b = bench();
        told(&mut b, 10, 27);
        assert_eq!(b.column.withdraw_stale(at(71), Some(Confirmed::new(at(5), at(70))), &b.table), []);
        assert_eq!(b.column.withdraw_stale(at(140), Some(Confirmed::new(at(5), at(70))), &b.table).len(), 1);
    }

    /// A node's death does not make what it told old at once, however long ago it told it.
    #[test]
    fn what_changes_hands_ages_from_the_last_word_of_who_had_it() {
        let mut b = bench();
        told(&mut b, 10, 27);
        b.column.shared_out(Some(Confirmed::new(at(5), at(1000))), |_| true, &b.table);
        let cell = b.table.row(b.ldns).unwrap().cell(SiteIndex::new(1).unwrap());
        assert_eq!(
            (cell.confirmed(), cell.is_measured(), cell.reach()),
            (at(1000), true, Reach::Known(ms(27)))
        );
        assert_eq!(b.sample(1010, 29), None, "within the tolerance of what the site has advertised");
    }

    #[test]
    fn an_ldns_without_a_row_is_not_advertised() {
        let mut b = bench();
        b.table.remove(b.ldns);
        assert_eq!(b.sample(5, 27), None);
        assert_eq!(b.column.unreachable(at(6), b.ldns, &b.table), None);
    }
}
