//! Whether a site is heard, and what its silence does.
//!
//! ```text
//!              nobody hears it          down_delay
//!      Heard ------------------> Silent -----------> Taken down
//!       ^ ^          heard         |                   |  ^
//!       | +------------------------+             heard |  | silent again
//!       |   down_delay since it was taken down         v  |
//!       +------------------------------------------- Held down
//! ```
//! A site is heard while a session with one of its nodes stands, or while a peer relays one. The hold keeps a link that flaps
//! from moving users more than once in its time (faults I-43).

use gslb_types::{NodeId, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is heard of one site.
pub(crate) struct Contact {
    delay: Duration,
    /// How long what a relay told of a node stands.
    lapse: Duration,
    /// Whether it is the site of this node: that is heard always.
    is_own: bool,
    nodes: BTreeMap<NodeId, Hearing>,
    relay: Option<NodeId>,
    phase: Phase,
    was_heard: bool,
}

/// How a node of the site is heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hearing {
    /// In a session of ours.
    Directly,
    /// By what the relay tells of it, again and again: a node that it speaks of no longer is gone, and so is its word then.
    Relayed { stands_until: Timestamp },
    /// Not any more. Its last word stands until then, while others of its site are heard.
    Lost { stands_until: Timestamp },
}

/// See the diagram above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Heard,
    Silent { since: Timestamp },
    Taken { since: Timestamp, at: Timestamp },
    Held { since: Timestamp, at: Timestamp },
}

impl Contact {
    /// A site nobody has heard of yet.
    pub(super) fn new(now: Timestamp, delay: Duration, lapse: Duration, is_own: bool) -> Self {
        let phase = if is_own { Phase::Heard } else { Phase::Silent { since: now } };
        Contact { delay, lapse, is_own, nodes: BTreeMap::new(), relay: None, phase, was_heard: is_own }
    }

    /// A site that the node task before this one had taken down.
    pub(super) fn resume(&mut self, silent_since: Timestamp, at: Timestamp) {
        self.phase = Phase::Taken { since: silent_since, at };
        self.was_heard = true;
    }

    pub(super) fn peer_up(&mut self, now: Timestamp, peer: &NodeId) {
        self.nodes.insert(peer.clone(), Hearing::Directly);
        self.turn(now);
    }

    pub(super) fn peer_down(&mut self, now: Timestamp, peer: &NodeId) {
        self.nodes.insert(peer.clone(), Hearing::Lost { stands_until: now + self.delay });
        self.turn(now);
    }

    pub(super) fn relay_up(&mut self, now: Timestamp, via: &NodeId) {
        self.relay = Some(via.clone());
        self.turn(now);
    }

    pub(super) fn relay_down(&mut self, now: Timestamp) {
        self.relay = None;
        for hearing in self.nodes.values_mut().filter(|hearing| matches!(hearing, Hearing::Relayed { .. })) {
            *hearing = Hearing::Lost { stands_until: now + self.delay };
        }
        self.turn(now);
    }

    /// The relay told what a node said. Whether it is the first time that it speaks of this node.
    pub(super) fn relayed(&mut self, now: Timestamp, node: &NodeId) -> bool {
        let hearing = self.nodes.get(node);
        let is_first = !matches!(hearing, Some(Hearing::Directly | Hearing::Relayed { .. }));
        if self.relay.is_some() && hearing != Some(&Hearing::Directly) {
            self.nodes.insert(node.clone(), Hearing::Relayed { stands_until: now + self.lapse });
        }
        is_first
    }

    /// Whether what this node said last counts. While nobody of the site is heard, everything stays as it is.
    pub(super) fn counts(&self, now: Timestamp, node: &NodeId) -> bool {
        match self.nodes.get(node) {
            Some(Hearing::Directly) => true,
            Some(Hearing::Relayed { stands_until }) => now < *stands_until,
            Some(Hearing::Lost { stands_until }) => !self.is_heard() || now < *stands_until,
            None => false,
        }
    }

    /// When [`Contact::handle_timeout`] has something to do.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let phase = match self.phase {
            Phase::Heard | Phase::Taken { .. } => None,
            Phase::Silent { since } => Some(since + self.delay),
            Phase::Held { at, .. } => Some(at + self.delay),
        };
        let lost = self.nodes.values().filter_map(|hearing| match hearing {
            Hearing::Lost { stands_until } if self.is_heard() => Some(*stands_until),
            Hearing::Relayed { stands_until } => Some(*stands_until),
            Hearing::Lost { .. } | Hearing::Directly => None,
        });
        lost.chain(phase).min()
    }

    /// Does what time has come for. Says whether the site was taken down.
    pub(super) fn handle_timeout(&mut self, now: Timestamp) -> bool {
        if self.is_heard() {
            let is_over = |hearing: &Hearing| match hearing {
                Hearing::Lost { stands_until } | Hearing::Relayed { stands_until } => *stands_until <= now,
                Hearing::Directly => false,
            };
            self.nodes.retain(|_, hearing| !is_over(hearing));
        }
        match self.phase {
            Phase::Silent { since } if since + self.delay <= now => {
                self.phase = Phase::Taken { since, at: now };
                self.nodes.clear();
                true
            }
            Phase::Held { at, .. } if at + self.delay <= now => {
                self.phase = Phase::Heard;
                false
            }
            Phase::Heard | Phase::Silent { .. } | Phase::Taken { .. } | Phase::Held { .. } => false,
        }
    }

    /// Whether the site's own words do not count, as it is or was silent for too long.
    pub(super) fn is_down(&self) -> bool {
        matches!(self.phase, Phase::Taken { .. } | Phase::Held { .. })
    }

    /// Since when nobody hears the site.
    pub(crate) fn silent_since(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Silent { since } | Phase::Taken { since, .. } => Some(since),
            Phase::Heard | Phase::Held { .. } => None,
        }
    }

    /// When its silence took its services down, if it still does.
    pub(crate) fn taken_down(&self) -> Option<(Timestamp, Timestamp)> {
        match self.phase {
            Phase::Taken { since, at } | Phase::Held { since, at } => Some((since, at)),
            Phase::Heard | Phase::Silent { .. } => None,
        }
    }

    /// Until when a site that is heard again stays down.
    pub(crate) fn held_until(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Held { at, .. } => Some(at + self.delay),
            Phase::Heard | Phase::Silent { .. } | Phase::Taken { .. } => None,
        }
    }

    /// Who relays it.
    pub(crate) fn relay(&self) -> Option<&NodeId> {
        self.relay.as_ref()
    }

    fn is_heard(&self) -> bool {
        self.is_own
            || self.relay.is_some()
            || self.nodes.values().any(|hearing| *hearing == Hearing::Directly)
    }

    fn turn(&mut self, now: Timestamp) {
        let is_heard = self.is_heard();
        self.phase = match (self.phase, is_heard) {
            (Phase::Heard, false) => Phase::Silent { since: now },
            (Phase::Silent { .. }, true) => Phase::Heard,
            // Nobody was moved away from a site that was never heard: there is nothing that could flap.
            (Phase::Taken { since, at }, true) if self.was_heard && now < at + self.delay => {
                Phase::Held { since, at }
            }
            (Phase::Taken { .. }, true) => Phase::Heard,
            (Phase::Held { at, .. }, false) => Phase::Taken { since: now, at },
            (phase, _) => phase,
        };
        self.was_heard |= is_heard;
    }
}
