//! Why a laboratory could not be built or used.

use std::io;

/// Nothing is left behind by any of these: what stood already is taken away.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The plan can't be built; nothing was.
    #[error("the laboratory can't be built: {0}")]
    Topology(String),
    /// A command of the system failed.
    #[error("{command}: {said}")]
    Command {
        /// The command line.
        command: String,
        /// What it wrote to standard error, or its exit status.
        said: String,
    },
    /// A call to the kernel failed.
    #[error("{what}: {cause}")]
    System {
        /// What was attempted.
        what: String,
        /// What the kernel said.
        cause: io::Error,
    },
}

impl LabError {
    /// Names what was attempted when the kernel refused.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> LabError {
        let what = what.into();
        move |cause| LabError::System { what, cause: cause.into() }
    }
}
