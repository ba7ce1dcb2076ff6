//! The repository's rules about itself, as functions that a test can feed what breaks them.
//!
//! Each rule takes texts and returns what is wrong, one line each, so that its own tests can show it failing. `tests/rules.rs`
//! applies all of them to this repository. Nothing here needs the network, root or git.

mod citations;
mod dependencies;
mod documents;
mod layers;
mod manifest;
mod purity;
mod repository;
mod sources;

pub use citations::unknown_citations;
pub use dependencies::{uncommented_dependencies, unkept_manifest_rules, unused_dependencies};
pub use documents::{broken_links, missing_commands};
pub use layers::{illegal_edges, layer_table, layers_in_prose, pure_crates, table_faults};
pub use manifest::{Dependency, Manifest, Use};
pub use purity::{Module, impure_uses, test_modules};
pub use repository::{Repository, Text};
pub use sources::{over_long, unannounced, unfinished, with_machine_paths};
