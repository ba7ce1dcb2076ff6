//! What must hold once everything is mended and quiet.

use crate::witness::Invariant;
use crate::world::{Answer, Host, HostIndex, World};
use gslb_core::PeerState;
use gslb_types::{AllDown, Ldns, Reach, ServiceState, SiteIndex};
use hickory_proto::op::ResponseCode;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// Queries of one LDNS to one node, to see all services that take turns.
const LOOKS: usize = 6;

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
        for (teller, reader) in
            self.hosts().iter().flat_map(|teller| self.hosts().iter().map(move |reader| (teller, reader)))
        {
            let (told, known) = (entries(teller), entries(reader));
            if told != known {
                return Some(format!("{} knows {told:?}, and {} {known:?}", teller.id(), reader.id()));
            }
            for ldns in &known {
                let (told, read) = (self.column(teller, teller, *ldns), self.column(reader, teller, *ldns));
                if told != read {
                    let (t, r) = (teller.id(), reader.id());
                    let there =
                        reader.shared().and_then(|s| s.rtts.row(*ldns)).map(|row| row.cell(teller.site()));
                    let what = there.map(|cell| (cell.reach(), cell.confirmed()));
                    return Some(format!(
                        "{t} advertises {told:?} of {ldns}, and {r} takes it for {read:?}, from {what:?}"
                    ));
                }
            }
        }
        None
    }

    /// What a host has in the column of another, as decisions take it. Unreachable is said again once a minute only, so
    /// whether it has aged is left out.
    fn column(&self, host: &Host, of: &Host, ldns: Ldns) -> Option<Reach> {
        let cell = host.shared()?.rtts.row(ldns)?.cell(of.site());
        let confirmed = host.published()?.sites.get(of.site().get())?.confirmed;
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
            // Who was up last is each node's own memory.
            return;
        }
        let answers: Vec<BTreeSet<usize>> =
            (0..self.hosts().len()).map(|n| self.services_answered(n, ldns)).collect();
        if answers.windows(2).any(|pair| pair[0] != pair[1]) {
            return self.violated(Invariant::Agreement, format!("the nodes answer {ldns} with {answers:?}"));
        }
        for service in answers.iter().flatten() {
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

    fn services_answered(&mut self, n: HostIndex, ldns: IpAddr) -> BTreeSet<usize> {
        let answers: Vec<Answer> = (0..LOOKS).map(|_| self.ask(n, ldns)).collect();
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
