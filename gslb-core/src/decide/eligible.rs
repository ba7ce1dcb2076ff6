//! The services that may be answered.

use super::contenders::{Contender, Contenders};
use super::{Deciding, Decision, Family, Place, Reason, Verdict};
use gslb_types::{AllDown, ServiceState};

/// Which services may be answered.
#[derive(Clone, Copy)]
pub(super) enum Eligible {
    Up,
    Learning,
    NotDisabled,
    LastGood,
}

impl Deciding<'_> {
    /// The services of the wanted family, as (position in the bindings, index of the service).
    pub(super) fn candidates(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.published.candidates(self.index, self.family == Family::V6)
    }

    /// The services that compete, and the virtual server that chooses among them: the first of the chain with services that are
    /// up, else the first with some that are not checked yet; else its last one decides by its `all_down`.
    pub(super) fn find_contenders(
        &self,
        contenders: &mut Contenders,
        steps: &mut Decision,
    ) -> Result<Self, Verdict> {
        if let Some(link) = self.at_standing(contenders, steps).or_else(|| self.up(contenders, steps)) {
            return Ok(link);
        }
        for link in self.chain() {
            link.add_eligible(Eligible::Learning, contenders);
            if !contenders.is_empty() {
                self.hand_to(&link, steps);
                steps.say(Reason::Learning(contenders.len()));
                link.keep_order(contenders, steps);
                return Ok(link);
            }
        }
        let Some(last) = self.chain().filter(|link| link.candidates().next().is_some()).last() else {
            steps.say(Reason::NoServiceOfFamily);
            return Err(Verdict::Empty);
        };
        self.hand_to(&last, steps);
        steps.say(Reason::AllDown(last.policy.all_down));
        let eligible = last.all_down(steps)?;
        last.add_eligible(eligible, contenders);
        last.keep_order(contenders, steps);
        Ok(last)
    }

    /// The first of the chain with services that are up. One with too much to do is passed over, unless all of them are.
    fn up(&self, contenders: &mut Contenders, steps: &mut Decision) -> Option<Self> {
        let mut passed = None;
        for (link, number) in self.chain().zip(0..) {
            contenders.clear();
            link.add_eligible(Eligible::Up, contenders);
            if contenders.is_empty() {
                continue;
            }
            let is_up = contenders.len();
            let too_much = if link.has_spilled() {
                Some(Reason::Spilled(link.index))
            } else if !link.drop_full(contenders, steps) && link.policy.backup.is_some() {
                Some(Reason::AllFull(link.index))
            } else {
                None
            };
            if let Some(reason) = too_much {
                steps.say(reason);
                passed = passed.or(Some((link, number)));
                continue;
            }
            self.begin(&link, number, is_up, contenders, steps);
            return Some(link);
        }
        let (link, number) = passed?;
        steps.say(Reason::NowhereToSpill);
        contenders.clear();
        link.add_eligible(Eligible::Up, contenders);
        link.drop_full(contenders, steps);
        self.begin(&link, number, contenders.len(), contenders, steps);
        Some(link)
    }

    /// Chooses among the services of a link that are up.
    fn begin(
        &self,
        link: &Self,
        number: u16,
        is_up: usize,
        contenders: &mut Contenders,
        steps: &mut Decision,
    ) {
        self.hand_to(link, steps);
        steps.say(Reason::Up(is_up));
        link.keep_order(contenders, steps);
        steps.place = contenders.first().map(|c| Place { link: number, order: c.order });
    }

    /// The virtual server and its backups, in order. There are no loops (config refuses them).
    pub(super) fn chain(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(*self), |link| {
            let index = link.policy.backup?;
            let policy = link.published.config.vservers.get(index)?;
            Some(Deciding { index, policy, ..*link })
        })
    }

    pub(super) fn hand_to(&self, link: &Self, steps: &mut Decision) {
        if link.index != self.index {
            steps.vserver = link.index;
            steps.say(Reason::Backup(link.index));
        }
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
    pub(super) fn add_eligible(&self, eligible: Eligible, contenders: &mut Contenders) {
        for (position, service) in self.candidates().filter(|candidate| self.admits(eligible, *candidate)) {
            if let Some(view) = self.published.services.get(service)
                && let Some(config) = self.published.config.services.get(service)
                && let Some(binding) = self.policy.bindings.get(position)
            {
                let (site, id, weight, order) = (config.site, view.id, binding.weight, binding.order);
                contenders.push(Contender { position, service, site, id, weight, order });
            }
        }
    }
}
