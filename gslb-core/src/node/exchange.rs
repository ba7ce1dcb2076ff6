//! What the metric exchange says, and where it belongs.

use super::health::Word;
use super::sites;
use super::standing::Standing;
use super::{Heard, Node};
use crate::cell::Cell;
use crate::persistence::Teller;
use crate::sessions::Session;
use crate::traffic::Traffic;
use gslb_types::{Ldns, NodeId, Reach, ServiceName, SiteIndex, SiteName, Timestamp};
use mep_core::{DownReason, KnownSession, Output, RttRow, ServiceMetric, SessionKey};
use std::collections::BTreeSet;
use std::time::Duration;

impl Node {
    pub(super) fn mep_said(&mut self, now: Timestamp, output: Output) {
        match output {
            Output::Carrier(command) => self.outputs.push_back(super::Output::Carrier(command)),
            Output::PeerUp { peer } => self.peer_up(now, &peer),
            Output::PeerDown { peer, reason } => self.peer_down(now, &peer, &reason),
            // Nothing but what is shown of it changes, and that at once.
            Output::PeerTurned { peer, state } => {
                tracing::debug!(%peer, state = state.as_str(), "session in doubt, or no longer");
                self.publish_soon(now);
            }
            Output::Synced { peer } => {
                let asked = self.sites.synced(now, &peer);
                self.ask_speaker(now, asked);
            }
            Output::Rtts { peer, site, rows, via, word_age } => {
                let Some(column) = self.places.site(&site) else { return };
                match via {
                    Some(via) => {
                        self.sites.relayed(now, column, &via, word_age);
                        // What is older at the relay was told to it by somebody who is silent now, or by a process that is gone.
                        let is_confirmed = |row: &RttRow| row.age <= word_age;
                        self.rows(now, column, &sites::Teller::Relay(via), &rows, is_confirmed);
                    }
                    None if column == self.config.this_site() => self.neighbours_rows(now, &peer, &rows),
                    None => self.rows(now, column, &sites::Teller::Speaker(peer), &rows, |_| true),
                }
            }
            Output::Sightings { sightings, .. } => {
                for sighting in sightings {
                    let heard = Heard::ByPeer { fresh: sighting.fresh };
                    self.sighting(now, sighting.address, sighting.age, heard);
                }
            }
            Output::Metrics { peer, site, services, via, word_age, .. } => {
                if let (Some(via), Some(column)) = (&via, self.places.site(&site)) {
                    self.sites.relayed(now, column, via, word_age);
                }
                self.metrics(now, &peer, &services, via.is_some());
            }
            Output::RelayUp { site, via } => self.relay_up(now, &site, &via),
            Output::RelayDown { site, via, reason } => self.relay_down(now, &site, &via, &reason),
            Output::Contested { site, via, deniers } => {
                let deniers: Vec<String> = deniers.iter().map(ToString::to_string).collect();
                tracing::warn!(%site, %via, ?deniers, "one peer alone claims to hear the site; its word counts, look at both");
                self.publish_soon(now);
            }
            Output::Settled { site } => {
                tracing::info!(%site, "what is said of the site is not contradicted any longer");
                self.publish_soon(now);
            }
            Output::Sessions { peer, sessions } => self.sessions_told(now, &peer, &sessions),
        }
    }

    fn peer_up(&mut self, now: Timestamp, peer: &NodeId) {
        tracing::info!(%peer, "session established");
        let status = self.mep.peers().find(|status| status.peer == *peer);
        if let Some(status) = status.as_ref().filter(|status| !status.mismatches.is_empty()) {
            tracing::warn!(%peer, settings = ?status.mismatches, "the peer has other settings than this node");
        }
        if let Some(site) = self.places.site(&peer.site) {
            self.health.peer_up(now, site, peer);
            if site == self.config.this_site() {
                self.neighbours.peer_up(now, peer, status.and_then(|status| status.boot));
                self.share_out(now);
            } else {
                self.sites.peer_up(now, site, peer, self.mep.can_be_asked(peer));
            }
        }
        self.publish_soon(now);
    }

    fn peer_down(&mut self, now: Timestamp, peer: &NodeId, reason: &DownReason) {
        tracing::info!(%peer, %reason, "session ended");
        self.tell_sessions_on(now, peer);
        if let Some(site) = self.places.site(&peer.site) {
            self.health.peer_down(now, site, peer);
            if site == self.config.this_site() {
                let by_silence = matches!(reason, DownReason::Silent(_) | DownReason::NotHeard(_));
                self.neighbours.peer_down(now, peer, by_silence);
                self.share_out(now);
            } else {
                let asked = self.sites.peer_down(now, peer);
                self.ask_speaker(now, asked);
            }
        }
        self.publish_soon(now);
    }

    fn relay_up(&mut self, now: Timestamp, site: &SiteName, via: &NodeId) {
        let Some(column) = self.places.site(site) else { return };
        let goes_on = self.sites.relay(column) == Some(via);
        self.sites.relay_up(now, column, via);
        // One that begins anew, however often, is still the one that the site is heard by.
        if !goes_on {
            tracing::info!(%site, %via, "site is relayed");
            self.health.relay_up(now, column, via);
            self.publish_soon(now);
        }
    }

    fn relay_down(&mut self, now: Timestamp, site: &SiteName, via: &NodeId, reason: &str) {
        tracing::info!(%site, %via, reason, "site is not relayed any longer");
        if let Some(site) = self.places.site(site) {
            self.health.relay_down(now, site);
            self.sites.relay_down(now, site);
        }
        self.publish_soon(now);
    }

    /// Takes over when each peer was heard last: what their words confirm is as old as that. Not at the end of a session: the
    /// last word may be the hello of a new process by then, which confirms nothing that the old one said.
    pub(super) fn note_words(&mut self) -> Vec<mep_core::PeerStatus> {
        let statuses: Vec<_> = self.mep.peers().collect();
        self.sites.heard(&statuses);
        self.neighbours.heard(&statuses);
        statuses
    }

    /// A node whose rows were not written until now tells all once more.
    fn ask_speaker(&mut self, now: Timestamp, speaker: Option<NodeId>) {
        if let Some(peer) = speaker
            && self.mep.ask_snapshot(now, &peer)
        {
            tracing::debug!(%peer, "speaks for its site");
        }
    }

    /// Shares the LDNS of this site out anew, if neighbours came or went.
    pub(super) fn share_out(&mut self, now: Timestamp) {
        let confirmed = self.neighbours.confirmed();
        let Some(settled) = self.neighbours.settle(now) else { return };
        self.stats.shared_out += 1;
        let asked = settled.asked.iter().filter(|peer| self.mep.ask_snapshot(now, peer));
        let asked: BTreeSet<&NodeId> = asked.collect();
        let neighbours = &self.neighbours;
        // One of version 1.0 cannot be asked: its words confirm what it may not know, as those of all nodes did then.
        let tells_again = |ldns| asked.contains(neighbours.share().owner(ldns));
        let is_unconfirmed = |ldns| {
            neighbours.is_ours(ldns)
                || settled.is_orphaned(ldns)
                || (settled.is_inherited(ldns) && tells_again(ldns))
        };
        self.own.shared_out(confirmed, is_unconfirmed, &self.shared.rtts);
        self.prober.set_share(now, neighbours.share().clone());
        self.publish_soon(now);
    }

    /// Only site S's word writes column S, said by its speaker or passed on by the relay.
    fn rows(
        &mut self,
        now: Timestamp,
        column: SiteIndex,
        teller: &sites::Teller,
        rows: &[RttRow],
        is_confirmed: impl Fn(&RttRow) -> bool,
    ) {
        if column == self.config.this_site() || !self.sites.is_teller(column, teller) {
            return;
        }
        let Some(confirmed) = self.sites.confirmed(column) else { return };
        for row in rows {
            let told = now.before(row.age);
            let cell = match is_confirmed(row) {
                // Told since then, so the teller's words confirm it, however old the value was when it was told.
                true => Cell::new(row.reach, row.kind, told.max(confirmed.since)).told_by(confirmed),
                // Nobody vouches for it, and a time before this node's start cannot be noted.
                false if told == Timestamp::ZERO => continue,
                false => {
                    let cell = Cell::measured(row.reach, row.kind, told);
                    let known = self.shared.rtts.cell(row.ldns, column);
                    if !known.is_some_and(|known| cell.is_later_than(known, confirmed)) {
                        continue;
                    }
                    cell
                }
            };
            self.shared.rtts.write(row.ldns, column, cell);
        }
    }

    /// Of this site's own column only its own samples write, and those of the neighbour that an LDNS is shared out to. A
    /// value of our own share is taken from a neighbour only while this node has none, as after its start: so it takes back
    /// nothing that the site has said.
    fn neighbours_rows(&mut self, now: Timestamp, peer: &NodeId, rows: &[RttRow]) {
        let Some(since) = self.neighbours.told_since(peer) else { return };
        for row in rows {
            let owner = self.neighbours.share().owner(row.ldns);
            let (reach, kind, told) = (row.reach, row.kind, now.before(row.age));
            let cell = if owner == peer {
                Cell::new(reach, kind, told.max(since))
            } else if self.neighbours.is_ours(row.ldns) && self.lacks(row.ldns) && reach != Reach::Pending {
                Cell::measured(reach, kind, told)
            } else {
                continue;
            };
            self.prober.note_elsewhere(row.ldns, reach, kind);
            match self.own.told(now, row.ldns, cell, &self.shared.rtts) {
                Some(_) if reach == Reach::Pending => self.mep.note_withdrawn(now, row.ldns),
                Some(advertised) => self.mep.note_rtt(now, advertised.ldns, advertised.first),
                None => {}
            }
        }
    }

    fn lacks(&self, ldns: Ldns) -> bool {
        let row = self.shared.rtts.row(ldns);
        row.is_some_and(|row| row.cell(self.config.this_site()).reach() == Reach::Pending)
    }

    fn metrics(&mut self, now: Timestamp, peer: &NodeId, metrics: &[ServiceMetric], relayed: bool) {
        let words = metrics.iter().filter_map(|metric| {
            let service = self.places.service(&metric.name)?;
            let traffic = Traffic::of_metric(metric);
            Some(Word { service, state: metric.state, response_time: metric.response_time, traffic })
        });
        let words: Vec<Word> = words.collect();
        let unknown = (metrics.len() - words.len()) as u64;
        let foreign = match self.places.site(&peer.site) {
            Some(site) => self.health.peer_said(now, site, peer, &words, relayed),
            None => words.len() as u64,
        };
        self.stats.metrics_ignored += unknown + foreign;
        self.publish_soon(now);
    }

    /// Each session goes from its node to all others, so nothing is told on as long as that one is heard.
    fn sessions_told(&mut self, now: Timestamp, peer: &NodeId, sessions: &[KnownSession]) {
        let Some(teller) = self.places.node(peer).map(Teller::Peer) else { return };
        for session in sessions {
            if Standing::is_decision(&session.key) {
                if self.standing.hear(now, session) {
                    self.publish_soon(now);
                }
            } else {
                self.note_session(now, session, teller);
            }
        }
        self.forget_sessions();
    }

    /// A peer that is not heard any longer may have told this node of uses that another, cut off from it, has not heard of, and may
    /// never tell that one itself. Whoever has no session with this node now is told all it knows when one begins.
    fn tell_sessions_on(&mut self, now: Timestamp, peer: &NodeId) {
        let Some(teller) = self.places.node(peer).map(Teller::Peer) else { return };
        for key in self.persistence.to_tell_on(teller) {
            self.mep.note_session(now, key);
        }
    }

    /// A session of this node's clients was used. One that leads to no service there is would lead nowhere at the peers.
    pub(super) fn session_used(&mut self, now: Timestamp, key: SessionKey, service: ServiceName) {
        let session = KnownSession { key, service, idle: Duration::ZERO };
        if self.note_session(now, &session, Teller::Own) {
            self.mep.note_session(now, key);
        }
        self.forget_sessions();
    }

    /// Notes a use, here and where queries look. Whether it is news.
    fn note_session(&mut self, now: Timestamp, session: &KnownSession, teller: Teller) -> bool {
        let Some(service) = self.places.service(&session.service) else { return false };
        let is_news = self.persistence.used(now, session, teller);
        if is_news {
            let used = now.before(session.idle);
            self.shared.sessions.write(session.key, Session { service, used });
        }
        is_news
    }

    pub(super) fn forget_sessions(&mut self) {
        self.persistence.take_gone().for_each(|key| self.shared.sessions.remove(&key));
    }

    /// Takes over what queries go by still, from the node task before this one.
    pub(super) fn resume_sessions(&mut self, now: Timestamp) {
        for (key, Session { service, used }) in self.shared.sessions.all() {
            let name = self.config.services.get(service).map(|service| service.name.clone());
            let known = name.map(|service| KnownSession { key, service, idle: now.since(used) });
            if !known.is_some_and(|known| self.persistence.used(now, &known, Teller::Own)) {
                self.shared.sessions.remove(&key);
            }
        }
    }
}
