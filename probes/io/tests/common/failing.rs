//! Checks that fail, and why.

use super::script::{Server, Step, Tls};
use super::{LONG, Running, v4};
use gslb_types::Check;
use probes_core::wire::CheckOutcome;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The timeout where it is to be seen.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// What a busy machine may add to it.
pub(crate) const LATE: Duration = Duration::from_millis(1500);

/// The reason that the check fails for, within this timeout.
pub(crate) async fn why(target: SocketAddr, check: &Check, timeout: Duration) -> String {
    let mut running = Running::on_port(53);
    let began = Instant::now();
    let outcome = running.check(target, check.clone(), timeout).await;
    let took = began.elapsed();
    running.stop().await;
    let CheckOutcome::Failed(why) = outcome else { panic!("{check:?}: {outcome:?}") };
    assert!(took < timeout.saturating_add(LATE), "{check:?} took {took:?}");
    println!("{:10} {why}", check.kind());
    why
}

/// A server that does this fails the check, for this reason.
pub(crate) async fn fails(check: &Check, steps: Vec<Step>, reason: &str) {
    let timeout = if reason.contains("within") { SHORT } else { LONG };
    assert_eq!(why(Server::start(v4(51, 0, 1), steps).addr, check, timeout).await, reason);
}

pub(crate) async fn fails_over_tls(tls: &Tls, check: &Check, steps: Vec<Step>, reason: &str) {
    let timeout = if reason.contains("within") { SHORT } else { LONG };
    assert_eq!(why(Server::with(v4(51, 0, 2), Some(tls.clone()), steps).addr, check, timeout).await, reason);
}
