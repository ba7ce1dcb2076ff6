//! A configuration that is written down is the one that is read.

use super::folder;
use crate::{Binding, Config};
use gslb_types::{AllDown, Check, GslbMethod, HttpCheck, LbMethod, ProbeKind, Weight};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use std::fmt::Write;
use std::time::Duration;

/// What a configuration is made from: small, but every kind of value is among it.
#[derive(Clone, Debug)]
struct Plan {
    sites: usize,
    me: Index,
    tolerance: Duration,
    order: Vec<ProbeKind>,
    interval: Duration,
    timeout: Duration,
    masks: (u8, u8),
    payload: u16,
    private: bool,
    listen: Vec<u16>,
    /// Interval, fall, and what HTTP ones ask for.
    monitors: Vec<(Duration, u32, Option<HttpPlan>)>,
    /// Site, IPv6 or not, monitors, enabled.
    services: Vec<(Index, bool, Vec<Index>, bool)>,
    vservers: Vec<VserverPlan>,
    domains: Vec<(Index, u32)>,
}

/// Path and status codes.
type HttpPlan = (String, Vec<u16>);

#[derive(Clone, Debug)]
struct VserverPlan {
    method: GslbMethod,
    local: LbMethod,
    tolerance: Duration,
    backup: bool,
    bindings: Vec<(Index, u8)>,
}

fn durations(from_ms: u64, to_ms: u64) -> impl Strategy<Value = Duration> {
    (from_ms..=to_ms).prop_map(Duration::from_millis)
}

fn vserver() -> impl Strategy<Value = VserverPlan> {
    let methods = select(vec![GslbMethod::Rtt, GslbMethod::RoundRobin, GslbMethod::SourceIpHash]);
    let locals =
        select(vec![LbMethod::LeastResponseTimeMonitors, LbMethod::SourceIpHash, LbMethod::RoundRobin]);
    let bindings = prop::collection::vec((any::<Index>(), 1u8..=100), 1..4);
    (methods, locals, durations(0, 100), any::<bool>(), bindings).prop_map(
        |(method, local, tolerance, backup, bindings)| VserverPlan {
            method,
            local,
            tolerance,
            backup,
            bindings,
        },
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    let kinds = subsequence(ProbeKind::DEFAULT_ORDER.to_vec(), 1..=3).prop_shuffle();
    let http = prop::option::of(("/[a-z/]{0,8}", prop::collection::btree_set(100u16..600, 0..3)));
    let monitors = prop::collection::vec((durations(100, 9000), 1u32..9, http), 0..3);
    let service = (any::<Index>(), any::<bool>(), prop::collection::vec(any::<Index>(), 0..2), any::<bool>());
    let node =
        (1usize..33, any::<Index>(), durations(1, 100), kinds, durations(2000, 29_999), durations(10, 1999));
    let numbers = (
        (8u8..=32, 16u8..=128),
        512u16..=1400,
        any::<bool>(),
        prop::collection::btree_set(10_000u16.., 1..4),
    );
    let lists = (
        monitors,
        prop::collection::vec(service, 1..6),
        prop::collection::vec(vserver(), 1..4),
        prop::collection::vec((any::<Index>(), 0u32..1 << 31), 0..4),
    );
    (node, numbers, lists).prop_map(|(node, (masks, payload, private, listen), lists)| {
        let (sites, me, tolerance, order, interval, timeout) = node;
        let (monitors, services, vservers, domains) = lists;
        let monitors = monitors.into_iter().map(|(interval, fall, http)| {
            (interval, fall, http.map(|(path, expect)| (path, expect.into_iter().collect())))
        });
        let (listen, monitors) = (listen.into_iter().collect(), monitors.collect());
        Plan {
            sites,
            me,
            tolerance,
            order,
            interval,
            timeout,
            masks,
            payload,
            private,
            listen,
            monitors,
            services,
            vservers,
            domains,
        }
    })
}

fn ms(d: Duration) -> String {
    format!("\"{}ms\"", d.as_millis())
}

impl Plan {
    fn text(&self) -> String {
        let mut t = format!("version = 1\nnode = \"s{}/n\"\n", self.me.index(self.sites));
        self.tables(&mut t).unwrap();
        self.entries(&mut t).unwrap();
        t
    }

    fn tables(&self, t: &mut String) -> std::fmt::Result {
        let order: Vec<&str> = self.order.iter().map(|k| k.as_str()).collect();
        let listen: Vec<String> = self.listen.iter().map(|p| format!("127.0.0.1:{p}")).collect();
        writeln!(t, "[group]\nrtt_tolerance = {}", ms(self.tolerance))?;
        writeln!(
            t,
            "[probe]\norder = {order:?}\ninterval = {}\ntimeout = {}",
            ms(self.interval),
            ms(self.timeout)
        )?;
        writeln!(
            t,
            "[ldns]\nmask_v4 = {}\nmask_v6 = {}\nprivate = {}",
            self.masks.0, self.masks.1, self.private
        )?;
        writeln!(t, "[dns]\nudp_payload = {}\nlisten = {listen:?}", self.payload)
    }

    fn entries(&self, t: &mut String) -> std::fmt::Result {
        for s in 0..self.sites {
            writeln!(
                t,
                "[[sites]]\nname = \"s{s}\"\n[[nodes]]\nname = \"s{s}/n\"\nmep = \"10.0.0.{}:1\"",
                s + 1
            )?;
        }
        writeln!(t, "[[zones]]\nname = \"z\"\nrecords = '''\n@ SOA a. b. 1 1 1 1 1\n@ NS a.\n'''")?;
        for (i, (interval, fall, http)) in self.monitors.iter().enumerate() {
            writeln!(
                t,
                "[[monitors]]\nname = \"m{i}\"\ninterval = {}\ntimeout = \"99ms\"\nfall = {fall}",
                ms(*interval)
            )?;
            match http {
                Some((path, expect)) => {
                    writeln!(t, "kind = \"http\"\npath = \"{path}\"\nexpect = {expect:?}")?
                }
                None => writeln!(t, "kind = \"ping\"")?,
            }
        }
        for (i, (site, six, _, enabled)) in self.services.iter().enumerate() {
            let address = if *six { format!("2001:db8::{i}") } else { format!("192.0.2.{i}") };
            writeln!(t, "[[services]]\nname = \"w{i}\"\nsite = \"s{}\"", site.index(self.sites))?;
            let monitors: Vec<String> = self.watched(i).iter().map(|m| format!("m{m}")).collect();
            writeln!(t, "address = \"{address}\"\nport = 80\nmonitors = {monitors:?}\nenabled = {enabled}")?;
        }
        for (i, v) in self.vservers.iter().enumerate() {
            let (method, local) = (v.method.as_str(), v.local.as_str());
            writeln!(t, "[[vservers]]\nname = \"v{i}\"\nmethod = \"{method}\"\nlocal_method = \"{local}\"")?;
            writeln!(t, "selection_tolerance = {}", ms(v.tolerance))?;
            if v.backup {
                writeln!(t, "all_down = \"backup_ip\"\nbackup_ip = [\"192.0.2.200\"]")?;
            }
            let bound = self.bound(v);
            let bound = bound.iter().map(|(s, w)| format!("{{ service = \"w{s}\", weight = {w} }}"));
            writeln!(t, "services = [{}]", bound.collect::<Vec<_>>().join(", "))?;
        }
        for (i, (v, ttl)) in self.domains.iter().enumerate() {
            let vserver = v.index(self.vservers.len());
            writeln!(t, "[[domains]]\nname = \"d{i}.Z\"\nvserver = \"v{vserver}\"\nttl = \"{ttl}s\"")?;
        }
        Ok(())
    }

    /// The monitors of a service, none twice.
    fn watched(&self, service: usize) -> Vec<usize> {
        let mut all: Vec<usize> = Vec::new();
        for m in self.services[service].2.iter().filter(|_| !self.monitors.is_empty()) {
            let m = m.index(self.monitors.len());
            if !all.contains(&m) {
                all.push(m);
            }
        }
        all
    }

    /// The services of a virtual server with their weights, none twice.
    fn bound(&self, v: &VserverPlan) -> Vec<(usize, u8)> {
        let mut all: Vec<(usize, u8)> = Vec::new();
        for (service, weight) in &v.bindings {
            let service = service.index(self.services.len());
            if all.iter().all(|(s, _)| *s != service) {
                all.push((service, *weight));
            }
        }
        all
    }

    fn assert_is(&self, c: &Config) {
        assert_eq!((c.sites.len(), c.this_site().get()), (self.sites, self.me.index(self.sites)));
        assert_eq!((c.group.rtt_tolerance, &c.probe.order), (self.tolerance, &self.order));
        assert_eq!((c.probe.interval, c.probe.timeout), (self.interval, self.timeout));
        assert_eq!(
            (c.ldns.masks.v4, c.ldns.masks.v6, c.ldns.private),
            (self.masks.0, self.masks.1, self.private)
        );
        assert_eq!(c.dns.udp_payload, self.payload);
        assert_eq!(c.dns.listen.iter().map(|a| a.port()).collect::<Vec<_>>(), self.listen);
        for (m, (interval, fall, http)) in c.monitors.iter().zip(&self.monitors) {
            assert_eq!((m.interval, m.fall), (*interval, *fall));
            let check =
                http.clone().map(|(path, expect)| Check::Http(HttpCheck { expect, ..HttpCheck::get(&path) }));
            assert_eq!(*m.check, check.unwrap_or(Check::Ping));
        }
        for (i, (s, (site, six, _, enabled))) in c.services.iter().zip(&self.services).enumerate() {
            assert_eq!(
                (s.site.get(), s.address.is_ipv6(), s.enabled),
                (site.index(self.sites), *six, *enabled)
            );
            assert_eq!(s.monitors.iter().map(|w| w.monitor).collect::<Vec<_>>(), self.watched(i));
        }
        for (v, plan) in c.vservers.iter().zip(&self.vservers) {
            assert_eq!((v.method, v.local_method), (plan.method, plan.local));
            assert_eq!(v.selection_tolerance, plan.tolerance);
            assert_eq!(
                (v.all_down == AllDown::BackupIp, v.backup_ip.len()),
                (plan.backup, usize::from(plan.backup))
            );
            let weight = |w: &u8| Weight::new(u64::from(*w)).unwrap();
            let bound = self.bound(plan);
            let bound = bound.iter().map(|(service, w)| Binding::new(*service, weight(w)));
            assert_eq!(v.bindings, bound.collect::<Vec<_>>());
        }
        for (d, (v, ttl)) in c.domains.iter().zip(&self.domains) {
            assert_eq!((d.vserver, d.ttl, d.zone), (v.index(self.vservers.len()), *ttl, 0));
        }
        let counts = (c.monitors.len(), c.services.len(), c.vservers.len(), c.domains.len());
        let planned = (self.monitors.len(), self.services.len(), self.vservers.len(), self.domains.len());
        assert_eq!(counts, planned);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_configuration_reads_back_as_it_was_written(plan in plan()) {
        let text = plan.text();
        let config = folder(&text).load(None).unwrap_or_else(|e| panic!("{e}\n{text}"));
        plan.assert_is(&config);
    }
}
