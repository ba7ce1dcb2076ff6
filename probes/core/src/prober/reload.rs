//! New settings for a prober that runs.

use super::entry::Phase;
use super::{Origin, Prober, Settings, admission};
use gslb_types::Timestamp;
use std::mem;
use std::net::IpAddr;
use std::time::Duration;

impl Prober {
    /// Goes on with other settings, keeping every entry that they allow. Walks the whole table.
    ///
    /// LDNS that are excluded now, and what exceeds a lower cap, are removed. With other masks the entries have other keys:
    /// all are removed and admitted anew, to be measured again.
    pub fn set_settings(&mut self, now: Timestamp, settings: Settings) {
        let old = mem::replace(&mut self.settings, settings);
        self.probes.set_rate(now, self.settings.per_second);
        self.newcomers.set_rate(now, self.settings.new_per_second);
        self.prefixes.set_rate(self.settings.per_prefix);
        let mut regrouped = Vec::new();
        if old.masks != self.settings.masks {
            regrouped = self.take_all(now);
            self.table.set_masks(self.settings.masks);
        }
        for index in self.table.indices() {
            self.adapt(now, index, &old);
        }
        self.shrink_to_cap();
        for (address, age) in regrouped {
            self.handle_sighting(now, address, age, Origin::Own);
        }
        self.send_due(now);
    }

    fn take_all(&mut self, now: Timestamp) -> Vec<(IpAddr, Duration)> {
        let all = self.sightings(now).map(|(_, address, age)| (address, age)).collect();
        for index in self.table.indices() {
            self.remove(index, false);
        }
        all
    }

    fn adapt(&mut self, now: Timestamp, index: u32, old: &Settings) {
        self.table.review_idle(index, self.settings.idle_timeout);
        self.table.reprove(index, &self.settings);
        let Some(entry) = self.table.get_mut(index) else { return };
        if !admission::is_probed(&self.settings, entry.address) {
            return self.remove(index, false);
        }
        if old.order != self.settings.order {
            entry.sticky = None;
        }
        let waits = matches!(entry.phase, Phase::Due(_)) && entry.was_probed && entry.tried.is_empty();
        if waits && old.interval != self.settings.interval {
            self.leave_queue(index);
            self.schedule_round(now, index, Duration::ZERO);
        }
    }

    fn shrink_to_cap(&mut self) {
        while self.table.len() > self.settings.cap {
            let weakest = self.table.weakest().map(|(_, index)| index);
            let Some(index) = weakest.or_else(|| self.table.idlest()) else { return };
            self.stats.evicted += 1;
            self.remove(index, false);
        }
    }
}
