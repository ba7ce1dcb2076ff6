//! TOML text to a configuration that cannot be wrong. Pure.

mod model;

pub use model::*;
