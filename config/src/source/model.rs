//! Foreign load balancers as the rest of the node sees them.

use gslb_types::{LbMethod, SiteIndex, SourceItem, SourceKind, SourcePlace};
use std::time::Duration;

/// A page of a foreign load balancer, which the nodes of a site look at whose services name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// What writes it.
    pub kind: SourceKind,
    /// Where it is, as seen from the node.
    pub place: SourcePlace,
    /// From one look to the next.
    pub interval: Duration,
    /// How long one look may take; less than the interval.
    pub timeout: Duration,
    /// Looks without an answer, in a row, after which nothing is known any more.
    pub misses: u32,
    /// The site whose services it speaks for unless they name another source, and what of its page then.
    pub of_site: Option<(SiteIndex, SourceItem)>,
}

/// What a source tells of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feed {
    /// Index into [`Config::sources`](crate::Config::sources).
    pub source: usize,
    /// What of its page.
    pub item: SourceItem,
}

impl Feed {
    /// Whether it tells if the service is up. nginx does not, nor does that a frontend of HAProxy listens.
    pub(crate) fn tells_health(&self) -> bool {
        match &self.item {
            SourceItem::Haproxy { server, .. } => server != "FRONTEND",
            SourceItem::Envoy { .. } => true,
            SourceItem::Nginx => false,
            SourceItem::Prometheus(quantities) => quantities.up.is_some(),
        }
    }

    /// Whether it tells the metric that a method compares.
    pub(crate) fn feeds(&self, method: LbMethod) -> bool {
        match (method, &self.item) {
            (LbMethod::RoundRobin | LbMethod::SourceIpHash | LbMethod::LeastResponseTimeMonitors, _) => true,
            (LbMethod::LeastPackets, _) => false,
            (LbMethod::CustomLoad, SourceItem::Prometheus(q)) => q.load.is_some(),
            (LbMethod::CustomLoad, _) => false,
            (_, SourceItem::Haproxy { .. }) => true,
            (LbMethod::LeastConnections, SourceItem::Envoy { .. } | SourceItem::Nginx) => true,
            (LbMethod::LeastConnections, SourceItem::Prometheus(q)) => q.active.is_some(),
            (LbMethod::LeastBandwidth, SourceItem::Prometheus(q)) => !q.bytes.is_empty(),
            (LbMethod::LeastResponseTime, SourceItem::Prometheus(q)) => {
                q.response_time.is_some() && q.active.is_some()
            }
            (
                LbMethod::LeastBandwidth | LbMethod::LeastResponseTime,
                SourceItem::Envoy { .. } | SourceItem::Nginx,
            ) => false,
        }
    }
}
