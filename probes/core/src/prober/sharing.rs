//! What is ours to probe, of the LDNS that the nodes of a site share out.
//!
//! An entry that is a neighbour's stands in no queue and takes nothing from the budgets; its queries are noted all the same,
//! and it ages like the others. When it becomes ours its rounds begin within the budgets.

use super::entry::{Kinds, Phase};
use super::{Prober, Share};
use gslb_types::{Ldns, ProbeKind, Reach, Timestamp};

impl Prober {
    /// Shares the LDNS out anew. Walks the whole table, unless the same nodes share as before.
    pub fn set_share(&mut self, now: Timestamp, share: Share) {
        if self.share.as_ref().is_some_and(|before| before.nodes().eq(share.nodes())) {
            return;
        }
        self.share = Some(share);
        self.stats.share_walks += 1;
        for index in self.table.indices() {
            let Some(entry) = self.table.get(index) else { continue };
            match (entry.ours, self.is_ours(self.table.ldns_of(entry))) {
                (true, false) => self.hand_over(index),
                (false, true) => self.take_over(now, index),
                (true, true) | (false, false) => {}
            }
        }
        self.send_due(now);
    }

    /// Notes what a neighbour says of an LDNS: the kind that measured it, or that it has no RTT of it. So whoever takes it over
    /// begins with that kind, and does not take it for a newcomer. An own sample is worth more.
    pub fn note_elsewhere(&mut self, ldns: Ldns, reach: Reach, kind: Option<ProbeKind>) {
        let Some(index) = self.table.find(ldns) else { return };
        if self.table.get(index).is_none_or(|entry| entry.ours && entry.last_sample().is_some()) {
            return;
        }
        self.dequeue(index);
        if let Some(entry) = self.table.get_mut(index) {
            entry.measured_elsewhere = matches!(reach, Reach::Known(_));
            entry.sticky = kind.or(entry.sticky);
        }
        self.enqueue(index);
        self.table.reprove(index, &self.settings);
    }

    pub(super) fn is_ours(&self, ldns: Ldns) -> bool {
        self.share.as_ref().is_none_or(|share| share.is_ours(ldns))
    }

    /// Leaves an entry to a neighbour. A probe that is out is not awaited any more.
    pub(super) fn hand_over(&mut self, index: u32) {
        self.leave_queue(index);
        let Some(entry) = self.table.get_mut(index) else { return };
        let phase = std::mem::replace(&mut entry.phase, Phase::Resting);
        entry.ours = false;
        entry.tried = Kinds::default();
        entry.unanswered = false;
        self.resting += 1;
        self.expect_no_more(phase);
    }

    /// Begins to probe an entry: within an interval if its neighbour measured it, and soon if nobody has, in either case not all
    /// of them in one go; and not sooner than an interval after our own last round.
    fn take_over(&mut self, now: Timestamp, index: u32) {
        let Some(entry) = self.table.get_mut(index) else { return };
        entry.ours = true;
        entry.trust_kind(now);
        if entry.measured_elsewhere {
            entry.failed_rounds = 0;
        }
        let most = if entry.is_measured() { self.settings.interval } else { self.settings.interval / 5 };
        let spread = self.chance.within(most);
        let again = entry.started + self.settings.period(entry.failed_rounds);
        // One that was here before, and was pushed out, waits for its time as well.
        let not_before = if entry.was_probed { again } else { entry.started };
        entry.phase = Phase::Due(not_before.max(now + spread));
        self.resting -= 1;
        self.enqueue(index);
    }
}
