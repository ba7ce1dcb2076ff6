//! The services that may be answered.

use super::contenders::{Contender, Contenders};
use super::{Deciding, Decision, Family, Reason, Verdict};
use gslb_types::{AllDown, ServiceState};

/// Which services may be answered.
#[derive(Clone, Copy)]
enum Eligible {
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

    /// The services that compete: the up ones, else those that stand in for them.
    pub(super) fn find_contenders(
        &self,
        contenders: &mut Contenders,
        steps: &mut Decision,
    ) -> Result<(), Verdict> {
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
}
