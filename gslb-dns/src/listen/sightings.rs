//! From a DNS thread to the node task: which LDNS asked, and which persistence sessions were used. May drop, counted; a query never waits for it.

use gslb_core::{Input, Published, SessionKey, Shared};
use gslb_types::{ServiceName, Timestamp, VserverName};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

/// Sightings that may wait for the node task: a burst of new LDNS, and no more memory than this under a flood.
const QUEUE: usize = 16_384;

/// Slots of a thread's filter; two addresses that share one only pass more often.
const SLOTS: usize = 4096;

/// What is to be noted of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// This LDNS asked.
    Sighting(IpAddr),
    /// This session was used, and leads there.
    Session(SessionKey, ServiceName),
    /// An operator brings the clients of this virtual server back.
    Failback(VserverName),
}

impl From<Noted> for Input {
    fn from(noted: Noted) -> Input {
        match noted {
            Noted::Sighting(ldns) => Input::Sighting(ldns),
            Noted::Session(key, service) => Input::Session { key, service },
            Noted::Failback(vserver) => Input::Failback(vserver),
        }
    }
}

/// Makes the queue.
pub(crate) fn sighting_channel(shared: Arc<Shared>) -> (SightingSender, mpsc::Receiver<Noted>) {
    let (queue, receiver) = mpsc::channel(QUEUE);
    (SightingSender { queue, shared }, receiver)
}

/// The DNS side's end of the queue.
#[derive(Clone)]
pub(crate) struct SightingSender {
    queue: mpsc::Sender<Noted>,
    shared: Arc<Shared>,
}

impl SightingSender {
    /// Passes one on, unless the queue is full.
    pub(crate) fn send(&self, noted: Noted) {
        if self.queue.try_send(noted).is_err() {
            self.shared.dns.sightings_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Passes on what an operator wants. Whether there was room.
    pub(crate) fn failback(&self, vserver: &VserverName) -> bool {
        self.queue.try_send(Noted::Failback(vserver.clone())).is_ok()
    }

    /// Passes on that a session was used.
    pub(crate) fn send_session(&self, published: &Published, key: SessionKey, service: usize) {
        if let Some(service) = published.config.services.get(service) {
            self.send(Noted::Session(key, service.name.clone()));
        }
    }
}

/// Passes an LDNS on once a second at most: last-seen times have a resolution of seconds anyway.
pub(crate) struct SightingFilter {
    slots: Vec<Option<(IpAddr, u64)>>,
    sessions: Vec<Option<(SessionKey, usize, u64)>>,
    sender: SightingSender,
}

impl SightingFilter {
    /// An empty filter before this queue; each thread has its own.
    pub(crate) fn new(sender: SightingSender) -> Self {
        SightingFilter { slots: vec![None; SLOTS], sessions: vec![None; SLOTS], sender }
    }

    /// Notes that this LDNS asked.
    pub(crate) fn note(&mut self, ldns: IpAddr, now: Timestamp) {
        let entry = Some((ldns, now.as_secs()));
        let slot = &mut self.slots[slot(ldns)];
        if *slot != entry {
            *slot = entry;
            self.sender.send(Noted::Sighting(ldns));
        }
    }

    /// Notes that a session was used, and where it leads.
    pub(crate) fn note_session(
        &mut self,
        published: &Published,
        key: SessionKey,
        service: usize,
        now: Timestamp,
    ) {
        let entry = Some((key, service, now.as_secs()));
        let slot = &mut self.sessions[slot(key.client)];
        if *slot != entry {
            *slot = entry;
            self.sender.send_session(published, key, service);
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
