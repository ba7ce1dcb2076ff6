//! What confirms the values of the other sites: the words of the sessions that delivered them.

use crate::published::SiteView;
use crate::table::Confirmed;
use config::Config;
use gslb_types::{NodeId, SiteIndex, Timestamp};
use mep_core::{PeerState, PeerStatus};
use std::collections::BTreeMap;

/// Sessions with the nodes of other sites.
#[derive(Default)]
pub(crate) struct Sites {
    peers: BTreeMap<NodeId, Session>,
}

#[derive(Clone, Copy)]
struct Session {
    site: SiteIndex,
    started: Timestamp,
    /// Set when the peer has told all it knew: from then on its silence about a value means "unchanged". Until then, and
    /// after the session, what the session before confirmed stands as it was.
    confirmed: Option<Confirmed>,
    is_synced: bool,
}

impl Sites {
    /// A session stands.
    pub(crate) fn peer_up(&mut self, now: Timestamp, site: SiteIndex, peer: &NodeId) {
        let confirmed = self.peers.get(peer).and_then(|s| s.confirmed);
        self.peers.insert(peer.clone(), Session { site, started: now, confirmed, is_synced: false });
    }

    /// The peer has told all it knew.
    pub(crate) fn synced(&mut self, now: Timestamp, peer: &NodeId) {
        if let Some(session) = self.peers.get_mut(peer) {
            session.is_synced = true;
            session.confirmed = Some(Confirmed { since: session.started, last_word: now });
        }
    }

    /// The session ended.
    pub(crate) fn peer_down(&mut self, peer: &NodeId) {
        if let Some(session) = self.peers.get_mut(peer) {
            session.is_synced = false;
        }
    }

    /// When the running session with this peer began.
    pub(crate) fn started(&self, peer: &NodeId) -> Option<Timestamp> {
        self.peers.get(peer).map(|s| s.started)
    }

    /// Takes over when each peer was heard last.
    pub(crate) fn heard(&mut self, statuses: &[PeerStatus]) {
        for status in statuses.iter().filter(|s| s.state == PeerState::Up) {
            if let Some(session) = self.peers.get_mut(&status.peer)
                && session.is_synced
                && let (Some(confirmed), Some(last_word)) = (&mut session.confirmed, status.last_word)
            {
                confirmed.last_word = confirmed.last_word.max(last_word);
            }
        }
    }

    /// All sites of the configuration. Of several nodes in a site the one heard last speaks for it, and the oldest session
    /// says since when: its column is one.
    pub(crate) fn views(&self, config: &Config, statuses: &[PeerStatus]) -> Vec<SiteView> {
        let is_up = |peer: &NodeId| statuses.iter().any(|s| s.peer == *peer && s.state == PeerState::Up);
        (0..config.sites.len())
            .filter_map(SiteIndex::new)
            .map(|site| {
                let here = || self.peers.iter().filter(move |(_, session)| session.site == site);
                let confirmations = || here().filter_map(|(_, session)| session.confirmed);
                let confirmed = confirmations().map(|c| c.since).min().and_then(|since| {
                    Some(Confirmed { since, last_word: confirmations().map(|c| c.last_word).max()? })
                });
                let own = site == config.this_site();
                SiteView {
                    connected: own || here().any(|(peer, _)| is_up(peer)),
                    confirmed: confirmed.filter(|_| !own),
                }
            })
            .collect()
    }
}
