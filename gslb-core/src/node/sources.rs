//! Services that a foreign load balancer knows: what it says of them, and what follows beside their monitors.
//!
//! A service is down as soon as its source or its monitors say so (faults I-72). A source that is silent says nothing: then
//! the monitors decide alone, and a service without any is learning, never up.
//!
//! | the source | monitors pass | monitors fail | no monitors |
//! | --- | --- | --- | --- |
//! | says up | up | down | up |
//! | does not say (nginx, a frontend, no `up` metric, no check) | up | down | learning |
//! | says down | down | down | down |
//! | says what is not understood | up | down | learning |
//! | was not heard yet | learning | down | learning |
//! | is silent | up | down | learning |

use super::{Node, Output};
use crate::traffic::Traffic;
use config::Config;
use gslb_types::{Rtt, ServiceState, Timestamp};
use probes_core::sources::{self, FeedView, Health, Hearing, SourceSettings, SourceView, Sources};
use probes_core::wire::{Fetch, FetchReply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The sources of this site's services.
pub(super) struct Fed {
    machine: Sources,
    /// By service that has a source.
    monitored: BTreeMap<usize, Monitored>,
}

/// What the monitors of a service say.
#[derive(Default)]
struct Monitored {
    /// `None` without monitors.
    verdict: Option<(ServiceState, String)>,
    response_time: Option<Rtt>,
}

impl Fed {
    pub(super) fn new(config: &Config, seed: u64, now: Timestamp) -> Self {
        let machine = Sources::new(now, settings(config), seed);
        let of = |service: usize| {
            let has_monitors = config.services.get(service).is_some_and(|s| !s.monitors.is_empty());
            let verdict = has_monitors.then(|| (ServiceState::Learning, "not checked yet".to_owned()));
            (service, Monitored { verdict, response_time: None })
        };
        let monitored = machine.services().map(of).collect();
        Fed { machine, monitored }
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        self.machine.handle_timeout(now);
    }

    pub(super) fn handle_reply(&mut self, now: Timestamp, reply: FetchReply) {
        self.machine.handle_reply(now, reply);
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.machine.poll_timeout()
    }

    /// What the source of a service says, for publication.
    pub(super) fn view(&self, service: usize) -> Option<FeedView> {
        self.machine.feed(service)
    }

    /// All sources of this site, for publication.
    pub(super) fn sources(&self) -> Vec<SourceView> {
        self.machine.sources().cloned().collect()
    }

    /// Notes what monitors say of a service that has a source. Whether it has one.
    pub(super) fn note_verdict(&mut self, service: usize, state: ServiceState, reason: &str) -> bool {
        let Some(monitored) = self.monitored.get_mut(&service) else { return false };
        // Without monitors their machine takes every service for up: that is not theirs to say here.
        if let Some(verdict) = &mut monitored.verdict {
            *verdict = (state, reason.to_owned());
        }
        true
    }

    /// Notes what monitors measured of a service that has a source. Whether it has one.
    pub(super) fn note_response_time(&mut self, service: usize, response_time: Option<Rtt>) -> bool {
        let Some(monitored) = self.monitored.get_mut(&service) else { return false };
        monitored.response_time = response_time;
        true
    }
}

impl Node {
    /// Carries out what the sources' machine says. Whether it said anything.
    pub(super) fn sources_said(&mut self, now: Timestamp) -> bool {
        let mut told = BTreeSet::new();
        let mut quiet = true;
        while let Some(output) = self.fed.machine.poll_output() {
            quiet = false;
            match output {
                sources::Output::Fetch(request) => self.outputs.push_back(Output::Fetch(request)),
                sources::Output::Told { service } => drop(told.insert(service)),
                sources::Output::Turned { source, error: Some(reason) } => {
                    tracing::warn!(source, reason, "the source does not answer");
                }
                sources::Output::Turned { source, error: None } => {
                    tracing::info!(source, "the source answers")
                }
            }
        }
        self.judge_fed(now, told);
        !quiet
    }

    /// Judges services by their sources and monitors. All at once: the exchange is told once for all of them.
    pub(super) fn judge_fed(&mut self, now: Timestamp, services: impl IntoIterator<Item = usize>) {
        let (mut any, mut has_turned) = (false, false);
        for service in services {
            let (Some(feed), Some(monitored)) = (self.fed.view(service), self.fed.monitored.get(&service))
            else {
                continue;
            };
            any = true;
            let (state, reason) = together(&feed, monitored.verdict.as_ref());
            let response_time = monitored.response_time.or(feed.response_time);
            let traffic = Traffic {
                active: feed.active,
                connections: feed.connections,
                requests: feed.requests,
                bytes: feed.bytes,
                packets: None,
                ttfb: feed.response_time,
                load: feed.load,
            };
            let known = |health: &super::Health| (health.own(service), health.own_load_of(service));
            let before = known(&self.health);
            self.health.local_verdict(now, service, state, &reason, response_time, traffic);
            let after = known(&self.health);
            if after != before {
                self.tell_local(service);
            }
            has_turned |= after.0.map(|(state, _)| state) != before.0.map(|(state, _)| state);
        }
        match (any, has_turned) {
            (_, true) => self.metrics_changed(now),
            (true, false) => self.metrics_moved(now),
            (false, false) => (),
        }
    }
}

/// See the table above.
fn together(feed: &FeedView, monitors: Option<&(ServiceState, String)>) -> (ServiceState, String) {
    let FeedView { source, words, .. } = feed;
    let error = feed.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    if let Some((state @ ServiceState::Down, reason)) = monitors
        && feed.hearing != Hearing::Heard(Health::Down)
    {
        return (*state, reason.clone());
    }
    let alone = |reason: String| match monitors {
        Some((state, said)) => (*state, format!("{said}; {reason}")),
        None => (ServiceState::Learning, reason),
    };
    match feed.hearing {
        Hearing::Heard(Health::Down) => (ServiceState::Down, format!("source {source} says {words}")),
        Hearing::Heard(health @ (Health::Up | Health::Unsaid)) => match (monitors, health) {
            (Some((state, reason)), _) => (*state, reason.clone()),
            (None, Health::Up) => (ServiceState::Up, format!("source {source} says {words}")),
            (None, _) => {
                let reason =
                    format!("source {source} says {words}, which is not whether it is up: bind a monitor");
                (ServiceState::Learning, reason)
            }
        },
        Hearing::Heard(Health::Unknown) => {
            alone(format!("source {source} says what is not understood: '{words}'"))
        }
        Hearing::Unheard => {
            (ServiceState::Learning, format!("nothing is heard of source {source} yet{error}"))
        }
        Hearing::Silent => alone(format!("source {source} says nothing{error}")),
    }
}

/// The sources that services of this site name. One that is disabled needs none.
fn settings(config: &Config) -> Vec<SourceSettings> {
    let named = config.sources.iter().enumerate().filter_map(|(at, source)| {
        let here =
            config.services.iter().enumerate().filter(|(_, s)| s.enabled && s.site == config.this_site());
        let fed =
            here.filter_map(|(index, s)| Some((index, s.feed.as_ref().filter(|feed| feed.source == at)?)));
        let (services, items): (Vec<_>, Vec<_>) = fed.map(|(index, feed)| (index, feed.item.clone())).unzip();
        if services.is_empty() {
            return None;
        }
        let fetch = Fetch { kind: source.kind, place: source.place.clone(), items };
        Some(SourceSettings {
            name: source.name.clone(),
            fetch: Arc::new(fetch),
            services,
            interval: source.interval,
            timeout: source.timeout,
            misses: source.misses,
        })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServiceState::{Down, Learning, Up};

    fn said(hearing: Hearing, monitors: Option<ServiceState>) -> (ServiceState, String) {
        let feed = FeedView {
            source: "lb1".to_owned(),
            hearing,
            words: "WORD".to_owned(),
            heard: None,
            error: (hearing == Hearing::Silent).then(|| "refused".to_owned()),
            active: None,
            connections: None,
            bytes: None,
            requests: None,
            response_time: None,
            load: None,
        };
        together(&feed, monitors.map(|state| (state, "checks".to_owned())).as_ref())
    }

    #[test]
    fn down_if_either_says_so_and_never_up_by_silence() {
        for (hearing, passing, failing, learning, without) in [
            (Hearing::Heard(Health::Up), Up, Down, Learning, Up),
            (Hearing::Heard(Health::Unsaid), Up, Down, Learning, Learning),
            (Hearing::Heard(Health::Down), Down, Down, Down, Down),
            (Hearing::Heard(Health::Unknown), Up, Down, Learning, Learning),
            (Hearing::Unheard, Learning, Down, Learning, Learning),
            (Hearing::Silent, Up, Down, Learning, Learning),
        ] {
            let states =
                [Some(Up), Some(Down), Some(Learning), None].map(|monitors| said(hearing, monitors).0);
            assert_eq!(states, [passing, failing, learning, without], "{hearing:?}");
        }
    }

    #[test]
    fn the_reason_is_that_of_who_decides() {
        for (hearing, monitors, reason) in [
            (Hearing::Heard(Health::Down), Some(Down), "source lb1 says WORD"),
            (Hearing::Heard(Health::Up), Some(Down), "checks"),
            (Hearing::Heard(Health::Up), None, "source lb1 says WORD"),
            (
                Hearing::Heard(Health::Unsaid),
                None,
                "source lb1 says WORD, which is not whether it is up: bind a monitor",
            ),
            (Hearing::Silent, None, "source lb1 says nothing: refused"),
            (Hearing::Silent, Some(Up), "checks; source lb1 says nothing: refused"),
            (Hearing::Heard(Health::Unknown), None, "source lb1 says what is not understood: 'WORD'"),
            (Hearing::Unheard, None, "nothing is heard of source lb1 yet"),
        ] {
            assert_eq!(said(hearing, monitors).1, reason, "{hearing:?}");
        }
    }
}
