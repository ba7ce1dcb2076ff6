//! Which stream connections there are: caps in all and per address, and which one goes when the cap is reached.
//!
//! The idlest is closed first (faults I-25): a hoard of idle connections makes room for those who ask.

use config::Dns;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Caps and times of stream connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) per_address: usize,
    pub(crate) idle: Duration,
}

impl Limits {
    /// Those of the configuration.
    pub(crate) fn of(dns: &Dns) -> Self {
        Limits {
            connections: dns.tcp_connections,
            per_address: dns.tcp_connections_per_address,
            idle: dns.tcp_idle_timeout,
        }
    }
}

/// All connections of the process.
#[derive(Clone)]
pub(crate) struct Registry {
    limits: Limits,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, Entry>,
    per_address: BTreeMap<IpAddr, usize>,
}

struct Entry {
    address: IpAddr,
    last_query: Instant,
    close: CancellationToken,
}

/// A connection's place; dropping it gives the place back.
pub(crate) struct Place {
    id: u64,
    registry: Registry,
    /// Cancelled when somebody else needs the place.
    pub(crate) close: CancellationToken,
}

impl Registry {
    /// No connections yet.
    pub(crate) fn new(limits: Limits) -> Self {
        Registry { limits, open: Arc::default() }
    }

    /// The caps.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// How many there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().connections.len()
    }

    /// Makes a place, closing the idlest connection of the address or of all where a cap is reached. The flag says whether
    /// one had to go.
    pub(crate) fn admit(&self, address: IpAddr) -> (Place, bool) {
        let mut open = self.lock();
        let mut evicted = false;
        if open.per_address.get(&address).copied().unwrap_or(0) >= self.limits.per_address {
            evicted |= open.evict(Some(address));
        }
        if open.connections.len() >= self.limits.connections {
            evicted |= open.evict(None);
        }
        let id = open.next;
        open.next += 1;
        let close = CancellationToken::new();
        open.connections.insert(id, Entry { address, last_query: Instant::now(), close: close.clone() });
        *open.per_address.entry(address).or_default() += 1;
        drop(open);
        (Place { id, registry: self.clone(), close }, evicted)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing in here leaves the maps half changed, so a panic elsewhere does not spoil them.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn evict(&mut self, of: Option<IpAddr>) -> bool {
        let candidates =
            self.connections.iter().filter(|(_, entry)| of.is_none_or(|address| entry.address == address));
        let Some((&id, _)) = candidates.min_by_key(|(_, entry)| entry.last_query) else { return false };
        if let Some(entry) = self.remove(id) {
            entry.close.cancel();
        }
        true
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.connections.remove(&id)?;
        if let Some(count) = self.per_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&entry.address);
            }
        }
        Some(entry)
    }
}

impl Place {
    /// Notes that a whole query came, so that others are idler.
    pub(crate) fn queried(&self) {
        if let Some(entry) = self.registry.lock().connections.get_mut(&self.id) {
            entry.last_query = Instant::now();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(connections: usize, per_address: usize) -> Registry {
        Registry::new(Limits { connections, per_address, idle: Duration::from_secs(10) })
    }

    fn host(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    #[test]
    fn the_idlest_connection_of_all_goes_when_there_are_too_many() {
        let registry = registry(2, 2);
        let (first, _) = registry.admit(host(1));
        let (second, _) = registry.admit(host(2));
        first.queried();
        let (_third, evicted) = registry.admit(host(3));
        assert!(evicted);
        assert_eq!((first.close.is_cancelled(), second.close.is_cancelled()), (false, true));
        assert_eq!(registry.len(), 2);
    }

    #[test]
    fn an_address_that_has_its_share_loses_its_own_connection_and_not_another_ones() {
        let registry = registry(10, 1);
        let (other, _) = registry.admit(host(1));
        let (mine, _) = registry.admit(host(2));
        let (_again, evicted) = registry.admit(host(2));
        assert!(evicted);
        assert_eq!((other.close.is_cancelled(), mine.close.is_cancelled()), (false, true));
    }

    #[test]
    fn a_place_is_given_back() {
        let registry = registry(10, 10);
        let (place, evicted) = registry.admit(host(1));
        assert!(!evicted);
        drop(place);
        assert_eq!(registry.len(), 0);
        assert!(registry.lock().per_address.is_empty());
    }
}
