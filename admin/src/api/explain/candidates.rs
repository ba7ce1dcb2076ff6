//! What could have been answered, what stands in its way, and how near another answer is.
//!
//! All of it is read off the steps that the decision left and the state it was made in: nothing is decided here.

use super::steps::{ms, unit};
use crate::api::{CellState, View};
use gslb_core::decide::{Load, Verdict};
use gslb_core::{Decision, Family, Reason, Row};
use gslb_types::{Reach, Rtt, ServiceState, SiteIndex};
use serde::{Deserialize, Serialize};

/// A service that could be answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    /// The virtual server that has it: the one of the domain, or one of its backups.
    pub vserver: String,
    /// The service.
    pub service: String,
    /// Its site.
    pub site: String,
    /// Its order of preference.
    pub order: u16,
    /// Its share.
    pub weight: u8,
    /// How it is.
    pub state: ServiceState,
    /// What is known of the way from its site to the LDNS, if a row was looked at.
    pub rtt: Option<Value>,
    /// Why it is not the answer; nothing if it is.
    pub removed: Option<String>,
}

/// An RTT, and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Value {
    /// Whether it is known.
    pub state: CellState,
    /// The advertised RTT.
    pub rtt_us: Option<u32>,
    /// How long ago it was last true, as far as this node can tell.
    pub age_ms: Option<u64>,
    /// Who said so; nothing if nobody did.
    pub origin: Option<Origin>,
}

/// Who said what is known of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// This node measured it.
    Own,
    /// A node of the site told it.
    Peer,
    /// A peer passed on what a node of the site had told it.
    Relayed,
}

/// How near another answer is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Margin {
    /// The site that comes next.
    pub site: String,
    /// What would have to change for it to be answered.
    pub text: String,
}

pub(super) fn candidates(
    view: &View<'_>,
    vserver: usize,
    family: Family,
    row: Option<&Row>,
    decision: &Decision,
) -> Vec<Candidate> {
    let config = view.config();
    let next = |index: &usize| config.vservers.get(*index)?.backup;
    let chain = std::iter::successors(Some(vserver), next);
    let all = chain.flat_map(|link| {
        let services = view.published.candidates(link, family == Family::V6);
        services.map(move |(position, service)| (link, position, service))
    });
    let candidate = |(link, position, service): (usize, usize, usize)| {
        let policy = config.vservers.get(link)?;
        let (binding, bound) = (policy.bindings.get(position)?, config.services.get(service)?);
        let state = view.published.services.get(service)?.state;
        let place = Of { link, service, site: bound.site, order: binding.order, state };
        Some(Candidate {
            vserver: policy.name.to_string(),
            service: bound.name.to_string(),
            site: view.site(bound.site),
            order: binding.order,
            weight: binding.weight.get(),
            state,
            rtt: row.map(|row| value(view, row, bound.site)),
            removed: removed(view, &place, decision),
        })
    };
    all.filter_map(candidate).collect()
}

fn value(view: &View<'_>, row: &Row, site: SiteIndex) -> Value {
    let (cell, of_site) = (row.cell(site), view.published.sites.get(site.get()));
    let confirmed = of_site.and_then(|s| s.confirmed);
    let current = cell.current(view.now, view.config().mep.max_age, confirmed);
    let origin = match of_site {
        _ if site == view.config().this_site() && cell.is_measured() => Origin::Own,
        Some(of_site) if of_site.relayed_via.is_some() => Origin::Relayed,
        Some(_) | None => Origin::Peer,
    };
    let has_word = cell.reach() != Reach::Pending;
    Value {
        state: current.into(),
        rtt_us: current.rtt().map(Rtt::as_micros),
        age_ms: has_word.then(|| view.age_ms(cell.last_true(confirmed))),
        origin: Some(origin).filter(|_| has_word),
    }
}

/// A candidate's place.
struct Of {
    link: usize,
    service: usize,
    site: SiteIndex,
    order: u16,
    state: ServiceState,
}

/// What took it out, the first step first.
fn removed(view: &View<'_>, of: &Of, decision: &Decision) -> Option<String> {
    let has = |wanted: fn(&Reason) -> bool| decision.reasons.iter().any(wanted);
    let chosen = match decision.verdict {
        Verdict::Service(service) => Some(service),
        Verdict::BackupIp | Verdict::Empty | Verdict::Drop => None,
    };
    if chosen == Some(of.service) && of.link == decision.vserver {
        return None;
    }
    let are_up = has(|r| matches!(r, Reason::Up(_) | Reason::Standing(..) | Reason::Persistent(_)));
    if (are_up || chosen.is_none()) && of.state != ServiceState::Up {
        return Some(format!("it is {}", of.state));
    }
    if decision.rest.iter().any(|rest| usize::from(*rest) == of.service) && of.link == decision.vserver {
        return None;
    }
    if has(|r| matches!(r, Reason::Persistent(_) | Reason::PersistentSite(_))) {
        return Some("the session of the client leads elsewhere".to_owned());
    }
    if decision.reasons.contains(&Reason::Full(of.service)) {
        return Some("it is full".to_owned());
    }
    if of.link != decision.vserver {
        let spilled = [Reason::Spilled(of.link), Reason::AllFull(of.link)];
        let is_passed = decision.reasons.iter().any(|reason| spilled.contains(reason));
        let text = if is_passed {
            "its virtual server has too much to do"
        } else {
            "another virtual server answers"
        };
        return Some(text.to_owned());
    }
    let order = decision.reasons.iter().find_map(|reason| match reason {
        Reason::Order(order, _) => Some(*order),
        Reason::Standing(place, _) => Some(place.order),
        _ => None,
    });
    if let Some(order) = order.filter(|order| *order != of.order) {
        return Some(format!("services of order {order} compete"));
    }
    let Some(chosen) = chosen.and_then(|service| view.config().services.get(service)) else {
        return Some("the query is dropped".to_owned());
    };
    Some(match chosen.site == of.site {
        true => "the local method chose another of its site".to_owned(),
        false => behind(view, of.site, decision),
    })
}

/// Why another site was chosen.
fn behind(view: &View<'_>, site: SiteIndex, decision: &Decision) -> String {
    let policy = view.config().vservers.get(decision.vserver);
    let tolerance = policy.map(|policy| policy.selection_tolerance).unwrap_or_default();
    let reach = decision.reasons.iter().find_map(|reason| match reason {
        Reason::Site(of, reach) if *of == site => Some(*reach),
        _ => None,
    });
    let nearest = decision.reasons.iter().find_map(|reason| match reason {
        Reason::Nearest(_, rtt) => Some(*rtt),
        _ => None,
    });
    match (reach, nearest) {
        (Some(Reach::Known(rtt)), Some(nearest)) if rtt.differs(nearest, tolerance) => {
            let more = Rtt::from_micros(rtt.as_micros().saturating_sub(nearest.as_micros()));
            format!("its site is {} farther than the nearest", ms(more))
        }
        (Some(Reach::Pending), Some(_)) => "nothing is known of its site yet".to_owned(),
        (Some(Reach::Unreachable), Some(_)) => "its site does not reach the LDNS".to_owned(),
        _ if decision.reasons.iter().any(|r| matches!(r, Reason::Least(..))) && !decision.took_turn => {
            "its site has more to do".to_owned()
        }
        _ if decision.took_turn => "it was not its turn".to_owned(),
        _ => "the method chose another site".to_owned(),
    }
}

/// What another site lacks, where numbers decided.
pub(super) fn margin(view: &View<'_>, policy: &config::Vserver, decision: &Decision) -> Option<Margin> {
    let reasons = &decision.reasons;
    if let Some((nearest, best)) = reasons.iter().find_map(|reason| match reason {
        Reason::Nearest(site, rtt) => Some((*site, *rtt)),
        _ => None,
    }) {
        let known = reasons.iter().filter_map(|reason| match reason {
            Reason::Site(site, Reach::Known(rtt)) if *site != nearest => Some((*site, *rtt)),
            _ => None,
        });
        let is_beyond = |rtt: &Rtt| rtt.differs(best, policy.selection_tolerance);
        let (site, rtt) = known.filter(|(_, rtt)| is_beyond(rtt)).min_by_key(|(_, rtt)| *rtt)?;
        let tolerance = u32::try_from(policy.selection_tolerance.as_micros()).unwrap_or(u32::MAX);
        let lacks = rtt.as_micros() - best.as_micros();
        let lacks = Rtt::from_micros(lacks.saturating_sub(tolerance).max(1));
        let site = view.site(site);
        let text = format!("{site} would share the answers if it were {} nearer", ms(lacks));
        return Some(Margin { site, text });
    }
    let (least, Load { n, weight }) = reasons.iter().find_map(|reason| match reason {
        Reason::Least(site, load) => Some((*site, *load)),
        _ => None,
    })?;
    let others = reasons.iter().filter_map(|reason| match reason {
        Reason::Load(site, load) if *site != least => Some((*site, *load)),
        _ => None,
    });
    let over = |load: &Load| u128::from(load.n) * 1_000_000 / u128::from(load.weight.max(1));
    let (site, load) = others.min_by_key(|(_, load)| over(load))?;
    let most = u128::from(n) * u128::from(load.weight) / u128::from(weight.max(1));
    let site = view.site(site);
    let unit = unit(policy.metric);
    let text = format!("{site} would share the answers if it had {most} {unit} in place of {}", { load.n });
    Some(Margin { site, text })
}
