//! Values that should have been told, and were not.

use super::Node;
use gslb_types::{Ldns, Reach, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;

/// How old an entry is when values that are still missing are asked for. By then whoever has some has told them, or never will: a
/// round of three kinds takes six seconds. And it is soon enough for all nodes to answer alike within two exchange intervals of the
/// healing of a link, however short before that the entry was made.
const ASKING: std::ops::Range<Duration> = FIRST_LOOK..Duration::from_secs(60);

/// When an entry is looked at. An own one is looked at after each of its rounds, too.
const FIRST_LOOK: Duration = Duration::from_secs(7);
const NEXT_LOOK: Duration = Duration::from_secs(15);

/// Looks that are kept, as a flood of forged queries makes many: beyond it entries do without.
const MOST_LOOKS: usize = 65_536;

/// The entries that are to be looked at.
#[derive(Default)]
pub(super) struct Looks(BTreeSet<(Timestamp, Ldns)>);

impl Looks {
    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    fn due(&mut self, now: Timestamp) -> Option<Ldns> {
        let (_, ldns) = self.0.first().filter(|(at, _)| *at <= now).copied()?;
        self.0.pop_first();
        Some(ldns)
    }

    fn set(&mut self, at: Timestamp, ldns: Ldns) {
        if self.0.len() < MOST_LOOKS {
            self.0.insert((at, ldns));
        }
    }
}

impl Node {
    /// Sets the first look at an entry.
    pub(super) fn look_later(&mut self, now: Timestamp, ldns: Ldns) {
        self.looks.set(now + FIRST_LOOK, ldns);
    }

    pub(super) fn look_for_missing(&mut self, now: Timestamp) {
        while let Some(ldns) = self.looks.due(now) {
            if self.ask_for_missing(now, ldns) && !self.neighbours.is_ours(ldns) {
                self.looks.set(now + NEXT_LOOK, ldns);
            }
        }
    }

    /// Asks the peers for what should have been told; says whether something was missing. Whoever told of a fresh LDNS may be
    /// cut off from another that has long had a value of it: that one did not hear that the LDNS is new here, and does not
    /// tell what has not changed.
    pub(super) fn ask_for_missing(&mut self, now: Timestamp, ldns: Ldns) -> bool {
        let Some(row) = self.shared.rtts.row(ldns) else { return false };
        let own = Some(self.config.this_site()).filter(|_| !self.neighbours.is_ours(ldns));
        let is_missing = |site| row.cell(site).reach() == Reach::Pending;
        let asks =
            ASKING.contains(&now.since(row.first_seen())) && self.sites.telling().chain(own).any(is_missing);
        if asks {
            self.mep.want(now, ldns);
        }
        asks
    }
}
