//! What this node relays: sites that a peer asks for because it does not hear them, and this node does.

use crate::mep::{Mep, Timer, queues};
use crate::outbox::Queue;
use crate::{RttRow, ServiceMetric};
use gslb_types::{SiteName, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long news of a relayed site wait: for company, and until the table holds them.
const BATCH: Duration = Duration::from_millis(5);

impl Mep {
    /// A peer says which sites it wants relayed: not this node's, which it hears, and not its own.
    pub(crate) fn relay_requested(&mut self, now: Timestamp, place: usize, sites: Vec<SiteName>) {
        let own = self.peers[place].id.site.clone();
        let may_ask = |site: &SiteName| {
            *site != self.me.site && *site != own && self.peers.iter().any(|p| p.id.site == *site)
        };
        let asked = sites.len();
        let sites: Vec<SiteName> = sites.into_iter().filter(may_ask).collect();
        let faults = asked.saturating_sub(sites.len()) as u64;
        let sites: BTreeSet<SiteName> = sites.into_iter().collect();
        if let Some(session) = self.peers[place].session.as_mut() {
            self.outbox.relay(now, &mut session.queue, sites);
            self.set_no_later(Timer::Pump(place), now + BATCH);
        }
        self.violated(now, place, faults);
    }

    /// Keeps what a node said of its services, for who does not hear it.
    pub(crate) fn keep_metrics(
        &mut self,
        now: Timestamp,
        taken: Timestamp,
        place: usize,
        services: &[ServiceMetric],
    ) {
        let node = &self.peers[place].id.clone();
        if self.outbox.node_metrics(taken, node, services, queues(&mut self.peers)) {
            self.set_no_later(Timer::Relayed, now + BATCH);
        }
    }

    /// Notes that a site's values changed, for who does not hear it.
    pub(crate) fn keep_changes(&mut self, now: Timestamp, place: usize, rows: &[RttRow]) {
        let site = self.peers[place].id.site.clone();
        if self.outbox.node_rows(now, &site, rows, queues(&mut self.peers)) {
            self.set_no_later(Timer::Relayed, now + BATCH);
            self.relieve(now);
        }
    }

    /// Lets the news of relayed sites be told. What was just handed out is not in the table yet: then they wait once more.
    pub(crate) fn relayed_due(&mut self, now: Timestamp, is_drained: bool) {
        if is_drained {
            self.outbox.relayed_due();
            self.wake_all(now);
        } else {
            self.timers.set(Timer::Relayed, now + BATCH);
        }
    }

    /// Lets the ages of relayed sites be told to who asked for them.
    pub(crate) fn relayed_words_due(&mut self, now: Timestamp) {
        if queues(&mut self.peers).map(Queue::words_due).filter(|is_due| *is_due).count() > 0 {
            self.wake_all(now);
        }
    }

    /// A session ended: who had the site relayed is told if nobody else of it is heard.
    pub(crate) fn site_lost(&mut self, now: Timestamp, place: usize) {
        let node = self.peers[place].id.clone();
        if self.outbox.node_down(&node, queues(&mut self.peers)) {
            self.wake_all(now);
        }
    }
}
