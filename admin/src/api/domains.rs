//! `/v1/domains`: the names answered by selection.

use super::{States, View};
use serde::{Deserialize, Serialize};

/// All GSLB domains, in the order of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Domains {
    /// The domains.
    pub domains: Vec<Domain>,
}

/// A GSLB domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Domain {
    /// Its name, absolute.
    pub domain: String,
    /// The zone it stands in.
    pub zone: String,
    /// The GSLB virtual server behind it.
    pub vserver: String,
    /// TTL of its answers.
    pub ttl_s: u32,
    /// How many of its virtual server's services are in which state.
    pub services: States,
}

pub(crate) fn domains(view: &View<'_>) -> Domains {
    Domains { domains: view.config().domains.iter().map(|d| domain(view, d)).collect() }
}

fn domain(view: &View<'_>, domain: &config::Domain) -> Domain {
    let vserver = view.config().vservers.get(domain.vserver);
    Domain {
        domain: domain.name.to_ascii(),
        zone: view.config().zones.get(domain.zone).map(|z| z.origin.to_ascii()).unwrap_or_default(),
        vserver: vserver.map(|v| v.name.to_string()).unwrap_or_default(),
        ttl_s: domain.ttl,
        services: States::of(view, vserver.into_iter().flat_map(|v| &v.bindings).map(|b| b.service)),
    }
}
