//! A foreign load balancer in front of a service: its word on the state, and its numbers, here and at the other sites
//! (faults I-57, I-72).

use crate::net::{Net, secs};
use gslb_core::{Hearing, Judge, SourceHealth, Traffic};
use gslb_types::{Rtt, ServiceState, SourceItem};
use probes_core::sources::{Counts, Reading, Timed};
use probes_core::wire::FetchReply;
use std::time::Duration;

const A: &str = "a/1";
const B: &str = "b/1";
const WEB_A: usize = 0;

/// What HAProxy in front of web-a is like.
#[derive(Clone)]
enum Haproxy {
    Says(SourceHealth),
    Refuses,
}

struct Site {
    net: Net,
    haproxy: Haproxy,
    bytes: u64,
    looks: u32,
}

impl Site {
    /// The group of the other tests, with a source for web-a, with monitors or without.
    fn new(monitors: &str) -> Self {
        let net = Net::edited(&[A, B], |text| {
            let plain = "address = \"198.18.0.80\"\nport = 80\nmonitors = [\"web\"]\n";
            assert!(text.contains(plain));
            let fed = "address = \"198.18.0.80\"\nport = 80\nsource = \"lb\"\nsource_name = \"web/s1\"\n";
            text.replace(plain, &format!("{fed}{monitors}"))
                + "[[sources]]\nname = \"lb\"\nkind = \"haproxy\"\nsocket = \"/run/haproxy.sock\"\n"
        });
        Site { net, haproxy: Haproxy::Says(SourceHealth::Up), bytes: 1 << 40, looks: 0 }
    }

    fn run(&mut self, time: Duration) {
        let until = self.net.now + time;
        while self.net.now < until {
            self.net.run(Duration::from_millis(100));
            self.answer();
        }
    }

    /// HAProxy answers; 1000 bytes went by since the last time.
    fn answer(&mut self) {
        assert!(self.net.hosts[1].looks.is_empty(), "sources of another site are none of this one's");
        for look in self.net.hosts[0].looks.split_off(0) {
            let item = SourceItem::Haproxy { proxy: "web".to_owned(), server: "s1".to_owned() };
            assert_eq!(look.fetch.items, [item]);
            self.looks += 1;
            self.bytes += 1000;
            let outcome = match &self.haproxy {
                Haproxy::Refuses => Err("connection refused".to_owned()),
                Haproxy::Says(health) => Ok(vec![Ok(Reading {
                    health: *health,
                    words: "its word".to_owned(),
                    active: Some(3),
                    bytes: Some(Counts::from([("bin".to_owned(), self.bytes)])),
                    timing: Some(Timed::Mean(Rtt::from_micros(9_000))),
                    ..Reading::default()
                })]),
            };
            self.net.looked(A, FetchReply { id: look.id, outcome });
        }
    }

    fn judged(&self, node: &str) -> (ServiceState, Judge, String) {
        let view = &self.net.published(node).services[WEB_A];
        (view.state, view.judge, view.reason.clone())
    }

    /// Lets time pass until a node judges web-a so; how long that took.
    fn until(&mut self, node: &str, state: ServiceState) -> Duration {
        let begun = self.net.now;
        while self.judged(node).0 != state {
            assert!(self.net.now.since(begun) < secs(60), "{node} does not come to {state}");
            self.run(Duration::from_millis(100));
        }
        self.net.now.since(begun)
    }
}

#[test]
fn a_service_without_monitors_is_learning_until_its_source_speaks() {
    let mut site = Site::new("");
    let learning = "nothing is heard of its source yet".to_owned();
    assert_eq!(site.judged(A), (ServiceState::Learning, Judge::Source, learning));
    site.run(secs(2));
    let word = "source lb says its word".to_owned();
    assert_eq!(site.judged(A), (ServiceState::Up, Judge::Source, word));
    assert_eq!(site.judged(B).0, ServiceState::Up);
    site.run(secs(10));
    assert!((11..=13).contains(&site.looks), "{} looks in 12 s", site.looks);
}

/// Faults I-72: what stands behind is down, and everybody knows within two looks and one heartbeat.
#[test]
fn what_its_source_says_is_down_is_down_everywhere_although_its_monitors_pass() {
    let mut site = Site::new("monitors = [\"web\"]\n");
    site.run(secs(10));
    assert_eq!((site.judged(A).0, site.judged(B).0), (ServiceState::Up, ServiceState::Up));
    site.haproxy = Haproxy::Says(SourceHealth::Down);
    let (here, there) = (site.until(A, ServiceState::Down), site.until(B, ServiceState::Down));
    println!("down at its site after {here:?}, at the other one after {there:?} more");
    assert!(here <= secs(2) && there <= secs(1));
    assert_eq!(site.judged(A).2, "source lb says its word");
    site.haproxy = Haproxy::Says(SourceHealth::Up);
    site.until(B, ServiceState::Up);
    // Nor does the source keep it up once its monitors fail.
    site.net.set_service(A, "a", false);
    site.until(B, ServiceState::Down);
}

/// Faults I-57: what a source said last does not stand for ever.
#[test]
fn a_silent_source_leaves_its_service_to_the_monitors_or_to_nobody() {
    for (monitors, state) in [("", ServiceState::Learning), ("monitors = [\"web\"]\n", ServiceState::Up)] {
        let mut site = Site::new(monitors);
        site.run(secs(20));
        assert!(site.net.published(B).services[WEB_A].traffic.is_some());
        site.haproxy = Haproxy::Refuses;
        site.run(secs(2));
        let heard = site.net.published(A).services[WEB_A].source.clone().unwrap();
        assert_eq!(heard.hearing, Hearing::Heard(SourceHealth::Up), "two misses forget nothing");
        assert_eq!((heard.active, heard.error.as_deref()), (Some(3), Some("connection refused")));
        site.run(secs(4));
        assert_eq!((site.judged(A).0, site.judged(B).0), (state, state), "{monitors}");
        for node in [A, B] {
            assert_eq!(site.net.published(node).services[WEB_A].traffic, None, "unknown, never zero");
        }
        let source = &site.net.published(A).sources[0];
        assert_eq!(source.error.as_deref(), Some("connection refused"));
        site.haproxy = Haproxy::Says(SourceHealth::Up);
        site.until(B, ServiceState::Up);
    }
}

#[test]
fn the_numbers_of_a_source_reach_the_other_sites() {
    let mut site = Site::new("");
    site.run(secs(30));
    let rtt = Some(Rtt::from_micros(9_000));
    for node in [A, B] {
        let view = &site.net.published(node).services[WEB_A];
        let traffic = view.traffic.unwrap();
        let bytes = traffic.bytes.unwrap();
        assert!((13_000..=14_500).contains(&bytes), "1000 a second for 14 s, not {bytes}");
        assert_eq!(traffic, Traffic { active: Some(3), bytes: Some(bytes), ttfb: rtt, ..Traffic::default() });
        assert_eq!(view.response_time, rtt, "no monitor measures");
    }
}

#[test]
fn a_source_of_a_site_speaks_for_all_its_services_and_for_no_other_site_s() {
    let mut net = Net::edited(&[A, B], |text| {
        let plain = "address = \"198.18.0.80\"\nport = 80\nmonitors = [\"web\"]\n";
        assert!(text.contains(plain));
        text.replace(plain, "address = \"198.18.0.80\"\nport = 80\n")
            + "[[services]]\nname = \"api-a\"\nsite = \"a\"\naddress = \"198.18.0.80\"\nport = 81\n\
               [[sources]]\nname = \"lb\"\nkind = \"haproxy\"\nsocket = \"/run/haproxy.sock\"\n\
               site = \"a\"\nsource_name = \"all/BACKEND\"\n"
    });
    let api_a = net.hosts[0].config.services.len() - 1;
    let run = |net: &mut Net, health| {
        for _ in 0..30 {
            net.run(Duration::from_millis(100));
            assert!(net.hosts[1].looks.is_empty(), "it is of the other site");
            for look in net.hosts[0].looks.split_off(0) {
                let item = SourceItem::Haproxy { proxy: "all".to_owned(), server: "BACKEND".to_owned() };
                assert_eq!(look.fetch.items, [item.clone(), item]);
                let reading =
                    Reading { health, words: "its word".to_owned(), active: Some(5), ..Reading::default() };
                let outcome = Ok(vec![Ok(reading.clone()), Ok(reading)]);
                net.looked(A, FetchReply { id: look.id, outcome });
            }
        }
    };
    for (health, state) in [(SourceHealth::Up, ServiceState::Up), (SourceHealth::Down, ServiceState::Down)] {
        run(&mut net, health);
        for (node, service) in [(A, WEB_A), (A, api_a), (B, WEB_A), (B, api_a)] {
            let view = &net.published(node).services[service];
            let active = view.traffic.and_then(|traffic| traffic.active);
            assert_eq!((view.state, active), (state, Some(5)), "{node} {service}");
        }
    }
}
