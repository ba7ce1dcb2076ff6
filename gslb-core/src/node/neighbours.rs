//! The other nodes of this node's site: who of them measures which LDNS, and what confirms what they tell.

use crate::cell::Confirmed;
use gslb_types::{Ldns, NodeId, Timestamp};
use mep_core::PeerStatus;
use probes_core::prober::Share;
use std::collections::BTreeMap;

/// Those with a session that stands.
pub(crate) struct Neighbours {
    me: NodeId,
    sessions: BTreeMap<NodeId, Heard>,
    share: Share,
}

/// A session with one of them.
#[derive(Clone, Copy)]
struct Heard {
    since: Timestamp,
    last_word: Timestamp,
}

impl Neighbours {
    /// None yet: all LDNS are this node's.
    pub(crate) fn new(me: NodeId) -> Self {
        Neighbours { share: Share::among(me.clone(), []), me, sessions: BTreeMap::new() }
    }

    /// A session stands.
    pub(crate) fn peer_up(&mut self, now: Timestamp, peer: &NodeId) {
        self.sessions.insert(peer.clone(), Heard { since: now, last_word: now });
        self.share_out();
    }

    /// A session ended.
    pub(crate) fn peer_down(&mut self, peer: &NodeId) {
        self.sessions.remove(peer);
        self.share_out();
    }

    /// Takes over when each was heard last.
    pub(crate) fn heard(&mut self, statuses: &[PeerStatus]) {
        for status in statuses {
            if let Some(heard) = self.sessions.get_mut(&status.peer)
                && let Some(last_word) = status.last_word
            {
                heard.last_word = heard.last_word.max(last_word);
            }
        }
    }

    /// Which LDNS are whose.
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// Whether this node measures an LDNS.
    pub(crate) fn is_ours(&self, ldns: Ldns) -> bool {
        self.share.is_ours(ldns)
    }

    /// When the session with one of them began.
    pub(crate) fn told_since(&self, peer: &NodeId) -> Option<Timestamp> {
        self.sessions.get(peer).map(|heard| heard.since)
    }

    /// What confirms the values they told: the word of the one heard longest ago, so that none is held for younger than it is.
    pub(crate) fn confirmed(&self) -> Option<Confirmed> {
        let since = self.sessions.values().map(|heard| heard.since).min()?;
        let last_word = self.sessions.values().map(|heard| heard.last_word).min()?;
        Some(Confirmed::new(since, last_word))
    }

    fn share_out(&mut self) {
        self.share = Share::among(self.me.clone(), self.sessions.keys().cloned());
    }
}
