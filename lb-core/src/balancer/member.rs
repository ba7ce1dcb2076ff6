//! One member: what is set, told, counted and measured of it.

use super::outcome::{MemberId, Out};
use super::ramp::Ramp;
use super::settings::MemberSettings;
use crate::{ByteWindow, Candidate, Mbps, ServiceId};
use gslb_types::{LbMethod, Rtt, ServiceState, Timestamp};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) service: ServiceId,
    pub(super) settings: MemberSettings,
    pub(super) state: ServiceState,
    /// Mean of its monitors.
    pub(super) response_time: Option<Rtt>,
    /// What its monitors or its source tell of its load, in thousandths.
    pub(super) load: Option<u64>,
    pub(super) ttfb: TimeToFirstByte,
    pub(super) enabled: bool,
    pub(super) drain: Drain,
    pub(super) ramp: Ramp,
    /// Whether it has been out while others could serve: then it is colder than they are when it comes.
    pub(super) been_out: bool,
    /// Transactions under way.
    pub(super) active: u32,
    pub(super) totals: Totals,
    pub(super) window: ByteWindow,
}

/// What was counted since the member is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Totals {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) packets: u64,
}

/// Whether new transactions are kept away so that those under way can end.
///
/// ```text
///   Off --- drain --> On --- its deadline passes --> Over
///    ^                |                               |
///    +---- undrain ---+-------------------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drain {
    /// It takes what it is given.
    Off,
    /// It takes nothing new, but from clients that persistence keeps there.
    On {
        /// When what still runs is cut.
        until: Timestamp,
    },
    /// It takes nothing at all; what still ran was to be cut.
    Over,
}

impl Member {
    pub(super) fn new(id: MemberId, settings: MemberSettings) -> Self {
        Member {
            id,
            service: ServiceId::of(&settings.name),
            enabled: settings.enabled,
            settings,
            state: ServiceState::Learning,
            response_time: None,
            load: None,
            ttfb: TimeToFirstByte::default(),
            drain: Drain::Off,
            ramp: Ramp::Full,
            been_out: false,
            active: 0,
            totals: Totals::default(),
            window: ByteWindow::new(),
        }
    }

    /// Why it can be given no new client's request; `None` if it can. [`Out::Learning`] is all that speaks against it, if
    /// that is what is said.
    pub(super) fn out(&self, now: Timestamp) -> Option<Out> {
        match self.standing() {
            None => self.limit(now),
            Some(Out::Learning) => self.limit(now).or(Some(Out::Learning)),
            Some(out) => Some(out),
        }
    }

    /// The same, whatever its limits say: whether it counts as a service that has joined.
    pub(super) fn standing(&self) -> Option<Out> {
        if !self.enabled {
            return Some(Out::Disabled);
        }
        match (self.state, self.drain) {
            (ServiceState::Disabled, _) => Some(Out::Disabled),
            (ServiceState::Down, _) => Some(Out::Down),
            (ServiceState::Up | ServiceState::Learning, Drain::On { .. } | Drain::Over) => {
                Some(Out::Draining)
            }
            (ServiceState::Learning, Drain::Off) => Some(Out::Learning),
            (ServiceState::Up, Drain::Off) => None,
        }
    }

    /// Whether a client whose session is here may go on: also while the member drains, until the deadline, and while it has not been
    /// checked yet, so that a restart does not gather all clients at the member that is checked first.
    pub(super) fn keeps_sessions(&self, now: Timestamp) -> bool {
        let standing = match self.standing() {
            None | Some(Out::Learning) => true,
            Some(Out::Draining) => self.state == ServiceState::Up && matches!(self.drain, Drain::On { .. }),
            Some(_) => false,
        };
        standing && self.limit(now).is_none()
    }

    /// The limit it has reached.
    ///
    /// Bandwidth is the mean of the window, which loses traffic only as a second ends: a member that was over its limit comes
    /// back with the next second at the earliest, so the limit needs no second threshold against flapping.
    pub(super) fn limit(&self, now: Timestamp) -> Option<Out> {
        if self.settings.max_clients.is_some_and(|most| self.active >= most) {
            return Some(Out::MaxClients);
        }
        let over = |most| Mbps::of_window(self.window.bytes(now)).bits_per_second() >= most;
        self.settings.max_bandwidth.is_some_and(over).then_some(Out::MaxBandwidth)
    }

    /// Its row of numbers. Windows are summed up only where the method looks at them.
    pub(super) fn candidate(&self, now: Timestamp, position: usize, method: LbMethod) -> Candidate {
        let bytes = matches!(method, LbMethod::LeastBandwidth).then(|| self.window.bytes(now));
        let packets = matches!(method, LbMethod::LeastPackets).then(|| self.window.packets(now));
        Candidate {
            active: Some(self.active),
            response_time: self.response_time,
            ttfb: self.ttfb.get(),
            bytes,
            packets,
            load: self.load,
            ..Candidate::new(position, self.service, self.settings.weight)
        }
    }

    pub(super) fn begin(&mut self) {
        self.active = self.active.saturating_add(1);
    }

    pub(super) fn count_request(&mut self) {
        self.totals.requests = self.totals.requests.saturating_add(1);
    }

    pub(super) fn end(&mut self) {
        self.active = self.active.saturating_sub(1);
    }

    pub(super) fn add_traffic(&mut self, now: Timestamp, bytes: u64, packets: u64) {
        self.window.add(now, bytes, packets);
        self.totals.bytes = self.totals.bytes.saturating_add(bytes);
        self.totals.packets = self.totals.packets.saturating_add(packets);
    }

    /// How long its drain has left.
    pub(super) fn drain_left(&self, now: Timestamp) -> Option<Duration> {
        match self.drain {
            Drain::Off => None,
            Drain::On { until } => Some(until.since(now)),
            Drain::Over => Some(Duration::ZERO),
        }
    }
}

/// Mean time to the first byte of responses with status 200, the latest counting for an eighth.
///
/// The articles say "average" without a span. A plain mean since the start would hardly move after a day, and a mean of a
/// window would forget a service that has few requests; this is the smoothing that RFC 6298 section 2 gives round-trip times.
/// It can't stick to an old bad value: a service that nobody chooses has nothing active, so its N is 0, and it is measured anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TimeToFirstByte {
    /// Eight times the mean, in microseconds, so that the shares of an eighth are not rounded away; 0 while unknown.
    eighths: u64,
}

impl TimeToFirstByte {
    pub(super) fn add(&mut self, sample: Rtt) {
        let sample = u64::from(sample.as_micros());
        self.eighths = match self.eighths {
            0 => 8 * sample,
            known => known - known / 8 + sample,
        };
    }

    pub(super) fn get(self) -> Option<Rtt> {
        let mean = u32::try_from(self.eighths / 8).unwrap_or(u32::MAX);
        (self.eighths > 0).then(|| Rtt::from_micros(mean))
    }
}
