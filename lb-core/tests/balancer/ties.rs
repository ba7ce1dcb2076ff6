//! Ties and turns share exactly (faults I-58).

use crate::fixture::{LRTM, Played, at, from, settings};
use gslb_types::{LbMethod, ServiceState};
use std::net::Ipv4Addr;

#[test]
fn three_thousand_requests_to_three_equals_are_a_thousand_each() {
    for method in [LRTM, LbMethod::LeastConnections, LbMethod::LeastBandwidth, LbMethod::RoundRobin] {
        let mut lb = Played::up(settings(method, 3));
        let one_client = lb.shares(3_000);
        let mut shares = vec![0; 3];
        for n in 0..3_000 {
            let pick = lb.lb.pick(lb.now, &from(Ipv4Addr::from(0x0a00_0000 + n)), &[]).unwrap();
            shares[pick.position] += 1;
        }
        println!("{}: one client {one_client:?}, 3000 clients with all open {shares:?}", method.as_str());
        assert_eq!((one_client, shares), (vec![1_000; 3], vec![1_000; 3]));
    }
}

#[test]
fn a_service_that_is_down_is_skipped_without_doubling_its_neighbour() {
    for method in [LRTM, LbMethod::LeastConnections, LbMethod::RoundRobin] {
        let mut lb = Played::up(settings(method, 4));
        lb.serve(101);
        lb.health(1, ServiceState::Down);
        let shares = lb.shares(3_000);
        println!("{} with s1 down: {shares:?}", method.as_str());
        assert_eq!(shares, [1_000, 0, 1_000, 1_000]);
    }
}

#[test]
fn the_pointer_is_the_last_request_whether_there_was_a_tie_or_not() {
    let mut lb = Played::up(settings(LRTM, 3));
    let first = lb.pick();
    assert_eq!(first.position, 0);
    // s0 has one open: s1 and s2 tie at 0.
    assert_eq!((lb.pick().position, lb.pick().position), (1, 2));
    lb.lb.ended(lb.now, first.member);
    // s0 alone has nothing open and wins without a tie; by that the pointer moves to it.
    assert_eq!((lb.pick().position, lb.lb.view(lb.now).pointer.unwrap().to_string()), (0, "s0".to_owned()));
    assert_eq!((lb.pick().position, lb.pick().position), (1, 2));
}

#[test]
fn the_pointer_and_the_round_outlive_a_reload() {
    for method in [LRTM, LbMethod::RoundRobin] {
        let mut lb = Played::up(settings(method, 3));
        let mut whole = Vec::new();
        for _ in 0..1_000 {
            whole.extend(lb.serve(3));
            lb.lb.reconfigure(at(0), settings(method, 3));
        }
        assert_eq!(whole, [0, 1, 2].repeat(1_000), "{}", method.as_str());
    }
}

/// s0 is up by its monitors, and refuses every connection: each of its requests goes to another.
#[test]
fn the_turns_of_a_service_that_refuses_are_shared_by_the_others_and_nobody_is_doubled() {
    let heavy = gslb_types::Weight::new(2).unwrap();
    for (method, weights, expected) in [
        (LbMethod::RoundRobin, [1, 1, 1], [1_000, 1_500, 1_500]),
        (LbMethod::RoundRobin, [2, 1, 1], [1_500, 1_500, 1_500]),
        (LRTM, [1, 1, 1], [1_500, 1_500, 1_500]),
    ] {
        let mut settings = settings(method, 3);
        for (member, weight) in settings.members.iter_mut().zip(weights) {
            member.weight = if weight == 2 { heavy } else { member.weight };
        }
        let mut lb = Played::up(settings);
        let mut shares = [0; 3];
        for _ in 0..3_000 {
            let mut pick = lb.pick();
            shares[pick.position] += 1;
            if pick.position == 0 {
                lb.lb.unsent(lb.now, pick.member);
                pick = lb.lb.pick(lb.now, &crate::fixture::client(), &[pick.member]).unwrap();
                shares[pick.position] += 1;
            }
            lb.lb.ended(lb.now, pick.member);
        }
        println!("{} {weights:?}, s0 refuses: {shares:?} of 3000", method.as_str());
        assert_eq!(shares, expected, "{}", method.as_str());
    }
}

#[test]
fn no_matter_how_many_threads_ask_each_gets_its_turn() {
    let lb = std::sync::Mutex::new(Played::up(settings(LRTM, 3)));
    let per_thread: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let ask = || (0..375).map(|_| lb.lock().unwrap().serve(1)[0]).collect::<Vec<_>>();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let count = |n| per_thread.iter().flatten().filter(|p| **p == n).count();
    assert_eq!([0, 1, 2].map(count), [1_000; 3]);
}
