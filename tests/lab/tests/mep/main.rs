//! The metric exchange as operators see it: real nodes in their sites, and what a network does to them.
//!
//! Each test prints what it measured. Most of them wait most of the time, so several run at once, more than there are cores;
//! those that need the machine for themselves take turns.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod carriers;
mod certificates;
mod clocks;
mod constant_work;
mod cuts;
mod half_open;
mod impostors;
mod misbehaving;
mod monitors;
mod peer;
mod pool;
mod relays;
mod restarts;
mod sites;
mod stability;
mod starts;
mod two_nodes;
mod versions;

use lab::can_run;
use libtest_mimic::{Arguments, Trial};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Labs at once, unless the command line says otherwise. A lab of three idle nodes takes a few percent of a core.
const AT_ONCE: usize = 8;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let tests = [
        cuts::TESTS,
        half_open::TESTS,
        pool::TESTS,
        restarts::TESTS,
        starts::TESTS,
        stability::TESTS,
        clocks::TESTS,
        constant_work::TESTS,
        carriers::TESTS,
        impostors::TESTS,
        misbehaving::TESTS,
        certificates::TESTS,
        monitors::TESTS,
        two_nodes::TESTS,
        versions::TESTS,
        relays::TESTS,
    ]
    .concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            if can_run(&["dig", "nft"]) {
                test();
            }
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// A test: what it claims, and the claim's proof.
type Test = (&'static str, fn());

/// Held by whoever needs more than a little of the machine.
fn busy() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
