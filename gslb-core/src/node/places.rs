//! Where the names that peers use stand in the configuration.
//!
//! A frame may name thousands of services, so each name is found without a walk over all of them (threat T8). Made once, as a
//! node has one configuration in its life.

use config::Config;
use gslb_types::{NodeId, ServiceName, SiteIndex, SiteName};
use std::collections::BTreeMap;

/// The places by name.
pub(super) struct Places {
    sites: BTreeMap<SiteName, SiteIndex>,
    services: BTreeMap<ServiceName, usize>,
    nodes: BTreeMap<NodeId, u16>,
}

impl Places {
    pub(super) fn new(config: &Config) -> Self {
        let sites = config.sites.iter().enumerate();
        let services = config.services.iter().enumerate();
        Places {
            sites: sites.filter_map(|(i, site)| Some((site.name.clone(), SiteIndex::new(i)?))).collect(),
            services: services.map(|(i, service)| (service.name.clone(), i)).collect(),
            nodes: config.nodes.iter().map(|node| node.id.clone()).zip(0..).collect(),
        }
    }

    pub(super) fn site(&self, name: &SiteName) -> Option<SiteIndex> {
        self.sites.get(name).copied()
    }

    pub(super) fn service(&self, name: &ServiceName) -> Option<usize> {
        self.services.get(name).copied()
    }

    pub(super) fn node(&self, id: &NodeId) -> Option<u16> {
        self.nodes.get(id).copied()
    }
}
