//! One service: what is known of it, and what follows.

use super::silence::Contact;
use super::trigger;
use super::words::Words;
use crate::published::Judge;
use crate::traffic::Traffic;
use config::Config;
use gslb_types::{NodeId, Rtt, ServiceState, SiteIndex, Timestamp};

/// A service and what is thought of it.
pub(crate) struct Judged {
    pub(crate) state: ServiceState,
    pub(crate) since: Timestamp,
    pub(crate) judge: Judge,
    pub(crate) reason: String,
    pub(crate) response_time: Option<Rtt>,
    /// What this node's own monitors say of it, if some run.
    pub(crate) own: Option<Checked>,
    pub(super) words: Words,
}

/// The verdict of monitors that this node runs.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) state: ServiceState,
    pub(super) reason: String,
    pub(crate) response_time: Option<Rtt>,
    /// What the monitors tell of its load.
    pub(super) load: Option<u64>,
    pub(super) traffic: Traffic,
    /// Who says so: monitors, or what stands in for them.
    pub(super) by: Judge,
}

/// What comes of judging.
pub(super) struct Verdict {
    pub(super) state: ServiceState,
    pub(super) judge: Judge,
    pub(super) reason: String,
    pub(super) response_time: Option<Rtt>,
}

impl Judged {
    pub(super) fn at_start(service: &config::Service, here: SiteIndex, now: Timestamp) -> Self {
        let is_own = service.site == here;
        let stands_for_lb = is_own && service.lb_vserver.is_some();
        let unwatched = if is_own { service.monitors.is_empty() } else { service.remote_monitors.is_empty() };
        let (state, judge, reason) = match service {
            s if !s.enabled => {
                (ServiceState::Disabled, Judge::Configuration, "disabled in the configuration")
            }
            _ if stands_for_lb => {
                (ServiceState::Learning, Judge::LbVserver, "nothing is heard of its LB virtual server yet")
            }
            s if is_own && s.feed.is_some() => {
                (ServiceState::Learning, Judge::Source, "nothing is heard of its source yet")
            }
            _ if is_own && unwatched => (ServiceState::Up, Judge::NoMonitor, "no monitor is bound"),
            _ if is_own => (ServiceState::Learning, Judge::OwnMonitors, "not checked yet"),
            _ => (ServiceState::Learning, Judge::SiteWord, "no word from its site yet"),
        };
        let by = if is_own { judge } else { Judge::RemoteMonitors };
        let traffic = Traffic::default();
        let own = Checked { state, reason: reason.to_owned(), response_time: None, load: None, traffic, by };
        Judged {
            state,
            since: now,
            judge,
            reason: reason.to_owned(),
            response_time: None,
            own: Some(own).filter(|_| is_own || !unwatched),
            words: Words::default(),
        }
    }

    /// What passes through this node itself, and the load that its monitors tell, or else what stands in for them.
    pub(crate) fn own_traffic(&self) -> Traffic {
        let own = self.own.as_ref();
        own.map(|own| Traffic { load: own.load.or(own.traffic.load), ..own.traffic }).unwrap_or_default()
    }

    /// What passes through this node and those that count.
    pub(super) fn traffic(&self, counts: impl Fn(&NodeId) -> bool + Clone) -> Traffic {
        let mut own = self.own_traffic();
        // The load of another site's service is what its site says, as its response time is.
        let is_of_another = self.own.as_ref().is_some_and(|own| own.by == Judge::RemoteMonitors);
        if is_of_another && self.words.traffic(counts.clone()).any(|told| told.load.is_some()) {
            own.load = None;
        }
        Traffic::together([own].into_iter().chain(self.words.traffic(counts)))
    }

    /// A service of the own site: up if this node or one of its neighbours sees it up, as it is for the other sites. So all
    /// nodes of the group answer alike, and a node that has just been started takes nothing out. Its response time is the mean of
    /// those that see it so.
    pub(super) fn among_neighbours(&self, counts: impl Fn(&NodeId) -> bool) -> Option<Verdict> {
        let own = self.own.as_ref()?;
        let better = self.words.together(&counts).filter(|(word, _)| {
            (*word == ServiceState::Up && own.state != ServiceState::Up)
                || (*word == ServiceState::Down && own.state == ServiceState::Learning)
        });
        let verdict = match better {
            None => own.verdict(own.by),
            Some((state, node)) => {
                let reason = format!("said by {node}; here: {}", own.reason);
                Verdict { state, judge: Judge::SiteWord, reason, response_time: None }
            }
        };
        let here = own.response_time.filter(|_| own.state == verdict.state);
        let times = self.words.response_times(verdict.state, &counts).chain([here]);
        Some(Verdict { response_time: lb_core::mean(times), ..verdict })
    }

    /// A service of another site. `None` leaves it as it is: nothing was said yet that counts.
    pub(super) fn of_another_site(
        &self,
        now: Timestamp,
        contact: &Contact,
        config: &Config,
        site: SiteIndex,
    ) -> Option<Verdict> {
        let site = config.sites.get(site.get())?;
        let counts = |node: &NodeId| contact.counts(now, node);
        let word = self.words.together(counts);
        let said = |state| lb_core::mean(self.words.response_times(state, counts));
        let known = trigger::Known {
            is_silent: contact.is_down(),
            word: word.map(|(state, _)| state),
            own: self.own.as_ref().map(|own| own.state),
        };
        match trigger::judge(site.trigger_monitor, known) {
            Judge::RemoteMonitors => {
                let own = self.own.as_ref()?.verdict(Judge::RemoteMonitors);
                let told = said(own.state).filter(|_| !contact.is_down());
                Some(Verdict { response_time: told.or(own.response_time), ..own })
            }
            Judge::Silence => {
                let reason = format!("no word from site {} for {:?}", site.name, config.mep.down_delay);
                Some(Verdict {
                    state: ServiceState::Down,
                    judge: Judge::Silence,
                    reason,
                    response_time: None,
                })
            }
            Judge::SiteWord
            | Judge::OwnMonitors
            | Judge::NoMonitor
            | Judge::LbVserver
            | Judge::Source
            | Judge::Configuration => {
                let (state, node) = word?;
                let reason = match contact.relay() {
                    Some(relay) => format!("said by {node}, relayed by {relay}"),
                    None => format!("said by {node}"),
                };
                Some(Verdict { state, judge: Judge::SiteWord, reason, response_time: said(state) })
            }
        }
    }
}

impl Checked {
    fn verdict(&self, judge: Judge) -> Verdict {
        Verdict { state: self.state, judge, reason: self.reason.clone(), response_time: self.response_time }
    }
}
