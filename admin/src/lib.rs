//! The admin API: what a running node knows, as JSON over HTTP, and its numbers for Prometheus.
//!
//! Everything is read from [`gslb_core::Shared`], never asked of the node task: a node task that is stuck cannot be hidden
//! by a stuck admin API, and no request costs the node more than reading. The one thing that can be changed is which services
//! behind this node's LB virtual servers take part: by POST, and only so.
//!
//! Loopback is all the protection there is (threat T9, faults I-65): `config` refuses other addresses, and requests that name
//! another host are refused, so that no web page reaches the API through its visitor's browser.

pub mod api;
mod connections;
mod control;
mod failback;
mod guard;
mod metrics;
mod params;
mod refusal;
mod routes;
mod serve;
mod state;
mod stream;
mod turns;

pub use control::{Change, Control};
pub use serve::serve;
pub use state::{Identity, Info, State};
