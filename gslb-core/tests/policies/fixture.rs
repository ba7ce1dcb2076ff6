//! A group of three sites, and decisions on whatever state is wanted.

use gslb_core::decide::Verdict;
use gslb_core::{
    Cell, Client, Decision, Family, Published, Row, RttTable, ServiceView, Shared, Traffic, Turn,
};
use gslb_types::{Ldns, Reach, Rtt, ServiceState, SiteIndex, Timestamp};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

#[path = "../text/mod.rs"]
mod text;

pub(crate) use text::load;

pub(crate) fn at(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

pub(crate) fn site(n: usize) -> SiteIndex {
    SiteIndex::new(n).unwrap()
}

pub(crate) fn us(n: u32) -> Option<Rtt> {
    Some(Rtt::from_micros(n))
}

/// The virtual servers are given; the services a1, a2, b1, c1, c2 (0 to 4) stand at sites a, b and c, and their traffic is seen.
pub(crate) struct Bench {
    pub(crate) published: Published,
    pub(crate) row: Option<Row>,
    pub(crate) now: Timestamp,
    pub(crate) turn: Turn,
}

pub(crate) const A1: usize = 0;
pub(crate) const A2: usize = 1;
pub(crate) const B1: usize = 2;
pub(crate) const C1: usize = 3;
pub(crate) const C2: usize = 4;

/// A domain www whose virtual server www is this, and whatever follows it.
pub(crate) fn group(vserver: &str, more: &[(&str, &str)]) -> String {
    let more =
        |name: &str| more.iter().filter(|(of, _)| *of == name).map(|(_, keys)| *keys).collect::<String>();
    let fed = |name: &str| format!("source = \"h-{}\"\nsource_name = \"web/{name}\"", &name[..1]);
    let source = |site| {
        format!(
            "[[sources]]\nname = \"h-{site}\"\nkind = \"haproxy\"\nurl = \"http://127.0.0.1:8404/;csv\"\n"
        )
    };
    let services = [("a1", 10), ("a2", 11), ("b1", 20), ("c1", 30), ("c2", 31)];
    let services = services
        .map(|(name, n)| {
            text::service(name, &name[..1], &format!("192.0.2.{n}"), &(fed(name) + "\n" + &more(name)))
        })
        .concat();
    let parts = [
        "version = 1\nnode = \"a/1\"\n",
        &text::sites(&["a", "b", "c"]),
        &text::nodes(&["a/1"]),
        &["a", "b", "c"].map(source).concat(),
        &services,
        text::WWW,
        &format!("\n[[vservers]]\nname = \"www\"\n{vserver}\n"),
    ];
    parts.concat()
}

impl Bench {
    pub(crate) fn new(vserver: &str) -> Self {
        Bench::with(vserver, &[])
    }

    /// With more keys in the tables of some services.
    pub(crate) fn with(vserver: &str, services: &[(&str, &str)]) -> Self {
        let shared = Shared::new(&load(&group(vserver, services), None), 1, at(0));
        let mut published = Arc::into_inner(shared.published.into_inner()).unwrap();
        published.services.iter_mut().for_each(|s| s.state = ServiceState::Up);
        Bench { published, row: None, now: at(1000), turn: Turn::default() }
    }

    /// Other states than up.
    pub(crate) fn are(mut self, state: ServiceState, services: &[usize]) -> Self {
        services.iter().for_each(|service| self.published.services[*service].state = state);
        self
    }

    pub(crate) fn service(&mut self, service: usize) -> &mut ServiceView {
        &mut self.published.services[service]
    }

    pub(crate) fn traffic(&mut self, service: usize) -> &mut Traffic {
        self.published.services[service].traffic.get_or_insert_default()
    }

    /// What each site says of the LDNS, in milliseconds.
    pub(crate) fn far(mut self, millis: [u32; 3]) -> Self {
        let table = RttTable::new(3, 1);
        let ldns = Ldns::exact(LDNS);
        table.sighted(ldns, at(0));
        for (index, ms) in millis.into_iter().enumerate() {
            let cell = Cell::new(Reach::Known(Rtt::from_micros(ms * 1000)), None, self.now);
            table.write(ldns, site(index), cell);
        }
        self.row = table.row(ldns);
        self
    }

    pub(crate) fn decide_for(&self, client: &Client) -> Decision {
        gslb_core::decide(0, Family::V4, &self.published, self.row.as_ref(), client, self.turn, self.now)
    }

    pub(crate) fn decide(&self) -> Decision {
        self.decide_for(&Client::new(LDNS))
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.decide().verdict
    }

    /// How often each service is answered in so many queries, the turn moving as the DNS side moves it.
    pub(crate) fn shares(&mut self, queries: u64) -> BTreeMap<usize, u64> {
        let mut shares = BTreeMap::new();
        for _ in 0..queries {
            let decision = self.decide();
            let Verdict::Service(service) = decision.verdict else { panic!("{decision:?}") };
            *shares.entry(service).or_default() += 1;
            self.turn = Turn { round: self.turn.round + u64::from(decision.took_turn), last: Some(service) };
        }
        shares
    }
}

pub(crate) const LDNS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));
