//! A GSLB group in one thread and virtual time.
//!
//! A [`World`] holds real nodes (`gslb_core::Node`, fed by real bytes) and plays everything around them: the network between
//! the nodes, the resolvers they probe, the services they check, and their clocks. Nothing here sleeps, opens a socket or
//! asks a clock; all that is random comes from one seed, so a run can be repeated exactly.
//!
//! - A witness looks at every step and stops the world at the first broken [`Invariant`] ([`World::violation`]).
//! - [`storm`] does random things to a world, mends it, and looks whether everything agrees again.
//! - [`scenario`] plays the scripts of `tests/scenarios`.
//! - [`trace`] replays measured RTTs.
//! - [`scale`] lets a large group tell one another large tables.

mod agreement;
mod chance;
mod group;
mod log;
pub mod scale;
pub mod scenario;
pub mod storm;
pub mod trace;
mod witness;
mod world;

pub use chance::Chance;
pub use group::{DOMAIN, Group};
pub use log::{Line, Log, What};
pub use witness::{Invariant, Violation, Witness};
pub use world::{Answer, Health, Host, HostIndex, Internet, Manner, Reply, Resolver, Way, World};
