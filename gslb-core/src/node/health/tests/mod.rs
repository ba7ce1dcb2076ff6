//! Claims about the judgement of services.

mod effort;
mod last_good;
mod relays;
mod silence;
mod triggers;
mod words;

use super::*;
use crate::published::Judge;
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
    with("", "")
}

/// With more of site b, and of its service b1.
fn with(site: &str, service: &str) -> Health {
    let text = GROUP.replace("name = \"b\"\n", &format!("name = \"b\"\n{site}\n"));
    let text = text.replace("name = \"b1\"\n", &format!("name = \"b1\"\n{service}\n"));
    read(&text)
}

fn read(text: &str) -> Health {
    let mut read = |_: &Path| Ok(text.as_bytes().to_vec());
    let config = config::load(Path::new("/etc/gslb.toml"), &mut read, None);
    Health::new(Arc::new(config.unwrap_or_else(|errors| panic!("{errors}"))), at(0))
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
        self.peer_said(at(now), site, &node(peer), &[Word { service, state, response_time }], relayed);
    }

    fn states(&self) -> Vec<ServiceState> {
        self.services.iter().map(|s| s.state).collect()
    }
}
