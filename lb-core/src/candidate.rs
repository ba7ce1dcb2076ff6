//! What a method may know of a service that takes part.

use crate::hash;
use gslb_types::{Rtt, ServiceName, Weight};
use std::fmt;
use std::str::FromStr;

/// A service that takes part in one choice, with what has been counted and measured of it.
///
/// A plain row of numbers, cheap to build for every query. What nobody counts or measures is `None`, never 0: a response
/// time not yet known is not a short one, and traffic that nobody sees is not little traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its place in the configuration's order, in the numbers that the tie pointer uses.
    pub position: usize,
    /// What source-IP hash knows it by.
    pub id: ServiceId,
    /// Its share in round robin and hash, and the divisor of its score.
    pub weight: Weight,
    /// Transactions (for TCP virtual servers: connections) open at this moment.
    ///
    /// `None` where nobody counts them: the answer names the service itself, so clients reach it past this node.
    pub active: Option<u32>,
    /// Mean response time of its monitors; LRTM's half of N.
    pub response_time: Option<Rtt>,
    /// Time to the first byte of real responses; LRT's half of N.
    pub ttfb: Option<Rtt>,
    /// Bytes both ways in the last 14 s; least bandwidth's N.
    pub bytes: Option<u64>,
    /// Packets both ways in the last 14 s; least packets' N.
    pub packets: Option<u64>,
    /// Load by the operator's own reckoning, in thousandths; custom load's N.
    pub load: Option<u64>,
}

impl Candidate {
    /// A service of which nothing is known but its place, identity and weight.
    pub const fn new(position: usize, id: ServiceId, weight: Weight) -> Self {
        Candidate {
            position,
            id,
            weight,
            active: None,
            response_time: None,
            ttfb: None,
            bytes: None,
            packets: None,
            load: None,
        }
    }
}

/// A service as source-IP hash knows it: a number made of its name, the same on every node and in every version.
///
/// Not its position, which changes when another service is taken out of the configuration: then every client would move.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceId(u64);

impl ServiceId {
    /// The number of the service with this name.
    pub fn of(name: &ServiceName) -> Self {
        ServiceId(hash::of_name(name.as_str().as_bytes()))
    }

    /// The number itself, for hashing.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

/// Sixteen hexadecimal digits: what a persistence cookie holds. It names the service to this node and to nobody else.
impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text is no [`ServiceId`]: not sixteen lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoServiceId;

impl FromStr for ServiceId {
    type Err = NoServiceId;

    fn from_str(text: &str) -> Result<Self, NoServiceId> {
        let digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(digit) {
            return Err(NoServiceId);
        }
        u64::from_str_radix(text, 16).map(ServiceId).map_err(|_| NoServiceId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden: nodes of different versions must know a service by the same number.
    #[test]
    fn the_number_of_a_name_never_changes() {
        let id = |name| ServiceId::of(&ServiceName::new(name).unwrap()).get();
        assert_eq!(id("web-1"), 9_695_832_219_467_212_433);
        assert_eq!(id("web-2"), 4_374_702_024_990_467_816);
    }

    #[test]
    fn a_number_reads_back_as_written_and_nothing_else_reads() {
        let id = ServiceId(0x00ff_0012_3456_789a);
        assert_eq!(id.to_string(), "00ff00123456789a");
        assert_eq!("00ff00123456789a".parse(), Ok(id));
        for bad in ["", "ff", "00FF00123456789a", "+0ff00123456789a", "00ff00123456789a0", "ü0ff00123456789"]
        {
            assert_eq!(bad.parse::<ServiceId>(), Err(NoServiceId), "{bad}");
        }
    }
}
