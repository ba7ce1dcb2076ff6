//! `/v1/vservers`: the policies behind the GSLB domains.

use super::{LbVserver, Turn, View, lb_vservers, millis};
use gslb_types::{AllDown, GslbMethod, LbMethod, ServiceState};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// All GSLB virtual servers, in the order of the configuration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Vservers {
    /// The virtual servers.
    pub vservers: Vec<Vserver>,
    /// The LB virtual servers of all sites; the live numbers are those of this node.
    pub lb_vservers: Vec<LbVserver>,
}

/// A GSLB virtual server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Vserver {
    /// Its name.
    pub vserver: String,
    /// How the site is chosen.
    pub method: GslbMethod,
    /// How, while the method can't say.
    pub backup_method: GslbMethod,
    /// Sites within best plus this are equal.
    pub selection_tolerance_ms: u64,
    /// How the service is chosen within the site.
    pub local_method: LbMethod,
    /// What is answered when every service is down.
    pub all_down: AllDown,
    /// The addresses of `all_down = "backup_ip"`.
    pub backup_ip: Vec<IpAddr>,
    /// Whether queries without an RTT are dropped.
    pub drop_ldns_requests: bool,
    /// The virtual server that answers while no service here is up.
    pub backup_vserver: Option<String>,
    /// Services of an order that must be up for it to be preferred.
    pub order_threshold: u32,
    /// The domains it answers for.
    pub domains: Vec<String>,
    /// Its services.
    pub services: Vec<BoundService>,
    /// Its places in round robin.
    pub turns: Turns,
}

/// A service bound to a virtual server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BoundService {
    /// Its name.
    pub service: String,
    /// Its site.
    pub site: String,
    /// What is answered.
    pub address: IpAddr,
    /// Its share.
    pub weight: u8,
    /// Its order of preference.
    pub order: u16,
    /// How it is.
    pub state: ServiceState,
}

/// Places in round robin, for each family its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Turns {
    /// IPv4.
    #[serde(rename = "A")]
    pub a: Turn,
    /// IPv6.
    #[serde(rename = "AAAA")]
    pub aaaa: Turn,
}

pub(crate) fn vservers(view: &View<'_>) -> Vservers {
    let vservers = view.config().vservers.iter().enumerate();
    Vservers {
        vservers: vservers.map(|(index, policy)| vserver(view, index, policy)).collect(),
        lb_vservers: lb_vservers(view),
    }
}

fn vserver(view: &View<'_>, index: usize, policy: &config::Vserver) -> Vserver {
    let domains = view.config().domains.iter().filter(|d| d.vserver == index);
    let turn = |v6| {
        let turns = view.shared.turns.of(index, v6);
        Turn::of(view, turns.map(|turns| turns.look()).unwrap_or_default())
    };
    Vserver {
        vserver: policy.name.to_string(),
        method: policy.method,
        backup_method: policy.backup_method,
        selection_tolerance_ms: millis(policy.selection_tolerance),
        local_method: policy.local_method,
        all_down: policy.all_down,
        backup_ip: policy.backup_ip.clone(),
        drop_ldns_requests: policy.drop_ldns_requests,
        backup_vserver: policy
            .backup
            .and_then(|at| view.config().vservers.get(at))
            .map(|v| v.name.to_string()),
        order_threshold: policy.order_threshold,
        domains: domains.map(|d| d.name.to_ascii()).collect(),
        services: policy.bindings.iter().filter_map(|binding| bound(view, binding)).collect(),
        turns: Turns { a: turn(false), aaaa: turn(true) },
    }
}

fn bound(view: &View<'_>, binding: &config::Binding) -> Option<BoundService> {
    let service = view.config().services.get(binding.service)?;
    Some(BoundService {
        service: service.name.to_string(),
        site: view.site(service.site),
        address: service.address,
        weight: binding.weight.get(),
        order: binding.order,
        state: view.published.services.get(binding.service)?.state,
    })
}
