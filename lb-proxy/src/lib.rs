//! The local data plane: LB virtual servers that listen, ask lb-core for a service, and proxy to it (behaviour 5).
//!
//! ```text
//!   client -- listen --+-- tls --+-- client::converse (hyper server) -- http::Front --+-- lb_core::Balancer: who gets it?
//!                      |         |                                                   |
//!                      +---------+-- tcp::carry -------------------- pump -----------+-- service::Service: pool, dial
//! ```
//!
//! A selection is made once per request (http, ssl) or connection (tcp). The transaction counts as active from its dispatch to
//! the end of the response's body, or of the tunnel; its time to first byte runs from the dispatch to the response's head, and
//! is told for status 200 alone; bytes are those on the connection to the service, heads included, both ways.
//!
//! A request is given to another member only if no byte of it was written to the first (`service::ServiceStream`). Bodies
//! are passed on as they come, never gathered. One task serves a client's connection and drives the connection to the service
//! as well, so a request costs no wake-up of another task.
//!
//! Not passed on: informational responses other than 100 and 101 (hyper's server has no way to send them), and the letter case
//! of header names.

mod alarm;
mod client;
mod clock;
mod counters;
mod dial;
mod http;
mod keeper;
mod lasting;
mod listen;
mod places;
mod proxy;
mod pump;
mod service;
mod settings;
mod tcp;
mod tls;
mod transaction;
mod view;
mod vserver;

pub use counters::Counts;
pub use proxy::{Proxy, StartError};
pub use settings::{CertificateFiles, Forwarded, Kind, Timeouts, VserverSettings};
pub use tls::CertificateError;
pub use view::VserverView;
