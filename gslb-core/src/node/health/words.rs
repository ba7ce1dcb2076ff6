//! What the nodes of a site say about one of its services.

use crate::traffic::Traffic;
use gslb_types::{NodeId, Rtt, ServiceState, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// The last words about one service.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    said: BTreeMap<NodeId, Said>,
    /// Of those who see some.
    traffic: BTreeMap<NodeId, Traffic>,
}

/// A node's word about a service of its site.
#[derive(Clone, Copy, Debug)]
struct Said {
    state: ServiceState,
    /// What its monitors measure.
    response_time: Option<Rtt>,
    /// Said in an earlier session: until then it stands although the node says now that it is learning, as one does that has
    /// just been started (behaviour 4). A node that says so in the session in which it knew better has lost its checker, and
    /// what it said before must not stand for ever (faults I-57).
    stands_until: Option<Timestamp>,
}

impl Words {
    /// A session with a node begins.
    pub(super) fn session_began(&mut self, now: Timestamp, node: &NodeId, delay: Duration) {
        if let Some(said) = self.said.get_mut(node) {
            said.stands_until = Some(now + delay);
        }
    }

    /// Takes a word.
    pub(super) fn hear(
        &mut self,
        now: Timestamp,
        node: &NodeId,
        state: ServiceState,
        response_time: Option<Rtt>,
    ) {
        let earlier = self.said.get(node).and_then(|said| said.stands_until);
        let stands = earlier.is_some_and(|until| now < until);
        if state != ServiceState::Learning || !stands {
            self.said.insert(node.clone(), Said { state, response_time, stands_until: None });
        }
    }

    /// Takes what a node sees of the service's traffic.
    pub(super) fn note_traffic(&mut self, node: &NodeId, traffic: Traffic) {
        if traffic.is_seen() {
            self.traffic.insert(node.clone(), traffic);
        } else {
            self.traffic.remove(node);
        }
    }

    /// What each of the nodes that count sees of it.
    pub(super) fn traffic(
        &self,
        counts: impl Fn(&NodeId) -> bool + Clone,
    ) -> impl Iterator<Item = Traffic> + Clone {
        self.traffic.iter().filter(move |(node, _)| counts(node)).map(|(_, traffic)| *traffic)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        *self = Words::default();
    }

    /// What the nodes that count say together, and one of those who say it. One node that sees a service up is enough: the
    /// others may be cut off from it. A node that has not checked it yet says nothing against one that has.
    pub(super) fn together(&self, counts: impl Fn(&NodeId) -> bool) -> Option<(ServiceState, &NodeId)> {
        let counting = self.said.iter().filter(|(node, _)| counts(node));
        // Of several that say the same, the first.
        let all = counting.map(|(node, said)| (said.state, node)).rev();
        all.max_by_key(|(state, _)| rank(*state))
    }

    /// What the nodes that count measure, of those that say so of it: what one measures that takes it for down is no response
    /// time of a service that is up.
    pub(super) fn response_times(
        &self,
        state: ServiceState,
        counts: impl Fn(&NodeId) -> bool,
    ) -> impl Iterator<Item = Option<Rtt>> {
        let saying = self.said.iter().filter(move |(node, said)| said.state == state && counts(node));
        saying.map(|(_, said)| said.response_time)
    }
}

fn rank(state: ServiceState) -> u8 {
    match state {
        ServiceState::Up => 3,
        ServiceState::Down => 2,
        ServiceState::Learning => 1,
        ServiceState::Disabled => 0,
    }
}
