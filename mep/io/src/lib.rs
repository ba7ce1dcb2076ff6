//! Carries MEP frames between the nodes of a group, and makes the certificates they know each other by.
//!
//! No policy: whom to dial, when to close and what a frame means is decided by `mep-core`. This crate obeys
//! [`CarrierCommand`](mep_core::carrier::CarrierCommand)s and reports
//! [`CarrierEvent`](mep_core::carrier::CarrierEvent)s. What is particular to QUIC stands in `quic`; numbers, queues and
//! limits stand beside it, so that another carrier can share them.

mod carrier;
mod connections;
mod gate;
mod identity;
mod name;
mod outbox;
mod pem;
pub mod pki;
mod quic;
mod refusals;

pub use carrier::{BindError, Carrier, Limits, Settings};
pub use identity::{Date, Identity, IdentityError};
pub use name::{GroupName, Subject, SubjectError};
pub use pem::{Files, Pem, PemError};
