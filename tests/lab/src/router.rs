//! The I/O around [`Netem`]: a thread that moves packets between the TUN devices of the nodes.
//!
//! It is a thread of the test's own process: nothing has to be found, started or asked over a socket, and it ends with
//! the test however that ends. Its timing does not suffer: the kernel schedules threads, not processes.

use crate::error::LabError;
use crate::netem::Netem;
use gslb_types::Timestamp;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use tun_rs::SyncDevice;

/// The largest IP packet.
const MAX_PACKET: usize = 65_535;

/// Packets taken from one device before the others have their turn.
const BURST: usize = 64;

/// A running router. Dropping it ends its thread and with it the devices.
pub(crate) struct Router {
    netem: Arc<Mutex<Netem>>,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Router {
    /// Starts moving packets; device i is that of node i.
    pub(crate) fn start(netem: Netem, devices: Vec<SyncDevice>) -> Result<Router, LabError> {
        let netem = Arc::new(Mutex::new(netem));
        let stop =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).map_err(LabError::system("eventfd"))?;
        let stop = Arc::new(stop);
        let mut work = Work::new(devices, netem.clone(), stop.clone()).map_err(LabError::system("router"))?;
        let thread = thread::Builder::new()
            .name("lab-router".to_owned())
            .spawn(move || {
                be_punctual();
                if let Err(cause) = work.run() {
                    eprintln!("lab: the router ended: {cause}");
                }
            })
            .map_err(LabError::system("router thread"))?;
        Ok(Router { netem, stop, thread: Some(thread) })
    }

    /// The network, to be looked at or changed. Packets wait meanwhile.
    pub(crate) fn netem(&self) -> MutexGuard<'_, Netem> {
        lock(&self.netem)
    }

    /// Whether it still moves packets.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // An eventfd refuses only when it is about to overflow.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A panic in between can't leave it half changed in a way that matters to a test that fails anyway.
fn lock(netem: &Mutex<Netem>) -> MutexGuard<'_, Netem> {
    netem.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Timers fire to the microsecond, and the thread runs as soon as they do, also on a busy machine. Where that is not
/// allowed delays are merely less exact.
fn be_punctual() {
    let _ = set_timerslack(1);
    if let Ok(lowest) = 1u8.try_into() {
        let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        let _ =
            set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(lowest), policy);
    }
}

struct Work {
    netem: Arc<Mutex<Netem>>,
    devices: Vec<SyncDevice>,
    poll: Epoll,
    timer: TimerFd,
    origin: Instant,
    armed: Option<Timestamp>,
    buffer: Vec<u8>,
    /// Keeps the descriptor open that `poll` watches.
    _stop: Arc<EventFd>,
}

/// What is ready, beside device i, whose token is i.
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

impl Work {
    fn new(devices: Vec<SyncDevice>, netem: Arc<Mutex<Netem>>, stop: Arc<EventFd>) -> io::Result<Work> {
        let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        let watch = |fd: BorrowedFd<'_>, token| poll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token));
        for (i, device) in devices.iter().enumerate() {
            device.set_nonblocking(true)?;
            watch(device.as_fd(), i as u64)?;
        }
        watch(timer.as_fd(), TIMER)?;
        watch(stop.as_fd(), STOP)?;
        Ok(Work {
            netem,
            devices,
            poll,
            timer,
            origin: Instant::now(),
            armed: None,
            buffer: vec![0; MAX_PACKET],
            _stop: stop,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 32];
        loop {
            let ready = match self.poll.wait(&mut events, EpollTimeout::NONE) {
                Err(nix::Error::EINTR) => 0,
                other => other?,
            };
            for event in events.iter().take(ready) {
                match event.data() {
                    STOP => return Ok(()),
                    TIMER => self.timer_fired(),
                    device => self.receive(device as usize),
                }
            }
            self.deliver();
            self.arm()?;
        }
    }

    fn timer_fired(&mut self) {
        // Reading clears it; an error says that it was set anew in between.
        let _ = self.timer.wait();
        self.armed = None;
    }

    fn receive(&mut self, from: usize) {
        let Some(device) = self.devices.get(from) else { return };
        for _ in 0..BURST {
            // Nothing more to read, or the device is gone: either way the others go on.
            let Ok(length) = device.recv(&mut self.buffer) else { break };
            let now = now(self.origin);
            if let Some(packet) = self.buffer.get(..length) {
                lock(&self.netem).handle_packet(now, from, packet);
            }
        }
    }

    fn deliver(&mut self) {
        let mut netem = lock(&self.netem);
        netem.handle_timeout(now(self.origin));
        while let Some(arrival) = netem.poll_output() {
            if let Some(device) = self.devices.get(arrival.to) {
                // A device that takes no packet is a host that drops it.
                let _ = device.send(&arrival.packet);
            }
        }
    }

    fn arm(&mut self) -> io::Result<()> {
        let next = lock(&self.netem).poll_timeout();
        if next == self.armed {
            return Ok(());
        }
        self.armed = next;
        let Some(at) = next else { return Ok(self.timer.unset()?) };
        // Zero would disarm the timer; a microsecond late does not matter.
        let wait = at.since(now(self.origin)).max(Duration::from_micros(1));
        Ok(self.timer.set(Expiration::OneShot(TimeSpec::from_duration(wait)), TimerSetTimeFlags::empty())?)
    }
}

fn now(origin: Instant) -> Timestamp {
    Timestamp::ZERO + origin.elapsed()
}
