//! Choosing a service within a site (behaviour 5). Pure.
//!
//! [`choose()`] is the whole decision: method, candidates, tie pointer, round and client in, one candidate and the reason
//! out. It remembers nothing and allocates nothing, since it runs for every DNS query; what has to be remembered between
//! requests (the pointer, the round, what was counted) is kept by the caller. Three small machines help with the counting:
//! [`ByteWindow`] for traffic, [`mean`] for several monitors, [`SlowStart`] for services that have just come.
//!
//! Who takes part is the caller's business too: only services that are up, not draining and below their limits are
//! candidates.
//!
//! [`Balancer`] is such a caller: one LB virtual server as a machine, with all that has to be remembered between requests.

mod balancer;
mod candidate;
mod choose;
mod hash;
mod response_time;
mod rotation;
mod score;
mod slow_start;
mod window;

pub use balancer::{
    Balancer, BalancerSettings, BalancerView, Client, LocalPersistence, MemberId, MemberSettings, MemberView,
    NoService, Out, Output, Pick, PickedBy,
};
pub use candidate::{Candidate, NoServiceId, ServiceId};
pub use choose::{Choice, Why, choose};
pub use hash::rendezvous;
pub use response_time::mean;
pub use rotation::turn;
pub use score::{Measure, SCORE_SCALE, Score};
pub use slow_start::{STARTUP_RR_FACTOR, SlowStart};
pub use window::{ByteWindow, Mbps, WINDOW_SECONDS};
