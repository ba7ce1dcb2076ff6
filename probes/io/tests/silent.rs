//! Thousands of monitors of services that say nothing: each check lasts as long as it may, and none costs more than a task and a
//! descriptor. Alone in its file: it counts what the process has.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::checks::{dns, http, pattern, udp_ecv};
use common::scenes::full;
use common::script::{Hear, Hold, Server, say};
use common::{LONG, Ldns, skipped, v4};
use gslb_types::{Check, ServiceName, ServiceState, Timestamp};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use probes_core::Monitors;
use probes_core::monitors::{MonitorSettings, Output, ServiceSettings};
use probes_io::{ProbeIo, Reply, Request, Settings};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const MONITORS: usize = 3_000;

/// Long enough for the start, which is spread over three seconds, the timeout of the last, and a second round of many.
const LASTS: Duration = Duration::from_secs(9);

/// And no longer than this.
const LONGEST: Duration = Duration::from_secs(60);

/// Checks that can be under way at once: those that start in one timeout of 2 s, of which there are twice as many as the
/// intervals of 5 s ask for, and a twentieth of a second's at once.
const UNDER_WAY: usize = 2 * 2 * MONITORS / 5 + 200;

fn count(of: &str) -> usize {
    std::fs::read_dir(of).unwrap().count()
}

/// What there is at most.
#[derive(Debug, Default)]
struct Most {
    threads: usize,
    tasks: usize,
    descriptors: usize,
}

impl Most {
    fn look(&mut self) {
        self.threads = self.threads.max(count("/proc/self/task"));
        self.tasks = self.tasks.max(Handle::current().metrics().num_alive_tasks());
        self.descriptors = self.descriptors.max(count("/proc/self/fd"));
    }
}

fn service(n: usize, check: Check, target: SocketAddr) -> ServiceSettings {
    let monitor = MonitorSettings { fall: 1, ..MonitorSettings::new(check, target) };
    let name = ServiceName::new(&format!("s{n}")).unwrap();
    ServiceSettings { service: n, name, monitors: vec![monitor], threshold: None }
}

#[tokio::test]
async fn three_thousand_silent_services_take_no_thread_and_a_task_and_a_descriptor_for_each_check_under_way()
{
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < 8_192 || setrlimit(Resource::RLIMIT_NOFILE, 8_192, hard).is_err() {
        return skipped("needs 8,192 descriptors");
    }
    // One that takes no connection, one that hears and says nothing, and one that answers.
    let deaf = full(&Check::Tcp);
    let mute = Ldns::start((v4(55, 0, 1), 0), |_, _, _| {});
    let steps = vec![Hear("\r\n\r\n"), say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), Hold];
    let good = Server::start(v4(55, 0, 2), steps);
    let silent = |n: usize| match n % 4 {
        0 => service(n, Check::Tcp, deaf.target),
        1 => service(n, Check::Http(http()), deaf.target),
        2 => service(n, udp_ecv("PING", pattern("PONG")), mute.addr),
        _ => service(n, Check::Dns(dns("www.test.")), mute.addr),
    };
    let services = (0..MONITORS).map(silent).chain([service(MONITORS, Check::Http(http()), good.addr)]);
    let (requests, requested) = mpsc::channel(1024);
    let (replied, mut replies) = mpsc::channel(1024);
    let cancel = CancellationToken::new();
    let io = ProbeIo::start(Settings::default(), requested, replied, &cancel).unwrap();
    let began = Instant::now();
    let now = || Timestamp::from_micros(began.elapsed().as_micros() as u64);
    let (mut before, mut most, mut looked) = (Most::default(), Most::default(), Instant::now());
    before.look();
    let mut machine = Monitors::new(7);
    machine.set_bindings(now(), services.collect());
    // Longer on a machine that is so busy that not all have had their turn.
    let mut until = LASTS;
    while began.elapsed() < until {
        while let Some(output) = machine.poll_output() {
            if let Output::Check(check) = output {
                requests.send(Request::Check(check)).await.unwrap();
            }
        }
        let wake = machine.poll_timeout().unwrap().since(Timestamp::ZERO);
        tokio::select! {
            Some(Reply::Check(reply)) = replies.recv() => machine.handle_reply(now(), reply),
            () = tokio::time::sleep_until((began + wake.min(until)).into()) => machine.handle_timeout(now()),
        }
        if looked.elapsed() > Duration::from_millis(50) {
            looked = Instant::now();
            let is_done = |n| machine.view(n).unwrap().state == ServiceState::Down;
            if began.elapsed() + Duration::from_secs(1) > until
                && until < LONGEST
                && !(0..MONITORS).all(is_done)
            {
                until += Duration::from_secs(1);
            }
            most.look();
        }
    }
    let stats = machine.stats();
    let down = (0..MONITORS).filter(|n| machine.view(*n).unwrap().state == ServiceState::Down).count();
    println!("{stats:?}, {down} services down");
    println!("before {before:?}\nat most {most:?}");
    assert_eq!(down, MONITORS);
    assert_eq!(machine.view(MONITORS).unwrap().state, ServiceState::Up, "the one that answers");
    for (n, why) in [(0, "no connection"), (1, "no connection"), (2, "no answer"), (3, "no answer")] {
        let reason = machine.view(n).unwrap().reason;
        assert!(reason.ends_with(&format!(": {why} within 2s")), "{reason}");
    }
    assert_eq!((stats.overdue, stats.not_permitted), (0, 0), "each was done, and reported in time");
    // The good server has a thread of its own for each connection, of which there is one at a time.
    assert!(most.threads <= before.threads + 2, "no thread for any of them");
    assert!(most.tasks <= before.tasks + UNDER_WAY, "a task for each check under way, and no other");
    assert!(most.descriptors <= before.descriptors + UNDER_WAY + 10, "nor more than one descriptor");
    cancel.cancel();
    tokio::time::timeout(LONG, io.join()).await.unwrap();
    let until = Instant::now() + LONG;
    loop {
        let mut after = Most::default();
        after.look();
        if after.tasks == 0 && after.descriptors <= before.descriptors + 10 {
            return;
        }
        assert!(Instant::now() < until, "all are to be gone: {after:?}");
        tokio::task::yield_now().await;
    }
}
