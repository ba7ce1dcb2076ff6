//! What the node lets queries and the admin API see.

use super::health::Judged;
use super::{Node, RENEWAL};
use crate::published::{MonitorView, Published, ServiceView};
use config::Config;
use gslb_types::Timestamp;
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
        let peers: Vec<_> = self.mep.peers().collect();
        self.sites.heard(&peers);
        let services = self.config.services.iter().zip(self.health.services()).enumerate();
        self.shared.published.store(Arc::new(Published {
            generation: before.generation + 1,
            at: now,
            config: self.config.clone(),
            zones: before.zones.clone(),
            services: services.map(|(index, (service, judged))| self.view(index, service, judged)).collect(),
            sites: self.sites.views(&self.config, &peers),
            peers,
            measured: self.measured.clone(),
            strangers: self.mep.strangers().clone(),
            probing: self.prober.stats(),
            monitoring: self.monitors.stats(),
            node: self.stats,
        }));
    }

    fn view(&self, index: usize, service: &config::Service, judged: &Judged) -> ServiceView {
        let machine = self.monitors.view(index);
        let views = machine.into_iter().flat_map(|m| m.monitors);
        let names = service.monitors.iter().filter_map(|m| self.config.monitors.get(*m));
        let monitors = names.zip(views).map(|(monitor, view)| MonitorView {
            name: monitor.name.clone(),
            passing: view.passing,
            last: view.last,
            response_time: view.response_time,
        });
        ServiceView {
            id: ServiceId::of(&service.name),
            state: judged.state,
            since: judged.since,
            reason: judged.reason.clone(),
            last_good: judged.last_good,
            response_time: judged.response_time,
            monitors: monitors.collect(),
        }
    }
}

/// What is published before the node task has said anything.
pub(crate) fn at_start(config: &Arc<Config>, zones: crate::dns::Zones, now: Timestamp) -> Published {
    let health = super::Health::new(config.clone(), now);
    let services = config.services.iter().zip(health.services()).map(|(service, judged)| ServiceView {
        id: ServiceId::of(&service.name),
        state: judged.state,
        since: judged.since,
        reason: judged.reason.clone(),
        last_good: judged.last_good,
        response_time: None,
        monitors: Vec::new(),
    });
    Published {
        generation: 0,
        at: now,
        services: services.collect(),
        sites: super::Sites::default().views(config, &[]),
        config: config.clone(),
        zones: Arc::new(zones),
        peers: Vec::new(),
        measured: Arc::new(super::settings::prober(config, &[])),
        strangers: mep_core::Strangers::default(),
        probing: probes_core::ProberStats::default(),
        monitoring: probes_core::monitors::MonitorStats::default(),
        node: super::NodeStats::default(),
    }
}
