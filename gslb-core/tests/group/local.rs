//! LB virtual servers in front of the services: their effective state and their traffic, here and at the other sites
//! (behaviour 5, faults I-54, I-55, I-72).

use crate::net::{Net, ldns, secs};
use gslb_core::{Judge, LocalView, Traffic, decide::Verdict};
use gslb_types::{LbMethod, LbVserverName, Rtt, ServiceName, ServiceState, Timestamp, Weight};
use lb_core::{Balancer, BalancerSettings, Client, LocalPersistence, MemberId, MemberSettings};
use std::net::Ipv4Addr;
use std::time::Duration;

pub(crate) const A: &str = "a/1";
pub(crate) const B: &str = "b/1";

/// Services of `a` by index: web-a stands for the LB virtual server, one and two are behind it.
pub(crate) const WEB_A: usize = 0;
pub(crate) const WEB_B: usize = 1;
const WEB_91: usize = 2;

/// Client connections that the virtual server takes.
pub(crate) const PLACES: u64 = 100;

/// The group of the other tests, with an LB virtual server before two services in `a`.
fn text(text: String) -> String {
    let plain = "address = \"198.18.0.80\"\nport = 80\nmonitors = [\"web\"]\n";
    let standing = "address = \"198.18.0.80\"\nport = 80\nlb_vserver = \"front\"\n";
    assert!(text.contains(plain));
    let behind = |n| {
        format!(
            "[[services]]\nname = \"web-{n}\"\nsite = \"a\"\naddress = \"198.18.0.{n}\"\nport = 80\nmonitors = [\"web\"]\n"
        )
    };
    text.replace(plain, standing)
        + &behind(91)
        + &behind(92)
        + "[[lb_vservers]]\nname = \"front\"\nsite = \"a\"\nlisten = [\"198.18.0.80:80\"]\n\
           services = [{ service = \"web-91\", max_clients = 2 }, { service = \"web-92\", max_clients = 2 }]\n"
}

/// A group whose node a/1 has a data plane: a real balancer.
pub(crate) struct Site {
    pub(crate) net: Net,
    pub(crate) balancer: Balancer,
    open: Vec<MemberId>,
    /// Connections of clients that ask nothing.
    pub(crate) idle: u64,
}

impl Site {
    pub(crate) fn new(nodes: &[&str]) -> Self {
        Site::with(nodes, "")
    }

    /// With these lines in the GSLB virtual server.
    pub(crate) fn with(nodes: &[&str], policy: &str) -> Self {
        let member = |name: &str| MemberSettings {
            name: ServiceName::new(name).unwrap(),
            weight: Weight::ONE,
            max_clients: Some(2),
            max_bandwidth: None,
            enabled: true,
        };
        let settings = BalancerSettings {
            method: LbMethod::LeastConnections,
            startup_rr_factor: 0,
            slow_start: Duration::ZERO,
            persistence: LocalPersistence::None,
            members: vec![member("web-91"), member("web-92")],
        };
        let net = Net::edited(nodes, |plain| {
            let named = "name = \"www\"\nservices";
            assert!(plain.contains(named));
            text(plain).replace(named, &format!("name = \"www\"\n{policy}services"))
        });
        let balancer = Balancer::new(net.now, settings);
        let mut site = Site { net, balancer, open: Vec::new(), idle: 0 };
        site.net.rtt(A, 20);
        site.net.rtt(B, 60);
        site
    }

    /// Lets time pass; once a second the data plane shows itself, and at once when it was told something.
    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.net.now + time;
        while self.net.now < until {
            self.net.run(Duration::from_millis(100));
            let whole = self.net.now.as_micros().is_multiple_of(1_000_000);
            if self.hear() || whole {
                self.show();
            }
        }
    }

    fn hear(&mut self) -> bool {
        let told: Vec<_> = self.net.hosts[0].told.split_off(0);
        for health in &told {
            self.balancer.handle_load(self.net.now, &health.service, health.load);
            self.balancer.handle_health(self.net.now, &health.service, health.state, health.response_time);
        }
        !told.is_empty()
    }

    pub(crate) fn show(&mut self) {
        let balancer = self.balancer.view(self.net.now);
        let vserver = LbVserverName::new("front").unwrap();
        let (connections, max_connections) = (self.open.len() as u64 + self.idle, PLACES);
        self.net.show(A, vec![LocalView { vserver, connections, max_connections, balancer }]);
    }

    /// A client's request comes and stays open.
    pub(crate) fn request(&mut self) -> bool {
        let client = Client { address: Ipv4Addr::LOCALHOST.into(), cookie: None };
        let pick = self.balancer.pick(self.net.now, &client, &[]);
        if let Ok(pick) = &pick {
            self.balancer.reached(self.net.now, pick.member);
            self.open.push(pick.member);
        }
        pick.is_ok()
    }

    pub(crate) fn answer(&mut self) {
        for member in self.open.drain(..) {
            self.balancer.first_byte(self.net.now, member, Rtt::from_micros(7_000));
            self.balancer.traffic(self.net.now, member, 1_000, 2);
            self.balancer.ended(self.net.now, member);
        }
    }

    pub(crate) fn set(&mut self, service: &str, passes: bool) {
        self.net.set_service(A, service.trim_start_matches("web-"), passes);
    }

    pub(crate) fn judged(&self, node: &str, service: usize) -> (ServiceState, Judge) {
        let view = &self.net.published(node).services[service];
        (view.state, view.judge)
    }

    /// Lets time pass until a node judges web-a so; how long that took.
    pub(crate) fn until(&mut self, node: &str, state: ServiceState) -> Duration {
        let begun: Timestamp = self.net.now;
        while self.judged(node, WEB_A).0 != state {
            assert!(self.net.now.since(begun) < secs(120), "{node} does not come to {state}");
            self.run(Duration::from_millis(100));
        }
        self.net.now.since(begun)
    }
}

/// Faults I-54: neither up nor down before the first check; and the data plane hears of every check.
#[test]
fn what_stands_for_an_lb_virtual_server_is_learning_until_what_is_behind_it_is_checked() {
    let mut site = Site::new(&[A, B]);
    assert_eq!(site.judged(A, WEB_A), (ServiceState::Learning, Judge::LbVserver));
    site.run(secs(3));
    assert_eq!(site.judged(A, WEB_A), (ServiceState::Up, Judge::LbVserver));
    assert_eq!(site.judged(B, WEB_A), (ServiceState::Up, Judge::SiteWord));
    let members = site.balancer.view(site.net.now).members;
    assert!(members.iter().all(|m| m.state == ServiceState::Up && m.response_time.is_some()), "{members:?}");
}

/// Faults I-72: the listener stands, MEP stands, and everything behind is dead. The other sites know within one heartbeat.
#[test]
fn a_site_whose_services_are_all_down_is_not_answered_anywhere_within_one_heartbeat() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    for node in [A, B] {
        site.net.ask(node, ldns(1));
    }
    site.run(secs(15));
    assert_eq!(site.net.decision(1, ldns(1)).verdict, Verdict::Service(WEB_A), "a is nearer");
    site.set("web-91", false);
    site.run(secs(30));
    assert_eq!(site.judged(B, WEB_A).0, ServiceState::Up, "one of two is enough");

    site.set("web-92", false);
    let here = site.until(A, ServiceState::Down);
    let there = site.until(B, ServiceState::Down);
    println!(
        "I-72: all behind it fail: down at its site after {here:?} (monitors: 3 checks, 5s apart), at the peer {there:?} later"
    );
    assert!(there <= secs(1), "{there:?}");
    assert_eq!(site.net.decision(1, ldns(1)).verdict, Verdict::Service(WEB_B));
    assert_eq!(site.net.decision(0, ldns(1)).verdict, Verdict::Service(WEB_B));

    site.set("web-92", true);
    let back = site.until(B, ServiceState::Up);
    println!("I-72: one of them passes again: up at the peer after {back:?}");
    assert_eq!(site.net.decision(1, ldns(1)).verdict, Verdict::Service(WEB_A));
}

/// Faults I-72: over max_clients, and in maintenance.
#[test]
fn a_site_that_can_take_nothing_more_is_not_answered_anywhere() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    while site.request() {}
    assert_eq!(site.open.len(), 4);
    let full = site.until(B, ServiceState::Down);
    let reason = site.net.published(A).services[WEB_A].reason.clone();
    println!("I-72: at max_clients: down at the peer after {full:?}: {reason}");
    assert!(full <= secs(2) && reason.contains("limit"), "{full:?} {reason}");
    site.answer();
    let room = site.until(B, ServiceState::Up);
    assert!(room <= secs(4), "seen three times in a row, and told with the next word: {room:?}");

    for name in ["web-91", "web-92"] {
        site.balancer.handle_drain(site.net.now, &ServiceName::new(name).unwrap(), Some(secs(60)));
    }
    let drained = site.until(B, ServiceState::Down);
    println!("I-72: room again after {room:?}; all draining: down at the peer after {drained:?}");
    assert!(drained <= secs(2), "{drained:?}");
}

#[test]
fn its_traffic_is_known_at_every_site() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    assert!(site.request() && site.request());
    site.answer();
    assert!(site.request());
    site.run(secs(3));
    let expected = Traffic {
        active: Some(1),
        connections: Some(1),
        requests: Some(3),
        bytes: Some(2_000),
        packets: Some(4),
        ttfb: Some(Rtt::from_micros(7_000)),
        load: None,
    };
    for node in [A, B] {
        let services = &site.net.published(node).services;
        assert_eq!(services[WEB_A].traffic, Some(expected), "{node}");
        assert_eq!(services[WEB_A].response_time, Some(Rtt::from_micros(2_000)), "{node}");
        assert_eq!(services[WEB_B].traffic, None, "nobody sees it");
        // Of the three requests the first one's service had the third, too.
        let behind = |active, requests, bytes| Traffic {
            active: Some(active),
            connections: None,
            requests: Some(requests),
            bytes: Some(bytes),
            packets: Some(bytes / 500),
            ttfb: Some(Rtt::from_micros(7_000)),
            load: None,
        };
        let members = [services[WEB_91].traffic, services[WEB_91 + 1].traffic];
        assert_eq!(members, [Some(behind(1, 2, 1_000)), Some(behind(0, 1, 1_000))], "{node}");
    }
}

/// Faults I-57: what a dead data plane said last does not stand for ever.
#[test]
fn a_data_plane_that_falls_silent_takes_its_site_out() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    site.net.run(Duration::from_millis(4_900));
    assert_eq!(site.judged(A, WEB_A).0, ServiceState::Up);
    site.net.run(Duration::from_millis(200));
    assert_eq!((site.judged(A, WEB_A).0, site.judged(B, WEB_A).0), (ServiceState::Down, ServiceState::Down));
    let published = site.net.published(A);
    assert!(!published.local[0].as_ref().unwrap().is_heard);
    assert!(published.services.iter().all(|service| service.traffic.is_none()));
    site.run(secs(2));
    assert_eq!((site.judged(A, WEB_A).0, site.judged(B, WEB_A).0), (ServiceState::Up, ServiceState::Up));
}

/// A node task that failed is replaced: the data plane goes on, and is told again what it needs.
#[test]
fn a_node_task_that_is_replaced_tells_the_data_plane_all_again_and_takes_nothing_back() {
    let mut site = Site::new(&[A, B]);
    site.run(secs(10));
    site.net.task_fails(A);
    assert_eq!(site.judged(A, WEB_A).0, ServiceState::Up);
    // Before any check of the new task.
    let told: Vec<_> =
        site.net.hosts[0].told.iter().map(|health| (health.service.to_string(), health.state)).collect();
    assert_eq!(told, [("web-91".to_owned(), ServiceState::Up), ("web-92".to_owned(), ServiceState::Up)]);
    site.run(Duration::from_millis(100));
    assert_eq!(site.balancer.view(site.net.now).state, ServiceState::Up);
    site.run(secs(10));
    assert_eq!((site.judged(A, WEB_A).0, site.judged(B, WEB_A).0), (ServiceState::Up, ServiceState::Up));
}

/// Two nodes of one site, each with a part of its traffic: what they see adds up, and one that can serve is enough.
#[test]
fn what_several_nodes_of_a_site_see_adds_up() {
    let mut site = Site::new(&[A, "a/2", B]);
    site.run(secs(10));
    assert!(site.request());
    let view = |site: &Site, state, active| {
        let mut balancer = site.balancer.view(site.net.now);
        balancer.state = state;
        balancer.members[0].active = active;
        balancer.members[1].active = 0;
        LocalView {
            vserver: LbVserverName::new("front").unwrap(),
            connections: 10,
            max_connections: PLACES,
            balancer,
        }
    };
    let other = view(&site, ServiceState::Up, 4);
    site.net.show("a/2", vec![other]);
    let own = view(&site, ServiceState::Down, 3);
    site.net.show(A, vec![own]);
    site.net.run(secs(2));
    for node in [A, "a/2", B] {
        let seen = &site.net.published(node).services[WEB_A];
        let traffic = seen.traffic.unwrap();
        assert_eq!(
            (seen.state, traffic.active, traffic.connections),
            (ServiceState::Up, Some(7), Some(20)),
            "{node}"
        );
    }
}

/// Faults I-55: with everything down everywhere both nodes answer exactly what the policy says, and with the first service that
/// comes back that one, within one check. Site a goes down first: it is nearer, and b is what was good last.
#[test]
fn with_every_site_down_the_policy_answers_the_same_at_all_nodes_until_the_first_comes_back() {
    for (policy, expected) in [
        ("all_down = \"all\"\n", Verdict::Service(WEB_A)),
        ("all_down = \"last_good\"\n", Verdict::Service(WEB_B)),
        ("all_down = \"empty\"\n", Verdict::Empty),
        ("all_down = \"backup_ip\"\nbackup_ip = [\"192.0.2.99\"]\n", Verdict::BackupIp),
    ] {
        let mut site = Site::with(&[A, B], policy);
        site.run(secs(10));
        for node in [A, B] {
            site.net.ask(node, ldns(1));
        }
        site.run(secs(15));
        for name in ["web-91", "web-92"] {
            site.set(name, false);
        }
        site.run(secs(30));
        assert_eq!(site.net.decision(0, ldns(1)).verdict, Verdict::Service(WEB_B));
        site.net.set_service(B, "b", false);
        site.run(secs(30));
        let answers: Vec<Verdict> = (0..2).map(|node| site.net.decision(node, ldns(1)).verdict).collect();
        println!("I-55: {policy:?}: {answers:?}");
        assert_eq!(answers, [expected, expected]);

        site.set("web-92", true);
        let back = site.until(B, ServiceState::Up);
        assert!(back <= secs(6), "one check, 5 s apart, and a word: {back:?}");
        for node in 0..2 {
            assert_eq!(site.net.decision(node, ldns(1)).verdict, Verdict::Service(WEB_A));
        }
    }
}

/// A node that answers for another site chooses by what that site tells of its traffic (behaviour 2).
#[test]
fn another_site_answers_the_vip_that_has_the_least_to_do() {
    let second = "[[services]]\nname = \"web-a2\"\nsite = \"a\"\naddress = \"198.18.0.81\"\nport = 80\nlb_vserver = \"front2\"\n\
                  [[lb_vservers]]\nname = \"front2\"\nsite = \"a\"\nlisten = [\"198.18.0.81:80\"]\nservices = [\"web-92\"]\n";
    for method in ["least_connections", "least_bandwidth", "least_packets", "lrt", "lrtm", "custom_load"] {
        let mut net = Net::edited(&[A, B], |plain| {
            let bound = "services = [\"web-a\", \"web-b\"]";
            assert!(plain.contains(bound));
            let policy = format!("local_method = \"{method}\"\nservices = [\"web-a\", \"web-a2\"]");
            loaded(text(plain).replace(bound, &policy)) + second
        });
        net.run(secs(5));
        let shown = |name: &str, load: u32| {
            let site = Site::new(&[A, B]);
            let mut balancer = site.balancer.view(site.net.now);
            balancer.state = ServiceState::Up;
            let member = &mut balancer.members[0];
            (member.out, member.active, member.response_time) = (None, load, Some(Rtt::from_micros(5)));
            (member.ttfb, member.window_bytes) = (Some(Rtt::from_micros(7)), u64::from(load));
            (member.window_packets, member.load) = (u64::from(load), Some(u64::from(load)));
            LocalView {
                vserver: LbVserverName::new(name).unwrap(),
                connections: 1,
                max_connections: PLACES,
                balancer,
            }
        };
        let web_a2 = net.hosts[0].config.services.iter().position(|s| s.name.as_str() == "web-a2").unwrap();
        for (loads, expected) in [((9, 4), web_a2), ((4, 9), WEB_A), ((5, 4), web_a2)] {
            net.show(A, vec![shown("front", loads.0), shown("front2", loads.1)]);
            net.run(secs(2));
            assert_eq!(net.decision(1, ldns(1)).verdict, Verdict::Service(expected), "{method} {loads:?}");
        }
    }
}

/// With a monitor that tells loads beside each other one.
fn loaded(text: String) -> String {
    text.replace("monitors = [\"web\"]", "monitors = [\"web\", \"loaded\"]")
        + "[[monitors]]\nname = \"loaded\"\nkind = \"user\"\ncommand = [\"/bin/load\"]\nload_label = \"load\"\n"
}

/// The operator's own number: measured at one site, it decides at the other.
#[test]
fn the_load_that_a_peer_tells_decides_at_another_site() {
    let mut net = Net::edited(&[A, B], |plain| {
        let named = "name = \"www\"\nservices";
        assert!(plain.contains(named));
        loaded(plain.replace(named, "name = \"www\"\nmethod = \"custom_load\"\nservices"))
    });
    for (loads, expected) in
        [((1_500, 400), WEB_B), ((300, 400), WEB_A), ((300, 299), WEB_B), ((0, 1), WEB_A)]
    {
        for (n, load) in [(0, loads.0), (1, loads.1)] {
            net.loads.insert(Ipv4Addr::new(198, 18, n, 80).into(), load);
        }
        net.run(secs(12));
        for node in 0..2 {
            for _ in 0..3 {
                assert_eq!(
                    net.decision(node, ldns(1)).verdict,
                    Verdict::Service(expected),
                    "{node} {loads:?}"
                );
            }
        }
    }
}
