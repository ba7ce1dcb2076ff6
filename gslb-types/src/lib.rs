//! The words everyone speaks: time, round-trip times, names, states and methods.
//!
//! Nothing here decides anything. Every other crate may use this one, and this one uses none of them.

mod check;
mod ldns;
mod mep;
mod method;
mod name;
mod rtt;
mod source;
mod state;
mod time;
mod timers;

pub use check::{
    Check, DnsCheck, Exchange, FtpCheck, HttpCheck, Pattern, Receive, Secret, TlsCheck, UserCheck,
};
pub use ldns::{Ldns, LdnsMasks};
pub use mep::{Transport, TriggerMonitor};
pub use method::{AllDown, GslbMethod, LbMethod, ProbeKind, Weight, WeightError};
pub use name::{
    LbVserverName, MAX_SITES, NameError, NodeId, NodeName, ServiceName, SiteIndex, SiteName, VserverName,
    ZoneName,
};
pub use rtt::{Reach, Rtt};
pub use source::{Quantities, Series, SourceItem, SourceKind, SourcePlace, TimeUnit, Timing};
pub use state::ServiceState;
pub use time::Timestamp;
pub use timers::Timers;
