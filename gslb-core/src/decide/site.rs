//! The site, among those with a service that may be answered.

use super::contenders::{Chosen, Contender, Contenders, Sites};
use super::{Deciding, Decision, Reason, Verdict, WAIT_FOR_PENDING};
use crate::table::Row;
use gslb_types::{GslbMethod, Reach, SiteIndex};

impl Deciding<'_> {
    pub(super) fn site(&self, all: &[Contender], steps: &mut Decision) -> Result<Chosen, Verdict> {
        let first = all.first().ok_or(Verdict::Empty)?.site;
        if all.iter().all(|c| c.site == first) {
            steps.say(Reason::OnlySite(first));
            return Ok(Chosen::site(first));
        }
        match (self.policy.method, self.policy.metric) {
            (GslbMethod::Rtt, _) => self.by_rtt(all, steps),
            (GslbMethod::StaticProximity, _) => match self.by_place(all, steps)? {
                Some(chosen) => {
                    steps.say(Reason::Chosen(chosen.site, GslbMethod::StaticProximity));
                    Ok(chosen)
                }
                None => self.by_other(self.policy.backup_method, all, steps),
            },
            (_, Some(metric)) => self.by_load(metric, all, steps),
            (method, None) => self.by_other(method, all, steps),
        }
    }

    fn by_rtt(&self, all: &[Contender], steps: &mut Decision) -> Result<Chosen, Verdict> {
        let Some(row) = self.measured(all, steps) else {
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

    pub(super) fn reach(&self, row: &Row, site: SiteIndex) -> Reach {
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

    pub(super) fn by_other(
        &self,
        method: GslbMethod,
        all: &[Contender],
        steps: &mut Decision,
    ) -> Result<Chosen, Verdict> {
        let chosen = self.whose(method, all, steps)?;
        steps.say(Reason::Chosen(chosen.site, method));
        Ok(chosen)
    }

    /// Whom a method chooses that needs nothing to be measured.
    pub(super) fn whose(
        &self,
        method: GslbMethod,
        all: &[Contender],
        steps: &mut Decision,
    ) -> Result<Chosen, Verdict> {
        match method {
            GslbMethod::SourceIpHash => self.by_hash(all, steps),
            GslbMethod::StaticProximity => match self.by_place(all, steps)? {
                Some(chosen) => Ok(chosen),
                None => self.in_turn(all, steps),
            },
            // Others than round robin are no backup methods (config refuses them).
            GslbMethod::RoundRobin
            | GslbMethod::Rtt
            | GslbMethod::LeastConnections
            | GslbMethod::LeastResponseTime
            | GslbMethod::LeastBandwidth
            | GslbMethod::LeastPackets
            | GslbMethod::CustomLoad => self.in_turn(all, steps),
        }
    }

    /// Each service as often in a cycle as its weight says, and so each site as often as its services together.
    pub(super) fn in_turn(&self, contenders: &[Contender], steps: &mut Decision) -> Result<Chosen, Verdict> {
        steps.took_turn = true;
        let whose =
            lb_core::turn(contenders, |c| c.weight, self.turn.round).and_then(|index| contenders.get(index));
        let whose = whose.ok_or(Verdict::Empty)?;
        let cycle = contenders.iter().map(|c| u64::from(c.weight.get())).sum::<u64>().max(1);
        Ok(Chosen { site: whose.site, by_turn: Some(whose.service), local_round: self.turn.round / cycle })
    }

    fn by_hash(&self, contenders: &[Contender], steps: &mut Decision) -> Result<Chosen, Verdict> {
        let whose = lb_core::rendezvous(contenders, |c| (c.id, c.weight), self.hashed(steps));
        let whose = whose.and_then(|index| contenders.get(index)).ok_or(Verdict::Empty)?;
        Ok(Chosen::site(whose.site))
    }
}
