//! Who writes into the table, and by how much.

use super::pace::Pace;
use super::told::Told;
use super::{Cause, Invariant};
use crate::world::{Host, HostIndex};
use gslb_core::{Cell, Shared};
use gslb_types::{Ldns, Reach, Rtt, SiteIndex, Timestamp};
use probes_core::wire::ProbeOutcome;
use std::collections::BTreeMap;
use std::time::Duration;

/// The grain of the table's stamps.
const SECOND: Duration = Duration::from_secs(1);

/// A node's table as it was after its last turn.
#[derive(Default)]
pub(super) struct Mirror {
    rows: BTreeMap<Ldns, Vec<Cell>>,
    /// What the last turn changed in the own column, as it was before.
    before: BTreeMap<Ldns, Reach>,
}

impl Mirror {
    /// Whether this is what the node's own site advertises for an LDNS, or did when its last turn began: frames of that turn
    /// may have been written before.
    pub(super) fn advertises(&self, ldns: Ldns, site: usize, reach: Reach) -> bool {
        let own = self.rows.get(&ldns).and_then(|cells| cells.get(site)).map(|cell| cell.reach());
        own == Some(reach) || self.before.get(&ldns) == Some(&reach)
    }

    /// Compares the table with what it was, and judges what changed.
    #[allow(
        clippy::too_many_arguments,
        reason = "it is the one place where all that is known of a turn comes together"
    )]
    pub(super) fn compare(
        &mut self,
        local: Timestamp,
        host: &Host,
        shared: &Shared,
        cause: &Cause,
        n: HostIndex,
        told: &mut Told,
        pace: &mut Pace,
    ) -> Result<(), (Invariant, String)> {
        self.before.clear();
        let mut rows = BTreeMap::new();
        for (ldns, row) in shared.rtts.page(None, usize::MAX) {
            let sites = (0..host.config().sites.len()).filter_map(SiteIndex::new);
            let cells: Vec<Cell> = sites.map(|site| row.cell(site)).collect();
            // An entry may go and come back within one turn.
            let is_empty = |cells: &[Cell]| cells.iter().all(|cell| *cell == Cell::default());
            let is_new = is_empty(&cells) && row.first_seen() + SECOND > local;
            let before = self.rows.remove(&ldns).filter(|before| !is_new || is_empty(before));
            if before.is_none() {
                pace.admitted(ldns);
            }
            let turn = Turn { local, host, cause, ldns };
            for (site, cell) in cells.iter().enumerate() {
                let old = before.as_ref().and_then(|cells| cells.get(site)).copied().unwrap_or_default();
                turn.judge(site, old, *cell, told)?;
                if site == n && turn.advertises_anew(old, *cell) {
                    self.before.insert(ldns, old.reach());
                    told.changed(n, ldns, cell.reach());
                }
            }
            rows.insert(ldns, cells);
        }
        self.rows = rows;
        Ok(())
    }
}

struct Turn<'a> {
    local: Timestamp,
    host: &'a Host,
    cause: &'a Cause,
    ldns: Ldns,
}

impl Turn<'_> {
    fn judge(&self, site: usize, old: Cell, new: Cell, told: &Told) -> Result<(), (Invariant, String)> {
        if new.confirmed() > self.local {
            return Err(self.wrong(Invariant::OneWriter, site, old, new, "it was confirmed in the future"));
        }
        if site == self.host.site().get() {
            self.own(site, old, new)
        } else {
            self.foreign(site, old, new, told)
        }
    }

    /// Whether the own site says something else than before, or the same after so long that it no longer counted.
    fn advertises_anew(&self, old: Cell, new: Cell) -> bool {
        let max_age = self.host.config().mep.max_age;
        let is_revived =
            old.current(self.local, max_age, None) != new.reach() && new.confirmed() > old.confirmed();
        old.reach() != new.reach() || is_revived
    }

    /// The own column: samples write it, silence withdraws it.
    fn own(&self, site: usize, old: Cell, new: Cell) -> Result<(), (Invariant, String)> {
        let tolerance = self.host.config().group.rtt_tolerance;
        let max_age = self.host.config().mep.max_age;
        let is_alike =
            |a: Rtt, b: Rtt| Duration::from_micros(a.as_micros().abs_diff(b.as_micros()).into()) <= tolerance;
        let counted = old.current(self.local, max_age, None);
        match (counted, new.reach()) {
            (_, to) if to == old.reach() => Ok(()),
            (_, Reach::Unreachable) if matches!(self.cause, Cause::Time | Cause::Reply { .. }) => Ok(()),
            (_, Reach::Pending) if matches!(self.cause, Cause::Time) => Ok(()),
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
        let Cause::Reply { target: Some(target), reply } = self.cause else { return None };
        match reply.outcome {
            ProbeOutcome::EchoReply(rtt)
            | ProbeOutcome::DnsAnswer(rtt)
            | ProbeOutcome::Connected(rtt)
            | ProbeOutcome::Reset(rtt)
            | ProbeOutcome::PortUnreachable(rtt) => {
                (Ldns::of(*target, self.host.config().ldns.masks) == self.ldns).then_some(rtt)
            }
            ProbeOutcome::RouterError
            | ProbeOutcome::TimedOut
            | ProbeOutcome::SendFailed
            | ProbeOutcome::NotPermitted => None,
        }
    }

    /// Another site's column: what that site has said.
    fn foreign(&self, site: usize, old: Cell, new: Cell, told: &Told) -> Result<(), (Invariant, String)> {
        if old.reach() == new.reach() {
            return Ok(());
        }
        match self.cause {
            Cause::Frame { from, .. }
                if *from == site && told.was_advertised(site, self.ldns, new.reach()) =>
            {
                Ok(())
            }
            Cause::Frame { from, .. } if *from == site => {
                Err(self.wrong(Invariant::OneWriter, site, old, new, "its site never advertised that"))
            }
            _ => Err(self.wrong(Invariant::OneWriter, site, old, new, "another than its site wrote it")),
        }
    }

    fn wrong(
        &self,
        invariant: Invariant,
        site: usize,
        old: Cell,
        new: Cell,
        why: &str,
    ) -> (Invariant, String) {
        let (id, ldns) = (self.host.id(), self.ldns);
        let what = format!(
            "column {site} of {ldns} at {id} went from {:?} to {:?}: {why}",
            old.reach(),
            new.reach()
        );
        (invariant, what)
    }
}
