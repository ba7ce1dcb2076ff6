//! What is to happen when.

use super::HostIndex;
use super::net::{End, WireId};
use gslb_core::Input;
use gslb_types::Timestamp;
use mep_core::carrier::{CarrierEvent, Over};
use std::collections::BTreeMap;

/// Something on its way.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A process is told something by its own machine.
    Tell { host: HostIndex, life: u64, input: Input },
    /// A dial reaches the other end.
    Knock { from: HostIndex, life: u64, to: HostIndex, over: Over },
    /// Something arrives at the end of a connection, that was sent so long ago.
    Arrive { wire: WireId, end: End, sent: Timestamp, event: CarrierEvent },
    /// An end may have heard nothing for too long.
    Idle { wire: WireId, end: End },
    /// A stopped process goes on.
    Resume { host: HostIndex, life: u64 },
    /// A line that comes and goes does one of the two.
    Wave { pair: (HostIndex, HostIndex), number: u64 },
}

/// The events to come; those of one moment in the order they were added.
#[derive(Default)]
pub(crate) struct Agenda {
    events: BTreeMap<(Timestamp, u64), Event>,
    added: u64,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: Timestamp, event: Event) {
        self.added += 1;
        self.events.insert((at, self.added), event);
    }

    /// Lets what would happen later happen at that time, in the order it would have.
    pub(crate) fn hurry(&mut self, at: Timestamp, is_meant: impl Fn(&Event) -> bool) {
        let later = self.events.iter().filter(|((when, _), event)| *when > at && is_meant(event));
        for key in later.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(event) = self.events.remove(&key) {
                self.add(at, event);
            }
        }
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn take(&mut self) -> Option<Event> {
        self.events.pop_first().map(|(_, event)| event)
    }
}
