//! Carries MEP frames between the nodes of a group, and makes the certificates they know each other by.
//!
//! No policy: whom to dial, when to close and what a frame means is decided by `mep-core`. This crate obeys
//! [`CarrierCommand`](mep_core::carrier::CarrierCommand)s and reports
//! [`CarrierEvent`](mep_core::carrier::CarrierEvent)s. What is particular to QUIC stands in `quic`, to gRPC
//! over TCP in `grpc`; numbers, queues, limits and how a connection lives and ends stand beside them, shared.

mod admission;
mod carrier;
mod connections;
mod gate;
mod grpc;
mod identity;
mod link;
mod name;
mod outbox;
mod pem;
pub mod pki;
mod quic;
mod refusals;
mod tasks;
mod words;

pub use admission::PeerAddresses;
pub use carrier::{BindError, Carrier, Limits, Settings};
pub use identity::{Date, Identity, IdentityError, IdentityStatus, News};
pub use name::{GroupName, Subject, SubjectError};
pub use pem::{Files, Pem, PemError};
