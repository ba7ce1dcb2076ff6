//! Sites that this node hears by another one only: whom it asks, and what it takes for the site's words.
//!
//! ```text
//!            no node of the site is heard,         its first word
//!            a peer says that it hears one            comes
//! (nothing) ------------------------------> Asked -----------------> Standing
//!     ^                                       |                         |
//!     |   no word came, it lost the site,     |   likewise, or what it  |
//!     |   the site is heard directly          |   says is too old       |
//!     +---------------------------------------+-------------------------+
//! ```
//! One hop: a relay tells what it hears itself. A word about a site that was not asked for is a violation (threat T8).

use crate::PeerState;
use crate::contest::Contest;
use crate::mep::{Mep, Timer};
use crate::output::Output;
use crate::peer::{Peer, Session};
use crate::wire::{Relayed, Said};
use gslb_types::{Ldns, NodeId, SiteName, Timestamp};
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// How long a peer is not asked again for a site of which it said nothing, or nothing new.
const BARREN: Duration = Duration::from_secs(60);

/// A relay's first word must come within this part of the keepalive, if somebody else can be asked instead: its own session may
/// be one that nothing passes over any longer, and the site must not be taken down meanwhile. With each that was asked in vain the
/// next has twice as long, up to the other part: the lines may be slow.
const FIRST_ANSWER: u32 = 16;
const LAST_ANSWER: u32 = 4;

/// Nobody is given up sooner, unless the keepalive is very short.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// A peer that is well says something so often in the time of two metrics.
const LIVELY: u32 = 2;

/// How long after its start a node asks nobody for sites it has not reached yet: the sessions are being made.
const START: Duration = Duration::from_secs(2);

/// Whom this node has asked.
#[derive(Default)]
pub(crate) struct Asking {
    /// By silent site.
    pub(crate) relays: BTreeMap<SiteName, Relay>,
    /// Who was asked in vain, by site and place, and until when that counts.
    barren: BTreeMap<(SiteName, usize), Timestamp>,
    /// Whose claim was contested when it was left for somebody else, likewise: asked after all others.
    doubted: BTreeMap<(SiteName, usize), Timestamp>,
}

/// A peer that was asked for a site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relay {
    pub(crate) place: usize,
    pub(crate) stands: bool,
    /// When it was asked, or last said a word about the site.
    heard: Timestamp,
    /// Until when another word about the site must have come.
    until: Timestamp,
    pub(crate) contest: Option<Contest>,
}

impl Mep {
    /// Thinks over whom to ask for what: sessions, links or time have changed.
    pub(crate) fn look_for_relays(&mut self, now: Timestamp) {
        let peers = &self.peers;
        let counts = |place: usize, until: Timestamp| until > now && peers[place].session.is_some();
        self.asking.barren.retain(|(_, place), until| counts(*place, *until));
        self.asking.doubted.retain(|(_, place), until| counts(*place, *until));
        let mut sites: BTreeSet<SiteName> = self.peers.iter().map(|peer| peer.id.site.clone()).collect();
        sites.remove(&self.me.site);
        for site in &sites {
            self.judge_relay(now, site);
            self.look_for_relay(now, site);
        }
        self.request(now);
        let until = self.asking.relays.values().map(|relay| relay.until);
        let start = Some(self.started + START).filter(|start| *start > now);
        let raise = self.asking.relays.values().filter_map(|relay| relay.contest?.raise_at(self.doubtful()));
        if let Some(next) = until.chain(raise).chain(self.asking.barren.values().copied()).chain(start).min()
        {
            self.timers.set(Timer::Relays, next);
        }
    }

    fn look_for_relay(&mut self, now: Timestamp, site: &SiteName) {
        if self.peers.iter().any(|peer| peer.id.site == *site && peer.session.is_some()) {
            return self.drop_relay(now, site, "the site is heard directly");
        }
        if let Some(relay) = self.asking.relays.get(site).copied() {
            if relay.until <= now && self.may_take_longer(now, site, relay) {
                return;
            }
            let peer = &self.peers[relay.place];
            if peer.session.is_none() {
                self.drop_relay(now, site, "the session with the relay ended");
            } else if relay.until <= now {
                // It speaks, but not of the site. If it does not speak at all, it may have much to say when it does.
                let is_mute = peer.last_word().is_none_or(|word| word.since(relay.heard) < self.doubtful());
                let rest = if is_mute { self.doubtful() } else { BARREN };
                // In a session that began since it was asked it has had no time for the site.
                if peer.session.as_ref().is_none_or(|session| session.since <= relay.heard) {
                    self.asking.barren.insert((site.clone(), relay.place), now + rest);
                }
                self.drop_relay(now, site, "the relay has not heard the site for the keepalive");
            } else if peer.has_lost(site) {
                self.drop_relay(now, site, "the relay does not hear the site any longer");
            } else {
                return;
            }
        }
        let is_new = |peer: &Peer| peer.id.site != *site || peer.status.sessions == 0;
        if now < self.started + START && self.peers.iter().all(is_new) {
            return;
        }
        if let Some(place) = self.best_relay(now, site, None) {
            let until = now + self.patience(site);
            let relay = Relay { place, stands: false, heard: now, until, contest: None };
            self.asking.relays.insert(site.clone(), relay);
        }
    }

    /// How long the next one that is asked for a site may take.
    fn patience(&self, site: &SiteName) -> Duration {
        let keepalive = self.settings.keepalive;
        let in_vain = self.asking.barren.keys().filter(|(barren, _)| barren == site).count();
        let doubled = (0..in_vain.min(2)).fold(keepalive / FIRST_ANSWER, |patience, _| patience * 2);
        doubled.max(LEAST_PATIENCE).min(keepalive / LAST_ANSWER)
    }

    /// Whether to go on waiting for a relay's first word: if nobody else can be asked, until somebody can, or for as long as the
    /// keepalive.
    fn may_take_longer(&mut self, now: Timestamp, site: &SiteName, relay: Relay) -> bool {
        let barren = self.asking.barren.iter().filter(|((barren, _), _)| barren == site);
        let next = barren.map(|(_, until)| *until).filter(|until| *until > now).min();
        let until = next.into_iter().chain([relay.heard + self.settings.keepalive]).min().unwrap_or(now);
        let is_cut = self.peers[relay.place].session.is_none();
        if relay.stands || is_cut || until <= now || self.best_relay(now, site, Some(relay.place)).is_some() {
            return false;
        }
        self.asking.relays.insert(site.clone(), Relay { until, ..relay });
        true
    }

    /// Of the peers that hear a site, one that was heard lately, and of those one that hears a node which most others hear, too:
    /// who alone claims to hear a node may be mad (threat T8), and who alone has claimed to hear the site comes last. Of equals
    /// one that has just said something, and then the one with the highest hash: every node of the group comes to another one.
    fn best_relay(&self, now: Timestamp, site: &SiteName, without: Option<usize>) -> Option<usize> {
        let keepalive = self.settings.keepalive;
        let ready = || self.peers.iter().enumerate().filter(|(_, peer)| peer.is_synced());
        let mut claims: BTreeMap<&NodeId, usize> = BTreeMap::new();
        for node in ready().flat_map(|(_, peer)| peer.heard_of(now, site, keepalive)) {
            *claims.entry(node).or_default() += 1;
        }
        let agreement = |peer: &Peer| {
            peer.heard_of(now, site, keepalive).filter_map(|node| claims.get(node)).max().copied()
        };
        let lively = self.settings.metrics_interval * LIVELY;
        let is_barren = |place: usize| self.asking.barren.contains_key(&(site.clone(), place));
        let is_doubted = |place: usize| self.asking.doubted.contains_key(&(site.clone(), place));
        let candidates = ready().filter(|(place, _)| without != Some(*place) && !is_barren(*place));
        let rated = candidates.filter_map(|(place, peer)| {
            let is_up = peer.status.state == PeerState::Up;
            let is_lively = peer.last_word().is_some_and(|word| now.since(word) < lively);
            let rank =
                (!is_doubted(place), is_up, agreement(peer)?, is_lively, weight(&self.me, site, &peer.id));
            Some((rank, place))
        });
        rated.max().map(|(_, place)| place)
    }

    /// Tells every peer what is wanted of it, if that is not what it was told last.
    fn request(&mut self, now: Timestamp) {
        for place in 0..self.peers.len() {
            let relays = self.asking.relays.iter().filter(|(_, relay)| relay.place == place);
            let wanted: BTreeSet<SiteName> = relays.map(|(site, _)| site.clone()).collect();
            let Some(session) = self.peers[place].session.as_mut() else { continue };
            if session.requested == wanted {
                continue;
            }
            session.released.extend(session.requested.difference(&wanted).cloned());
            session.requested = wanted;
            session.request_due = true;
            self.set_no_later(Timer::Pump(place), now);
        }
    }

    pub(crate) fn drop_relay(&mut self, now: Timestamp, site: &SiteName, reason: &str) {
        let Some(relay) = self.asking.relays.remove(site) else { return };
        self.timers.set(Timer::Relays, now);
        self.settle(site, relay.contest);
        if relay.stands {
            self.show_relay(site, None);
            let via = self.peers[relay.place].id.clone();
            let down = Output::RelayDown { site: site.clone(), via, reason: reason.to_owned() };
            self.outputs.push_back(down);
        }
    }

    fn show_relay(&mut self, site: &SiteName, via: Option<&NodeId>) {
        for peer in self.peers.iter_mut().filter(|peer| peer.id.site == *site) {
            peer.status.relay = via.cloned();
        }
    }

    /// Takes a relay's word.
    pub(crate) fn relayed_arrived(&mut self, now: Timestamp, place: usize, relayed: Relayed) {
        let Relayed { site, word_age, column_age, said } = relayed;
        match self.asking.relays.get(&site) {
            Some(relay) if relay.place == place => {}
            _ => return self.not_asked_for(now, place, &site),
        }
        match said {
            Said::End => return self.relay_ended(now, place, &site),
            Said::Nothing | Said::Begin | Said::Rtts(_) | Said::Metrics { .. } => {}
        }
        let Some(left) = self.settings.keepalive.checked_sub(word_age).filter(|left| !left.is_zero()) else {
            self.asking.barren.insert((site.clone(), place), now + BARREN);
            return self.drop_relay(now, &site, "the relay has not heard the site for the keepalive");
        };
        self.relay_stands(now, place, &site, left, said == Said::Begin);
        self.site_said(place, site, column_age, said);
    }

    fn relay_stands(&mut self, now: Timestamp, place: usize, site: &SiteName, left: Duration, begins: bool) {
        let Some(relay) = self.asking.relays.get_mut(site) else { return };
        let is_new = !std::mem::replace(&mut relay.stands, true);
        (relay.heard, relay.until) = (now, now + left);
        let via = &self.peers[place].id;
        if is_new || begins {
            self.outputs.push_back(Output::RelayUp { site: site.clone(), via: via.clone() });
        }
        if is_new {
            let via = via.clone();
            self.show_relay(site, Some(&via));
            // Others may contradict it.
            self.timers.set(Timer::Relays, now);
        }
        // It is looked at again when the earliest of all would be too old.
        let next = self.asking.relays.values().map(|relay| relay.until).min();
        if let Some(next) = next {
            self.set_no_later(Timer::Relays, next);
        }
    }

    fn site_said(&mut self, place: usize, site: SiteName, word_age: Duration, said: Said) {
        let relay = self.peers[place].id.clone();
        let via = Some(relay.clone());
        let output = match said {
            Said::Metrics { node, age, services } => {
                // A node that stands only in the relay's configuration is not the relay's fault.
                if !self.peers.iter().any(|peer| peer.id == node) {
                    self.peers[place].status.unknown += 1;
                    return;
                }
                Output::Metrics { peer: node, site, age, services, via, word_age }
            }
            Said::Rtts(mut rows) => {
                for row in &mut rows {
                    row.ldns = Ldns::of(row.ldns.address(), self.settings.masks);
                }
                self.peers[place].status.relayed_rows_in += rows.len() as u64;
                Output::Rtts { peer: relay, site, rows, via, word_age }
            }
            Said::Nothing | Said::Begin | Said::End => {
                Output::Rtts { peer: relay, site, rows: Vec::new(), via, word_age }
            }
        };
        self.outputs.push_back(output);
    }

    /// The relay does not hear the site any longer: its links are known to say so, too, until it tells them anew. It has
    /// forgotten the request, so that another one is to be told even if it asks for the same.
    fn relay_ended(&mut self, now: Timestamp, place: usize, site: &SiteName) {
        let Some(session) = self.peers[place].session.as_mut() else { return };
        if !session.request_read {
            // That is the end of what was asked for before; the peer has not read yet that it is asked anew.
            return;
        }
        session.requested.remove(site);
        session.released.insert(site.clone());
        let links = self.peers[place].status.links.iter_mut();
        for link in links.filter(|link| link.peer.site == *site && link.state.has_session()) {
            link.state = PeerState::Down;
        }
        self.drop_relay(now, site, "the relay does not hear the site any longer");
    }

    /// Words that were under way when the request was taken back are no violation; others are.
    fn not_asked_for(&mut self, now: Timestamp, place: usize, site: &SiteName) {
        let is_under_way =
            |session: &Session| session.released.contains(site) || session.requested.contains(site);
        if !self.peers[place].session.as_ref().is_some_and(is_under_way) {
            self.violated(now, place, 1);
        }
    }
}

impl Asking {
    /// Asks a peer for a site only if nobody else can be asked, for a while. It may hear the site all along, and whoever else says
    /// so may hear it for a moment only.
    pub(crate) fn doubt(&mut self, now: Timestamp, site: &SiteName, place: usize) {
        self.doubted.insert((site.clone(), place), now + BARREN);
    }

    /// Forgets that a peer was asked in vain for sites it says it has lost, too: when it hears them again it may be asked.
    pub(crate) fn lost(&mut self, place: usize, has_lost: impl Fn(&SiteName) -> bool) {
        self.barren.retain(|(site, asked), _| *asked != place || !has_lost(site));
    }
}

impl Peer {
    /// Whether it has told all it knew: it can be asked for more.
    pub(crate) fn is_synced(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.synced)
    }

    /// The nodes of a site that the peer says it hears, if it has said so not long ago.
    pub(crate) fn heard_of<'a>(
        &'a self,
        now: Timestamp,
        site: &'a SiteName,
        keepalive: Duration,
    ) -> impl Iterator<Item = &'a NodeId> {
        let told = self.status.links_at.map(|told| now.since(told));
        let is_fresh = move |age: Duration| told.is_some_and(|told| age + told < keepalive);
        let links = self.status.links.iter().filter(move |link| {
            link.peer.site == *site && link.state.has_session() && link.word_age.is_some_and(is_fresh)
        });
        links.map(|link| &link.peer)
    }

    /// Whether the peer says that it hears no node of a site.
    pub(crate) fn has_lost(&self, site: &SiteName) -> bool {
        !self.status.links.iter().any(|link| link.peer.site == *site && link.state.has_session())
    }
}

fn weight(me: &NodeId, site: &SiteName, relay: &NodeId) -> u64 {
    let mut hasher = SipHasher13::new();
    (me.site.as_str(), me.node.as_str(), site.as_str()).hash(&mut hasher);
    (relay.site.as_str(), relay.node.as_str()).hash(&mut hasher);
    hasher.finish()
}
