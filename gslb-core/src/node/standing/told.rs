//! How decisions travel: as persistence sessions of an id that no configuration can have.

use super::{Decided, Standing};
use crate::decide::Place;
use config::{PERSISTENCE_IDS, Vserver};
use gslb_types::Timestamp;
use mep_core::{KnownSession, SessionKey};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::{IpAddr, Ipv6Addr};

/// What was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// Whether a virtual server has spilled over.
    Spilled { vserver: usize, spilled: bool },
    /// The place of a virtual server that stands for a family.
    Place { vserver: usize, v6: bool, place: Place },
}

/// What can be decided of a virtual server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum About {
    Spilled,
    Place { v6: bool },
}

/// Below the virtual server's number: what is decided, the family, and what came of it.
const SPILLED: u64 = 1 << 56;
const PLACE: u64 = 2 << 56;
const V6: u64 = 1 << 48;

/// Whether a session is no client's, but a decision.
pub(super) fn is_decision(key: &SessionKey) -> bool {
    key.persistence == PERSISTENCE_IDS
}

impl Subject {
    fn vserver(self) -> usize {
        match self {
            Subject::Spilled { vserver, .. } | Subject::Place { vserver, .. } => vserver,
        }
    }

    /// What it is about, whatever was decided.
    pub(super) fn about(self) -> (usize, About) {
        let about = match self {
            Subject::Spilled { .. } => About::Spilled,
            Subject::Place { v6, .. } => About::Place { v6 },
        };
        (self.vserver(), about)
    }

    fn bits(self) -> u64 {
        match self {
            Subject::Spilled { spilled, .. } => SPILLED | u64::from(spilled),
            Subject::Place { v6, place, .. } => {
                PLACE | (u64::from(v6) * V6) | (u64::from(place.link) << 16) | u64::from(place.order)
            }
        }
    }

    fn of_bits(vserver: usize, bits: u64) -> Option<Self> {
        let low = |shift: u32| u16::try_from(bits >> shift & 0xffff).ok();
        let subject = match bits >> 56 {
            1 => Subject::Spilled { vserver, spilled: bits & 1 == 1 },
            2 => Subject::Place {
                vserver,
                v6: bits & V6 != 0,
                place: Place { link: low(16)?, order: low(0)? },
            },
            _ => return None,
        };
        (subject.bits() == bits).then_some(subject)
    }
}

impl Standing {
    /// A peer told of a decision. What is of none of our virtual servers is nothing.
    pub(in crate::node) fn hear(&mut self, now: Timestamp, session: &KnownSession) -> bool {
        let Some(subject) = self.subject(&session.key) else { return false };
        let told = Decided { at: now, before: session.idle };
        let heard = self.heard.entry(subject.about()).or_insert((subject, told));
        if told.age(now) < heard.1.age(now) {
            *heard = (subject, told);
        }
        true
    }

    /// Whether it is one of these, whatever it is about.
    pub(in crate::node) fn is_decision(key: &SessionKey) -> bool {
        is_decision(key)
    }

    /// A decision that holds, for the peers.
    pub(in crate::node) fn known(&self, now: Timestamp, key: &SessionKey) -> Option<KnownSession> {
        let subject = self.subject(key)?;
        let decided = match subject {
            Subject::Spilled { vserver, spilled } => {
                let kept = self.spilled.get(vserver)?;
                kept.decided.filter(|_| kept.value == spilled)?
            }
            Subject::Place { vserver, v6, place } => {
                let kept = self.places.get(vserver)?.get(usize::from(v6))?;
                kept.decided.filter(|_| kept.value == Some(place))?
            }
        };
        let first = self.config.vservers.get(subject.vserver())?.bindings.first()?;
        let service = self.config.services.get(first.service)?.name.clone();
        Some(KnownSession { key: *key, service, idle: decided.age(now) })
    }

    /// The decisions that hold after `after`, in the order of their keys.
    pub(in crate::node) fn known_after(
        &self,
        now: Timestamp,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Vec<KnownSession> {
        let spilled = self.spilled.iter().enumerate();
        let spilled = spilled.map(|(vserver, kept)| Subject::Spilled { vserver, spilled: kept.value });
        let places = self.places.iter().enumerate().flat_map(|(vserver, families)| {
            families
                .iter()
                .zip([false, true])
                .filter_map(move |(kept, v6)| Some(Subject::Place { vserver, v6, place: kept.value? }))
        });
        let mut keys: Vec<SessionKey> =
            spilled.chain(places).filter_map(|subject| self.key(subject)).collect();
        keys.retain(|key| after.is_none_or(|after| key > after));
        keys.sort_unstable();
        keys.iter().filter_map(|key| self.known(now, key)).take(limit).collect()
    }

    pub(super) fn key(&self, subject: Subject) -> Option<SessionKey> {
        let number = number(self.config.vservers.get(subject.vserver())?);
        let client = u128::from(number) << 64 | u128::from(subject.bits());
        Some(SessionKey {
            persistence: PERSISTENCE_IDS,
            client: Ipv6Addr::from_bits(client).into(),
            prefix: 128,
        })
    }

    fn subject(&self, key: &SessionKey) -> Option<Subject> {
        let IpAddr::V6(client) = key.client else { return None };
        let client = client.to_bits();
        let of = u64::try_from(client >> 64).ok().filter(|_| is_decision(key))?;
        let vserver = *self.numbers.get(&of)?;
        Subject::of_bits(vserver, u64::try_from(client & u128::from(u64::MAX)).ok()?)
    }
}

/// What a virtual server is called in keys: the same at all nodes and in all versions.
pub(super) fn number(vserver: &Vserver) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(0x6773_6c62_2d64_6e73, 0x7374_616e_6469_6e67);
    hasher.write(vserver.name.as_str().as_bytes());
    // Half of the range: a key that looked like a multicast address would be no client's, and peers would take it for a fault.
    hasher.finish() >> 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_decided_reads_back_from_its_bits(link: u16, order: u16, v6: bool, spilled: bool) {
            let place = Subject::Place { vserver: 3, v6, place: Place { link, order } };
            let spilled = Subject::Spilled { vserver: 3, spilled };
            prop_assert_eq!(Subject::of_bits(3, place.bits()), Some(place));
            prop_assert_eq!(Subject::of_bits(3, spilled.bits()), Some(spilled));
        }

        #[test]
        fn other_bits_say_nothing_else_than_what_they_are(bits: u64) {
            prop_assert!(Subject::of_bits(3, bits).is_none_or(|subject| subject.bits() == bits));
        }
    }
}
