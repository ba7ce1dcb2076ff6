//! Which service is answered to an LDNS, and why. A pure function: equal arguments, equal answer.
//!
//! Two levels (behaviour 2): first the site, among those with an eligible service; then the service within it.
//!
//! ```text
//! services of the family -> up ones, else learning ones, else all_down
//!     -> sites -> method rtt: known ones compete | pending and new: backup method | none known: backup method
//!     -> the site's services -> local method -> service
//! ```

mod contenders;
mod decision;

use crate::published::Published;
use crate::table::Row;
use arrayvec::ArrayVec;
use config::Vserver;
use contenders::{Chosen, Contender, Contenders, INLINE, Sites};
pub use decision::{Decision, MAX_REASONS, Reason, Verdict};
use gslb_types::{AllDown, GslbMethod, LbMethod, Reach, ServiceState, SiteIndex, Timestamp};
use lb_core::Candidate;
use smallvec::SmallVec;
use std::net::IpAddr;
use std::time::Duration;

/// How long after first sight the backup method answers while an eligible site is pending (behaviour 3).
pub const WAIT_FOR_PENDING: Duration = Duration::from_secs(10);

/// Round robin's place, handed in so that the decision itself remembers nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Counts the decisions that took turns.
    pub round: u64,
    /// The service answered last (index into the configuration's services): the tie pointer.
    pub last: Option<usize>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The LDNS: the address the query came from.
    pub ldns: IpAddr,
}

/// Which addresses are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A.
    V4,
    /// AAAA.
    V6,
}

/// Chooses. `row` is the LDNS's row of the RTT table, if it has one.
pub fn decide(
    vserver: usize,
    family: Family,
    published: &Published,
    row: Option<&Row>,
    client: &Client,
    turn: Turn,
    now: Timestamp,
) -> Decision {
    // Filled in where it stands: it is too large to be moved about for every query.
    let mut decision = Decision { verdict: Verdict::Empty, took_turn: false, reasons: ArrayVec::new() };
    if let Some(policy) = published.config.vservers.get(vserver) {
        let deciding = Deciding { index: vserver, policy, family, published, row, client, turn, now };
        decision.verdict = deciding.verdict(&mut decision);
    }
    decision
}

/// Which services may be answered.
#[derive(Clone, Copy)]
enum Eligible {
    Up,
    Learning,
    NotDisabled,
    LastGood,
}

struct Deciding<'a> {
    index: usize,
    policy: &'a Vserver,
    family: Family,
    published: &'a Published,
    row: Option<&'a Row>,
    client: &'a Client,
    turn: Turn,
    now: Timestamp,
}

impl Deciding<'_> {
    fn verdict(&self, steps: &mut Decision) -> Verdict {
        let mut contenders = Contenders::new();
        if let Err(verdict) = self.find_contenders(&mut contenders, steps) {
            return verdict;
        }
        match self.site(&contenders, steps) {
            Ok(chosen) => self.service(&contenders, chosen, steps),
            Err(verdict) => verdict,
        }
    }

    /// The services of the wanted family, as (position in the bindings, index of the service).
    fn candidates(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.published.candidates(self.index, self.family == Family::V6)
    }

    /// The services that compete: the up ones, else those that stand in for them.
    fn find_contenders(&self, contenders: &mut Contenders, steps: &mut Decision) -> Result<(), Verdict> {
        for (eligible, reason) in
            [(Eligible::Up, Reason::Up as fn(usize) -> Reason), (Eligible::Learning, Reason::Learning)]
        {
            self.add_eligible(eligible, contenders);
            if !contenders.is_empty() {
                steps.say(reason(contenders.len()));
                return Ok(());
            }
        }
        if self.candidates().next().is_none() {
            steps.say(Reason::NoServiceOfFamily);
            return Err(Verdict::Empty);
        }
        steps.say(Reason::AllDown(self.policy.all_down));
        let eligible = self.all_down(steps)?;
        self.add_eligible(eligible, contenders);
        Ok(())
    }

    fn all_down(&self, steps: &mut Decision) -> Result<Eligible, Verdict> {
        let any = |eligible| self.candidates().any(|candidate| self.admits(eligible, candidate));
        match self.policy.all_down {
            AllDown::LastGood if any(Eligible::LastGood) => Ok(Eligible::LastGood),
            AllDown::All | AllDown::LastGood if any(Eligible::NotDisabled) => Ok(Eligible::NotDisabled),
            AllDown::BackupIp
                if self.policy.backup_ip.iter().any(|a| a.is_ipv6() == (self.family == Family::V6)) =>
            {
                Err(Verdict::BackupIp)
            }
            AllDown::Empty => Err(Verdict::Empty),
            AllDown::All | AllDown::LastGood | AllDown::BackupIp => {
                steps.say(Reason::NothingLeft);
                Err(Verdict::Empty)
            }
        }
    }

    fn admits(&self, eligible: Eligible, (position, service): (usize, usize)) -> bool {
        let was_good =
            || self.published.last_good.get(self.index).and_then(|good| good.get(position)) == Some(&true);
        let Some(view) = self.published.services.get(service) else { return false };
        match eligible {
            Eligible::Up => view.state == ServiceState::Up,
            Eligible::Learning => view.state == ServiceState::Learning,
            Eligible::NotDisabled => view.state != ServiceState::Disabled,
            Eligible::LastGood => was_good() && view.state != ServiceState::Disabled,
        }
    }

    /// Adds the eligible services of the family.
    fn add_eligible(&self, eligible: Eligible, contenders: &mut Contenders) {
        for (position, service) in self.candidates().filter(|candidate| self.admits(eligible, *candidate)) {
            if let Some(view) = self.published.services.get(service)
                && let Some(config) = self.published.config.services.get(service)
                && let Some(binding) = self.policy.bindings.get(position)
            {
                let (site, id, weight) = (config.site, view.id, binding.weight);
                contenders.push(Contender { position, service, site, id, weight });
            }
        }
    }

    fn site(&self, all: &[Contender], steps: &mut Decision) -> Result<Chosen, Verdict> {
        let first = all.first().ok_or(Verdict::Empty)?.site;
        if all.iter().all(|c| c.site == first) {
            steps.say(Reason::OnlySite(first));
            return Ok(Chosen::site(first));
        }
        match self.policy.method {
            GslbMethod::Rtt => self.by_rtt(all, steps),
            method @ (GslbMethod::RoundRobin | GslbMethod::SourceIpHash) => self.by_other(method, all, steps),
        }
    }

    fn by_rtt(&self, all: &[Contender], steps: &mut Decision) -> Result<Chosen, Verdict> {
        let Some(row) = self.row else {
            steps.say(Reason::UnknownLdns);
            return self.undecided(all, steps);
        };
        let sites = Sites::of(all, |site| self.reach(row, site));
        for (site, reach) in sites.iter() {
            steps.say(Reason::Site(site, reach));
        }
        let pending = sites.iter().any(|(_, reach)| reach == Reach::Pending);
        if pending && self.now.since(row.first_seen()) < WAIT_FOR_PENDING {
            steps.say(Reason::Waiting);
            return self.undecided(all, steps);
        }
        let Some((nearest, best)) = sites.nearest() else {
            steps.say(Reason::NoRtt);
            return self.by_other(self.policy.backup_method, all, steps);
        };
        steps.say(Reason::Nearest(nearest, best));
        let is_equal =
            |reach: Reach| reach.rtt().is_some_and(|rtt| !rtt.differs(best, self.policy.selection_tolerance));
        let count = sites.iter().filter(|(_, reach)| is_equal(*reach)).count();
        let chosen = if count > 1 {
            steps.say(Reason::Equal(count));
            let equal: Contenders = all.iter().copied().filter(|c| is_equal(sites.reach(c.site))).collect();
            self.in_turn(&equal, steps)?
        } else {
            Chosen::site(nearest)
        };
        steps.say(Reason::Chosen(chosen.site, GslbMethod::Rtt));
        Ok(chosen)
    }

    fn reach(&self, row: &Row, site: SiteIndex) -> Reach {
        let confirmed = self.published.sites.get(site.get()).and_then(|view| view.confirmed);
        row.cell(site).current(self.now, self.published.config.mep.max_age, confirmed)
    }

    /// The RTTs are still being measured: the backup method, or silence where that is configured. An LDNS that will never
    /// be measured would meet silence for ever, so it is answered.
    fn undecided(&self, all: &[Contender], steps: &mut Decision) -> Result<Chosen, Verdict> {
        if self.policy.drop_ldns_requests
            && (self.row.is_some() || self.published.will_measure(self.client.ldns))
        {
            steps.say(Reason::Dropped);
            return Err(Verdict::Drop);
        }
        self.by_other(self.policy.backup_method, all, steps)
    }

    fn by_other(
        &self,
        method: GslbMethod,
        all: &[Contender],
        steps: &mut Decision,
    ) -> Result<Chosen, Verdict> {
        let chosen = match method {
            GslbMethod::SourceIpHash => self.by_hash(all)?,
            // A backup method is never `rtt` (config refuses it).
            GslbMethod::RoundRobin | GslbMethod::Rtt => self.in_turn(all, steps)?,
        };
        steps.say(Reason::Chosen(chosen.site, method));
        Ok(chosen)
    }

    /// Each service as often in a cycle as its weight says, and so each site as often as its services together.
    fn in_turn(&self, contenders: &[Contender], steps: &mut Decision) -> Result<Chosen, Verdict> {
        steps.took_turn = true;
        let whose =
            lb_core::turn(contenders, |c| c.weight, self.turn.round).and_then(|index| contenders.get(index));
        let whose = whose.ok_or(Verdict::Empty)?;
        let cycle = contenders.iter().map(|c| u64::from(c.weight.get())).sum::<u64>().max(1);
        Ok(Chosen { site: whose.site, by_turn: Some(whose.service), local_round: self.turn.round / cycle })
    }

    fn by_hash(&self, contenders: &[Contender]) -> Result<Chosen, Verdict> {
        let whose = lb_core::rendezvous(contenders, |c| (c.id, c.weight), self.client.ldns);
        let whose = whose.and_then(|index| contenders.get(index)).ok_or(Verdict::Empty)?;
        Ok(Chosen::site(whose.site))
    }

    fn service(&self, all: &[Contender], chosen: Chosen, steps: &mut Decision) -> Verdict {
        let mut here = all.iter().filter(|c| c.site == chosen.site);
        match (here.next(), here.next()) {
            (None, _) => Verdict::Empty,
            (Some(only), None) => {
                steps.say(Reason::OnlyService(only.service));
                Verdict::Service(only.service)
            }
            (Some(_), Some(_)) => {
                let several: Contenders = all.iter().copied().filter(|c| c.site == chosen.site).collect();
                let service = self.local(&several, chosen, steps);
                steps.say(Reason::Service(service, self.policy.local_method));
                Verdict::Service(service)
            }
        }
    }

    fn local(&self, here: &[Contender], chosen: Chosen, steps: &mut Decision) -> usize {
        let method = self.policy.local_method;
        if let (LbMethod::RoundRobin, Some(service)) = (method, chosen.by_turn) {
            return service; // Round robin over sites and services alike: its turn it was.
        }
        let candidates: SmallVec<[Candidate; INLINE]> = here.iter().map(|c| self.candidate(c)).collect();
        let pointer = self.turn.last.and_then(|last| self.candidates().find(|c| c.1 == last)).map(|c| c.0);
        let round = if chosen.by_turn.is_some() { chosen.local_round } else { self.turn.round };
        let choice = lb_core::choose(method, &candidates, pointer, round, self.client.ldns);
        steps.took_turn |= choice.is_some_and(|c| c.took_turn);
        choice.and_then(|c| here.get(c.index)).or(here.first()).map_or(0, |c| c.service)
    }

    /// What the local methods know of a service: its response time, and its traffic where all of that is counted. Clients who are
    /// answered a service that merely is behind an LB virtual server go past the nodes, so what passes there says little of it.
    fn candidate(&self, contender: &Contender) -> Candidate {
        let view = self.published.services.get(contender.service);
        let config = self.published.config.services.get(contender.service);
        let is_counted = config.is_some_and(|s| s.lb_vserver.is_some() || s.feed.is_some());
        let traffic = view.and_then(|view| view.traffic).filter(|_| is_counted).unwrap_or_default();
        Candidate {
            active: traffic.active.map(|active| u32::try_from(active).unwrap_or(u32::MAX)),
            response_time: view.and_then(|view| view.response_time),
            ttfb: traffic.ttfb,
            bytes: traffic.bytes,
            packets: traffic.packets,
            ..Candidate::new(contender.position, contender.id, contender.weight)
        }
    }
}
