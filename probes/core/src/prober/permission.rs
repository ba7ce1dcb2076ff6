//! Whether this process may ping (faults I-38).

use crate::wire::ProbeOutcome;
use gslb_types::{ProbeKind, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

/// How long pings are left out after one was not permitted, for all LDNS; then one of them tries again.
const RETRY: Duration = Duration::from_secs(60);

/// What is known of pings, for IPv4 and IPv6 apart: the sockets are different ones.
#[derive(Default)]
pub(super) struct Permission {
    v4: Access,
    v6: Access,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Access {
    #[default]
    Unknown,
    Granted,
    /// No ping before then.
    Denied {
        until: Timestamp,
    },
}

impl Permission {
    /// Whether a ping to this address may be tried.
    pub(super) fn allows(&self, now: Timestamp, address: IpAddr) -> bool {
        match self.of(address) {
            Access::Unknown | Access::Granted => true,
            Access::Denied { until } => until <= now,
        }
    }

    /// Notes that a probe leaves: while pings are denied, one that tries again speaks for all.
    pub(super) fn sends(&mut self, now: Timestamp, address: IpAddr, kind: ProbeKind) {
        if kind == ProbeKind::Ping
            && let Access::Denied { until } = self.of_mut(address)
        {
            *until = now + RETRY;
        }
    }

    /// Learns from the reported outcome of a ping. One that could not be sent for another reason teaches nothing.
    pub(super) fn learn(&mut self, now: Timestamp, address: IpAddr, outcome: ProbeOutcome) {
        match outcome {
            ProbeOutcome::NotPermitted => *self.of_mut(address) = Access::Denied { until: now + RETRY },
            ProbeOutcome::SendFailed => {}
            ProbeOutcome::EchoReply(_)
            | ProbeOutcome::DnsAnswer(_)
            | ProbeOutcome::Connected(_)
            | ProbeOutcome::Reset(_)
            | ProbeOutcome::PortUnreachable(_)
            | ProbeOutcome::RouterError
            | ProbeOutcome::TimedOut => *self.of_mut(address) = Access::Granted,
        }
    }

    /// Whether pings are permitted: not if either family is denied; unknown before the first.
    pub(super) fn is_granted(&self) -> Option<bool> {
        match (self.v4, self.v6) {
            (Access::Denied { .. }, _) | (_, Access::Denied { .. }) => Some(false),
            (Access::Unknown, Access::Unknown) => None,
            (Access::Granted, _) | (_, Access::Granted) => Some(true),
        }
    }

    fn of(&self, address: IpAddr) -> Access {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }

    fn of_mut(&mut self, address: IpAddr) -> &mut Access {
        if address.is_ipv4() { &mut self.v4 } else { &mut self.v6 }
    }
}
