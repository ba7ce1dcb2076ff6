//! Claims about the judgement of services.

mod effort;
mod last_good;
mod relays;
mod silence;
#[path = "../../../../tests/text/mod.rs"]
mod text;
mod triggers;
mod words;

use super::*;
use crate::published::Judge;

/// Two sites, services with and without a monitor, one that is disabled, one with an IPv6 address, and a virtual server of
/// three.
fn group() -> String {
    let web = "monitors = [\"web\"]";
    let parts = [
        "version = 1\nnode = \"a/1\"\n[mep]\ndown_delay = \"15s\"\n",
        &text::sites(&["a", "b"]),
        &text::nodes(&["a/1", "b/1", "b/2"]),
        text::WEB,
        &text::service("a1", "a", "192.0.2.10", web),
        &text::service("a2", "a", "192.0.2.11", ""),
        &text::service("b1", "b", "192.0.2.20", web),
        &text::service("off", "b", "192.0.2.21", "enabled = false"),
        &text::service("a6", "a", "2001:db8::10", web),
        &text::vserver("www", &["a1", "b1", "a6"], ""),
        text::WWW,
    ];
    parts.concat()
}

const A1: usize = 0;
const B1: usize = 2;
const OFF: usize = 3;
const A6: usize = 4;

fn health() -> Health {
    with("", "")
}

/// With more of site b, and of its service b1.
fn with(site: &str, service: &str) -> Health {
    let text = group().replace("name = \"b\"\n", &format!("name = \"b\"\n{site}\n"));
    let text = text.replace("name = \"b1\"\n", &format!("name = \"b1\"\n{service}\n"));
    read(&text)
}

fn read(text: &str) -> Health {
    Health::new(text::load(text, None), at(0))
}

fn at(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

fn site_a() -> SiteIndex {
    SiteIndex::new(0).unwrap()
}

fn site_b() -> SiteIndex {
    SiteIndex::new(1).unwrap()
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

use ServiceState::{Disabled, Down, Learning, Up};

impl Health {
    fn silent_since(&self) -> Option<Timestamp> {
        self.contact(site_b()).unwrap().silent_since()
    }

    /// Does all that falls due until then.
    fn runs_until(&mut self, end: u64) -> ServiceState {
        while let Some(due) = self.poll_timeout().filter(|due| *due <= at(end)) {
            self.handle_timeout(due);
            assert!(self.poll_timeout().is_none_or(|next| next > due));
        }
        self.services[B1].state
    }

    fn says(&mut self, now: u64, peer: &str, state: ServiceState) -> ServiceState {
        self.hears(now, peer, B1, state, None, false);
        self.services[B1].state
    }

    /// A word of a node about a service.
    fn hears(
        &mut self,
        now: u64,
        peer: &str,
        service: usize,
        state: ServiceState,
        response_time: Option<Rtt>,
        relayed: bool,
    ) {
        let site = if peer.starts_with('a') { site_a() } else { site_b() };
        self.peer_said(
            at(now),
            site,
            &node(peer),
            &[Word { service, state, response_time, traffic: Traffic::default() }],
            relayed,
        );
    }

    fn states(&self) -> Vec<ServiceState> {
        self.services.iter().map(|s| s.state).collect()
    }
}
