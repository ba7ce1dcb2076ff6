//! A node that answers without sockets: what `answer` needs, with as many measured LDNS as wanted.

use crate::gslb::{NODES, Ports, group};
use arc_swap::ArcSwap;
use gslb_core::dns::{Transport, answer};
use gslb_core::{Cell, Published, Shared};
use gslb_types::{Ldns, ProbeKind, Reach, Rtt, ServiceState, SiteIndex, Timestamp};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

/// The node of the side-by-side measurement, in memory.
pub struct Fixture {
    shared: Shared,
    /// After the LDNS were measured.
    now: Timestamp,
}

/// The address of the load's nth source, and of the fixture's nth LDNS.
pub fn ldns(index: usize) -> IpAddr {
    let beyond_first = u32::try_from(index).unwrap_or(u32::MAX);
    Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 62, 0, 1)).saturating_add(beyond_first)).into()
}

impl Fixture {
    /// Every service up, and every site knows that many LDNS.
    #[allow(clippy::expect_used, reason = "a test checks that the text is a configuration")]
    pub fn new(measured: usize) -> Self {
        let text = group(Ports { dns: 53, mep: 4353, admin: 8053, closed: 9 });
        let read = &mut |_: &Path| Ok(text.clone().into_bytes());
        let config = config::load(Path::new("group.toml"), read, NODES.first().copied());
        let config = Arc::new(config.expect("the configuration of the group is right"));
        let shared = Shared::new(&config, 7, Timestamp::ZERO);
        let shared = Shared { published: all_up(shared.published), ..shared };
        for index in 0..measured {
            measure(&shared, index);
        }
        Fixture { shared, now: Timestamp::from_micros(20_000_000) }
    }

    /// What the DNS threads hold.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A time at which all RTTs count.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Answers a request over UDP, as a DNS thread does, and returns the length of the reply.
    pub fn answer(&self, request: &[u8], source: IpAddr, out: &mut [u8]) -> usize {
        let published = self.shared.published.load();
        answer(&self.shared, &published, request, source, Transport::Udp, self.now, out).len
    }
}

#[allow(clippy::expect_used, reason = "nobody else holds what was made a moment ago")]
fn all_up(published: ArcSwap<Published>) -> ArcSwap<Published> {
    let mut published = Arc::into_inner(published.into_inner()).expect("nobody else holds it");
    for service in &mut published.services {
        service.state = ServiceState::Up;
    }
    ArcSwap::from_pointee(published)
}

/// The nth LDNS as the sites know it: the nearest is another one for each.
fn measure(shared: &Shared, index: usize) {
    let seen = Timestamp::from_micros(1_000_000);
    let ldns = Ldns::exact(ldns(index));
    shared.rtts.sighted(ldns, seen);
    for site in (0..NODES.len()).filter_map(SiteIndex::new) {
        let millis = 10 + 7 * ((index + site.get()) % NODES.len());
        let reach = Reach::Known(Rtt::from_micros(u32::try_from(millis * 1000).unwrap_or(u32::MAX)));
        shared.rtts.write(ldns, site, Cell::new(reach, Some(ProbeKind::DnsUdp), seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::is_answer;
    use crate::{NAME, Query, query};
    use std::sync::atomic::Ordering;

    #[test]
    fn the_fixture_answers_by_rtt_and_with_the_nearest_site() {
        let fixture = Fixture::new(8);
        let mut out = [0; 1232];
        for (index, nearest) in [(0, 1), (1, 4), (2, 3), (3, 2), (7, 2)] {
            let len = fixture.answer(&query(NAME, Query::Plain), ldns(index), &mut out);
            assert!(is_answer(&out[..len]));
            assert_eq!(out[len - 4..len], [192, 0, 2, nearest], "LDNS {index}");
        }
        assert_eq!(fixture.shared.dns.by_rtt.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn sources_are_addresses_one_after_the_other() {
        assert_eq!(ldns(0).to_string(), "127.62.0.1");
        assert_eq!(ldns(255).to_string(), "127.62.1.0");
    }
}
