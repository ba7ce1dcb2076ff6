//! A query for a GSLB domain: takes a turn, decides, and says what is to be answered.

use super::resolve::Asked;
use crate::counters::DnsCounters;
use crate::decide::{Client, Decision, Family, Reason, Rest, Subnet, Verdict, decide};
use crate::published::Shared;
use config::{MAX_ADDRESSES, Service, Vserver};
use gslb_types::{GslbMethod, Ldns, ServiceState};
use mep_core::SessionKey;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a query for a GSLB domain comes to.
pub(super) struct Selection<'a> {
    /// TTL of the addresses: the domain's, whatever the services are (faults I-30).
    pub(super) ttl: u32,
    /// Whether the LDNS is to be measured.
    pub(super) wants_rtt: bool,
    /// For clients of which prefix this holds: its length, 0 if for all.
    pub(super) scope: u8,
    pub(super) selected: Selected<'a>,
    /// The session that the answer uses, and where it leads.
    pub(super) session: Option<(SessionKey, usize)>,
}

/// What is to be answered.
pub(super) enum Selected<'a> {
    /// These addresses.
    Addresses(Addresses<'a>),
    /// NODATA.
    Nothing,
    /// No reply at all.
    Silence,
}

/// Services' addresses, or the backup addresses of the family.
pub(super) enum Addresses<'a> {
    Services(Option<usize>, arrayvec::IntoIter<u16, { MAX_ADDRESSES as usize - 1 }>, &'a [Service]),
    Backup(std::slice::Iter<'a, IpAddr>, Family),
}

impl Iterator for Addresses<'_> {
    type Item = IpAddr;

    fn next(&mut self) -> Option<IpAddr> {
        match self {
            Addresses::Services(best, rest, services) => {
                let next = best.take().or_else(|| rest.next().map(usize::from))?;
                services.get(next).map(|service| service.address)
            }
            Addresses::Backup(all, family) => all.find(|a| a.is_ipv6() == (*family == Family::V6)).copied(),
        }
    }
}

/// What is left of a decision when its reasons have been counted.
struct Decided {
    verdict: Verdict,
    /// The virtual server that came to it.
    by: usize,
    scope: u8,
    rest: Rest,
    kept: Option<usize>,
}

/// Decides for one query.
pub(super) fn select<'a>(asked: Asked<'a>, domain: usize, family: Family) -> Selection<'a> {
    let config = &*asked.published.config;
    let nothing =
        Selection { ttl: 0, wants_rtt: false, scope: 0, selected: Selected::Nothing, session: None };
    let Some(domain) = config.domains.get(domain) else { return nothing };
    let Some(vserver) = config.vservers.get(domain.vserver) else { return nothing };
    let asked = Asked { subnet: asked.subnet.filter(|_| domain.ecs), ..asked };
    let Decided { verdict, by, scope, rest, kept } =
        take_turn_and_decide(asked, domain.vserver, vserver, family);
    let selected = match verdict {
        Verdict::Service(best) => {
            Selected::Addresses(Addresses::Services(Some(best), rest.into_iter(), &config.services))
        }
        Verdict::BackupIp => {
            let backup_ip = config.vservers.get(by).map(|by| by.backup_ip.as_slice()).unwrap_or_default();
            Selected::Addresses(Addresses::Backup(backup_ip.iter(), family))
        }
        Verdict::Empty => Selected::Nothing,
        Verdict::Drop => Selected::Silence,
    };
    let session = used_session(asked, vserver, verdict, kept);
    // What is answered to everybody needs no scope: no address, and the backup addresses (RFC 7871 section 7.4).
    let scope = if matches!(verdict, Verdict::Service(_)) { scope } else { 0 };
    Selection { ttl: domain.ttl, wants_rtt: vserver.wants_rtt, scope, selected, session }
}

/// A service that stands in while all are down keeps nobody.
fn used_session(
    asked: Asked<'_>,
    vserver: &Vserver,
    verdict: Verdict,
    kept: Option<usize>,
) -> Option<(SessionKey, usize)> {
    let Verdict::Service(answered) = verdict else { return None };
    let service = kept.unwrap_or(answered);
    let state = asked.published.services.get(service)?.state;
    let key = Shared::session_key(vserver, asked.whom())?;
    matches!(state, ServiceState::Up | ServiceState::Learning).then_some((key, service))
}

/// A turn is taken only by a decision that depends on it, and no two decisions take the same: what was decided on a look is
/// decided again if another thread has taken that turn meanwhile. The reasons are counted here: they are too many to be
/// handed on with the verdict.
fn take_turn_and_decide(asked: Asked<'_>, index: usize, vserver: &Vserver, family: Family) -> Decided {
    let published = asked.published;
    let masks = published.config.ldns.masks;
    let row_of = |entry| vserver.wants_rtt.then(|| asked.shared.rtts.row(entry)).flatten();
    let row = row_of(Ldns::of(asked.source, masks));
    let of_subnet =
        asked.subnet.and_then(|prefix| row_of(Ldns::covering(prefix.network(), prefix.prefix_len(), masks)?));
    let subnet = asked.subnet.map(|prefix| Subnet { prefix, row: of_subnet.as_ref() });
    let locations = asked.shared.locations.load();
    let session = asked.shared.session(vserver, asked.whom());
    let client = Client { ldns: asked.source, subnet, locations: Some(&locations), session };
    let decide_on = |turn| decide(index, family, published, row.as_ref(), &client, turn, asked.now);
    let turns = asked.shared.turns.of(index, family == Family::V6);
    let looked = turns.map(|turns| turns.look()).unwrap_or_default();
    let mut decision = decide_on(looked);
    if decision.took_turn
        && let Some(taken) = turns.map(|turns| turns.take())
        && taken != looked
    {
        decision = decide_on(taken);
    }
    if let (Some(turns), Verdict::Service(service)) = (turns, decision.verdict) {
        turns.answered(service);
    }
    count(&asked.shared.dns, vserver, &decision);
    let Decision { verdict, vserver: by, scope, rest, kept, .. } = decision;
    Decided { verdict, by, scope, rest, kept }
}

fn count(counters: &DnsCounters, vserver: &Vserver, decision: &Decision) {
    let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    if decision.verdict == Verdict::Drop {
        add(&counters.ldns_dropped);
    }
    for reason in &decision.reasons {
        match reason {
            Reason::AllDown(_) => add(&counters.all_down),
            Reason::Chosen(_, GslbMethod::Rtt) => add(&counters.by_rtt),
            Reason::Chosen(_, _) if vserver.wants_rtt => add(&counters.by_backup),
            _ => continue,
        };
    }
}
