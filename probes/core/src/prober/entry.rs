//! One LDNS as the prober knows it.

use super::Settings;
use crate::budget::Slot;
use crate::wire::{ProbeId, ProbeOutcome};
use gslb_types::{ProbeKind, Rtt, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

/// When an LDNS last asked anybody in the group, in microseconds since this node started.
///
/// Signed: a peer may speak of queries from before our start, and must be understood, or a node that restarts would go on
/// probing longer than the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Seen(i64);

impl Seen {
    pub(super) fn before(now: Timestamp, age: Duration) -> Self {
        let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        Seen(now.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The moment `later`; the start if it lies before that.
    pub(super) fn plus(self, later: Duration) -> Timestamp {
        let later = i64::try_from(later.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(u64::try_from(self.0.saturating_add(later)).unwrap_or(0))
    }

    pub(super) fn since(self, earlier: Seen) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Microseconds since this node started.
    pub(super) fn micros(self) -> i64 {
        self.0
    }

    /// The inverse.
    pub(super) fn at(micros: i64) -> Self {
        Seen(micros)
    }

    /// How far apart two queries came, whichever was first.
    pub(super) fn apart(self, other: Seen) -> Duration {
        Duration::from_micros(self.0.abs_diff(other.0))
    }
}

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn contains(self, kind: ProbeKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    pub(super) fn insert(&mut self, kind: ProbeKind) {
        self.0 |= 1 << kind as u8;
    }
}

/// Where an LDNS stands between two packets.
///
/// ```text
///                 budget            sample, or no kind left
///  sighting -> Due ------> Probing -------------------------> Due (next round)
///   ^           |  ^        |   no answer, a kind left
///   |   prefix  |  |        +-------------------------------> Due (at once)
///   |    busy   v  | time
///   |          PutOff
///   | it becomes ours, or does no longer
///   v
///  Resting
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The next probe is wanted from then on, and leaves when the budget lets it.
    Due(Timestamp),
    /// Its prefix was busy: it tries again then.
    PutOff { until: Timestamp, slot: Slot },
    /// Another node of the site probes it.
    Resting,
    /// One probe is out: an [`Awaited`].
    Probing(ProbeId),
}

/// A probe that is out. There are few of these, as many as the budget lets out within a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Awaited {
    pub(super) index: u32,
    pub(super) kind: ProbeKind,
    pub(super) deadline: Timestamp,
    pub(super) slot: Slot,
}

/// Who waits in which queue. The order of service is [`super::queues`]' business.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// There is a sample, or a neighbour had one.
    Measured,
    /// Probed before, without an answer so far.
    Silent,
    /// Not probed yet; has asked in two different seconds.
    Returned,
    /// Not probed yet; has asked once.
    New,
}

/// What the prober keeps of an LDNS. There may be hundreds of thousands: mind the size.
pub(super) struct Entry {
    /// The most recent asker: what is probed. The table knows the LDNS that it belongs to.
    pub(super) address: IpAddr,
    pub(super) seen: Seen,
    pub(super) first_seen: Seen,
    /// When the table looks whether it is idle.
    pub(super) reviewed: Timestamp,
    pub(super) phase: Phase,
    /// Start of the round that runs, or ran last.
    pub(super) started: Timestamp,
    /// When the kinds were last tried in preferred order.
    from_the_top: Timestamp,
    /// The last sample's time, if there is one: the flag apart takes half the space.
    sampled: Timestamp,
    has_sample: bool,
    pub(super) failed_rounds: u32,
    /// Kinds of the round that runs; none between two rounds.
    pub(super) tried: Kinds,
    /// Whether a probe of the round that runs met with silence: only then can the round fail.
    pub(super) unanswered: bool,
    /// The kind that worked last.
    pub(super) sticky: Option<ProbeKind>,
    pub(super) has_returned: bool,
    pub(super) was_probed: bool,
    /// Whether this node probes it, of those that share out the site's LDNS.
    pub(super) ours: bool,
    /// Whether another node of the site had an RTT of it when it spoke of it last.
    pub(super) measured_elsewhere: bool,
    /// Whether its rounds were moved away from those of the other sites.
    pub(super) was_spread: bool,
}

impl Entry {
    pub(super) fn new(due: Timestamp, address: IpAddr, seen: Seen) -> Self {
        Entry {
            address,
            seen,
            first_seen: seen,
            reviewed: due,
            phase: Phase::Due(due),
            started: due,
            from_the_top: due,
            sampled: Timestamp::ZERO,
            has_sample: false,
            failed_rounds: 0,
            tried: Kinds::default(),
            unanswered: false,
            sticky: None,
            has_returned: false,
            was_probed: false,
            ours: true,
            measured_elsewhere: false,
            was_spread: false,
        }
    }

    /// Whether newcomers leave it alone: it has answered the site, or has asked in two different seconds and not yet failed to
    /// answer for as long as makes it unreachable.
    pub(super) fn is_proven(&self, settings: &Settings) -> bool {
        self.is_measured() || (self.has_returned && self.failed_rounds < settings.fatal_rounds())
    }

    pub(super) fn class(&self) -> Class {
        match (self.is_measured(), self.was_probed, self.has_returned) {
            (true, _, _) => Class::Measured,
            (false, true, _) => Class::Silent,
            (false, false, true) => Class::Returned,
            (false, false, false) => Class::New,
        }
    }

    /// Whether it has answered this node or another of the site.
    pub(super) fn is_measured(&self) -> bool {
        self.has_sample || self.measured_elsewhere
    }

    /// When it last answered this node.
    pub(super) fn last_sample(&self) -> Option<Timestamp> {
        self.has_sample.then_some(self.sampled)
    }

    /// It answered this node.
    pub(super) fn answered(&mut self, now: Timestamp, kind: ProbeKind) {
        (self.sampled, self.has_sample) = (now, true);
        self.sticky = Some(kind);
        self.failed_rounds = 0;
    }

    /// Tries the kind that worked before the others, although its time may be over.
    pub(super) fn trust_kind(&mut self, now: Timestamp) {
        self.from_the_top = now;
    }

    /// The kind to try next in this round, or in the next if none runs. The kind that worked comes first, unless it is
    /// time to try the preferred order from the top.
    pub(super) fn next_kind(&self, now: Timestamp, settings: &Settings, can_ping: bool) -> Option<ProbeKind> {
        let sticky = self.sticky.filter(|_| !self.starts_at_the_top(now, settings));
        let mut kinds = sticky.into_iter().chain(settings.order.iter().copied());
        kinds.find(|kind| !self.tried.contains(*kind) && (can_ping || *kind != ProbeKind::Ping))
    }

    /// Notes that a probe leaves; the first one begins the round.
    pub(super) fn begin(&mut self, now: Timestamp, settings: &Settings, kind: ProbeKind) {
        if self.tried.is_empty() {
            if self.starts_at_the_top(now, settings) {
                self.from_the_top = now;
            }
            self.started = now;
        }
        self.tried.insert(kind);
        self.was_probed = true;
    }

    fn starts_at_the_top(&self, now: Timestamp, settings: &Settings) -> bool {
        self.sticky.is_none() || now.since(self.from_the_top) >= settings.retry_order
    }
}

/// What an outcome says about the LDNS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The packet went to the LDNS and back.
    Measures(Rtt),
    /// It was sent, and the LDNS did not answer.
    Silence,
    /// It never left: no word about the LDNS.
    NotSent,
}

/// Which replies are samples (behaviour 3 "accept errors", faults I-33). Only what the LDNS itself sent in answer to this
/// kind of packet has travelled the whole way.
pub(super) fn judge(kind: ProbeKind, outcome: ProbeOutcome) -> Verdict {
    match (kind, outcome) {
        (ProbeKind::Ping, ProbeOutcome::EchoReply(rtt))
        | (ProbeKind::DnsUdp, ProbeOutcome::DnsAnswer(rtt))
        | (ProbeKind::DnsTcp, ProbeOutcome::Connected(rtt) | ProbeOutcome::Reset(rtt))
        // A host that rejects by firewall sends it to pings and SYNs as well.
        | (_, ProbeOutcome::PortUnreachable(rtt)) => Verdict::Measures(rtt),
        (_, ProbeOutcome::RouterError | ProbeOutcome::TimedOut) => Verdict::Silence,
        (_, ProbeOutcome::SendFailed | ProbeOutcome::NotPermitted) => Verdict::NotSent,
        (ProbeKind::DnsUdp | ProbeKind::DnsTcp, ProbeOutcome::EchoReply(_))
        | (ProbeKind::Ping | ProbeKind::DnsTcp, ProbeOutcome::DnsAnswer(_))
        | (ProbeKind::Ping | ProbeKind::DnsUdp, ProbeOutcome::Connected(_) | ProbeOutcome::Reset(_)) => {
            Verdict::Silence
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_cache_line_and_a_half() {
        assert_eq!(size_of::<Entry>(), 96);
        assert_eq!(size_of::<Option<Entry>>(), size_of::<Entry>());
    }

    #[test]
    fn only_what_the_ldns_itself_sends_back_measures() {
        use ProbeKind::{DnsTcp, DnsUdp, Ping};
        use ProbeOutcome as O;
        let rtt = Rtt::from_micros(7);
        let table = [
            (O::EchoReply(rtt), [true, false, false]),
            (O::DnsAnswer(rtt), [false, true, false]),
            (O::Connected(rtt), [false, false, true]),
            (O::Reset(rtt), [false, false, true]),
            (O::PortUnreachable(rtt), [true, true, true]),
            (O::RouterError, [false; 3]),
            (O::TimedOut, [false; 3]),
            (O::SendFailed, [false; 3]),
            (O::NotPermitted, [false; 3]),
        ];
        for (outcome, expected) in table {
            let measures = [Ping, DnsUdp, DnsTcp].map(|kind| judge(kind, outcome) == Verdict::Measures(rtt));
            assert_eq!(measures, expected, "{outcome:?}");
        }
    }

    #[test]
    fn a_query_from_before_our_start_keeps_its_age() {
        let now = Timestamp::from_micros(1_000_000);
        let seen = Seen::before(now, Duration::from_secs(100));
        assert_eq!(seen.plus(Duration::from_secs(180)), Timestamp::from_micros(81_000_000));
        assert_eq!(seen.plus(Duration::ZERO), Timestamp::ZERO);
        assert_eq!(seen.plus(Duration::MAX), Timestamp::from_micros(i64::MAX as u64 - 99_000_000));
        assert_eq!(Seen::before(now, Duration::ZERO).since(seen), Duration::from_secs(100));
    }
}
