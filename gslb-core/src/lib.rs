//! One whole node without sockets or clocks: RTT table, health, decide, answer. Pure.

mod cell;
mod counters;
pub mod decide;
pub mod dns;
pub mod location;
pub mod node;
pub mod persistence;
mod published;
mod sessions;
mod table;
mod traffic;

pub use cell::{Cell, Confirmed, Told};
pub use counters::{DnsCounters, DnsCounts};
pub use decide::{Client, Decision, Family, Reason, Turn, decide};
pub use node::{Birth, Input, LocalHealth, Node, NodeStats, Output};
pub use published::{Judge, MonitorView, Published, ServiceView, Shared, SiteView, Turns, VserverTurns};
pub use sessions::{Session, SessionTable};
pub use table::{Row, RttTable, Written};
pub use traffic::{LocalState, LocalView, Traffic};
// What the fields of `Published` are made of, for readers that name none of the machines.
pub use lb_core::{BalancerView, MemberView, NoService, Out};
pub use mep_core::carrier::Over;
pub use mep_core::{KnownSession, LinkStatus, PeerState, PeerStatus, SessionKey, Strangers, Transition};
pub use probes_core::ProberStats;
pub use probes_core::monitors::{History, MonitorStats, PastResult, Seen};
pub use probes_core::sources::{FeedView, Health as SourceHealth, Hearing, SourceView};
