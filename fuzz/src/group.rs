//! The group that the targets work with.

use config::{Config, Errors};
use gslb_core::Shared;
use gslb_types::Timestamp;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Three sites with a node each, a zone with something of everything, and a table of few entries.
pub const GROUP: &str = include_str!("group.toml");

/// The zone of the group, which stands in a file of its own.
pub const ZONE: &str = include_str!("gslb.test.zone");

/// Reads a configuration from text, with this text as its zone.
pub fn load(main: &[u8], zone: &[u8], node: Option<&str>) -> Result<Config, Errors> {
    let mut read = |path: &Path| match path.extension().and_then(|e| e.to_str()) {
        Some("zone") => Ok(zone.to_vec()),
        _ if path == Path::new("gslb.toml") => Ok(main.to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    config::load(Path::new("gslb.toml"), &mut read, node)
}

/// The configuration of a node of the group.
pub fn of(node: &str) -> Arc<Config> {
    match load(GROUP.as_bytes(), ZONE.as_bytes(), Some(node)) {
        Ok(config) => Arc::new(config),
        Err(errors) => panic!("{errors}"),
    }
}

/// What a node publishes at its start.
pub fn shared(config: &Arc<Config>) -> Shared {
    Shared::new(config, 7, Timestamp::ZERO)
}
