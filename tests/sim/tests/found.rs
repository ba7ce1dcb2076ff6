//! What the simulator has found, each as the least world that shows it.

#![cfg(test)]

use gslb_types::ServiceState;
use sim::{Group, World};
use std::time::Duration;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
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

/// Storm 16: the end of a session, found by the exchange, makes rounds of the neighbour's share due, after the prober had its turn.
#[test]
fn a_neighbours_share_is_taken_over_in_the_turn_that_finds_it_gone() {
    let mut world = world(Group::new(&["fra", "iad"]).with_nodes("fra", 2));
    for n in 1..40 {
        world.put_resolver([192, 0, 2, n].into(), &[ms(20), ms(50)]);
        world.ask(0, [192, 0, 2, n].into());
        world.drive(ms(100));
    }
    world.drive(secs(15));
    world.kill(1);
    world.drive(secs(20));
    unbroken(&world);
}

/// Storm 33: the hello of a restarted peer counted as a word of the session that it ends, and made what the dead process had said
/// younger by up to the keepalive.
#[test]
fn the_hello_of_a_new_process_confirms_nothing_of_the_one_before() {
    let mut world = world(Group::new(&["fra", "iad"]).with("mep.keepalive", "\"25s\""));
    let ldns = [192, 0, 2, 1].into();
    world.put_resolver(ldns, &[ms(60), ms(20)]);
    world.ask(0, ldns);
    world.drive(secs(20));
    world.internet().resolvers.values_mut().for_each(|r| r.manners = [sim::Manner::Silent; 3]);
    world.kill(1);
    world.drive(secs(15));
    world.start(1);
    for _ in 0..20 {
        world.drive(ms(200));
        // Every answer is a look at how old what it was taken from is.
        world.ask(0, ldns);
    }
    unbroken(&world);
}

/// Storm 20181: what the process before had said a moment ago was as young as the first words of the new one, and the relay's words
/// confirmed it from then on.
#[test]
fn the_words_of_a_relay_confirm_nothing_that_a_process_said_just_before_its_end() {
    let mut world = world(Group::new(&["fra", "iad", "sin"]).with("mep.rtt_interval", "\"1s\""));
    let ldns = [192, 0, 2, 1].into();
    world.put_resolver(ldns, &[ms(60), ms(20), ms(90)]);
    world.ask(0, ldns);
    // fra gets it from sin only.
    world.cut(0, 1);
    world.drive(secs(30));
    world.internet().resolvers.values_mut().for_each(|r| r.manners = [sim::Manner::Silent; 3]);
    world.restart(1);
    for _ in 0..20 {
        world.drive(ms(500));
        world.ask(0, ldns);
    }
    unbroken(&world);
}

/// Storm 97: a relay had of the site only what an earlier process of it had said, and its own words confirmed that.
#[test]
fn the_words_of_a_relay_confirm_nothing_from_before_the_site_was_restarted() {
    let mut world = world(Group::new(&["fra", "iad", "sin"]));
    let ldns = [192, 0, 2, 1].into();
    world.put_resolver(ldns, &[ms(60), ms(20), ms(90)]);
    world.ask(0, ldns);
    world.drive(secs(20));
    world.internet().resolvers.values_mut().for_each(|r| r.manners = [sim::Manner::Silent; 3]);
    world.kill(1);
    world.drive(secs(12));
    // fra gets it from sin only.
    world.cut(0, 1);
    world.start(1);
    for _ in 0..30 {
        world.drive(ms(500));
        world.ask(0, ldns);
    }
    unbroken(&world);
}
