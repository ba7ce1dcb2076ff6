//! Which service is answered to an LDNS, and why. A pure function: equal arguments, equal answer.
//!
//! Two levels (behaviour 2): first the site, among those with an eligible service; then the service within it.
//!
//! ```text
//! services of the family -> up ones, else learning ones, else all_down
//!     -> sites -> method rtt: known ones compete | pending and new: backup method | none known: backup method
//!     -> the site's services -> local method -> service
//! ```

use crate::published::Published;
use crate::table::Row;
use arrayvec::ArrayVec;
use config::Vserver;
use gslb_types::{AllDown, GslbMethod, LbMethod, MAX_SITES, Reach, Rtt, ServiceState, SiteIndex, Timestamp};
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

/// A step on the way to the answer, in order; `explain` prints them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The virtual server has no service with an address of the family: NODATA.
    NoServiceOfFamily,
    /// So many of its services are up.
    Up(usize),
    /// None is up, but so many have not been checked yet and stand in.
    Learning(usize),
    /// None is up: `all_down` decides.
    AllDown(AllDown),
    /// Nothing is left to answer: every service is disabled, or `all_down` has no address of the family.
    NothingLeft,
    /// This LDNS has no row: nobody has measured it.
    UnknownLdns,
    /// What is known of an eligible site for this LDNS.
    Site(SiteIndex, Reach),
    /// An eligible site is pending and the LDNS is new, so the backup method answers.
    Waiting,
    /// No eligible site has an RTT, so the backup method answers.
    NoRtt,
    /// The query is dropped, as configured for LDNS without an RTT.
    Dropped,
    /// Only one site is eligible: there is nothing to choose.
    OnlySite(SiteIndex),
    /// The nearest eligible site.
    Nearest(SiteIndex, Rtt),
    /// So many sites are within the selection tolerance of it and take turns.
    Equal(usize),
    /// The site chosen, by this method.
    Chosen(SiteIndex, GslbMethod),
    /// The service chosen within the site (index into the configuration's services), by this method.
    Service(usize, LbMethod),
    /// The only eligible service of the site.
    OnlyService(usize),
}

/// How many reasons one decision can have: one for each site and a dozen steps.
pub const MAX_REASONS: usize = MAX_SITES + 12;

/// What is answered, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub verdict: Verdict,
    /// Whether the answer depended on the turn, so that the round must move on.
    pub took_turn: bool,
    /// The steps that led there.
    pub reasons: ArrayVec<Reason, MAX_REASONS>,
}

/// What to do with the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer the address of this service (index into the configuration's services).
    Service(usize),
    /// Answer the virtual server's backup addresses of the family.
    BackupIp,
    /// Answer no address: NODATA with the SOA.
    Empty,
    /// Answer nothing at all.
    Drop,
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
    let mut steps = Steps { took_turn: false, reasons: ArrayVec::new() };
    let verdict = match published.config.vservers.get(vserver) {
        Some(policy) => {
            Deciding { index: vserver, policy, family, published, row, client, turn, now }.verdict(&mut steps)
        }
        None => Verdict::Empty,
    };
    Decision { verdict, took_turn: steps.took_turn, reasons: steps.reasons }
}

/// What the decision leaves behind beside its verdict.
struct Steps {
    took_turn: bool,
    reasons: ArrayVec<Reason, MAX_REASONS>,
}

impl Steps {
    fn say(&mut self, reason: Reason) {
        // Full only if a step is said twice for a site; a missing line of explanation must not stop an answer.
        let _ = self.reasons.try_push(reason);
    }
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
    fn verdict(&self, steps: &mut Steps) -> Verdict {
        let eligible = match self.eligible(steps) {
            Ok(eligible) => eligible,
            Err(verdict) => return verdict,
        };
        let sites = self.sites(eligible);
        let chosen = match self.site(&sites, steps) {
            Ok(chosen) => chosen,
            Err(verdict) => return verdict,
        };
        self.service(chosen, eligible, steps)
    }

    /// The services of the wanted family, as (position in the bindings, index of the service).
    fn candidates(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.published.candidates(self.index, self.family == Family::V6)
    }

    fn eligible(&self, steps: &mut Steps) -> Result<Eligible, Verdict> {
        if self.candidates().next().is_none() {
            steps.say(Reason::NoServiceOfFamily);
            return Err(Verdict::Empty);
        }
        for (eligible, reason) in
            [(Eligible::Up, Reason::Up as fn(usize) -> Reason), (Eligible::Learning, Reason::Learning)]
        {
            let count = self.candidates().filter(|c| self.admits(eligible, c.1)).count();
            if count > 0 {
                steps.say(reason(count));
                return Ok(eligible);
            }
        }
        steps.say(Reason::AllDown(self.policy.all_down));
        self.all_down(steps)
    }

    fn all_down(&self, steps: &mut Steps) -> Result<Eligible, Verdict> {
        let any = |eligible| self.candidates().any(|c| self.admits(eligible, c.1));
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

    fn admits(&self, eligible: Eligible, service: usize) -> bool {
        let Some(view) = self.published.services.get(service) else { return false };
        match eligible {
            Eligible::Up => view.state == ServiceState::Up,
            Eligible::Learning => view.state == ServiceState::Learning,
            Eligible::NotDisabled => view.state != ServiceState::Disabled,
            Eligible::LastGood => view.last_good && view.state != ServiceState::Disabled,
        }
    }

    /// The sites of the eligible services, in configuration order, each with the sum of its services' weights.
    fn sites(&self, eligible: Eligible) -> Sites {
        let mut weights = [0u32; MAX_SITES];
        for (position, service) in self.candidates().filter(|c| self.admits(eligible, c.1)) {
            let weight = self.policy.bindings.get(position).map_or(1, |b| u32::from(b.weight.get()));
            if let Some(site) = self.published.config.services.get(service).map(|s| s.site)
                && let Some(sum) = weights.get_mut(site.get())
            {
                *sum += weight;
            }
        }
        weights
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > 0)
            .filter_map(|(index, weight)| Some((SiteIndex::new(index)?, *weight)))
            .collect()
    }

    fn site(&self, sites: &Sites, steps: &mut Steps) -> Result<Chosen, Verdict> {
        if let [(only, _)] = sites.as_slice() {
            steps.say(Reason::OnlySite(*only));
            return Ok(Chosen { site: *only, cycle: 1 });
        }
        match self.policy.method {
            GslbMethod::Rtt => self.by_rtt(sites, steps),
            method @ (GslbMethod::RoundRobin | GslbMethod::SourceIpHash) => {
                self.by_other(method, sites, steps)
            }
        }
    }

    fn by_rtt(&self, sites: &Sites, steps: &mut Steps) -> Result<Chosen, Verdict> {
        let Some(row) = self.row else {
            steps.say(Reason::UnknownLdns);
            return self.undecided(sites, steps);
        };
        let reaches: ArrayVec<(SiteIndex, u32, Reach), MAX_SITES> =
            sites.iter().map(|(site, weight)| (*site, *weight, self.reach(row, *site))).collect();
        for (site, _, reach) in &reaches {
            steps.say(Reason::Site(*site, *reach));
        }
        let pending = reaches.iter().any(|(_, _, reach)| *reach == Reach::Pending);
        if pending && self.now.since(row.first_seen()) < WAIT_FOR_PENDING {
            steps.say(Reason::Waiting);
            return self.undecided(sites, steps);
        }
        let known =
            || reaches.iter().filter_map(|(site, weight, reach)| Some((*site, *weight, reach.rtt()?)));
        let Some((nearest, _, best)) = known().min_by_key(|(site, _, rtt)| (*rtt, *site)) else {
            steps.say(Reason::NoRtt);
            return self.by_other(self.policy.backup_method, sites, steps);
        };
        steps.say(Reason::Nearest(nearest, best));
        let equal: Sites = known()
            .filter(|(_, _, rtt)| !rtt.differs(best, self.policy.selection_tolerance))
            .map(|(site, weight, _)| (site, weight))
            .collect();
        if let [(site, _)] = equal.as_slice() {
            steps.say(Reason::Chosen(*site, GslbMethod::Rtt));
            return Ok(Chosen { site: *site, cycle: 1 });
        }
        steps.say(Reason::Equal(equal.len()));
        let chosen = self.in_turn(&equal, steps);
        steps.say(Reason::Chosen(chosen.site, GslbMethod::Rtt));
        Ok(chosen)
    }

    fn reach(&self, row: &Row, site: SiteIndex) -> Reach {
        let confirmed = self.published.sites.get(site.get()).and_then(|view| view.confirmed);
        row.cell(site).current(self.now, self.published.config.mep.max_age, confirmed)
    }

    /// The RTTs are still being measured: the backup method, or silence where that is configured.
    fn undecided(&self, sites: &Sites, steps: &mut Steps) -> Result<Chosen, Verdict> {
        if self.policy.drop_ldns_requests {
            steps.say(Reason::Dropped);
            return Err(Verdict::Drop);
        }
        self.by_other(self.policy.backup_method, sites, steps)
    }

    fn by_other(&self, method: GslbMethod, sites: &Sites, steps: &mut Steps) -> Result<Chosen, Verdict> {
        let chosen = match method {
            GslbMethod::SourceIpHash => self.by_hash(sites),
            // A backup method is never `rtt` (config refuses it).
            GslbMethod::RoundRobin | GslbMethod::Rtt => self.in_turn(sites, steps),
        };
        steps.say(Reason::Chosen(chosen.site, method));
        Ok(chosen)
    }

    /// Each site as often in a cycle as its weight says.
    fn in_turn(&self, sites: &Sites, steps: &mut Steps) -> Chosen {
        steps.took_turn = true;
        let cycle = sites.iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>().max(1);
        let weights: ArrayVec<u32, MAX_SITES> = sites.iter().map(|(_, weight)| *weight).collect();
        let place = usize::try_from(self.turn.round % cycle).unwrap_or(0) % weights.len().max(1);
        Chosen { site: sites.get(place).or(sites.first()).map_or(FIRST_SITE, |(site, _)| *site), cycle }
    }

    fn by_hash(&self, sites: &Sites) -> Chosen {
        let names = sites.iter().filter_map(|(site, weight)| {
            let name = self.published.config.sites.get(site.get())?.name.as_str();
            Some((*site, u64::from(*weight) + name.len() as u64))
        });
        let best = names.max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)));
        Chosen { site: best.map_or(FIRST_SITE, |(site, _)| site), cycle: 1 }
    }

    fn service(&self, chosen: Chosen, eligible: Eligible, steps: &mut Steps) -> Verdict {
        let here = || {
            self.candidates().filter(|(_, service)| {
                self.admits(eligible, *service)
                    && self.published.config.services.get(*service).is_some_and(|s| s.site == chosen.site)
            })
        };
        let mut all = here();
        match (all.next(), all.next()) {
            (None, _) => Verdict::Empty,
            (Some((_, only)), None) => {
                steps.say(Reason::OnlyService(only));
                Verdict::Service(only)
            }
            (Some((_, first)), Some(_)) => {
                let service = self.local(here(), chosen, steps).unwrap_or(first);
                steps.say(Reason::Service(service, self.policy.local_method));
                Verdict::Service(service)
            }
        }
    }
}

/// Eligible sites with their weights, in configuration order.
type Sites = ArrayVec<(SiteIndex, u32), MAX_SITES>;

/// A chosen site, and how many rounds make one cycle over the sites: the local level's round moves on once a cycle, so that
/// the two levels do not march in step.
#[derive(Clone, Copy)]
struct Chosen {
    site: SiteIndex,
    cycle: u64,
}

const FIRST_SITE: SiteIndex = match SiteIndex::new(0) {
    Some(first) => first,
    None => unreachable!(),
};

impl Deciding<'_> {
    fn local(
        &self,
        mut here: impl Iterator<Item = (usize, usize)>,
        chosen: Chosen,
        _steps: &mut Steps,
    ) -> Option<usize> {
        let _ = chosen.cycle;
        here.next().map(|(_, s)| s)
    }
}
