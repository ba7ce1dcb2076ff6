//! The JSON of each route: what it holds, and how it is filled from what the node publishes.
//!
//! Conventions, the same everywhere: `…_ms` is a duration in milliseconds and `…_age_ms` how long ago something was, `…_us`
//! is an RTT or response time in microseconds, `…_s` is in seconds. The one calendar time is the expiry of a certificate,
//! in seconds since the Unix epoch. What is not known is `null`, never 0 and never left out. Numbers that may exceed 2^53
//! (boot ids, hashes) are hexadecimal text.
//!
//! The types also read what they write, for programs in Rust: the command line is one.

mod domains;
mod explain;
mod health;
mod identity;
mod lb;
mod ldns;
mod matrix;
mod peers;
mod services;
mod sites;
mod source;
mod status;
mod vservers;

pub use domains::{Domain, Domains};
pub use explain::{
    Answer, Candidate, Closeness, Ecs, Explain, Margin, Origin, Reason, Step, Turn, Value, Verdict,
};
pub use health::{Live, Ready};
pub use identity::Identity;
pub use lb::{Behind, LbVserver, Live as LbLive, Member, Refused, Traffic};
pub use ldns::{Cell, CellState, Ldns, LdnsPage};
pub use matrix::{DegradedLink, Link, LinkFault, Matrix, MatrixRow};
pub use peers::{Peer, Peers, Strangers, Transition};
pub use services::{CheckResult, Monitor, Service, Services, States};
pub use sites::{NodeOfSite, Site, Sites};
pub use source::Source;
pub use status::{Certificate, Listen, PeerStates, Status};
pub use vservers::{BoundService, Turns, Vserver, Vservers};

pub(crate) use domains::domains;
pub(crate) use explain::explain;
pub(crate) use health::ready;
pub(crate) use identity::{WARNING_S, identity};
pub(crate) use lb::{behind, lb_vservers};
pub(crate) use ldns::{ldns, ldns_page};
pub(crate) use matrix::matrix;
pub(crate) use peers::{peers, transition, word};
pub(crate) use services::services;
pub(crate) use sites::sites;
pub(crate) use status::status;
pub(crate) use vservers::vservers;

use crate::state::{self, Info};
use config::Config;
use gslb_core::{Published, Shared};
use gslb_types::{SiteIndex, Timestamp};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Everything at one moment.
pub(crate) struct View<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) published: Arc<Published>,
    pub(crate) now: Timestamp,
    pub(crate) unix_time: i64,
    pub(crate) info: &'a Info,
    pub(crate) identity: state::Identity,
    /// Where this API is.
    pub(crate) admin: Option<SocketAddr>,
}

impl View<'_> {
    pub(crate) fn config(&self) -> &Config {
        &self.published.config
    }

    pub(crate) fn age(&self, then: Timestamp) -> Duration {
        self.now.since(then)
    }

    /// Milliseconds since then.
    fn age_ms(&self, then: Timestamp) -> u64 {
        millis(self.age(then))
    }

    /// Milliseconds until then; 0 afterwards.
    fn left_ms(&self, then: Timestamp) -> u64 {
        millis(then.since(self.now))
    }

    /// The name of a site; "?" for one that the configuration does not have, which nothing published names.
    pub(crate) fn site(&self, site: SiteIndex) -> String {
        self.config().sites.get(site.get()).map_or_else(|| "?".to_owned(), |s| s.name.to_string())
    }

    /// The name of a service.
    pub(crate) fn service(&self, service: usize) -> String {
        self.config().services.get(service).map_or_else(|| "?".to_owned(), |s| s.name.to_string())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}
