//! The ramp of `slow_start`: a member that came back gets a share that grows from small to full.
//!
//! The ramp does not enter N. A member that has just come back has nothing open and no traffic, so its N is 0 whatever N is
//! divided by, and every request of a burst would find it lowest. Instead the ramp rations how often the member takes part
//! at all: in its share of the requests it competes like the others, in the rest it is not seen. Its share is its weight
//! times `elapsed / slow_start` (1 % at least), out of the sum of all members' weights times theirs. So it gets at most that
//! share; less, if the method finds others better.
//!
//! Only a member that has been out gets a ramp, not one that is up from the start, when all are equally cold (as HAProxy
//! has it). Members that came back together are rationed against the one that is farthest up: nobody stands aside for
//! members that are no warmer.

use gslb_types::Timestamp;
use std::time::Duration;

/// A whole turn, in the unit in which turns are saved up.
pub(super) const WHOLE_TURN: u64 = 1 << 32;

/// Percent of a member's weight that counts without a ramp.
pub(super) const FULL: u64 = 100;

/// How far a member is after coming back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ramp {
    /// It is long there.
    Full,
    /// It came back.
    Growing {
        /// When.
        since: Timestamp,
        /// The part of a turn it has saved up; a whole one lets it take part once.
        credit: u64,
    },
}

impl Ramp {
    pub(super) const fn begin(now: Timestamp) -> Self {
        Ramp::Growing { since: now, credit: 0 }
    }

    /// The percentage of its weight that counts, 1 to 100.
    pub(super) fn percent(self, now: Timestamp, slow_start: Duration) -> u64 {
        let Ramp::Growing { since, .. } = self else { return FULL };
        let elapsed = now.since(since);
        if elapsed >= slow_start {
            return FULL;
        }
        let percent = elapsed.as_micros() * u128::from(FULL) / slow_start.as_micros().max(1);
        u64::try_from(percent).unwrap_or(FULL).clamp(1, FULL)
    }

    /// Saves up its share of one request: `mine` out of `all`. A turn not used is not saved beyond the next one, so that
    /// nobody has a burst to claim.
    pub(super) fn save_up(&mut self, mine: u64, all: u64) {
        if let Ramp::Growing { credit, .. } = self {
            // Rounded up, so that five fifths are a turn.
            let part = (u128::from(mine) * u128::from(WHOLE_TURN)).div_ceil(u128::from(all.max(1)));
            *credit = credit.saturating_add(u64::try_from(part).unwrap_or(WHOLE_TURN)).min(2 * WHOLE_TURN);
        }
    }

    /// What it has saved up, if that is a whole turn.
    pub(super) fn turn(self) -> Option<u64> {
        match self {
            Ramp::Growing { credit, .. } => Some(credit).filter(|c| *c >= WHOLE_TURN),
            Ramp::Full => None,
        }
    }

    /// Pays for taking part once.
    pub(super) fn pay(&mut self) {
        if let Ramp::Growing { credit, .. } = self {
            *credit = credit.saturating_sub(WHOLE_TURN);
        }
    }
}
