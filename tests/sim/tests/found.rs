//! What the simulator has found, each as the least world that shows it.

#![cfg(test)]

use gslb_types::ServiceState;
use sim::{Group, World};
use std::time::Duration;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn world(group: Group) -> World {
    let mut world = World::started(group, 1).expect("a group that the product takes");
    world.drive(secs(4));
    world
}

#[track_caller]
fn unbroken(world: &World) {
    if let Some(violation) = world.violation() {
        panic!("{violation}");
    }
}

/// Storm 1: the end of a session made the services of its site due to go down at once, after the turn that could have done it.
#[test]
fn without_down_delay_the_end_of_a_session_leaves_nothing_due() {
    let mut world = world(Group::new(&["fra", "iad"]).with("mep.down_delay", "\"0s\""));
    world.cut(0, 1);
    world.drive(secs(12));
    unbroken(&world);
    assert_eq!(world.hosts()[0].published().unwrap().services[1].state, ServiceState::Down);
}

/// Storm 5: a checker that reports no more turns a verdict by the clock alone, and the peers are told in the same turn.
#[test]
fn a_verdict_that_time_brings_is_told_in_the_same_turn() {
    let mut world = world(Group::new(&["fra", "iad"]));
    world.mute(1, true);
    world.drive(secs(40));
    unbroken(&world);
    assert_eq!(world.hosts()[1].published().unwrap().services[1].state, ServiceState::Learning);
}
