//! Which services are up, as this node judges it.
//!
//! Services of its own site by their monitors; services of other sites by what those sites' nodes say, for as long as one of
//! them is heard or was heard within `down_delay` (behaviour 4).
//!
//! ```text
//! own, with monitors:   Learning --verdict--> Up <--> Down
//! own, without:         Up
//! other sites':         Learning --word--> as said --silence of all its nodes for down_delay--> Down
//! disabled in the configuration: Disabled, whatever anybody says
//! ```

use crate::published::ServiceView;
use config::Config;
use gslb_types::{NodeId, Rtt, ServiceState, SiteIndex, Timers, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The judgement of all services.
pub(crate) struct Health {
    config: Arc<Config>,
    down_delay: Duration,
    services: Vec<Judged>,
    /// For each site: the nodes with a session.
    heard: Vec<BTreeSet<NodeId>>,
    /// When the silence of a site takes its services down.
    silence: Timers<SiteIndex>,
    changes: Vec<Change>,
    /// By virtual server: whether a service of it was up when [`Health::take_turned`] last looked.
    had_one_up: Vec<bool>,
}

/// A service and what is thought of it.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) state: ServiceState,
    pub(crate) since: Timestamp,
    pub(crate) reason: String,
    pub(crate) last_good: bool,
    pub(crate) response_time: Option<Rtt>,
    /// What the nodes of its site said last.
    said: BTreeMap<NodeId, Said>,
}

/// A node's word about a service of its site.
#[derive(Clone, Copy, Debug)]
struct Said {
    state: ServiceState,
    /// Said in an earlier session: until then it stands although the node now says that it is learning, as one does that has
    /// just been started (behaviour 4). A node that says so in the session in which it knew better has lost its checker, and
    /// what it said before must not stand for ever (faults I-57).
    stands_until: Option<Timestamp>,
}

/// A state that changed, for log and publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index into the configuration's services.
    pub service: usize,
    /// Before.
    pub from: ServiceState,
    /// After.
    pub to: ServiceState,
    /// Why.
    pub reason: String,
}

impl Health {
    /// The judgement at the start.
    pub(crate) fn new(config: Arc<Config>, now: Timestamp) -> Self {
        let mut silence = Timers::new();
        for index in (0..config.sites.len()).filter_map(SiteIndex::new).filter(|s| *s != config.this_site()) {
            silence.set(index, now + config.mep.down_delay);
        }
        let services = config.services.iter().map(|s| Judged::at_start(s, config.this_site(), now)).collect();
        let heard = vec![BTreeSet::new(); config.sites.len()];
        let mut health = Health {
            down_delay: config.mep.down_delay,
            config,
            services,
            heard,
            silence,
            changes: Vec::new(),
            had_one_up: Vec::new(),
        };
        health.note_last_good();
        health.take_turned();
        health
    }

    /// Takes over what the node task before this one had published of the same configuration.
    pub(crate) fn resume(&mut self, views: &[ServiceView]) {
        for (judged, view) in self.services.iter_mut().zip(views) {
            judged.state = view.state;
            judged.since = view.since;
            judged.reason.clone_from(&view.reason);
            judged.last_good = view.last_good;
            judged.response_time = view.response_time;
        }
        self.take_turned();
    }

    /// All services, by index.
    pub(crate) fn services(&self) -> &[Judged] {
        &self.services
    }

    /// Monitors of this site decided.
    pub(crate) fn own_verdict(&mut self, now: Timestamp, service: usize, state: ServiceState, reason: &str) {
        self.judge(now, service, state, reason);
        self.note_last_good();
    }

    /// Monitors of this site measured, or lost what they had.
    pub(crate) fn own_response_time(&mut self, service: usize, response_time: Option<Rtt>) {
        if let Some(judged) = self.services.get_mut(service) {
            judged.response_time = response_time;
        }
    }

    /// A session with a node of another site stands.
    pub(crate) fn peer_up(&mut self, now: Timestamp, site: SiteIndex, peer: &NodeId) {
        if let Some(heard) = self.heard.get_mut(site.get()) {
            heard.insert(peer.clone());
            self.silence.stop(site);
        }
        let stands_until = Some(now + self.down_delay);
        for said in self.services.iter_mut().filter_map(|judged| judged.said.get_mut(peer)) {
            said.stands_until = stands_until;
        }
    }

    /// A session with a node of another site ended. Its services stay as they are for `down_delay`.
    pub(crate) fn peer_down(&mut self, now: Timestamp, site: SiteIndex, peer: &NodeId) {
        let Some(heard) = self.heard.get_mut(site.get()) else { return };
        heard.remove(peer);
        if heard.is_empty() && site != self.config.this_site() {
            self.silence.set(site, now + self.down_delay);
        }
    }

    /// A node said how a service of its own site is. Words about services of other sites are not its to say: ignored.
    pub(crate) fn peer_said(
        &mut self,
        now: Timestamp,
        peer: &NodeId,
        service: usize,
        state: ServiceState,
        response_time: Option<Rtt>,
    ) {
        let Some(config) = self.config.services.get(service) else { return };
        let site = config.site;
        let of_its_site = self.config.sites.get(site.get()).is_some_and(|s| s.name == peer.site);
        let Some(judged) = self.services.get_mut(service) else { return };
        if !of_its_site || site == self.config.this_site() {
            return;
        }
        let stands =
            judged.said.get(peer).and_then(|said| said.stands_until).is_some_and(|until| now < until);
        if state != ServiceState::Learning || !stands {
            judged.said.insert(peer.clone(), Said { state, stands_until: None });
        }
        // A node that is learning does not take back what another node of its site measured.
        if state != ServiceState::Learning || response_time.is_some() {
            judged.response_time = response_time;
        }
        let heard = self.heard.get(site.get());
        let said = judged
            .said
            .iter()
            .filter(|(node, _)| heard.is_none_or(|h| h.contains(*node)))
            .map(|(_, s)| s.state);
        let state = best(said).unwrap_or(state);
        let reason = format!("said by {peer}");
        self.judge(now, service, state, &reason);
        self.note_last_good();
    }

    /// When something falls due.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.silence.next()
    }

    /// Takes services of silent sites down.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(site) = self.silence.expired(now) {
            let name = self.config.sites.get(site.get()).map(|s| s.name.to_string()).unwrap_or_default();
            let reason = format!("no word from site {name} for {:?}", self.down_delay);
            let services: Vec<usize> = self
                .config
                .services
                .iter()
                .enumerate()
                .filter(|(_, s)| s.site == site)
                .map(|(i, _)| i)
                .collect();
            for service in services {
                if let Some(judged) = self.services.get_mut(service) {
                    judged.said.clear();
                    judged.response_time = None;
                }
                self.judge(now, service, ServiceState::Down, &reason);
            }
            self.note_last_good();
        }
    }

    /// What changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The virtual servers that lost their last service or got the first one since the last call, and whether one is up: a
    /// moment that an operator wants told once, however many services it concerns (faults I-55).
    pub(crate) fn take_turned(&mut self) -> Vec<(usize, bool)> {
        let is_up = |service: usize| self.services.get(service).is_some_and(|s| s.state == ServiceState::Up);
        let has_one_up = |v: &config::Vserver| v.bindings.iter().any(|b| is_up(b.service));
        let have: Vec<bool> = self.config.vservers.iter().map(has_one_up).collect();
        let had = std::mem::replace(&mut self.had_one_up, have);
        let both = had.into_iter().zip(&self.had_one_up).enumerate();
        both.filter(|(_, (had, has))| had != *has).map(|(vserver, (_, has))| (vserver, *has)).collect()
    }

    fn judge(&mut self, now: Timestamp, service: usize, state: ServiceState, reason: &str) {
        let Some(judged) = self.services.get_mut(service) else { return };
        if judged.state == ServiceState::Disabled || judged.state == state {
            return;
        }
        let from = std::mem::replace(&mut judged.state, state);
        judged.since = now;
        reason.clone_into(&mut judged.reason);
        self.changes.push(Change { service, from, to: state, reason: reason.to_owned() });
    }

    /// Remembers, for each virtual server with a service up, which of its services are. Each address family for itself, as
    /// a query is for one of them.
    fn note_last_good(&mut self) {
        for vserver in &self.config.vservers {
            for v6 in [false, true] {
                let of_family =
                    |s: &usize| self.config.services.get(*s).is_some_and(|s| s.address.is_ipv6() == v6);
                let bound = || vserver.bindings.iter().map(|b| b.service).filter(of_family);
                let is_up = |s: &Judged| s.state == ServiceState::Up;
                if bound().any(|s| self.services.get(s).is_some_and(is_up)) {
                    for service in bound() {
                        if let Some(judged) = self.services.get_mut(service) {
                            judged.last_good = is_up(judged);
                        }
                    }
                }
            }
        }
    }
}

impl Judged {
    fn at_start(service: &config::Service, here: SiteIndex, now: Timestamp) -> Self {
        let (state, reason) = match service {
            s if !s.enabled => (ServiceState::Disabled, "disabled in the configuration"),
            s if s.site == here && s.monitors.is_empty() => (ServiceState::Up, "no monitor is bound"),
            s if s.site == here => (ServiceState::Learning, "not checked yet"),
            _ => (ServiceState::Learning, "no word from its site yet"),
        };
        let reason = reason.to_owned();
        Judged { state, since: now, reason, last_good: false, response_time: None, said: BTreeMap::new() }
    }
}

/// One node that sees a service up is enough: the others may be cut off from it. A node that has not checked it yet says
/// nothing against one that has.
fn best(said: impl Iterator<Item = ServiceState>) -> Option<ServiceState> {
    let rank = |state: &ServiceState| match state {
        ServiceState::Up => 3,
        ServiceState::Down => 2,
        ServiceState::Learning => 1,
        ServiceState::Disabled => 0,
    };
    said.max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const GROUP: &str = r#"
version = 1
node = "a/1"
[mep]
down_delay = "15s"
[[sites]]
name = "a"
[[sites]]
name = "b"
[[nodes]]
name = "a/1"
mep = "198.18.1.1:4353"
[[nodes]]
name = "b/1"
mep = "198.18.2.1:4353"
[[nodes]]
name = "b/2"
mep = "198.18.2.2:4353"
[[monitors]]
name = "web"
kind = "tcp"
[[services]]
name = "a1"
site = "a"
address = "192.0.2.10"
port = 80
monitors = ["web"]
[[services]]
name = "a2"
site = "a"
address = "192.0.2.11"
port = 80
[[services]]
name = "b1"
site = "b"
address = "192.0.2.20"
port = 80
monitors = ["web"]
[[services]]
name = "off"
site = "b"
address = "192.0.2.21"
port = 80
enabled = false
[[services]]
name = "a6"
site = "a"
address = "2001:db8::10"
port = 80
monitors = ["web"]
[[zones]]
name = "gslb.test"
records = '''
@ SOA ns1 hostmaster 1 1h 15m 1w 5s
@ NS ns1
ns1 A 198.18.1.1
'''
[[vservers]]
name = "www"
services = ["a1", "b1", "a6"]
[[domains]]
name = "www.gslb.test"
vserver = "www"
"#;
    const A1: usize = 0;
    const B1: usize = 2;
    const OFF: usize = 3;
    const A6: usize = 4;

    fn health() -> Health {
        let mut read = |_: &Path| Ok(GROUP.as_bytes().to_vec());
        let config = config::load(Path::new("/etc/gslb.toml"), &mut read, None);
        Health::new(Arc::new(config.unwrap_or_else(|errors| panic!("{errors}"))), at(0))
    }

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn site_b() -> SiteIndex {
        SiteIndex::new(1).unwrap()
    }

    fn node(name: &str) -> NodeId {
        name.parse().unwrap()
    }

    use ServiceState::{Disabled, Down, Learning, Up};

    impl Health {
        fn says(&mut self, now: u64, peer: &str, state: ServiceState) -> ServiceState {
            self.peer_said(at(now), &node(peer), B1, state, None);
            self.services[B1].state
        }

        fn states(&self) -> Vec<ServiceState> {
            self.services.iter().map(|s| s.state).collect()
        }
    }

    #[test]
    fn at_the_start_nothing_is_taken_for_up_but_what_nobody_checks() {
        assert_eq!(health().states(), [Learning, Up, Learning, Disabled, Learning]);
    }

    #[test]
    fn the_word_of_its_site_decides() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        assert_eq!(h.says(1, "b/1", Up), Up);
        assert_eq!(h.says(2, "b/1", Down), Down);
        assert_eq!(h.take_changes().len(), 2);
        assert_eq!(h.says(3, "b/1", Down), Down);
        assert_eq!(h.take_changes(), []);
    }

    /// Threat T8: a peer speaks for its own site only.
    #[test]
    fn the_word_of_another_site_does_not() {
        let mut h = health();
        h.peer_said(at(1), &node("b/1"), A1, Down, None);
        h.own_verdict(at(1), A1, Up, "all monitors pass");
        h.peer_said(at(2), &node("b/1"), A1, Down, None);
        h.peer_said(at(2), &node("a/1"), B1, Up, None);
        assert_eq!((h.services[A1].state, h.services[B1].state), (Up, Learning));
    }

    #[test]
    fn one_node_of_a_site_that_sees_it_up_is_enough() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.peer_up(at(0), site_b(), &node("b/2"));
        assert_eq!(h.says(1, "b/1", Up), Up);
        assert_eq!(h.says(2, "b/2", Down), Up);
        assert_eq!(h.says(3, "b/1", Down), Down);
    }

    /// Behaviour 4: peers keep their last word while a node that has just started is learning.
    #[test]
    fn a_node_that_learns_does_not_take_back_its_last_word() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.says(1, "b/1", Up);
        h.peer_down(at(20), site_b(), &node("b/1"));
        h.peer_up(at(21), site_b(), &node("b/1"));
        assert_eq!(h.says(22, "b/1", Learning), Up);
        assert_eq!(h.says(35, "b/1", Learning), Up);
        assert_eq!(h.says(36, "b/1", Learning), Learning, "its checker never reports");
    }

    /// Faults I-57: who knew, and knows no longer in the same session, has lost its checker.
    #[test]
    fn a_node_that_lost_its_checker_is_believed() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.says(1, "b/1", Up);
        assert_eq!(h.says(2, "b/1", Learning), Learning);
        assert_eq!(h.says(3, "b/1", Up), Up);
    }

    /// Faults I-43: a glitch shorter than the delay changes nothing.
    #[test]
    fn a_silent_site_is_down_after_the_delay_and_not_before() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.says(1, "b/1", Up);
        h.peer_down(at(100), site_b(), &node("b/1"));
        assert_eq!(h.poll_timeout(), Some(at(115)));
        h.handle_timeout(at(114));
        assert_eq!(h.services[B1].state, Up);
        h.handle_timeout(at(115));
        assert_eq!((h.services[B1].state, h.services[OFF].state), (Down, Disabled));
        assert_eq!(h.services[B1].reason, "no word from site b for 15s");
    }

    #[test]
    fn a_session_that_comes_back_in_time_stops_the_clock() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.says(1, "b/1", Up);
        h.peer_down(at(100), site_b(), &node("b/1"));
        h.peer_up(at(0), site_b(), &node("b/1"));
        assert_eq!(h.poll_timeout(), None);
    }

    #[test]
    fn a_site_is_silent_only_when_all_its_nodes_are() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.peer_up(at(0), site_b(), &node("b/2"));
        h.peer_down(at(100), site_b(), &node("b/1"));
        assert_eq!(h.poll_timeout(), None);
        h.peer_down(at(101), site_b(), &node("b/2"));
        assert_eq!(h.poll_timeout(), Some(at(116)));
    }

    #[test]
    fn a_site_never_heard_is_down_after_the_delay() {
        let mut h = health();
        h.handle_timeout(at(15));
        assert_eq!(h.services[B1].state, Down);
    }

    /// Faults I-55: told once when the last one goes and once when the first one comes.
    #[test]
    fn a_virtual_server_without_a_service_is_told_once() {
        let mut h = health();
        assert_eq!(h.take_turned(), []);
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.own_verdict(at(1), A1, Up, "passed");
        h.says(1, "b/1", Up);
        assert_eq!(h.take_turned(), [(0, true)]);
        h.own_verdict(at(2), A1, Down, "refused");
        assert_eq!(h.take_turned(), []);
        h.says(3, "b/1", Down);
        assert_eq!((h.take_turned(), h.take_turned()), (vec![(0, false)], vec![]));
    }

    /// Behaviour 4: a node that has just been started and has not checked anything yet knows less than its neighbour.
    #[test]
    fn a_node_that_learns_does_not_outvote_one_that_has_checked() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.peer_up(at(0), site_b(), &node("b/2"));
        h.peer_said(at(1), &node("b/1"), B1, Down, Some(Rtt::from_micros(7)));
        assert_eq!(h.says(2, "b/2", Learning), Down);
        assert_eq!(h.services[B1].response_time, Some(Rtt::from_micros(7)));
    }

    /// Behaviour 6, `last_good`: the IPv6 service that is up says nothing about which IPv4 service was last.
    #[test]
    fn each_address_family_remembers_who_was_up_last() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.own_verdict(at(1), A1, Up, "passed");
        h.says(1, "b/1", Down);
        h.own_verdict(at(2), A6, Up, "passed");
        h.own_verdict(at(3), A1, Down, "refused");
        let last_good = [A1, B1, A6].map(|service| h.services[service].last_good);
        assert_eq!(last_good, [true, false, true]);
    }

    #[test]
    fn who_was_up_last_is_remembered_when_all_are_down() {
        let mut h = health();
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.own_verdict(at(1), A1, Down, "refused");
        h.says(2, "b/1", Up);
        h.says(3, "b/1", Down);
        assert_eq!((h.services[A1].last_good, h.services[B1].last_good), (false, true));
    }
}
