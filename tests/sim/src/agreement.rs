//! What must hold once everything is mended and quiet.

use crate::witness::Invariant;
use crate::world::{Answer, HostIndex, World};
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
        let checks = [World::sessions, World::tables, World::health];
        for check in checks {
            if let Err(what) = check(self, active) {
                return self.violated(Invariant::Agreement, what);
            }
        }
        for ldns in active {
            self.check_answers(*ldns);
        }
    }

    fn sessions(&self, _: &[IpAddr]) -> Result<(), String> {
        for (n, host) in self.hosts().iter().enumerate() {
            let Some(published) = host.published() else { return Err(format!("{} does not run", host.id())) };
            for peer in &published.peers {
                let other = self.hosts().iter().position(|h| *h.id() == peer.peer).unwrap_or(n);
                let connections = self.connections(n, other);
                if peer.state != PeerState::Up || connections != 1 {
                    return Err(format!(
                        "{} sees {} {:?} ({}), {connections} connections",
                        host.id(),
                        peer.peer,
                        peer.state,
                        peer.reason
                    ));
                }
                if (peer.violations, peer.unknown, peer.outbox) != (0, 0, 0) {
                    return Err(format!("{} counts against {}: {peer:?}", host.id(), peer.peer));
                }
            }
        }
        Ok(())
    }

    fn tables(&self, active: &[IpAddr]) -> Result<(), String> {
        let masks = self.hosts().first().map(|h| h.config().ldns.masks).unwrap_or_default();
        let expected: BTreeSet<Ldns> = active.iter().map(|a| Ldns::of(*a, masks)).collect();
        for reader in self.hosts() {
            let Some(shared) = reader.shared() else { continue };
            let rows: BTreeSet<Ldns> =
                shared.rtts.page(None, usize::MAX).into_iter().map(|(ldns, _)| ldns).collect();
            if rows != expected {
                let (more, less) = (rows.difference(&expected), expected.difference(&rows));
                let (more, less): (Vec<_>, Vec<_>) = (more.collect(), less.collect());
                return Err(format!("{} knows {more:?} and not {less:?}", reader.id()));
            }
            for teller in self.hosts() {
                for ldns in &rows {
                    let column = |host: &crate::Host| {
                        Some(host.shared()?.rtts.row(*ldns)?.cell(teller.site()).reach())
                    };
                    let (told, read) = (column(teller), column(reader));
                    if told != read {
                        let (t, r) = (teller.id(), reader.id());
                        return Err(format!(
                            "{t} advertises {told:?} of {ldns}, and {r} takes it for {read:?}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn health(&self, _: &[IpAddr]) -> Result<(), String> {
        for host in self.hosts() {
            let Some(published) = host.published() else { continue };
            for (n, view) in published.services.iter().enumerate() {
                let truth = if self.is_service_up(n) { ServiceState::Up } else { ServiceState::Down };
                if view.state != truth {
                    return Err(format!(
                        "{} takes service {n} for {} ({}), and it is {truth}",
                        host.id(),
                        view.state,
                        view.reason
                    ));
                }
            }
        }
        Ok(())
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
