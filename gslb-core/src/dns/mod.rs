//! Authoritative DNS: bytes in, bytes out.
//!
//! ```text
//! answer -> wire (edns, tsig, name)     reads the request
//!        -> resolve -> zones (build)    finds the node that has the answer
//!                   -> select           decides for GSLB domains
//!                   -> additional       adds addresses
//!        -> compose (compress, rrset)   writes the reply
//! ```

mod additional;
mod answer;
mod build;
mod chaos;
mod compose;
mod compress;
mod edns;
mod name;
mod resolve;
mod rrset;
mod rtype;
mod select;
mod tsig;
mod wire;
mod zones;

pub use answer::{Answered, Transport, answer};
pub use zones::Zones;
