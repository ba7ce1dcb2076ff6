//! Services that are full, and virtual servers that have too much to do.

use super::contenders::Contenders;
use super::{Deciding, Decision, Reason};
use config::Service;

/// Seconds that bytes are counted over.
const WINDOW: u128 = lb_core::WINDOW_SECONDS as u128;

/// Bits a second of so many bytes.
pub(crate) fn bits_a_second(bytes: u64) -> u128 {
    u128::from(bytes) * 8 / WINDOW
}

impl Deciding<'_> {
    /// Whether clients are sent on to its backup.
    pub(super) fn has_spilled(&self) -> bool {
        self.policy.backup.is_some() && self.published.spilled.get(self.index) == Some(&true)
    }

    /// Takes out services that are full. Whether some are left; if none is, all stay.
    pub(super) fn drop_full(&self, contenders: &mut Contenders, steps: &mut Decision) -> bool {
        if !self.policy.has_limits {
            return true;
        }
        let mut full = 0;
        for contender in contenders.iter().filter(|c| self.is_full(c.service)) {
            steps.say(Reason::Full(contender.service));
            full += 1;
        }
        let has_room = full < contenders.len();
        if has_room && full > 0 {
            contenders.retain(|c| !self.is_full(c.service));
        }
        has_room
    }

    fn is_full(&self, service: usize) -> bool {
        let (Some(Service { max_clients, max_bandwidth, .. }), Some(view)) =
            (self.published.config.services.get(service), self.published.services.get(service))
        else {
            return false;
        };
        let traffic = view.traffic.unwrap_or_default();
        let reaches = |limit: &Option<u64>, is: Option<u128>| {
            limit.zip(is).is_some_and(|(limit, is)| is >= u128::from(limit))
        };
        reaches(max_clients, traffic.active.map(u128::from))
            || reaches(max_bandwidth, traffic.bytes.map(bits_a_second))
    }
}
