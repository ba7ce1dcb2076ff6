//! What must hold once everything is mended and quiet.

use crate::witness::Invariant;
use crate::world::{Answer, Host, HostIndex, World};
use gslb_core::PeerState;
use gslb_types::{AllDown, Ldns, Reach, ServiceState, SiteIndex};
use hickory_proto::op::ResponseCode;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// How soon after all sessions stand again all nodes answer alike: two exchange intervals (behaviour 4).
pub const SOON: Duration = Duration::from_secs(10);

/// How long a site's own word may take to follow what it finds out.
const ROUND: Duration = Duration::from_secs(2);

/// How long it may take until all sessions stand again: the longest back-off after a refusal, and a handshake that fails once
/// more.
const REUNION: Duration = Duration::from_secs(60);

/// Whether something may be compared.
#[derive(Clone, PartialEq, Eq)]
enum Settled {
    Yes,
    NotYet,
    Differs(String),
}

impl World {
    /// Asks for all of `active` every few seconds, each at some node, until so much time has passed.
    pub fn drive_with_queries(&mut self, span: Duration, active: &[IpAddr]) {
        const PAUSE: Duration = Duration::from_secs(8);
        let end = self.now() + span;
        while self.now() < end && self.violation().is_none() {
            for (k, ldns) in active.iter().enumerate() {
                let n = (k + self.now().as_secs() as usize) % self.hosts().len();
                self.ask(n, *ldns);
            }
            self.drive(PAUSE.min(end.since(self.now())));
        }
    }

    /// Lets time pass until every node has a session with every other.
    pub fn drive_to_reunion(&mut self) {
        if self.drive_until(REUNION, |world| world.stand_apart().is_none()).is_none()
            && let Some(what) = self.stand_apart()
        {
            self.violated(Invariant::Agreement, format!("after {REUNION:?} {what}"));
        }
    }

    /// A node that lacks a session, and with whom.
    fn stand_apart(&self) -> Option<String> {
        self.hosts().iter().find_map(|host| {
            let Some(published) = host.published() else {
                return Some(format!("{} does not run", host.id()));
            };
            let lost = published.peers.iter().find(|peer| !peer.state.has_session())?;
            Some(format!("{} sees {} {:?} ({})", host.id(), lost.peer, lost.state, lost.reason))
        })
    }

    /// Checks that all nodes know the same of these LDNS and answer them alike, soon after all sessions stand again. What a site
    /// itself does not know yet, or has changed just now, is not held against anybody. Returns how many were compared.
    pub fn check_alike(&mut self, active: &[IpAddr]) -> usize {
        let services = 0..self.hosts().first().map_or(0, |host| host.config().services.len());
        let health: Vec<Settled> = services.map(|service| self.is_service_settled(service)).collect();
        let wrong = health.iter().find_map(|settled| match settled {
            Settled::Differs(what) => Some(what.clone()),
            Settled::Yes | Settled::NotYet => None,
        });
        if let Some(what) = wrong {
            self.violated(Invariant::Agreement, format!("{SOON:?} after the reunion {what}"));
            return 0;
        }
        let is_settled = health.iter().all(|settled| *settled == Settled::Yes) && !self.goes_by_memory();
        let masks = self.hosts().first().map(|h| h.config().ldns.masks).unwrap_or_default();
        let mut compared = 0;
        for ldns in active {
            if self.is_unsettled(Ldns::of(*ldns, masks)) {
                continue;
            }
            if let Some(what) = self.row_differs(Ldns::of(*ldns, masks)) {
                self.violated(Invariant::Agreement, format!("{SOON:?} after the reunion {what}"));
                return compared;
            }
            if is_settled {
                self.check_answers_equal(*ldns);
            }
            compared += 1;
        }
        compared
    }

    /// Whether answers hang on who was up last, which is each node's own memory.
    fn goes_by_memory(&self) -> bool {
        self.hosts().iter().filter_map(Host::published).any(|published| {
            let is_any_up = published.services.iter().any(|view| view.state == ServiceState::Up);
            let mut vservers = published.config.vservers.iter();
            !is_any_up && vservers.any(|vserver| vserver.all_down == AllDown::LastGood)
        })
    }

    /// Whether all nodes take a service for what its own site says. A site that is still finding out is not heeded, nor a node
    /// that holds it down, or has monitors of its own.
    fn is_service_settled(&self, service: usize) -> Settled {
        let view = |host: &Host| host.published().and_then(|p| p.services.get(service).cloned());
        let Some(config) = self.hosts().first().and_then(|h| h.config().services.get(service)) else {
            return Settled::NotYet;
        };
        let there = self.hosts().iter().filter(|host| host.site() == config.site);
        let mut said = None;
        for (host, word) in there.filter_map(|host| Some((host, view(host)?))) {
            let is_new = host.local(self.now()).is_none_or(|local| local.since(word.since) < SOON);
            if word.state == ServiceState::Learning || is_new || said.is_some_and(|said| said != word.state) {
                return Settled::NotYet;
            }
            said = Some(word.state);
        }
        let differs = |host: &&Host| view(host).map(|view| view.state) != said;
        let mut differing = self.hosts().iter().filter(differs);
        let judges_itself = |host: &Host| {
            let is_held = view(host)
                .zip(host.local(self.now()))
                .is_some_and(|(view, local)| local.since(view.since) < host.config().mep.down_delay + ROUND);
            // The hold may be younger than the state: a site that had it down itself can fall silent as well.
            let is_site_held = host.published().is_some_and(|published| {
                published.sites.get(config.site.get()).is_some_and(|site| site.held_until.is_some())
            });
            is_held || is_site_held || !config.remote_monitors.is_empty()
        };
        match differing.clone().find(|host| !judges_itself(host)) {
            Some(host) => Settled::Differs(format!(
                "{} takes {} for {:?}, and its site says {said:?}",
                host.id(),
                config.name,
                view(host).map(|view| (view.state, view.reason))
            )),
            None if differing.next().is_some() => Settled::NotYet,
            None => Settled::Yes,
        }
    }

    /// Whether a site has no value of an LDNS, or has changed it within the exchange intervals, or some node is new to it.
    fn is_unsettled(&self, ldns: Ldns) -> bool {
        self.hosts().iter().enumerate().any(|(n, host)| {
            let (Some(shared), Some(local)) = (host.shared(), host.local(self.now())) else { return true };
            let Some(row) = shared.rtts.row(ldns) else { return true };
            self.column(host, host.site(), ldns) == Some(Reach::Pending)
                || self.witness().changed_since(n, ldns, self.now().before(SOON))
                || local.since(row.first_seen()) < gslb_core::decide::WAIT_FOR_PENDING
        })
    }

    /// Checks that all nodes have sessions, know the same, answer alike, and as the truth would have it. `active` are the
    /// LDNS that go on asking.
    pub fn check_agreement(&mut self, active: &[IpAddr]) {
        let wrong = self
            .sessions()
            .or_else(|| self.entries_differ(active))
            .or_else(|| self.tables_differ())
            .or_else(|| self.health());
        if let Some(what) = wrong {
            return self.violated(Invariant::Agreement, what);
        }
        for ldns in active {
            self.check_answers(*ldns);
        }
    }

    fn sessions(&self) -> Option<String> {
        for (n, host) in self.hosts().iter().enumerate() {
            let Some(published) = host.published() else {
                return Some(format!("{} does not run", host.id()));
            };
            for peer in &published.peers {
                let other = self.hosts().iter().position(|h| *h.id() == peer.peer).unwrap_or(n);
                let connections = self.connections(n, other);
                if peer.state != PeerState::Up || connections != 1 {
                    let (id, peer, state, reason) = (host.id(), &peer.peer, peer.state, &peer.reason);
                    return Some(format!("{id} sees {peer} {state:?} ({reason}), {connections} connections"));
                }
                if (peer.violations, peer.unknown, peer.outbox) != (0, 0, 0) {
                    return Some(format!("{} counts against {}: {peer:?}", host.id(), peer.peer));
                }
            }
        }
        None
    }

    /// Whether some node has other entries than those of the LDNS that go on asking.
    fn entries_differ(&self, active: &[IpAddr]) -> Option<String> {
        let masks = self.hosts().first().map(|h| h.config().ldns.masks).unwrap_or_default();
        let expected: BTreeSet<Ldns> = active.iter().map(|a| Ldns::of(*a, masks)).collect();
        self.hosts().iter().find_map(|host| {
            let entries = entries(host);
            let more: Vec<_> = entries.difference(&expected).collect();
            let less: Vec<_> = expected.difference(&entries).collect();
            (entries != expected).then(|| format!("{} knows {more:?} and not {less:?}", host.id()))
        })
    }

    /// How the tables of two nodes differ, if they do: in their entries, or in what a site advertises and another takes it for.
    pub fn tables_differ(&self) -> Option<String> {
        let first = self.hosts().first()?;
        let expected = entries(first);
        let other = self.hosts().iter().find_map(|host| {
            let known = entries(host);
            (known != expected)
                .then(|| format!("{} knows {expected:?}, and {} {known:?}", first.id(), host.id()))
        });
        other.or_else(|| expected.into_iter().find_map(|ldns| self.row_differs(ldns)))
    }

    /// How what a node advertises for its site differs from what another takes that site for, if it does.
    fn row_differs(&self, ldns: Ldns) -> Option<String> {
        self.hosts().iter().find_map(|teller| {
            let told = self.column(teller, teller.site(), ldns);
            let reader = self.hosts().iter().find(|r| self.column(r, teller.site(), ldns) != told)?;
            let read = self.column(reader, teller.site(), ldns);
            let (t, r) = (teller.id(), reader.id());
            let row = reader.shared().and_then(|shared| shared.rtts.row(ldns));
            let from = row.map(|row| row.cell(teller.site())).map(|cell| (cell.reach(), cell.confirmed()));
            Some(format!("{t} advertises {told:?} of {ldns}, and {r} takes it for {read:?}, from {from:?}"))
        })
    }

    /// What a host has in the column of a site, as decisions take it. Unreachable is said again once a minute only, so whether
    /// it has aged is left out.
    fn column(&self, host: &Host, of: SiteIndex, ldns: Ldns) -> Option<Reach> {
        let cell = host.shared()?.rtts.row(ldns)?.cell(of);
        let confirmed = host.published()?.sites.get(of.get())?.confirmed;
        let counts = cell.current(host.local(self.now())?, host.config().mep.max_age, confirmed);
        Some(if cell.reach() == Reach::Unreachable { Reach::Unreachable } else { counts })
    }

    fn health(&self) -> Option<String> {
        self.hosts().iter().find_map(|host| {
            let published = host.published()?;
            published.services.iter().enumerate().find_map(|(n, view)| {
                let truth = if self.is_service_up(n) { ServiceState::Up } else { ServiceState::Down };
                let (id, state, reason) = (host.id(), view.state, &view.reason);
                (state != truth)
                    .then(|| format!("{id} takes service {n} for {state} ({reason}), and it is {truth}"))
            })
        })
    }

    fn check_answers(&mut self, ldns: IpAddr) {
        let Some(config) = self.hosts().first().map(|h| h.config().clone()) else { return };
        let Some(vserver) = config.vservers.first() else { return };
        let is_any_up = (0..config.services.len()).any(|s| self.is_service_up(s));
        if !is_any_up && vserver.all_down == AllDown::LastGood {
            return;
        }
        for service in self.check_answers_equal(ldns).iter().flatten() {
            if is_any_up && !self.is_service_up(*service) {
                return self.violated(
                    Invariant::DownService,
                    format!("{ldns} gets service {service}, which is down"),
                );
            }
            if let Some(what) = self.farther_than_told(ldns, *service, is_any_up) {
                return self.violated(Invariant::Nearest, what);
            }
        }
    }

    /// Asks all nodes, who must all give the same services. Returns what each gave.
    fn check_answers_equal(&mut self, ldns: IpAddr) -> Vec<BTreeSet<usize>> {
        let answers: Vec<BTreeSet<usize>> =
            (0..self.hosts().len()).map(|n| self.services_answered(n, ldns)).collect();
        if answers.windows(2).any(|pair| pair[0] != pair[1]) {
            let known = self.all_columns(ldns);
            self.violated(
                Invariant::Agreement,
                format!("the nodes answer {ldns} with {answers:?}, from {known}"),
            );
        }
        answers
    }

    /// What each node takes of each site, and of each service.
    fn all_columns(&self, ldns: IpAddr) -> String {
        let nodes = self.hosts().iter().filter_map(|host| {
            let (shared, published, local) = (host.shared()?, host.published()?, host.local(self.now())?);
            let row = shared.rtts.row(Ldns::of(ldns, host.config().ldns.masks))?;
            let cells = published.sites.iter().enumerate().filter_map(|(n, view)| {
                Some(row.cell(SiteIndex::new(n)?).current(local, host.config().mep.max_age, view.confirmed))
            });
            let states = published.services.iter().map(|view| view.state.to_string());
            let (cells, states) = (cells.collect::<Vec<_>>(), states.collect::<Vec<_>>());
            let age = local.since(row.first_seen());
            Some(format!("{}: {cells:?} {states:?}, first seen {age:?} ago", host.id()))
        });
        nodes.collect::<Vec<_>>().join("; ")
    }

    /// What a node answers when asked so often that all services have had their turn.
    fn services_answered(&mut self, n: HostIndex, ldns: IpAddr) -> BTreeSet<usize> {
        let looks = self.hosts().first().map_or(0, |host| host.config().services.len()) + 2;
        let answers: Vec<Answer> = (0..looks).map(|_| self.ask(n, ldns)).collect();
        let services = answers.into_iter().filter_map(|answer| match answer {
            Answer::Reply(reply) if reply.rcode == ResponseCode::NoError => Some(reply.services),
            Answer::Reply(_) | Answer::Silence | Answer::Dead => None,
        });
        services.flatten().collect()
    }

    /// Whether a service is farther from an LDNS than the tolerances excuse. Each of two values may be off by the tolerance of
    /// advertising and by what the way adds at random.
    fn farther_than_told(&mut self, ldns: IpAddr, service: usize, is_any_up: bool) -> Option<String> {
        let config = self.hosts().first()?.config().clone();
        let sites: BTreeSet<usize> = (0..config.services.len())
            .filter(|s| !is_any_up || self.is_service_up(*s))
            .map(|s| config.services[s].site.get())
            .collect();
        let resolver = self.internet().resolvers.get(&ldns).filter(|r| r.answers())?.clone();
        let (best, least) = self.internet().nearest(ldns, |site| sites.contains(&site))?;
        let site = config.services.get(service)?.site;
        let way = resolver.ways.get(site.get())?;
        let jitter = resolver.ways.iter().map(|w| w.jitter).max().unwrap_or_default();
        let tolerance = config.vservers.first()?.selection_tolerance;
        let excused = config.group.rtt_tolerance * 2 + jitter + tolerance;
        let known = |site: usize| {
            let row = self.hosts().first()?.shared()?.rtts.row(Ldns::of(ldns, config.ldns.masks))?;
            SiteIndex::new(site).map(|site| row.cell(site).reach())
        };
        let told = (known(site.get()), known(best));
        if way.rtt > config.probe.timeout || told.0 == Some(Reach::Unreachable) {
            return None;
        }
        (way.rtt > least + excused).then(|| {
            format!(
                "{ldns} gets site {site:?} at {:?}, and site {best} is at {least:?}; known are {told:?}",
                way.rtt
            )
        })
    }
}

fn entries(host: &Host) -> BTreeSet<Ldns> {
    let page = host.shared().map(|shared| shared.rtts.page(None, usize::MAX));
    page.into_iter().flatten().map(|(ldns, _)| ldns).collect()
}
