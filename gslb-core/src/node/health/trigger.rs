//! Who decides about a service of another site (behaviour 4, `trigger_monitor`).

use crate::published::Judge;
use gslb_types::{ServiceState, TriggerMonitor};

/// What can be known of the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Known {
    /// Whether its site was silent for too long.
    pub(super) is_silent: bool,
    /// What its site says, or said before it fell silent.
    pub(super) word: Option<ServiceState>,
    /// What this node's own monitors say; `None` if none is bound.
    pub(super) own: Option<ServiceState>,
}

/// Who decides.
///
/// | | the site is heard | it says that the service is down | it is silent |
/// | --- | --- | --- | --- |
/// | no remote monitors | its word | its word | down |
/// | `always` | monitors | monitors | monitors |
/// | `mep_down` | its word | its word | monitors |
/// | `mep_down_or_service_down` | its word | monitors | monitors |
pub(super) fn judge(trigger: TriggerMonitor, known: Known) -> Judge {
    let Some(own) = known.own else {
        return if known.is_silent { Judge::Silence } else { Judge::SiteWord };
    };
    // What its own site has taken out on purpose is not to be used, however well it works.
    if known.word == Some(ServiceState::Disabled) && !known.is_silent {
        return Judge::SiteWord;
    }
    match trigger {
        TriggerMonitor::Always => Judge::RemoteMonitors,
        TriggerMonitor::MepDown | TriggerMonitor::MepDownOrServiceDown if known.is_silent => {
            Judge::RemoteMonitors
        }
        // Monitors that have not seen it yet can't gainsay its site.
        TriggerMonitor::MepDownOrServiceDown
            if known.word == Some(ServiceState::Down) && own != ServiceState::Learning =>
        {
            Judge::RemoteMonitors
        }
        TriggerMonitor::MepDown | TriggerMonitor::MepDownOrServiceDown => Judge::SiteWord,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Judge::{RemoteMonitors, Silence, SiteWord};
    use ServiceState::{Disabled, Down, Learning, Up};
    use TriggerMonitor::{Always, MepDown, MepDownOrServiceDown};

    /// Heard and up, heard and down, silent.
    fn row(trigger: TriggerMonitor, own: Option<ServiceState>) -> [Judge; 3] {
        [(false, Some(Up)), (false, Some(Down)), (true, None)]
            .map(|(is_silent, word)| judge(trigger, Known { is_silent, word, own }))
    }

    #[test]
    fn without_remote_monitors_the_site_decides_until_it_is_silent() {
        for trigger in [Always, MepDown, MepDownOrServiceDown] {
            assert_eq!(row(trigger, None), [SiteWord, SiteWord, Silence]);
        }
    }

    #[test]
    fn each_trigger_says_when_the_own_monitors_decide() {
        for own in [Some(Up), Some(Down)] {
            assert_eq!(row(Always, own), [RemoteMonitors; 3]);
            assert_eq!(row(MepDown, own), [SiteWord, SiteWord, RemoteMonitors]);
            assert_eq!(row(MepDownOrServiceDown, own), [SiteWord, RemoteMonitors, RemoteMonitors]);
        }
    }

    #[test]
    fn monitors_that_have_not_checked_yet_do_not_gainsay_a_site_that_says_down() {
        assert_eq!(row(MepDownOrServiceDown, Some(Learning)), [SiteWord, SiteWord, RemoteMonitors]);
    }

    #[test]
    fn what_its_site_has_disabled_is_not_brought_back_by_monitors() {
        let known = Known { is_silent: false, word: Some(Disabled), own: Some(Up) };
        assert_eq!(
            [Always, MepDown, MepDownOrServiceDown].map(|trigger| judge(trigger, known)),
            [SiteWord; 3]
        );
    }
}
