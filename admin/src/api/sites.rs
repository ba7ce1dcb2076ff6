//! `/v1/sites`: the sites and their nodes.

use super::{States, View};
use gslb_types::SiteIndex;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// All sites, in the order of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sites {
    /// The sites.
    pub sites: Vec<Site>,
}

/// A site as this node sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Site {
    /// Its name.
    pub site: String,
    /// Whether this node stands in it.
    pub own: bool,
    /// Whether it is the own one, or a session with one of its nodes stands.
    pub connected: bool,
    /// How long ago a session last confirmed its values; `null` for the own site, and before the first word.
    pub confirmed_age_ms: Option<u64>,
    /// Its nodes.
    pub nodes: Vec<NodeOfSite>,
    /// How many of its services are in which state.
    pub services: States,
}

/// A node of a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeOfSite {
    /// SITE/NODE.
    pub node: String,
    /// Where peers dial it.
    pub mep: SocketAddr,
    /// Its state as a peer; `null` for this node itself.
    pub state: Option<String>,
}

pub(crate) fn sites(view: &View<'_>) -> Sites {
    let indices = (0..view.config().sites.len()).filter_map(SiteIndex::new);
    Sites { sites: indices.map(|index| site(view, index)).collect() }
}

fn site(view: &View<'_>, index: SiteIndex) -> Site {
    let (config, seen) = (view.config(), view.published.sites.get(index.get()));
    let nodes = config.nodes.iter().filter(|node| node.site == index);
    let state = |id: &gslb_types::NodeId| {
        view.published.peers.iter().find(|p| p.peer == *id).map(|p| p.state.as_str().to_owned())
    };
    let here =
        (0..config.services.len()).filter(|s| config.services.get(*s).is_some_and(|s| s.site == index));
    Site {
        site: view.site(index),
        own: index == config.this_site(),
        connected: seen.is_some_and(|seen| seen.connected),
        confirmed_age_ms: seen.and_then(|seen| seen.confirmed).map(|c| view.age_ms(c.last_word)),
        nodes: nodes
            .map(|node| NodeOfSite { node: node.id.to_string(), mep: node.mep, state: state(&node.id) })
            .collect(),
        services: States::of(view, here),
    }
}
