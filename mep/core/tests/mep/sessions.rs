//! Persistence sessions: told together, to everybody, with their age.

use crate::net::{Net, address, ms, secs, settings};
use mep_core::{Output, SessionKey};

fn trio() -> Net {
    let mut net = Net::of(&["ber/1", "fra/1", "par/1"]);
    net.run_until(secs(5), Net::is_meshed);
    net.run(secs(10));
    net
}

fn key(n: u32) -> SessionKey {
    SessionKey::new(1, address(n), 32)
}

fn service(net: &Net, at: usize, n: u32) -> Option<&str> {
    net.hosts[at].table.sessions.get(&key(n)).map(|(service, _)| service.as_str())
}

fn frames(net: &Net, at: usize) -> usize {
    net.hosts[at].outputs.iter().filter(|(_, o)| matches!(o, Output::Sessions { .. })).count()
}

#[test]
fn used_sessions_reach_every_peer_within_the_interval_and_together() {
    let mut net = trio();
    let used = net.now;
    for n in 0..500 {
        net.use_session(0, n, "web-ber");
        net.run(ms(9));
    }
    net.run(ms(550));
    for at in [1, 2] {
        assert!((0..500).all(|n| service(&net, at, n) == Some("web-ber")));
        assert_eq!(frames(&net, at), 1);
    }
    // How long ago it was used travels along, by nobody's clock.
    let Some((_, Output::Sessions { sessions, .. })) =
        net.hosts[1].outputs.iter().find(|(_, o)| matches!(o, Output::Sessions { .. }))
    else {
        panic!("told")
    };
    let oldest = sessions.iter().map(|session| session.idle).max().unwrap();
    assert!(oldest >= ms(4_999) && oldest <= ms(5_001) + secs(1), "{oldest:?} for {:?}", net.now.since(used));
}

#[test]
fn nothing_is_told_while_none_is_used() {
    let mut net = trio();
    net.use_session(0, 1, "web-ber");
    net.run(secs(6));
    net.run(secs(60));
    assert_eq!((frames(&net, 1), frames(&net, 2)), (1, 1));
}

#[test]
fn a_session_used_often_is_told_once_in_the_interval_with_its_last_use() {
    let mut net = trio();
    for _ in 0..40 {
        net.use_session(0, 1, "web-ber");
        net.run(ms(500));
    }
    net.run(secs(5));
    assert!((4..=5).contains(&frames(&net, 1)), "{}", frames(&net, 1));
}

#[test]
fn a_node_that_starts_learns_the_sessions_there_are() {
    let mut net = trio();
    for n in 0..2_500 {
        net.use_session(0, n, "web-ber");
    }
    net.run(secs(60));
    net.kill(2);
    net.start(2, settings(&["ber/1", "fra/1", "par/1"]));
    let took = net.run_until(secs(5), |net| net.hosts[2].table.sessions.len() == 2_500);
    println!("2,500 sessions {took:?} after the start");
    let (_, used) = net.hosts[2].table.sessions[&key(7)].clone();
    let idle = (net.now + secs(2_000)).since(used);
    assert!(idle >= secs(60), "{idle:?}");
}

#[test]
fn of_two_uses_the_newer_counts_wherever_it_was() {
    let mut net = trio();
    net.use_session(0, 1, "web-ber");
    net.run(secs(3));
    net.use_session(1, 1, "web-fra");
    net.run(secs(12));
    for at in 0..3 {
        assert_eq!(service(&net, at, 1), Some("web-fra"));
    }
}

#[test]
fn a_slow_peer_costs_no_more_memory_than_the_cap_and_gets_them_in_the_end() {
    let mut net = Net::new();
    for (n, id) in ["fra/1", "par/1"].iter().enumerate() {
        net.add(id);
        let mut small = settings(&["fra/1", "par/1"]);
        small.sessions_cap = if n == 0 { 1_000 } else { 100_000 };
        net.start(n, small);
    }
    net.run_until(secs(3), |net| net.is_up(0, 1));
    net.run(secs(2));
    net.bandwidth = Some(5_000);
    for n in 0..80_000 {
        net.use_session(0, n, "web-fra");
        if n % 100 == 0 {
            net.run(ms(20));
        }
        assert!(net.status(0, 1).outbox <= 1_000, "{}", net.status(0, 1).outbox);
    }
    assert!(net.status(0, 1).resyncs > 0);
    net.bandwidth = None;
    net.run(secs(60));
    assert_eq!(net.hosts[1].table.sessions.len(), 80_000);
    assert_eq!((net.status(0, 1).downs, net.status(1, 0).downs), (0, 0));
}
