//! What is relayed: what the nodes that are heard say, and which of it a peer is told next.

use super::steps::Step;
use super::streams::Stream;
use super::{Outbox, PACE, Queue};
use crate::{RttRow, ServiceMetric, Values};
use gslb_types::{NodeId, SiteName, Timestamp};
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::time::Duration;

/// From one beginning of a site's relay to the next at least, for one peer.
const BEGIN_REST: Duration = Duration::from_millis(100);

impl Outbox {
    /// A session with a node stands.
    pub(crate) fn node_up(&mut self, now: Timestamp, node: &NodeId) {
        self.heard.up(now, node);
    }

    /// The session with a node ended. Returns whether somebody must be told that its site is not heard any longer.
    pub(crate) fn node_down<'a>(
        &mut self,
        node: &NodeId,
        queues: impl Iterator<Item = &'a mut Queue>,
    ) -> bool {
        self.heard.down(node)
            && queues.filter_map(|queue| queue.streams.get_mut(&node.site)).map(Stream::lost).count() > 0
    }

    /// A word of a node came.
    pub(crate) fn node_word(&mut self, now: Timestamp, node: &NodeId) {
        self.heard.word(now, node);
    }

    /// A node told its services, as they were at `taken`. Returns whether somebody wants to know at once: a state changed.
    pub(crate) fn node_metrics<'a>(
        &mut self,
        taken: Timestamp,
        node: &NodeId,
        services: &[ServiceMetric],
        queues: impl Iterator<Item = &'a mut Queue>,
    ) -> bool {
        let changed = self.heard.metrics(taken, node, services);
        let streams = queues.filter_map(|queue| queue.streams.get_mut(&node.site));
        streams.map(|stream| stream.metrics_came(node, changed)).count() > 0 && changed
    }

    /// A node told values of its site. Returns whether somebody wants to know.
    pub(crate) fn node_rows<'a>(
        &mut self,
        now: Timestamp,
        site: &SiteName,
        rows: &[RttRow],
        queues: impl Iterator<Item = &'a mut Queue>,
    ) -> bool {
        let mut streams: Vec<&mut Stream> = queues.filter_map(|queue| queue.streams.get_mut(site)).collect();
        if streams.is_empty() {
            return false;
        }
        for row in rows {
            let before = self.heard.note(now, site, row);
            streams.iter_mut().for_each(|stream| stream.rtts.noted(before));
        }
        true
    }

    /// Lets the changes of other sites noted so far be sent.
    pub(crate) fn relayed_due(&mut self) {
        self.heard.due();
    }

    /// Relays these sites to a peer, and no others. One that was relayed a moment ago begins a little later, so that a peer
    /// that asks without end does not have everything told without end (threat T8).
    pub(crate) fn relay(&mut self, now: Timestamp, queue: &mut Queue, sites: BTreeSet<SiteName>) {
        queue.streams.retain(|site, _| sites.contains(site));
        for site in sites {
            let Entry::Vacant(place) = queue.streams.entry(site) else { continue };
            let at = queue.began.get(place.key()).map_or(now, |began| now.max(*began + BEGIN_REST));
            let stream = self.heard.stream(at, place.key());
            place.insert(stream);
        }
    }

    /// The next of what is relayed to a peer: news before the walk over everything, which keeps its pace.
    pub(super) fn relayed(&self, now: Timestamp, queue: &mut Queue, values: &dyn Values) -> Step {
        let mut step = Step::Idle;
        for (site, stream) in &mut queue.streams {
            let waits = stream.begins_at().is_some();
            step = self.heard.next(now, site, stream, values);
            if waits && stream.begins_at().is_none() {
                queue.began.insert(site.clone(), now);
            }
            if let Step::Went(_) = step {
                break;
            }
        }
        for (site, stream) in &mut queue.streams {
            if matches!(step, Step::Idle) && queue.walk_next <= now && stream.walks() {
                let part = self.heard.walk(now, site, stream, values);
                queue.walk_next = if part.is_some() { now + PACE } else { queue.walk_next };
                step = Step::Went(part.into_iter().collect());
            }
        }
        queue.streams.retain(|_, stream| !stream.is_over());
        step
    }
}
