//! Which services are up, as this node judges it.
//!
//! Services of its own site by their monitors, and by what the other nodes of the site see; services of other sites by what
//! those sites' nodes say, for as long as one of them is heard or relayed, or was within `down_delay`; then, or before if so
//! configured, by the monitors that this node runs against them itself (behaviour 4).
//!
//! ```text
//! own, with monitors:   Learning --verdict--> Up <--> Down
//! own, without:         Up
//! other sites':         Learning --word--> as said --silence of the site for down_delay--> Down, or as own monitors say
//! disabled in the configuration: Disabled, whatever anybody says
//! ```

mod judged;
mod last_good;
mod silence;
#[cfg(test)]
mod tests;
mod trigger;
mod words;

use crate::published::{Judge, ServiceView, SiteView};
use crate::traffic::Traffic;
use config::Config;
use gslb_types::{NodeId, Rtt, ServiceState, SiteIndex, Timers, Timestamp};
pub(crate) use judged::Judged;
use last_good::Memory;
pub(crate) use silence::Contact;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The judgement of all services.
pub(crate) struct Health {
    config: Arc<Config>,
    services: Vec<Judged>,
    /// By site; of the own one, the neighbours.
    contacts: Vec<Contact>,
    due: Timers<SiteIndex>,
    changes: Vec<Change>,
    /// The services whose change [`Memory`] does not know of yet.
    moved: Vec<usize>,
    memory: Memory,
    judged: u64,
}

/// What a node says of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    /// Index into the configuration's services.
    pub(crate) service: usize,
    pub(crate) state: ServiceState,
    pub(crate) response_time: Option<Rtt>,
    pub(crate) traffic: Traffic,
}

/// A state that changed, for log and publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index into the configuration's services.
    pub service: usize,
    /// Before.
    pub from: ServiceState,
    /// After.
    pub to: ServiceState,
    /// Why.
    pub reason: String,
}

impl Health {
    /// The judgement at the start.
    pub(crate) fn new(config: Arc<Config>, now: Timestamp) -> Self {
        let delay = config.mep.down_delay;
        // A relay tells everything again in every metrics interval.
        let lapse = delay + config.mep.metrics_interval * 3;
        let services = config.services.iter().map(|s| Judged::at_start(s, config.this_site(), now)).collect();
        let sites = (0..config.sites.len()).filter_map(SiteIndex::new);
        let contacts =
            sites.map(|site| Contact::new(now, delay, lapse, site == config.this_site())).collect();
        let memory = Memory::new(&config);
        let (due, changes, moved) = (Timers::new(), Vec::new(), (0..config.services.len()).collect());
        let mut health = Health { config, services, contacts, due, changes, moved, memory, judged: 0 };
        (0..health.contacts.len()).filter_map(SiteIndex::new).for_each(|site| health.set_due(site));
        health.note_last_good();
        health.take_turned();
        health
    }

    /// Takes over what the node task before this one had published of the same configuration.
    pub(crate) fn resume(
        &mut self,
        now: Timestamp,
        services: &[ServiceView],
        sites: &[SiteView],
        last_good: &[Vec<bool>],
    ) {
        for (judged, view) in self.services.iter_mut().zip(services) {
            judged.state = view.state;
            judged.since = view.since;
            judged.judge = view.judge;
            judged.reason.clone_from(&view.reason);
            judged.response_time = view.response_time;
            if let (Some(own), Some(state)) = (&mut judged.own, view.own) {
                own.state = state;
                own.response_time = view.response_time;
            }
        }
        for (contact, view) in self.contacts.iter_mut().zip(sites) {
            if let Some(at) = view.taken_down {
                contact.resume(view.silent_since.unwrap_or(now), at);
            }
        }
        (0..self.contacts.len()).filter_map(SiteIndex::new).for_each(|site| self.set_due(site));
        self.memory.resume(last_good);
        self.take_turned();
    }

    /// All services, by index.
    pub(crate) fn services(&self) -> &[Judged] {
        &self.services
    }

    /// What is heard of a site.
    pub(crate) fn contact(&self, site: SiteIndex) -> Option<&Contact> {
        self.contacts.get(site.get())
    }

    /// By virtual server and position in its bindings: whether the service was up the last time one of its family was.
    pub(crate) fn last_good(&self) -> &[Vec<bool>] {
        self.memory.last_good()
    }

    /// Whether the service was up the last time one of its family was, in one of its virtual servers.
    pub(crate) fn was_good(&self, service: usize) -> bool {
        self.memory.was_good(service)
    }

    /// Services judged so far, and bindings of virtual servers looked at for it.
    pub(crate) fn effort(&self) -> (u64, u64) {
        (self.judged, self.memory.looks())
    }

    /// Monitors of this node decided.
    pub(crate) fn own_verdict(&mut self, now: Timestamp, service: usize, state: ServiceState, reason: &str) {
        if let Some(own) = self.services.get_mut(service).and_then(|judged| judged.own.as_mut()) {
            own.state = state;
            reason.clone_into(&mut own.reason);
        }
        self.judge(now, service);
        self.note_last_good();
    }

    /// Monitors of this node measured, or lost what they had.
    pub(crate) fn own_response_time(&mut self, now: Timestamp, service: usize, response_time: Option<Rtt>) {
        if let Some(own) = self.services.get_mut(service).and_then(|judged| judged.own.as_mut()) {
            own.response_time = response_time;
        }
        self.judge(now, service);
        self.note_last_good();
    }

    /// Monitors of this node tell another load, or none any more. It decides nothing of the state.
    pub(crate) fn own_load(&mut self, service: usize, load: Option<u64>) {
        if let Some(own) = self.services.get_mut(service).and_then(|judged| judged.own.as_mut()) {
            own.load = load;
        }
    }

    /// The load of a service as this node's monitors or its source tell it.
    pub(crate) fn own_load_of(&self, service: usize) -> Option<u64> {
        self.services.get(service)?.own_traffic().load
    }

    /// The data plane of this node showed how the LB virtual server is that the service stands for, or its source and its
    /// monitors together say how it is.
    pub(crate) fn local_verdict(
        &mut self,
        now: Timestamp,
        service: usize,
        state: ServiceState,
        reason: &str,
        response_time: Option<Rtt>,
        traffic: Traffic,
    ) {
        if let Some(own) = self.services.get_mut(service).and_then(|judged| judged.own.as_mut())
            && matches!(own.by, Judge::LbVserver | Judge::Source)
        {
            (own.response_time, own.traffic) = (response_time, traffic);
            self.own_verdict(now, service, state, reason);
        }
    }

    /// The data plane of this node showed the traffic of a service behind its LB virtual servers. Where a source counts it, the
    /// source counts all of it.
    pub(crate) fn local_traffic(&mut self, service: usize, traffic: Traffic) {
        if let Some(own) = self.services.get_mut(service).and_then(|judged| judged.own.as_mut())
            && own.by != Judge::Source
        {
            own.traffic = traffic;
        }
    }

    /// What this node itself sees of a service: its state and response time.
    pub(crate) fn own(&self, service: usize) -> Option<(ServiceState, Option<Rtt>)> {
        let own = self.services.get(service)?.own.as_ref()?;
        Some((own.state, own.response_time))
    }

    /// The traffic of a service, as all nodes see it that count.
    pub(crate) fn traffic(&self, now: Timestamp, service: usize) -> Option<Traffic> {
        let (config, judged) = (self.config.services.get(service)?, self.services.get(service)?);
        let contact = self.contacts.get(config.site.get())?;
        let traffic = judged.traffic(|node| contact.counts(now, node));
        Some(traffic).filter(Traffic::is_seen)
    }

    /// A session with another node stands.
    pub(crate) fn peer_up(&mut self, now: Timestamp, site: SiteIndex, peer: &NodeId) {
        self.of_contact(now, site, |contact| contact.peer_up(now, peer));
        let delay = self.config.mep.down_delay;
        self.services.iter_mut().for_each(|judged| judged.words.session_began(now, peer, delay));
        self.judge_site(now, site);
    }

    /// A session with another node ended. What it said stands for `down_delay`.
    pub(crate) fn peer_down(&mut self, now: Timestamp, site: SiteIndex, peer: &NodeId) {
        self.of_contact(now, site, |contact| contact.peer_down(now, peer));
    }

    /// Somebody relays what a site says.
    pub(crate) fn relay_up(&mut self, now: Timestamp, site: SiteIndex, via: &NodeId) {
        self.of_contact(now, site, |contact| contact.relay_up(now, via));
    }

    /// Nobody relays it any more.
    pub(crate) fn relay_down(&mut self, now: Timestamp, site: SiteIndex) {
        self.of_contact(now, site, |contact| contact.relay_down(now));
    }

    /// A node of this site said how services of the site are, to this node or to the relay of its site. Words about services of
    /// other sites are not its to say: ignored. Says how many were.
    ///
    /// However often the words name a service, it is judged once: what a frame costs must not grow faster than the frame (T8).
    pub(crate) fn peer_said(
        &mut self,
        now: Timestamp,
        site: SiteIndex,
        peer: &NodeId,
        words: &[Word],
        relayed: bool,
    ) -> u64 {
        let config = self.config.clone();
        let is_of_site = |word: &&Word| config.services.get(word.service).is_some_and(|s| s.site == site);
        let of_site: Vec<&Word> = words.iter().filter(is_of_site).collect();
        if !of_site.is_empty() {
            self.site_said(now, site, peer, &of_site, relayed);
        }
        (words.len() - of_site.len()) as u64
    }

    fn site_said(&mut self, now: Timestamp, site: SiteIndex, peer: &NodeId, words: &[&Word], relayed: bool) {
        let Some(contact) = self.contacts.get_mut(site.get()) else { return };
        if relayed && contact.relayed(now, peer) {
            let delay = self.config.mep.down_delay;
            self.services.iter_mut().for_each(|judged| judged.words.session_began(now, peer, delay));
        }
        self.set_due(site);
        for word in words {
            if let Some(judged) = self.services.get_mut(word.service) {
                judged.words.hear(now, peer, word.state, word.response_time);
                judged.words.note_traffic(peer, word.traffic);
            }
        }
        let named: BTreeSet<usize> = words.iter().map(|word| word.service).collect();
        named.into_iter().for_each(|service| self.judge(now, service));
        self.note_last_good();
    }

    /// When something falls due.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.due.next()
    }

    /// Takes services of silent sites down, and lets those of sites that are heard again come back.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(site) = self.due.expired(now) {
            let was_taken =
                self.contacts.get_mut(site.get()).is_some_and(|contact| contact.handle_timeout(now));
            if was_taken {
                for (judged, _) in
                    self.services.iter_mut().zip(&self.config.services).filter(|(_, s)| s.site == site)
                {
                    judged.words.clear();
                }
            }
            self.set_due(site);
            self.judge_site(now, site);
        }
    }

    /// What changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The virtual servers that lost their last service or got the first one since the last call.
    pub(crate) fn take_turned(&mut self) -> Vec<(usize, bool)> {
        let state = |service: usize| self.services.get(service).map(|judged| judged.state);
        self.memory.turned(&self.config, state)
    }

    fn of_contact(&mut self, now: Timestamp, site: SiteIndex, event: impl FnOnce(&mut Contact)) {
        if let Some(contact) = self.contacts.get_mut(site.get()) {
            event(contact);
        }
        self.set_due(site);
        self.judge_site(now, site);
    }

    fn set_due(&mut self, site: SiteIndex) {
        match self.contacts.get(site.get()).and_then(Contact::due) {
            Some(at) => self.due.set(site, at),
            None => self.due.stop(site),
        }
    }

    fn judge_site(&mut self, now: Timestamp, site: SiteIndex) {
        for service in 0..self.services.len() {
            if self.config.services.get(service).is_some_and(|s| s.site == site) {
                self.judge(now, service);
            }
        }
        self.note_last_good();
    }

    /// Judges a service anew from all that is known of it.
    fn judge(&mut self, now: Timestamp, service: usize) {
        self.judged += 1;
        let (Some(config), Some(judged)) =
            (self.config.services.get(service), self.services.get_mut(service))
        else {
            return;
        };
        let Some(contact) = self.contacts.get(config.site.get()).filter(|_| config.enabled) else { return };
        let verdict = if config.site == self.config.this_site() {
            judged.among_neighbours(|node| contact.counts(now, node))
        } else {
            judged.of_another_site(now, contact, &self.config, config.site)
        };
        let Some(verdict) = verdict else { return };
        judged.response_time = verdict.response_time;
        judged.judge = verdict.judge;
        // Why it is so may be news while it stays so.
        judged.reason.clone_from(&verdict.reason);
        if judged.state == verdict.state {
            return;
        }
        let from = std::mem::replace(&mut judged.state, verdict.state);
        judged.since = now;
        self.moved.push(service);
        self.changes.push(Change { service, from, to: verdict.state, reason: verdict.reason });
    }

    fn note_last_good(&mut self) {
        let state = |service: usize| self.services.get(service).map(|judged| judged.state);
        self.memory.note(&self.config, std::mem::take(&mut self.moved), state);
    }
}
