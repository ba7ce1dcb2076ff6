//! TOML text to a configuration that cannot be wrong. Pure.
//!
//! [`load()`] reads the main file, the files it includes and the zone files it names, through a closure, and gives a whole
//! [`Config`] or all [`Errors`] there are, each with file, line, column, the setting, and what would be right.
//! `gslb.example.toml` shows every setting at its default.

mod dname;
mod error;
mod files;
mod group;
mod hash;
mod lb;
mod load;
mod location;
mod model;
mod monitor;
mod names;
mod policy;
mod reader;
mod schema;
mod settings;
mod source;
mod text;
mod units;
mod zone;

#[cfg(test)]
mod tests;

pub use error::{Error, Errors};
pub use lb::{LbCertificate, LbForwarded, LbKind, LbMember, LbPersistence, LbTimeouts, LbVserver};
pub use load::load;
pub use location::{Coordinates, Location, Place, QUALIFIERS};
pub use model::*;
pub use policy::{
    Answer, Binding, Domain, Failback, MAX_ADDRESSES, PERSISTENCE_IDS, Persistence, Spillover, Vserver,
};
pub use source::{Feed, Source};
