//! The health of a service.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The health of a service, as its own site sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Not checked yet since the node started. Used only while no service is up.
    #[default]
    Learning,
    /// Its monitors pass, or it has none.
    Up,
    /// Its monitors fail.
    Down,
    /// Taken out by the configuration.
    Disabled,
}

impl ServiceState {
    /// The word for it in API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            ServiceState::Learning => "learning",
            ServiceState::Up => "up",
            ServiceState::Down => "down",
            ServiceState::Disabled => "disabled",
        }
    }
}

impl fmt::Display for ServiceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
