//! Who tells the columns of the other sites, and what confirms their values.
//!
//! Of several nodes of a site one is the speaker: only its rows are written into the site's column, since two that tell at
//! different speeds would take turns in it. It is the one with the lowest name that has told all it knows, so that all nodes
//! of the group choose the same. While no node of the site is heard a relay tells.
//!
//! Whoever becomes the speaker is asked to tell all, since what it told before was not written. Nodes of version 1.0 can't be
//! asked: during a rolling upgrade one of them speaks only while no other node of its site can, and takes nobody's place.
//!
//! ```text
//!            session of a node              a better one has told all, or the session ended
//! (nobody) -------------------> Speaker(node) ------------------------> Speaker(other): is asked to tell all
//!    ^ | relay up                  ^   | the last session ended
//!    | +-------------> Relay(node) +   v
//!    +---relay down-------+-----(nobody)
//! ```

#[cfg(test)]
mod tests;

use crate::cell::Confirmed;
use config::Config;
use gslb_types::{NodeId, SiteIndex, Timestamp};
use mep_core::PeerStatus;
use std::collections::BTreeMap;
use std::time::Duration;

/// Sessions with the nodes of other sites, and who tells their columns.
pub(crate) struct Sites {
    sessions: BTreeMap<NodeId, Session>,
    /// By site.
    columns: Vec<Column>,
}

/// A session that stands.
#[derive(Clone, Copy)]
struct Session {
    site: SiteIndex,
    /// Whether the peer can be asked to tell all once more.
    can_be_asked: bool,
    /// Whether the peer has told all it knew.
    is_synced: bool,
}

#[derive(Clone, Default)]
struct Column {
    teller: Option<Teller>,
    /// Who relays the site.
    relay: Option<NodeId>,
    /// Whether the relay has yet to say when it heard the site last.
    relay_begins: bool,
    /// Whose words confirm which values.
    confirmed: Option<Confirmed>,
}

/// Whose rows are written into a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Teller {
    /// A node of the site.
    Speaker(NodeId),
    /// A node of another site, that hears one of it.
    Relay(NodeId),
}

impl Sites {
    /// Nobody is heard yet.
    pub(crate) fn new(config: &Config) -> Self {
        Sites { sessions: BTreeMap::new(), columns: vec![Column::default(); config.sites.len()] }
    }

    /// Takes over what words had confirmed for the node task before this one.
    pub(crate) fn resume(&mut self, confirmed: impl IntoIterator<Item = Option<Confirmed>>) {
        for (column, confirmed) in self.columns.iter_mut().zip(confirmed) {
            column.confirmed = confirmed;
        }
    }

    /// A session stands.
    pub(crate) fn peer_up(&mut self, now: Timestamp, site: SiteIndex, peer: &NodeId, can_be_asked: bool) {
        self.sessions.insert(peer.clone(), Session { site, can_be_asked, is_synced: false });
        let has_speaker = matches!(self.teller(site), Some(Teller::Speaker(_)));
        if !has_speaker {
            self.tells(now, site, Some(Teller::Speaker(peer.clone())));
        }
    }

    /// The peer has told all it knew. Returns the new speaker if there is one that must be asked to tell all: until now its
    /// rows were not written.
    pub(crate) fn synced(&mut self, now: Timestamp, peer: &NodeId) -> Option<NodeId> {
        let session = self.sessions.get_mut(peer)?;
        session.is_synced = true;
        let Session { site, can_be_asked, .. } = *session;
        let speaks = match self.teller(site) {
            Some(Teller::Speaker(speaker)) => can_be_asked && (peer < speaker || !self.can_be_asked(speaker)),
            Some(Teller::Relay(_)) | None => true,
        };
        if !speaks {
            return None;
        }
        self.tells(now, site, Some(Teller::Speaker(peer.clone())));
        Some(peer.clone())
    }

    /// The session ended. Returns the new speaker, which must be asked to tell all.
    pub(crate) fn peer_down(&mut self, now: Timestamp, peer: &NodeId) -> Option<NodeId> {
        let site = self.sessions.remove(peer)?.site;
        if self.teller(site) != Some(&Teller::Speaker(peer.clone())) {
            return None;
        }
        let next = self.next_speaker(site);
        let relay = || self.relay(site).cloned();
        let teller = next.clone().map(Teller::Speaker).or_else(|| relay().map(Teller::Relay));
        self.tells(now, site, teller);
        // One that is in the middle of telling all has told a part of it that was not written.
        next
    }

    /// Who relays a site.
    pub(crate) fn relay(&self, site: SiteIndex) -> Option<&NodeId> {
        self.column(site)?.relay.as_ref()
    }

    /// Somebody relays a site, from now on or anew: what it does not tell from now on is not confirmed by its words.
    pub(crate) fn relay_up(&mut self, now: Timestamp, site: SiteIndex, via: &NodeId) {
        let has_speaker = matches!(self.teller(site), Some(Teller::Speaker(_)));
        if let Some(column) = self.columns.get_mut(site.get()) {
            column.relay = Some(via.clone());
        }
        if !has_speaker {
            self.tells(now, site, Some(Teller::Relay(via.clone())));
        }
    }

    /// Nobody relays it any more.
    pub(crate) fn relay_down(&mut self, now: Timestamp, site: SiteIndex) {
        if let Some(column) = self.columns.get_mut(site.get()) {
            column.relay = None;
        }
        if matches!(self.teller(site), Some(Teller::Relay(_))) {
            self.tells(now, site, None);
        }
    }

    /// The relay of a site spoke of it, `word_age` after it heard it last. What it tells at first was told to it up to then, so
    /// that its part begins there.
    pub(crate) fn relayed(&mut self, now: Timestamp, site: SiteIndex, via: &NodeId, word_age: Duration) {
        if !self.is_teller(site, &Teller::Relay(via.clone())) {
            return;
        }
        if let Some(column) = self.columns.get_mut(site.get()).filter(|column| column.relay_begins) {
            column.relay_begins = false;
            column.begin(now.before(word_age));
        }
        self.heard_at(site, now.before(word_age));
    }

    /// Whether this one's rows are written into the column of the site.
    pub(crate) fn is_teller(&self, site: SiteIndex, teller: &Teller) -> bool {
        self.teller(site) == Some(teller)
    }

    /// The sites of which a node has told all it knew, and goes on telling.
    pub(crate) fn telling(&self) -> impl Iterator<Item = SiteIndex> + '_ {
        self.sessions.values().filter(|session| session.is_synced).map(|session| session.site)
    }

    /// Takes over when each speaker was heard last.
    pub(crate) fn heard(&mut self, statuses: &[PeerStatus]) {
        for status in statuses {
            if let Some(session) = self.sessions.get(&status.peer).copied()
                && self.is_teller(session.site, &Teller::Speaker(status.peer.clone()))
                && let Some(last_word) = status.last_word
            {
                self.heard_at(session.site, last_word);
            }
        }
    }

    /// What confirms the values of a site's column.
    pub(crate) fn confirmed(&self, site: SiteIndex) -> Option<Confirmed> {
        self.column(site)?.confirmed
    }

    /// The node whose rows are written into the site's column.
    pub(crate) fn speaker(&self, site: SiteIndex) -> Option<&NodeId> {
        match self.teller(site)? {
            Teller::Speaker(node) => Some(node),
            Teller::Relay(_) => None,
        }
    }

    fn column(&self, site: SiteIndex) -> Option<&Column> {
        self.columns.get(site.get())
    }

    fn teller(&self, site: SiteIndex) -> Option<&Teller> {
        self.column(site)?.teller.as_ref()
    }

    fn can_be_asked(&self, peer: &NodeId) -> bool {
        self.sessions.get(peer).is_some_and(|session| session.can_be_asked)
    }

    /// Those that can be asked before the others; of these, those that have told all before the others; of these the lowest
    /// name.
    fn next_speaker(&self, site: SiteIndex) -> Option<NodeId> {
        let here = self.sessions.iter().filter(|(_, session)| session.site == site);
        let next = here.min_by_key(|(node, session)| (!session.can_be_asked, !session.is_synced, *node));
        next.map(|(node, _)| node.clone())
    }

    /// From now on this one tells.
    fn tells(&mut self, now: Timestamp, site: SiteIndex, teller: Option<Teller>) {
        let Some(column) = self.columns.get_mut(site.get()) else { return };
        column.relay_begins = matches!(teller, Some(Teller::Relay(_)));
        if matches!(teller, Some(Teller::Speaker(_))) {
            column.begin(now);
        }
        column.teller = teller;
    }

    fn heard_at(&mut self, site: SiteIndex, at: Timestamp) {
        if let Some(confirmed) = self.columns.get_mut(site.get()).and_then(|c| c.confirmed.as_mut()) {
            confirmed.last_word = confirmed.last_word.max(at);
        }
    }
}

impl Column {
    /// Another one tells from then on.
    fn begin(&mut self, since: Timestamp) {
        self.confirmed = Some(self.confirmed.map_or(Confirmed::new(since, since), |c| c.then(since)));
    }
}
