//! `/v1/explain`: what an LDNS would be answered now, and why.
//!
//! The decision comes from [`gslb_core::decide()`] itself, with the turn that the next query would get and that this look does
//! not take; the reasons are those it left, in order. There is no second implementation that could say otherwise.

mod candidates;
mod reason;
mod steps;

use super::View;
use crate::params::{Params, parse};
use crate::refusal::{Refusal, quoted};
pub use candidates::{Candidate, Margin, Origin, Value};
use gslb_core::decide::{Subnet, Verdict as Decided};
use gslb_core::{Client, Decision, Family, decide};
use gslb_types::GslbMethod;
use ipnet::IpNet;
pub use reason::{Closeness, Reason, Step};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What an LDNS would be answered, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explain {
    /// The GSLB domain.
    pub name: String,
    /// `A` or `AAAA`.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Who asks.
    pub ldns: IpAddr,
    /// The row of the RTT table it falls into, by the masks.
    pub ldns_entry: IpAddr,
    /// The client subnet the query would carry.
    pub ecs: Option<Ecs>,
    /// The virtual server that decides.
    pub vserver: String,
    /// Its method.
    pub method: GslbMethod,
    /// What comes of it.
    pub answer: Answer,
    /// Whether the answer depends on the turn, so that the next one may be another.
    pub takes_turn: bool,
    /// The turn it was decided with.
    pub turn: Turn,
    /// The steps that led there, in order.
    pub reasons: Vec<Step>,
    /// All services that the virtual server and its backups have for this type, and what stands in the way of each.
    pub candidates: Vec<Candidate>,
    /// What would have to change for another site to be answered, where that is a matter of numbers.
    pub margin: Option<Margin>,
}

/// A client subnet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ecs {
    /// As given.
    pub subnet: String,
    /// Whether it has a say in the decision.
    pub used: bool,
    /// For clients of which prefix around theirs the answer is: its length, 0 for all (RFC 7871 section 7.2.1).
    pub scope: u8,
    /// In words.
    pub text: String,
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// What kind of answer it is.
    pub verdict: Verdict,
    /// The addresses, in order.
    pub addresses: Vec<IpAddr>,
    /// The service chosen.
    pub service: Option<String>,
    /// Its site.
    pub site: Option<String>,
    /// TTL of the answer.
    pub ttl_s: u32,
}

/// What kind of answer there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A service's address.
    Service,
    /// The virtual server's backup addresses.
    BackupIp,
    /// NODATA.
    Empty,
    /// No answer at all.
    Drop,
}

/// A place in round robin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// Counts the decisions that took turns.
    pub round: u64,
    /// The service answered last.
    pub last_service: Option<String>,
}

impl Turn {
    pub(crate) fn of(view: &View<'_>, turn: gslb_core::Turn) -> Self {
        Turn { round: turn.round, last_service: turn.last.map(|service| view.service(service)) }
    }
}

pub(crate) fn explain(view: &View<'_>, params: &Params) -> Result<Explain, Refusal> {
    let domain = domain(view, params.required("name")?)?;
    let family = family(params.text("type").unwrap_or("A"))?;
    let ldns: IpAddr = parse("ldns", params.required("ldns")?, "an IPv4 or IPv6 address")?;
    let ecs = params.text("ecs").map(prefix).transpose()?;
    let ldns = ldns.to_canonical();
    let missing = || Refusal::not_found(format!("{} has no virtual server", domain.name.to_ascii()));
    let policy = view.config().vservers.get(domain.vserver).ok_or_else(missing)?;

    let entry = gslb_types::Ldns::of(ldns, view.config().ldns.masks);
    let turns = view.shared.turns.of(domain.vserver, family == Family::V6);
    let turn = turns.map(|turns| turns.look()).unwrap_or_default();
    let row = view.shared.rtts.row(entry);
    let masks = view.config().ldns.masks;
    let subnet = ecs.filter(|prefix| domain.ecs && prefix.prefix_len() > 0);
    let covering = subnet.and_then(|p| gslb_types::Ldns::covering(p.network(), p.prefix_len(), masks));
    let of_subnet = covering.and_then(|entry| view.shared.rtts.row(entry));
    let subnet = subnet.map(|prefix| Subnet { prefix, row: of_subnet.as_ref() });
    let locations = view.shared.locations.load();
    let whom = subnet.map_or(IpNet::from(ldns), |subnet| subnet.prefix);
    let session = view.shared.session(policy, whom);
    let client = Client { ldns, subnet, locations: Some(&locations), session };
    let decision = decide(domain.vserver, family, &view.published, row.as_ref(), &client, turn, view.now);
    // The backups' reasons are told in the terms of the backup.
    let decided_by = view.config().vservers.get(decision.vserver).unwrap_or(policy);
    Ok(Explain {
        name: domain.name.to_ascii(),
        rtype: word(family).to_owned(),
        ldns,
        ldns_entry: entry.address(),
        ecs: ecs.map(|prefix| use_of(prefix, domain, &decision)),
        vserver: policy.name.to_string(),
        method: policy.method,
        answer: answer(view, domain, decided_by, family, &decision),
        takes_turn: decision.took_turn,
        turn: Turn::of(view, turn),
        reasons: decision
            .reasons
            .iter()
            .map(|reason| steps::step(view, decided_by, family, *reason))
            .collect(),
        candidates: candidates::candidates(view, domain.vserver, family, row.as_ref(), &decision),
        margin: candidates::margin(view, decided_by, &decision),
    })
}

fn domain<'a>(view: &'a View<'_>, wanted: &str) -> Result<&'a config::Domain, Refusal> {
    let index = view.published.zones.domain(wanted);
    index.and_then(|index| view.config().domains.get(index)).ok_or_else(|| {
        Refusal::not_found(format!("{} is no GSLB domain; /v1/domains lists them", quoted(wanted)))
    })
}

fn family(rtype: &str) -> Result<Family, Refusal> {
    match rtype.to_ascii_uppercase().as_str() {
        "A" => Ok(Family::V4),
        "AAAA" => Ok(Family::V6),
        _ => Err(Refusal::bad(format!(
            "type: expected A or AAAA, the types answered by selection, not {}",
            quoted(rtype)
        ))),
    }
}

fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "A",
        Family::V6 => "AAAA",
    }
}

/// A client subnet is accepted and has no say: decisions go by the address of the LDNS.
fn prefix(text: &str) -> Result<IpNet, Refusal> {
    let what = "a prefix such as 192.0.2.0/24 or 2001:db8::/56";
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = parse("ecs", address, what)?;
    let longest: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = if length.is_empty() { longest } else { parse("ecs", length, what)? };
    let prefix = IpNet::new(address, length);
    prefix
        .map(|prefix| prefix.trunc())
        .map_err(|_| Refusal::bad(format!("ecs: expected {what}, not {}", quoted(text))))
}

fn use_of(subnet: IpNet, domain: &config::Domain, decision: &Decision) -> Ecs {
    let scope = match decision.verdict {
        Decided::Service(_) => decision.scope,
        Decided::BackupIp | Decided::Empty | Decided::Drop => 0,
    };
    let text = match (domain.ecs, IpNet::new(subnet.network(), scope)) {
        (false, _) => "not used for decisions: the LDNS address decides".to_owned(),
        (true, Ok(reached)) if scope > 0 => format!("the answer is for clients of {}", reached.trunc()),
        (true, _) => "it makes no difference: the answer is for all clients".to_owned(),
    };
    Ecs { subnet: subnet.to_string(), used: scope > 0, scope, text }
}

fn answer(
    view: &View<'_>,
    domain: &config::Domain,
    policy: &config::Vserver,
    family: Family,
    decision: &Decision,
) -> Answer {
    let nothing =
        |verdict| Answer { verdict, addresses: Vec::new(), service: None, site: None, ttl_s: domain.ttl };
    match decision.verdict {
        Decided::Service(index) => {
            let service = view.config().services.get(index);
            Answer {
                addresses: std::iter::once(index)
                    .chain(decision.rest.iter().copied().map(usize::from))
                    .filter_map(|index| Some(view.config().services.get(index)?.address))
                    .collect(),
                service: service.map(|s| s.name.to_string()),
                site: service.map(|s| view.site(s.site)),
                ..nothing(Verdict::Service)
            }
        }
        Decided::BackupIp => {
            let of_family = policy.backup_ip.iter().filter(|a| a.is_ipv6() == (family == Family::V6));
            Answer { addresses: of_family.copied().collect(), ..nothing(Verdict::BackupIp) }
        }
        Decided::Empty => nothing(Verdict::Empty),
        Decided::Drop => nothing(Verdict::Drop),
    }
}
