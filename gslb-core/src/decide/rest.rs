//! Answers of several addresses: the best first, then what would be chosen without those before.

use super::contenders::Contenders;
use super::{Deciding, Decision, Verdict};

impl Deciding<'_> {
    /// `by` chose among the contenders; a client that stays at its service has none yet.
    pub(super) fn add_rest(
        &self,
        best: usize,
        by: Option<Self>,
        mut contenders: Contenders,
        steps: &mut Decision,
    ) {
        // What is said of the others would only hide why the best one is.
        let mut quiet = Decision::nothing(self.index);
        let Some(by) = by.or_else(|| self.find_contenders(&mut contenders, &mut quiet).ok()) else { return };
        let mut last = best;
        while steps.rest.len() + 1 < usize::from(self.policy.addresses) {
            contenders.retain(|c| c.service != last);
            quiet.reasons.clear();
            let Verdict::Service(next) = by.among(&contenders, &mut quiet) else { break };
            let Ok(place) = u16::try_from(next) else { break };
            if steps.rest.try_push(place).is_err() {
                break;
            }
            last = next;
        }
        steps.took_turn |= quiet.took_turn;
        steps.scope = steps.scope.max(quiet.scope);
    }
}
