//! What the node lets queries and the admin API see.

use super::health::Judged;
use super::{Node, RENEWAL, settings};
use crate::published::{Judge, MonitorView, Published, ServiceView, SiteView};
use config::Config;
use gslb_types::{SiteIndex, Timestamp};
use lb_core::ServiceId;
use std::sync::Arc;

impl Node {
    /// Publishes within the coalescing time.
    pub(super) fn publish_soon(&mut self, now: Timestamp) {
        self.publish_at = self.publish_at.min(now + self.coalesce);
    }

    pub(super) fn publish_if_due(&mut self, now: Timestamp) {
        if self.publish_at <= now {
            self.publish(now);
        }
    }

    pub(super) fn publish(&mut self, now: Timestamp) {
        self.publish_at = now + RENEWAL;
        let before = self.shared.published.load_full();
        let peers = self.note_words();
        let services = self.config.services.iter().zip(self.health.services()).enumerate();
        let mut published = Published {
            generation: before.generation + 1,
            at: now,
            config: self.config.clone(),
            zones: before.zones.clone(),
            services: services
                .map(|(index, (service, judged))| self.view(now, index, service, judged))
                .collect(),
            sites: self
                .config
                .sites
                .iter()
                .zip(0..)
                .map(|(_, index)| self.site_view(index, &peers))
                .collect(),
            peers,
            measured: self.measured.clone(),
            strangers: self.mep.strangers().clone(),
            probing: self.prober.stats(),
            monitoring: self.monitors.stats(),
            node: self.stats(),
            sharing: self.neighbours.share().nodes().cloned().collect(),
            last_good: self.health.last_good().to_vec(),
            persistence: self.persistence.len(),
            spilled: Vec::new(),
            standing: Vec::new(),
            sources: self.fed.sources(),
            local: self.local.states(),
        };
        for key in self.standing.settle(now, &mut published) {
            self.mep.note_session(now, key);
        }
        self.shared.published.store(Arc::new(published));
    }

    fn site_view(&self, index: usize, peers: &[mep_core::PeerStatus]) -> SiteView {
        let own = index == self.config.this_site().get();
        let (Some(site), Some(config)) = (SiteIndex::new(index), self.config.sites.get(index)) else {
            return SiteView::default();
        };
        let contact = self.health.contact(site);
        SiteView {
            connected: own || peers.iter().any(|s| s.peer.site == config.name && s.state.has_session()),
            confirmed: if own { self.neighbours.confirmed() } else { self.sites.confirmed(site) },
            speaker: self.sites.speaker(site).cloned(),
            relayed_via: contact.and_then(|c| c.relay()).cloned(),
            silent_since: contact.and_then(|c| c.silent_since()),
            taken_down: contact.and_then(|c| c.taken_down()).map(|(_, at)| at),
            held_until: contact.and_then(|c| c.held_until()),
        }
    }

    fn view(&self, now: Timestamp, index: usize, service: &config::Service, judged: &Judged) -> ServiceView {
        let machine = self.monitors.view(index);
        let views = machine.into_iter().flat_map(|m| m.monitors);
        let (bound, _) = settings::bound(&self.config, service);
        let monitors = bound.zip(views).map(|((monitor, weight), view)| MonitorView {
            name: monitor.name.clone(),
            kind: monitor.check.kind(),
            weight,
            measures: monitor.measures,
            passing: view.passing,
            since: view.since,
            in_a_row: view.in_a_row,
            last: view.last,
            response_time: view.response_time,
            history: view.history,
        });
        ServiceView {
            id: ServiceId::of(&service.name),
            state: judged.state,
            since: judged.since,
            reason: judged.reason.clone(),
            judge: judged.judge,
            own: judged.own.as_ref().map(|own| own.state),
            last_good: self.health.was_good(index),
            response_time: judged.response_time,
            traffic: self.health.traffic(now, index),
            source: self.fed.view(index),
            monitors: monitors.collect(),
        }
    }
}

/// What is published before the node task has said anything.
pub(crate) fn at_start(config: &Arc<Config>, zones: crate::dns::Zones, now: Timestamp) -> Published {
    let health = super::Health::new(config.clone(), now);
    let own_site = |index| SiteView { connected: index == config.this_site().get(), ..SiteView::default() };
    let services = config.services.iter().zip(health.services()).map(|(service, judged)| ServiceView {
        id: ServiceId::of(&service.name),
        state: judged.state,
        since: judged.since,
        reason: judged.reason.clone(),
        judge: judged.judge,
        own: judged.own.as_ref().map(|own| own.state),
        last_good: judged.judge == Judge::NoMonitor,
        response_time: None,
        traffic: None,
        source: None,
        monitors: Vec::new(),
    });
    Published {
        generation: 0,
        at: now,
        services: services.collect(),
        sites: (0..config.sites.len()).map(own_site).collect(),
        sharing: vec![config.this_node().id.clone()],
        last_good: health.last_good().to_vec(),
        persistence: 0,
        spilled: Vec::new(),
        standing: Vec::new(),
        sources: Vec::new(),
        local: Arc::new(vec![None; config.lb_vservers.len()]),
        config: config.clone(),
        zones: Arc::new(zones),
        peers: Vec::new(),
        measured: Arc::new(settings::prober(config, &[])),
        strangers: mep_core::Strangers::default(),
        probing: probes_core::ProberStats::default(),
        monitoring: probes_core::monitors::MonitorStats::default(),
        node: super::NodeStats::default(),
    }
}
