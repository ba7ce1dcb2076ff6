//! Who writes into the table, and by how much.

use super::pace::Pace;
use super::told::{self, Told};
use super::{Cause, Invariant};
use crate::world::{Host, HostIndex};
use gslb_core::{Cell, Row, Shared};
use gslb_types::{Ldns, Reach, Rtt, SiteIndex, Timestamp};
use probes_core::wire::ProbeOutcome;
use std::collections::BTreeMap;
use std::time::Duration;

/// The grain of the table's stamps.
const SECOND: Duration = Duration::from_secs(1);

/// A node's table as it was after its last turn.
#[derive(Default)]
pub(super) struct Mirror {
    rows: BTreeMap<Ldns, Row>,
    /// What the last turn changed, as it was before.
    before: BTreeMap<(Ldns, SiteIndex), Reach>,
    /// Turns since the last look at the whole table.
    unseen: u32,
    /// Looks since its rows were counted last.
    uncounted: u32,
}

/// A turn that has no business with the table is looked at now and then only; what it changed all the same is found by the next
/// look, and blamed on that turn.
const UNSEEN: u32 = 8;

/// What is known of a turn.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) now: Timestamp,
    pub(super) local: Timestamp,
    pub(super) n: HostIndex,
    pub(super) host: &'a Host,
    pub(super) shared: &'a Shared,
    pub(super) cause: &'a Cause,
}

impl Mirror {
    /// Whether there is an entry.
    pub(super) fn has(&self, ldns: Ldns) -> bool {
        self.rows.contains_key(&ldns)
    }

    /// Whether this is what a node has in a site's column, or had when its last turn began: frames of that turn may have been
    /// written before.
    pub(super) fn shows(&self, ldns: Ldns, site: SiteIndex, reach: Reach) -> bool {
        // An entry that is gone has been withdrawn.
        let shown = self.rows.get(&ldns).map_or(Reach::Pending, |row| row.cell(site).reach());
        shown == reach || self.before.get(&(ldns, site)) == Some(&reach)
    }

    /// Compares the table with what it was, and judges what changed.
    pub(super) fn compare(
        &mut self,
        look: Look<'_>,
        told: &mut Told,
        pace: &mut Pace,
    ) -> Result<(), (Invariant, String)> {
        self.before.clear();
        self.unseen += 1;
        if look.cause.leaves_the_table() && self.unseen < UNSEEN {
            return Ok(());
        }
        self.unseen = 0;
        let mut gone = Vec::new();
        for (ldns, before) in &mut self.rows {
            match look.shared.rtts.row(*ldns) {
                Some(row) => {
                    // An entry may go and come back within one turn.
                    if look.is_new(&row) && !look.is_empty(before) {
                        pace.admitted(*ldns);
                        told.forgot(look.now, look.n, *ldns);
                        *before = Row::default();
                    }
                    Turn { look, ldns: *ldns }.judge_row(before, &row, told, &mut self.before)?;
                    if matches!(row.cell(look.host.site()).reach(), Reach::Known(_)) {
                        pace.is_known(*ldns);
                    }
                    *before = row;
                }
                None => gone.push(*ldns),
            }
        }
        for ldns in gone {
            self.rows.remove(&ldns);
            told.forgot(look.now, look.n, ldns);
        }
        self.newcomers(look, told, pace)
    }

    /// Takes in the rows that this turn may have made; there must be no others.
    fn newcomers(
        &mut self,
        look: Look<'_>,
        told: &mut Told,
        pace: &mut Pace,
    ) -> Result<(), (Invariant, String)> {
        let masks = look.host.config().ldns.masks;
        let heard = match look.cause {
            Cause::Sighting(address) => vec![*address],
            Cause::Frame { body, .. } => told::sightings(body.as_deref()),
            Cause::Time | Cause::Reply { .. } | Cause::Other => Vec::new(),
        };
        self.uncounted += 1;
        if heard.is_empty() && self.uncounted < UNSEEN {
            return Ok(());
        }
        self.uncounted = 0;
        for ldns in heard.into_iter().map(|address| Ldns::of(address, masks)) {
            if let Some(row) = look.shared.rtts.row(ldns).filter(|_| !self.rows.contains_key(&ldns)) {
                pace.admitted(ldns);
                Turn { look, ldns }.judge_row(&Row::default(), &row, told, &mut self.before)?;
                self.rows.insert(ldns, row);
            }
        }
        let rows = look.shared.rtts.len();
        if rows != self.rows.len() {
            let what = format!("{} has {rows} rows, and {} were heard of", look.host.id(), self.rows.len());
            return Err((Invariant::OneWriter, what));
        }
        Ok(())
    }
}

impl Look<'_> {
    fn sites(&self) -> impl Iterator<Item = SiteIndex> + use<> {
        (0..self.host.config().sites.len()).filter_map(SiteIndex::new)
    }

    fn is_empty(&self, row: &Row) -> bool {
        self.sites().all(|site| row.cell(site) == Cell::default())
    }

    fn is_new(&self, row: &Row) -> bool {
        row.first_seen() + SECOND > self.local && self.is_empty(row)
    }
}

struct Turn<'a> {
    look: Look<'a>,
    ldns: Ldns,
}

impl Turn<'_> {
    fn judge_row(
        &self,
        before: &Row,
        row: &Row,
        told: &mut Told,
        changed: &mut BTreeMap<(Ldns, SiteIndex), Reach>,
    ) -> Result<(), (Invariant, String)> {
        for site in self.look.sites() {
            let (old, new) = (before.cell(site), row.cell(site));
            if old == new {
                continue;
            }
            self.judge(site, old, new, told)?;
            changed.insert((self.ldns, site), old.reach());
            if site == self.look.host.site() && self.advertises_anew(old, new) {
                told.changed(self.look.now, self.look.n, self.ldns, new.reach());
            }
        }
        Ok(())
    }

    fn judge(&self, site: SiteIndex, old: Cell, new: Cell, told: &Told) -> Result<(), (Invariant, String)> {
        if new.confirmed() > self.look.local {
            return Err(self.wrong(Invariant::OneWriter, site, old, new, "it was confirmed in the future"));
        }
        if site == self.look.host.site() {
            self.own(site, old, new, told)
        } else {
            self.foreign(site, old, new, told)
        }
    }

    /// Whether the own site says something else than before, or the same after so long that it no longer counted.
    fn advertises_anew(&self, old: Cell, new: Cell) -> bool {
        let max_age = self.look.host.config().mep.max_age;
        let is_revived =
            old.current(self.look.local, max_age, None) != new.reach() && new.confirmed() > old.confirmed();
        old.reach() != new.reach() || is_revived
    }

    /// The own column: samples write it, silence withdraws it, and of what is another node's share in this site that node's word
    /// writes it.
    fn own(&self, site: SiteIndex, old: Cell, new: Cell, told: &Told) -> Result<(), (Invariant, String)> {
        if self.is_told_by(site, new.reach(), told).is_ok() {
            return Ok(());
        }
        let tolerance = self.look.host.config().group.rtt_tolerance;
        let max_age = self.look.host.config().mep.max_age;
        let is_alike =
            |a: Rtt, b: Rtt| Duration::from_micros(a.as_micros().abs_diff(b.as_micros()).into()) <= tolerance;
        let counted = old.current(self.look.local, max_age, None);
        match (counted, new.reach()) {
            (_, to) if to == old.reach() => Ok(()),
            (_, Reach::Unreachable) if matches!(self.look.cause, Cause::Time | Cause::Reply { .. }) => Ok(()),
            (_, Reach::Pending) if matches!(self.look.cause, Cause::Time) => Ok(()),
            (Reach::Known(from), Reach::Known(to)) if is_alike(from, to) => {
                Err(self.wrong(Invariant::Tolerance, site, old, new, "it changed within the tolerance"))
            }
            (_, Reach::Known(to)) if self.sample() == Some(to) => Ok(()),
            (_, Reach::Known(_) | Reach::Pending | Reach::Unreachable) => {
                Err(self.wrong(Invariant::OneWriter, site, old, new, "nothing measured it"))
            }
        }
    }

    /// The sample that this turn brought for this LDNS.
    fn sample(&self) -> Option<Rtt> {
        let Cause::Reply { target: Some(target), reply } = self.look.cause else { return None };
        match reply.outcome {
            ProbeOutcome::EchoReply(rtt)
            | ProbeOutcome::DnsAnswer(rtt)
            | ProbeOutcome::Connected(rtt)
            | ProbeOutcome::Reset(rtt)
            | ProbeOutcome::PortUnreachable(rtt) => {
                (Ldns::of(*target, self.look.host.config().ldns.masks) == self.ldns).then_some(rtt)
            }
            ProbeOutcome::RouterError
            | ProbeOutcome::TimedOut
            | ProbeOutcome::SendFailed
            | ProbeOutcome::NotPermitted => None,
        }
    }

    /// Another site's column: what that site has said.
    fn foreign(&self, site: SiteIndex, old: Cell, new: Cell, told: &Told) -> Result<(), (Invariant, String)> {
        if old.reach() == new.reach() {
            return Ok(());
        }
        self.is_told_by(site, new.reach(), told)
            .map_err(|why| self.wrong(Invariant::OneWriter, site, old, new, why))
    }

    /// Whether the frame of this turn says so, and may: it comes from a node of the site, or relays what that site said.
    fn is_told_by(&self, site: SiteIndex, reach: Reach, told: &Told) -> Result<(), &'static str> {
        let Cause::Frame { from, body } = self.look.cause else { return Err("nobody said so") };
        let rows = told::rows(body.as_deref());
        let relayed = self.look.host.config().sites.get(site.get()).map(|site| &site.name);
        if rows.relayed.is_none() && told.site(*from) != site {
            Err("another than its site wrote it")
        } else if rows.relayed.as_deref().is_some_and(|name| Some(name) != relayed.map(|name| name.as_str()))
        {
            Err("it was relayed as another site's")
        } else if !rows.rows.contains(&(self.ldns, reach)) {
            Err("its site did not say so")
        } else if !told.was_advertised(self.look.now, site, self.ldns, reach) {
            Err("its site never advertised that")
        } else {
            Ok(())
        }
    }

    fn wrong(
        &self,
        invariant: Invariant,
        site: SiteIndex,
        old: Cell,
        new: Cell,
        why: &str,
    ) -> (Invariant, String) {
        let (id, ldns) = (self.look.host.id(), self.ldns);
        let what = format!(
            "column {site:?} of {ldns} at {id} went from {:?} to {:?}: {why}",
            old.reach(),
            new.reach()
        );
        (invariant, what)
    }
}
