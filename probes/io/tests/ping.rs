//! Pings of hosts that answer late, and that fail in each way there is. Root only; skipped with a line otherwise.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::echo::Echoing;
use common::failing::{SHORT, why};
use common::figures::is_near;
use common::net::Lab;
use common::{LONG, Running, ms};
use gslb_types::Check;
use probes_core::wire::CheckOutcome;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A host of the lab, which has as many as there are numbers.
fn host(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 77, 3, n], 0))
}

fn number(host: IpAddr) -> u8 {
    match host {
        IpAddr::V4(host) => host.octets()[3],
        IpAddr::V6(_) => 0,
    }
}

/// The ways in which it can't: a reply comes whole, so there is no drip, and nobody shows a certificate.
#[test]
fn a_ping_fails_in_each_way_there_is() {
    let Some(lab) = Lab::build() else { return };
    let _hosts = Echoing::start(&lab, true, |asked| {
        let mut reply = asked.reply();
        match number(asked.to) {
            1 => return vec![asked.say(ms(1), asked.error(3, 10, &asked.icmp))],
            2 => return Vec::new(),
            3 => *reply.last_mut().unwrap() ^= 1,
            _ => reply.truncate(12),
        }
        vec![asked.say(ms(1), reply)]
    });
    let silent = "no answer within 300ms";
    let ways = [
        ("refused", "administratively prohibited, says 10.77.3.1"),
        ("silent", silent),
        ("wrong answer", silent),
        ("half answer", silent),
    ];
    let seen = lab.as_client(move || async move {
        let mut seen = Vec::new();
        for n in 1..=4 {
            seen.push(why(host(n), &Check::Ping, if n == 1 { LONG } else { SHORT }).await);
        }
        seen
    });
    for ((way, reason), why) in ways.into_iter().zip(seen) {
        assert_eq!(why, reason, "{way}");
    }
}

#[test]
fn a_ping_is_measured_from_the_request_to_the_reply() {
    const DELAY: u64 = 40;
    let Some(lab) = Lab::build() else { return };
    let hosts = Echoing::start(&lab, true, |asked| vec![asked.say(ms(DELAY), asked.reply())]);
    let measured = lab.as_client(|| async {
        let mut running = Running::on_port(53);
        let mut spans = Vec::new();
        for n in 1..=11 {
            match running.check(host(n), Check::Ping, LONG).await {
                CheckOutcome::Passed(rtt) => spans.push((n, rtt.as_duration())),
                outcome => panic!("{outcome:?}"),
            }
        }
        running.stop().await;
        spans
    });
    // A busy host takes longer than it was told to, and knows how long.
    let took: Vec<(IpAddr, Duration)> = hosts.took.try_iter().collect();
    let of = |n: u8| took.iter().find(|(host, _)| number(*host) == n).unwrap().1;
    let mut off: Vec<(Duration, u8, Duration)> =
        measured.into_iter().map(|(n, span)| (span.abs_diff(of(n)), n, span)).collect();
    off.sort_unstable();
    let (_, n, span) = off[off.len() / 2];
    assert!(of(n) >= ms(DELAY));
    assert!(is_near("ping", span, of(n)), "{off:?}");
}
