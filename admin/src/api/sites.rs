//! `/v1/sites`: the sites and their nodes.

use super::{States, View};
use gslb_core::SiteView;
use gslb_types::{NodeId, SiteIndex};
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
    /// How long ago a session last confirmed its values; `null` before the first word, and for the own site if no other node
    /// of it measures.
    pub confirmed_age_ms: Option<u64>,
    /// The node whose RTTs count as the site's; `null` for the own site, and while there is none.
    pub speaker: Option<String>,
    /// The node that relays the site while none of its nodes is heard here.
    pub relay: Option<String>,
    /// How long nobody has heard it, directly or by a relay.
    pub silent_ms: Option<u64>,
    /// How long until its silence takes its services down, or puts them before the monitors here; 0 when it has.
    pub down_in_ms: Option<u64>,
    /// How long ago that happened, while it still holds.
    pub taken_down_age_ms: Option<u64>,
    /// It is heard again, and for so long its services are still judged as if it were not.
    pub held_ms: Option<u64>,
    /// When monitors of other sites decide about its services: `always`, `mep_down` or `mep_down_or_service_down`.
    pub trigger_monitor: String,
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
    /// Whether it takes its share of the site's LDNS, as far as this node knows: `null` for nodes of other sites.
    pub shares: Option<bool>,
}

pub(crate) fn sites(view: &View<'_>) -> Sites {
    let indices = (0..view.config().sites.len()).filter_map(SiteIndex::new);
    Sites { sites: indices.map(|index| site(view, index)).collect() }
}

fn site(view: &View<'_>, index: SiteIndex) -> Site {
    let config = view.config();
    let unseen = SiteView::default();
    let seen = view.published.sites.get(index.get()).unwrap_or(&unseen);
    let trigger = config.sites.get(index.get()).map(|site| site.trigger_monitor).unwrap_or_default();
    let here =
        (0..config.services.len()).filter(|s| config.services.get(*s).is_some_and(|s| s.site == index));
    Site {
        site: view.site(index),
        own: index == config.this_site(),
        connected: seen.connected,
        confirmed_age_ms: seen.confirmed.map(|c| view.age_ms(c.last_word)),
        speaker: seen.speaker.as_ref().map(NodeId::to_string),
        relay: seen.relayed_via.as_ref().map(NodeId::to_string),
        silent_ms: seen.silent_since.map(|then| view.age_ms(then)),
        down_in_ms: seen.silent_since.map(|then| view.left_ms(then + config.mep.down_delay)),
        taken_down_age_ms: seen.taken_down.map(|then| view.age_ms(then)),
        held_ms: seen.held_until.map(|then| view.left_ms(then)),
        trigger_monitor: trigger.as_str().to_owned(),
        nodes: config.nodes.iter().filter(|node| node.site == index).map(|n| node(view, n)).collect(),
        services: States::of(view, here),
    }
}

fn node(view: &View<'_>, node: &config::Node) -> NodeOfSite {
    let peer = view.published.peers.iter().find(|peer| peer.peer == node.id);
    let ours = node.site == view.config().this_site();
    NodeOfSite {
        node: node.id.to_string(),
        mep: node.mep,
        state: peer.map(|peer| peer.state.as_str().to_owned()),
        shares: ours.then(|| view.published.sharing.contains(&node.id)),
    }
}
