//! From a DNS thread to the node task: which LDNS asked. May drop, counted; a query never waits for it.

use gslb_core::Shared;
use gslb_types::Timestamp;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

/// Sightings that may wait for the node task: a burst of new LDNS, and no more memory than this under a flood.
const QUEUE: usize = 16_384;

/// Slots of a thread's filter; two addresses that share one only pass more often.
const SLOTS: usize = 4096;

/// Makes the queue.
pub(crate) fn sighting_channel(shared: Arc<Shared>) -> (SightingSender, mpsc::Receiver<IpAddr>) {
    let (queue, receiver) = mpsc::channel(QUEUE);
    (SightingSender { queue, shared }, receiver)
}

/// The DNS side's end of the queue.
#[derive(Clone)]
pub(crate) struct SightingSender {
    queue: mpsc::Sender<IpAddr>,
    shared: Arc<Shared>,
}

impl SightingSender {
    /// Passes one on, unless the queue is full.
    pub(crate) fn send(&self, ldns: IpAddr) {
        if self.queue.try_send(ldns).is_err() {
            self.shared.dns.sightings_lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Passes an LDNS on once a second at most: last-seen times have a resolution of seconds anyway.
pub(crate) struct SightingFilter {
    slots: Vec<Option<(IpAddr, u64)>>,
    sender: SightingSender,
}

impl SightingFilter {
    /// An empty filter before this queue; each thread has its own.
    pub(crate) fn new(sender: SightingSender) -> Self {
        SightingFilter { slots: vec![None; SLOTS], sender }
    }

    /// Notes that this LDNS asked.
    pub(crate) fn note(&mut self, ldns: IpAddr, now: Timestamp) {
        let entry = Some((ldns, now.as_secs()));
        let slot = &mut self.slots[slot(ldns)];
        if *slot != entry {
            *slot = entry;
            self.sender.send(ldns);
        }
    }
}

fn slot(ldns: IpAddr) -> usize {
    let bits = match ldns {
        IpAddr::V4(a) => u64::from(a.to_bits()),
        IpAddr::V6(a) => (a.to_bits() >> 64) as u64 ^ a.to_bits() as u64,
    };
    // Fibonacci hashing: the high bits of the product depend on all bits of the address.
    (bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize % SLOTS
}
