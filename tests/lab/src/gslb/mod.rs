//! The product in the laboratory: nodes of `gslb-dns` in their sites, resolvers that answer their probes, and `dig`.

mod admin;
mod binary;
mod dig;
mod group;
mod node;
mod query;
mod resolver;
mod watch;

pub use admin::{Answer, get};
pub use binary::gslb_dns;
pub use dig::{Transport, dig};
pub use group::Group;
pub use node::Node;
pub use query::{Reply, ask, volley};
pub use resolver::Resolver;
pub use watch::{Change, Watch};

use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at something that is awaited: far below every interval of the product.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until `look` sees something, and returns it.
///
/// # Panics
/// If that takes longer than `patience`; `what` says what was awaited.
#[track_caller]
pub fn eventually<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        // Looked once more after the time is over, so that a slow look is not a failure by itself.
        let over = start.elapsed() > patience;
        if let Some(seen) = look() {
            return seen;
        }
        assert!(!over, "{what}: not within {patience:?}");
        thread::sleep(LOOK);
    }
}
