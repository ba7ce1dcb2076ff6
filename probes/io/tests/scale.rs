//! Thousands of monitors by the real machine and the real sender: how many checks, threads, descriptors, and how even.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::v4;
use gslb_types::{Check, HttpCheck, ServiceName, ServiceState, Timestamp};
use probes_core::Monitors;
use probes_core::monitors::{MonitorSettings, Output, ServiceSettings};
use probes_io::{ProbeIo, Reply, Request, Settings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const MONITORS: usize = 5_000;

/// Long enough for the start, and for a whole interval after it.
const LASTS: Duration = Duration::from_secs(9);

/// And no longer than this.
const LONGEST: Duration = Duration::from_secs(60);

/// A web server of one thread: it answers each connection and closes it.
fn server() -> SocketAddr {
    let listener = TcpListener::bind((v4(53, 0, 1), 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A tcp check says nothing and is gone.
            if matches!(stream.read(&mut [0; 512]), Ok(1..)) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    addr
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// CPU time of this thread, which is the one that the runtime has, in the kernel's hundredths of a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|n| n.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::test]
async fn five_thousand_monitors_take_one_thread_and_few_descriptors() {
    let target = server();
    let service = |n: usize| {
        let check = if n.is_multiple_of(2) { Check::Tcp } else { Check::Http(HttpCheck::get("/")) };
        let name = ServiceName::new(&format!("s{n}")).unwrap();
        ServiceSettings {
            service: n,
            name,
            monitors: vec![MonitorSettings::new(check, target)],
            threshold: None,
        }
    };
    let (requests, requested) = mpsc::channel(1024);
    let (replied, mut replies) = mpsc::channel(1024);
    let cancel = CancellationToken::new();
    let before = threads();
    let io = ProbeIo::start(Settings::default(), requested, replied, &cancel).unwrap();
    let began = Instant::now();
    let now = || Timestamp::from_micros(began.elapsed().as_micros() as u64);
    let (mut machine, mut tenths, began_cpu) = (Monitors::new(7), vec![0u32; 90], cpu());
    let (mut most_threads, mut most_descriptors, mut looked) = (0, 0, Instant::now());
    machine.set_bindings(now(), (0..MONITORS).map(service).collect());
    // Longer on a machine that is so busy that not all have had their turn.
    let mut until = LASTS;
    while began.elapsed() < until {
        while let Some(output) = machine.poll_output() {
            if let Output::Check(check) = output {
                if let Some(count) = tenths.get_mut((began.elapsed().as_millis() / 100) as usize) {
                    *count += 1;
                }
                requests.send(Request::Check(check)).await.unwrap();
            }
        }
        let wake = machine.poll_timeout().unwrap().since(Timestamp::ZERO);
        tokio::select! {
            Some(Reply::Check(reply)) = replies.recv() => machine.handle_reply(now(), reply),
            () = tokio::time::sleep_until((began + wake.min(until)).into()) => machine.handle_timeout(now()),
        }
        if looked.elapsed() > Duration::from_millis(20) {
            looked = Instant::now();
            let is_done = |n| machine.view(n).unwrap().state == ServiceState::Up;
            if began.elapsed() + Duration::from_secs(1) > until
                && until < LONGEST
                && !(0..MONITORS).all(is_done)
            {
                until += Duration::from_secs(1);
            }
            most_threads = most_threads.max(threads());
            most_descriptors = most_descriptors.max(descriptors());
        }
    }
    let (stats, cpu) = (machine.stats(), cpu().saturating_sub(began_cpu));
    let up = (0..MONITORS).filter(|n| machine.view(*n).unwrap().state == ServiceState::Up).count();
    cancel.cancel();
    io.join().await;
    let steady = &tenths[40..90];
    println!("{stats:?}, {up} services up, {cpu:.2?} of CPU");
    println!("threads {before} before, {most_threads} at most; descriptors {most_descriptors} at most");
    println!(
        "from 4 s on {} to {} checks in each tenth of a second",
        steady.iter().min().unwrap(),
        steady.iter().max().unwrap()
    );
    assert_eq!(up, MONITORS);
    assert!(stats.failed + stats.overdue < 50, "no more than a machine that hangs may cause");
    assert!(stats.checks as usize > MONITORS + 3_500, "every second one has its next check by now");
    assert_eq!(most_threads, before, "no thread for any of them");
    assert!(most_descriptors < 400, "{most_descriptors}");
    assert!(*steady.iter().max().unwrap() < 250, "{tenths:?}");
}
