//! Who writes into the table, and by how much.

use super::pace::Pace;
use super::told::{self, Told};
use super::{Cause, Invariant};
use crate::world::{Host, HostIndex};
use gslb_core::{Cell, Row, Shared, Written};
use gslb_types::{Ldns, Reach, Rtt, SiteIndex, Timestamp};
use probes_core::wire::ProbeOutcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// A node's table as it was after its last turn.
#[derive(Default)]
pub(super) struct Mirror {
    rows: BTreeMap<Ldns, Row>,
    /// What the last turn changed, as it was before.
    before: Values,
    /// Who told it the value of another site that it has, and when that one sent it.
    words: Words,
    /// Turns since the last look at the whole table.
    turns: u32,
}

/// Values of sites, by LDNS.
type Values = BTreeMap<(Ldns, SiteIndex), Reach>;

/// Who told which of them, and when that one sent it.
type Words = BTreeMap<(Ldns, SiteIndex), (HostIndex, Timestamp)>;

/// The table says which rows were written; in how many turns one looks whether it has said all.
const TURNS: u32 = 256;

/// What is known of a turn.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) now: Timestamp,
    pub(super) local: Timestamp,
    pub(super) n: HostIndex,
    pub(super) host: &'a Host,
    pub(super) shared: &'a Shared,
    pub(super) written: &'a Receiver<Written>,
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

    /// The LDNS that have a row.
    pub(super) fn keys(&self) -> impl Iterator<Item = Ldns> + '_ {
        self.rows.keys().copied()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Compares what was written with what it was, and judges what changed.
    pub(super) fn compare(
        &mut self,
        look: Look<'_>,
        told: &mut Told,
        pace: &mut Pace,
    ) -> Result<(), (Invariant, String)> {
        self.before.clear();
        let mut written: BTreeMap<Ldns, bool> = BTreeMap::new();
        for what in look.written.try_iter() {
            match what {
                Written::Row(ldns) => {
                    written.entry(ldns).or_insert(false);
                }
                Written::Gone(ldns) => {
                    written.insert(ldns, true);
                }
            }
        }
        let (known, new): (Vec<_>, Vec<_>) = written.into_iter().partition(|(ldns, _)| self.has(*ldns));
        known
            .into_iter()
            .try_for_each(|(ldns, was_gone)| self.look_again(look, ldns, was_gone, told, pace))?;
        let new: Vec<Ldns> = new.into_iter().map(|(ldns, _)| ldns).collect();
        if !new.is_empty() {
            self.newcomers(look, new, told, pace)?;
        }
        Ok(())
    }

    /// Whether it is time for a look at the whole table.
    pub(super) fn is_due(&mut self) -> bool {
        self.turns = (self.turns + 1) % TURNS;
        self.turns == 0
    }

    /// Looks whether the table is what its list of written rows has made of it.
    pub(super) fn compare_all(&self, host: &Host, shared: &Shared) -> Result<(), (Invariant, String)> {
        let is_as_seen = |ldns: &Ldns, seen: &Row| {
            shared
                .rtts
                .row(*ldns)
                .is_some_and(|row| sites(host).all(|site| row.cell(site) == seen.cell(site)))
        };
        if let Some((ldns, _)) = self.rows.iter().find(|(ldns, seen)| !is_as_seen(ldns, seen)) {
            let what = format!("the row of {ldns} at {} has changed, and nobody wrote it", host.id());
            return Err((Invariant::OneWriter, what));
        }
        let rows = shared.rtts.len();
        if rows != self.rows.len() {
            let what = format!("{} has {rows} rows, and {} were heard of", host.id(), self.rows.len());
            return Err((Invariant::OneWriter, what));
        }
        Ok(())
    }

    /// Judges what was written into a row that was there before.
    fn look_again(
        &mut self,
        look: Look<'_>,
        ldns: Ldns,
        was_gone: bool,
        told: &mut Told,
        pace: &mut Pace,
    ) -> Result<(), (Invariant, String)> {
        let Some(before) = self.rows.get_mut(&ldns) else { return Ok(()) };
        let is_pushed_out = look.local.since(before.last_seen()) < look.host.config().ldns.idle_timeout;
        let Some(row) = look.shared.rtts.row(ldns) else {
            self.rows.remove(&ldns);
            told.forgot(look.now, look.n, ldns, is_pushed_out);
            return Ok(());
        };
        // An entry may go and come back within one turn.
        if was_gone {
            pace.admitted(ldns);
            told.forgot(look.now, look.n, ldns, is_pushed_out);
            *before = Row::default();
        }
        Turn { look, ldns }.judge_row(before, &row, told, (&mut self.before, &mut self.words))?;
        if matches!(row.cell(look.host.site()).reach(), Reach::Known(_)) {
            pace.is_known(ldns);
        }
        *before = row;
        Ok(())
    }

    /// Takes in the rows that this turn has made: of LDNS that it heard of, and of no others.
    fn newcomers(
        &mut self,
        look: Look<'_>,
        new: Vec<Ldns>,
        told: &mut Told,
        pace: &mut Pace,
    ) -> Result<(), (Invariant, String)> {
        let masks = look.host.config().ldns.masks;
        let heard = match look.cause {
            Cause::Sighting(address) => vec![*address],
            Cause::Frame { body, .. } => told::sightings(body.as_deref()),
            Cause::Time | Cause::Reply { .. } | Cause::Other => Vec::new(),
        };
        let heard: BTreeSet<Ldns> = heard.into_iter().map(|address| Ldns::of(address, masks)).collect();
        for ldns in new {
            let Some(row) = look.shared.rtts.row(ldns) else { continue };
            if !heard.contains(&ldns) {
                let what = format!("{} has a row of {ldns}, of which it has not heard", look.host.id());
                return Err((Invariant::OneWriter, what));
            }
            pace.admitted(ldns);
            let changes = (&mut self.before, &mut self.words);
            Turn { look, ldns }.judge_row(&Row::default(), &row, told, changes)?;
            self.rows.insert(ldns, row);
        }
        Ok(())
    }
}

fn sites(host: &Host) -> impl Iterator<Item = SiteIndex> + use<> {
    (0..host.config().sites.len()).filter_map(SiteIndex::new)
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
        (changed, words): (&mut Values, &mut Words),
    ) -> Result<(), (Invariant, String)> {
        for site in sites(self.look.host) {
            let (old, new) = (before.cell(site), row.cell(site));
            if old == new {
                continue;
            }
            self.judge(site, old, new, told)?;
            if site != self.look.host.site() {
                self.in_order(site, (old, new), told, words)?;
            }
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

    /// What a node of the site said itself is not undone by what it had sent before. A relay may have heard the site later than
    /// this node did.
    fn in_order(
        &self,
        site: SiteIndex,
        (old, new): (Cell, Cell),
        told: &Told,
        words: &mut Words,
    ) -> Result<(), (Invariant, String)> {
        let Cause::Frame { from, sent, .. } = self.look.cause else { return Ok(()) };
        if told.site(*from) != site {
            words.remove(&(self.ldns, site));
            return Ok(());
        }
        let before = words.insert((self.ldns, site), (*from, *sent));
        if before.is_some_and(|(teller, at)| teller == *from && at > *sent) {
            let why = "its site had taken that back before";
            return Err(self.wrong(Invariant::Order, site, old, new, why));
        }
        Ok(())
    }

    /// Whether the frame of this turn says so, and may: it comes from a node of the site, or relays what that site said.
    fn is_told_by(&self, site: SiteIndex, reach: Reach, told: &Told) -> Result<(), &'static str> {
        let Cause::Frame { from, body, .. } = self.look.cause else { return Err("nobody said so") };
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
