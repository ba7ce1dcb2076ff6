//! Two hosts at the ends of a long wire, each in a network namespace of its own. Needs root, `ip` and /dev/net/tun.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// The server's address.
pub(crate) const SERVER: &str = "10.78.0.2";

/// The hosts, gone when this is dropped.
///
/// ```text
/// client 10.78.0.1  ---- half the delay each way ----  10.78.0.2 server
/// ```
pub(crate) struct Wire {
    prefix: String,
    /// Microseconds there and back.
    delay: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Wire {
    /// Strings it up, or says why that can't be.
    pub(crate) fn string() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !nix::unistd::geteuid().is_root() || !std::path::Path::new("/dev/net/tun").exists() {
            super::skipped("namespaces joined by TUN devices need root and /dev/net/tun");
            return None;
        }
        let prefix = format!("pwire-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (delay, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut wire = Wire { prefix, delay, stop, threads: Vec::new() };
        let mut ends = Vec::new();
        for (role, own, other) in [("c", "10.78.0.1", SERVER), ("s", SERVER, "10.78.0.1")] {
            let name = wire.name(role);
            if !Command::new("ip").args(["netns", "add", &name]).status().is_ok_and(|s| s.success()) {
                super::skipped("network namespaces can't be made");
                return None;
            }
            ends.push(Arc::new(wire.inside(role, || device().unwrap()).join().unwrap()));
            for command in [
                "link set lo up".to_owned(),
                "link set wire up".to_owned(),
                format!("addr add {own}/32 dev wire"),
                format!("route add {other}/32 dev wire src {own}"),
            ] {
                let args = ["-n", &name].into_iter().chain(command.split(' '));
                assert!(Command::new("ip").args(args).status().unwrap().success(), "{command}");
            }
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let (from, to) = (Arc::clone(&ends[from]), Arc::clone(&ends[to]));
            let (delay, stop) = (Arc::clone(&wire.delay), Arc::clone(&wire.stop));
            wire.threads.push(std::thread::spawn(move || {
                hurry();
                carry(&from, &to, &delay, &stop);
            }));
        }
        Some(wire)
    }

    /// Makes a round trip take so long from now on. What is still under way is waited for: it would hold up what follows.
    pub(crate) fn lengthen(&self, round_trip: Duration) {
        let before = self.delay.swap(round_trip.as_micros() as u64, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(before));
    }

    /// Runs this on a thread of its own at one end, "c" or "s".
    pub(crate) fn inside<T: Send + 'static>(
        &self,
        role: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.name(role));
        let enter = move || {
            setns(File::open(path).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
            run()
        };
        Builder::new().name(role.to_owned()).spawn(enter).unwrap()
    }

    fn name(&self, role: &str) -> String {
        format!("{}-{role}", self.prefix)
    }
}

fn device() -> std::io::Result<SyncDevice> {
    let device = DeviceBuilder::new().name("wire").layer(Layer::L3).mtu(1500).enable(false).build_sync()?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// A wire is not late because a machine is busy. Where real time is not permitted it may be.
fn hurry() {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    if let Ok(lowest) = 1u8.try_into() {
        let lowest = ThreadPriority::Crossplatform(lowest);
        let _ = set_thread_priority_and_policy(thread_native_id(), lowest, policy);
    }
}

/// Carries packets one way, each after half the delay, in order.
fn carry(from: &SyncDevice, to: &SyncDevice, delay: &AtomicU64, stop: &AtomicBool) {
    let (mut under_way, mut buffer) = (VecDeque::<(Instant, Vec<u8>)>::new(), [0; 2048]);
    while !stop.load(Ordering::Relaxed) {
        while let Ok(len) = from.recv(&mut buffer) {
            let half = Duration::from_micros(delay.load(Ordering::Relaxed) / 2);
            under_way.push_back((Instant::now() + half, buffer[..len].to_vec()));
        }
        while let Some((_, packet)) = under_way.front().filter(|(due, _)| *due <= Instant::now()) {
            // A device that is going down takes none.
            let _ = to.send(packet);
            under_way.pop_front();
        }
        let wait = under_way.front().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        match wait {
            // The kernel's clock of poll is too coarse for the last moment.
            Some(wait) if wait < Duration::from_millis(2) => {
                std::thread::sleep(wait.min(Duration::from_micros(100)))
            }
            _ => drop(poll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], PollTimeout::from(1u8))),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        for role in ["c", "s"] {
            let _ =
                Command::new("ip").args(["netns", "del", &self.name(role)]).stderr(Stdio::null()).status();
        }
    }
}
