//! How many handshakes may be unfinished: nobody has shown a certificate yet, and the source address may be forged
//! (threat T15).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From this many unfinished handshakes on, an address must first prove that it gets our packets (QUIC Retry, one round trip
/// more). A whole group that starts at once (32 nodes) rarely comes near it.
const UNPROVEN: usize = 32;

/// Unfinished handshakes at most. At about 60 KiB each this is 16 MiB.
const TOTAL: usize = 256;

/// As many more for the addresses at which peers listen: strangers can't take these places, so a peer gets in while they
/// hold all others (bar R7).
const RESERVED: usize = 64;

/// Unfinished handshakes at most from one IPv4 address or IPv6 /64; several nodes may stand behind one address translator.
const PER_ADDRESS: usize = 32;

/// QUIC connections at most, those among them that are closed and drain (RFC 9000 section 10.2: three timeouts long, about
/// 3 s after a refusal). A group of 32 nodes has some sixty; who is refused and comes again at once has the rest.
const OPEN: usize = 1024;

/// Whether the endpoint holds so many connections that a handshake more is one too many. `known` is where a peer listens:
/// there are places that strangers can't take.
pub(crate) const fn is_crowded(open: usize, known: bool) -> bool {
    open >= if known { OPEN + RESERVED } else { OPEN }
}

/// Counts unfinished handshakes.
#[derive(Default)]
pub(crate) struct Gate(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    total: usize,
    /// Proven and unproven apart: who forges an address takes nothing from who has it.
    by_address: BTreeMap<(IpAddr, bool), usize>,
}

/// What is to happen with somebody who wants to begin a handshake.
pub(crate) enum Verdict {
    /// Go on; the ticket counts until it is dropped.
    Admit(Ticket),
    /// Prove the address first.
    Prove,
    /// Not now.
    Refuse,
}

/// Stands for one unfinished handshake.
pub(crate) struct Ticket {
    counts: Arc<Mutex<Counts>>,
    source: (IpAddr, bool),
}

impl Gate {
    /// `known` is where a peer listens.
    pub(crate) fn judge(&self, address: IpAddr, proven: bool, known: bool) -> Verdict {
        let source = (shared(address), proven);
        let total = if known { TOTAL + RESERVED } else { TOTAL };
        let mut counts = lock(&self.0);
        let own = counts.by_address.get(&source).copied().unwrap_or(0);
        if !proven && counts.total >= UNPROVEN {
            return Verdict::Prove;
        }
        if counts.total >= total || own >= PER_ADDRESS {
            return Verdict::Refuse;
        }
        counts.total += 1;
        counts.by_address.insert(source, own + 1);
        Verdict::Admit(Ticket { counts: self.0.clone(), source })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        counts.total = counts.total.saturating_sub(1);
        match counts.by_address.get_mut(&self.source) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                counts.by_address.remove(&self.source);
            }
        }
    }
}

/// What one holder of addresses typically has: in IPv6 a /64.
fn shared(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
    }
}

/// Numbers are whole even if another holder of the lock panicked.
fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(n: usize) -> IpAddr {
        IpAddr::from([192, 0, 2, u8::try_from(n % 256).unwrap()])
    }

    fn admit(gate: &Gate, address: IpAddr, proven: bool) -> Option<Ticket> {
        match gate.judge(address, proven, false) {
            Verdict::Admit(ticket) => Some(ticket),
            Verdict::Prove | Verdict::Refuse => None,
        }
    }

    #[test]
    fn under_load_an_address_must_be_proven() {
        let gate = Gate::default();
        let _held: Vec<_> = (0..UNPROVEN).map(|n| admit(&gate, v4(n), false).unwrap()).collect();
        assert!(matches!(gate.judge(v4(200), false, false), Verdict::Prove));
        assert!(matches!(gate.judge(v4(200), true, false), Verdict::Admit(_)));
    }

    #[test]
    fn one_address_can_not_take_all_places() {
        let gate = Gate::default();
        let held: Vec<_> = (0..PER_ADDRESS).map(|_| admit(&gate, v4(1), true).unwrap()).collect();
        assert!(matches!(gate.judge(v4(1), true, false), Verdict::Refuse));
        assert!(admit(&gate, v4(2), true).is_some());
        drop(held);
        assert!(admit(&gate, v4(1), true).is_some(), "places are given back");
    }

    #[test]
    fn who_forges_an_address_does_not_keep_out_who_has_it() {
        let gate = Gate::default();
        let _forged: Vec<_> = (0..UNPROVEN).map(|_| admit(&gate, v4(1), false).unwrap()).collect();
        assert!(matches!(gate.judge(v4(1), false, true), Verdict::Prove));
        assert!(matches!(gate.judge(v4(1), true, true), Verdict::Admit(_)));
    }

    #[test]
    fn a_holder_of_an_ipv6_prefix_counts_once() {
        let gate = Gate::default();
        let address = |n: usize| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) + n as u128));
        let _held: Vec<_> = (0..PER_ADDRESS).map(|n| admit(&gate, address(n), true).unwrap()).collect();
        assert!(matches!(gate.judge(address(99), true, false), Verdict::Refuse));
    }

    #[test]
    fn connections_that_drain_count_and_leave_room_for_peers() {
        assert!(!is_crowded(OPEN - 1, false) && is_crowded(OPEN, false));
        assert!(!is_crowded(OPEN + RESERVED - 1, true) && is_crowded(OPEN + RESERVED, true));
    }

    #[test]
    fn there_is_an_end_to_it() {
        let gate = Gate::default();
        let _held: Vec<_> = (0..TOTAL).map(|n| admit(&gate, v4(n), true).unwrap()).collect();
        let late = IpAddr::from([198, 51, 100, 1]);
        assert!(matches!(gate.judge(late, true, false), Verdict::Refuse));
        assert!(matches!(gate.judge(late, true, true), Verdict::Admit(_)), "strangers leave room for peers");
    }
}
