//! What confirms the values of the other sites: the words of the sessions that delivered them.

use crate::published::SiteView;
use crate::table::Confirmed;
use config::Config;
use gslb_types::{NodeId, SiteIndex, Timestamp};
use mep_core::PeerStatus;
use std::collections::BTreeMap;

/// Sessions with the nodes of other sites.
#[derive(Default)]
pub(crate) struct Sites {
    peers: BTreeMap<NodeId, Session>,
    /// By site: what the sessions of a node task that failed had confirmed. It stands until a session confirms more.
    before: Vec<Option<Confirmed>>,
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
    /// Takes over what the node task before this one had published.
    pub(crate) fn resume(&mut self, views: &[SiteView]) {
        self.before = views.iter().map(|view| view.confirmed).collect();
    }

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

    /// The sites of which a node has told all it knew, and goes on telling.
    pub(crate) fn telling(&self) -> impl Iterator<Item = SiteIndex> + '_ {
        self.peers.values().filter(|session| session.is_synced).map(|session| session.site)
    }

    /// Takes over when each peer was heard last.
    pub(crate) fn heard(&mut self, statuses: &[PeerStatus]) {
        for status in statuses.iter().filter(|s| s.state.has_session()) {
            if let Some(session) = self.peers.get_mut(&status.peer)
                && session.is_synced
                && let (Some(confirmed), Some(last_word)) = (&mut session.confirmed, status.last_word)
            {
                confirmed.last_word = confirmed.last_word.max(last_word);
            }
        }
    }

    /// All sites of the configuration.
    pub(crate) fn views(&self, config: &Config, statuses: &[PeerStatus]) -> Vec<SiteView> {
        let is_up = |peer: &NodeId| statuses.iter().any(|s| s.peer == *peer && s.state.has_session());
        (0..config.sites.len())
            .filter_map(SiteIndex::new)
            .map(|site| {
                let mut here = self.peers.iter().filter(|(_, session)| session.site == site);
                let own = site == config.this_site();
                SiteView {
                    connected: own || here.any(|(peer, _)| is_up(peer)),
                    confirmed: self.confirmed(site).filter(|_| !own),
                }
            })
            .collect()
    }

    /// What confirms a site's column. Of several nodes the one heard last speaks for it, and the oldest session that stands
    /// says since when: its column is one. A session that is gone counts only while none stands.
    fn confirmed(&self, site: SiteIndex) -> Option<Confirmed> {
        let of = |synced: bool| {
            let here = self.peers.values().filter(move |s| s.site == site && (s.is_synced || !synced));
            let mut all = here.filter_map(|session| session.confirmed);
            let first = all.next()?;
            Some(all.fold(first, |a, b| Confirmed {
                since: a.since.min(b.since),
                last_word: a.last_word.max(b.last_word),
            }))
        };
        of(true).or_else(|| of(false)).or_else(|| *self.before.get(site.get())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn site() -> SiteIndex {
        SiteIndex::new(1).unwrap()
    }

    impl Sites {
        /// A session that began at `since` has told all, and its last word came at `last_word`.
        fn told(&mut self, peer: &str, since: u64, last_word: u64) {
            let peer: NodeId = peer.parse().unwrap();
            self.peer_up(at(since), site(), &peer);
            self.synced(at(last_word), &peer);
        }

        fn confirms(&self) -> Option<(Timestamp, Timestamp)> {
            self.confirmed(site()).map(|c| (c.since, c.last_word))
        }
    }

    #[test]
    fn the_oldest_session_that_stands_says_since_when() {
        let mut sites = Sites::default();
        assert_eq!(sites.confirms(), None);
        sites.told("b/1", 10, 50);
        sites.told("b/2", 20, 60);
        assert_eq!(sites.confirms(), Some((at(10), at(60))));
    }

    /// Faults I-46: a node that is gone for ever must not keep alive what another one said before it was restarted.
    #[test]
    fn a_session_that_is_gone_confirms_nothing_of_one_that_stands() {
        let mut sites = Sites::default();
        sites.told("b/2", 10, 60);
        sites.peer_down(&"b/2".parse().unwrap());
        assert_eq!(sites.confirms(), Some((at(10), at(60))));
        sites.told("b/1", 500, 510);
        assert_eq!(sites.confirms(), Some((at(500), at(510))));
    }

    #[test]
    fn what_was_confirmed_before_the_task_failed_stands_until_a_session_confirms_more() {
        let mut sites = Sites::default();
        let before = Some(Confirmed { since: at(10), last_word: at(60) });
        sites.resume(&[
            SiteView { connected: true, confirmed: None },
            SiteView { connected: true, confirmed: before },
        ]);
        assert_eq!(sites.confirmed(site()), before);
        sites.told("b/1", 70, 71);
        assert_eq!(sites.confirms(), Some((at(70), at(71))));
    }
}
