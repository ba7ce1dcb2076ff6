//! Who hears whom: this node's links are told to its peers, and theirs are kept.

use crate::mep::{Mep, Timer};
use crate::outbox::Part;
use crate::status::LinkStatus;
use crate::wire;
use gslb_types::Timestamp;
use std::time::Duration;

/// From one telling of all links to the next at least: a flapping link does not flood the others.
const REST: Duration = Duration::from_millis(100);

/// How long a change waits for others.
const BATCH: Duration = Duration::from_millis(5);

/// Links are told this many times in a keepalive, so that what was told stays fresh.
const TIMES_PER_KEEPALIVE: u32 = 3;

impl Mep {
    /// The state of a link changed: the peers are told, and whom to ask for which site is thought over.
    pub(crate) fn links_changed(&mut self, now: Timestamp) {
        let at = self.links_rest.max(now + BATCH);
        self.set_no_later(Timer::Links, at);
        self.timers.set(Timer::Relays, now);
    }

    /// Lets the links be told to everybody who understands.
    pub(crate) fn links_due(&mut self, now: Timestamp) {
        self.links_rest = now + REST;
        self.timers.set(Timer::Links, now + self.settings.keepalive / TIMES_PER_KEEPALIVE);
        for place in 0..self.peers.len() {
            if let Some(session) = self.peers[place].session.as_mut().filter(|s| s.knows_relays) {
                session.links_due = true;
                self.set_no_later(Timer::Pump(place), now);
            }
        }
    }

    /// This node's row of the matrix.
    pub(crate) fn links(&self, now: Timestamp) -> Part {
        let link = |peer: &crate::peer::Peer| LinkStatus {
            peer: peer.id.clone(),
            state: peer.status.state,
            word_age: peer.last_word().map(|at| now.since(at)),
        };
        let links: Vec<LinkStatus> = self.peers.iter().map(link).collect();
        Part::new(wire::links(&links))
    }

    /// Takes a peer's row. What it says of nodes that are not of this node's configuration is left out: the configurations
    /// may differ for a while.
    pub(crate) fn links_arrived(&mut self, now: Timestamp, place: usize, told: Vec<LinkStatus>) {
        let mut links: Vec<LinkStatus> = Vec::new();
        for link in told {
            let is_known = link.peer == self.me || self.peers.iter().any(|peer| peer.id == link.peer);
            let is_other = link.peer != self.peers[place].id;
            if is_known && is_other && !links.iter().any(|before| before.peer == link.peer) {
                links.push(link);
            }
        }
        let status = &mut self.peers[place].status;
        status.links = links.into();
        status.links_at = Some(now);
        let peer = &self.peers[place];
        self.asking.lost(place, |site| peer.has_lost(site));
        self.timers.set(Timer::Relays, now);
    }
}
