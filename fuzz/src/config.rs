//! Configuration text: taken whole or refused with reasons.

use crate::group::{self, GROUP, ZONE};
use std::sync::Arc;

/// Loads the text as the main file, whose zone file and nothing else is there.
pub fn run(text: &[u8]) {
    for node in [None, Some("fra/1")] {
        match group::load(text, ZONE.as_bytes(), node) {
            // What is taken can be run: no index leads astray.
            Ok(config) => drop(group::shared(&Arc::new(config))),
            Err(errors) => assert!(!errors.to_string().is_empty()),
        }
    }
}

/// The group of the targets, and the example in parts, since a mutation of one table is enough for one error.
pub fn seeds() -> Vec<Vec<u8>> {
    let example = include_str!("../../gslb.example.toml");
    let code: Vec<&str> = example.lines().filter(|line| !line.starts_with("# ") && *line != "#").collect();
    let shown: Vec<&str> = code.iter().map(|line| line.strip_prefix('#').unwrap_or(line)).collect();
    [GROUP.to_owned(), code.join("\n"), shown.join("\n")].into_iter().map(String::into_bytes).collect()
}
