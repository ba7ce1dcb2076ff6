//! One value of the RTT table, and how long it counts.

use gslb_types::{ProbeKind, Reach, Rtt, Timestamp};
use std::time::Duration;

const PENDING: u32 = 0;
const UNREACHABLE: u32 = u32::MAX;

/// What one site advertises of its way to one LDNS: eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Microseconds, or one of the two marks above.
    reach: u32,
    /// Low 29 bits: seconds since start of the last confirmation. Then one for a value of this node's own samples. High 2
    /// bits: kind of probe + 1, 0 for none.
    stamp: u32,
}

impl Cell {
    /// A cell with this value, confirmed at this time.
    pub fn new(reach: Reach, kind: Option<ProbeKind>, confirmed: Timestamp) -> Self {
        let reach = match reach {
            Reach::Pending => PENDING,
            Reach::Known(rtt) => rtt.as_micros(),
            Reach::Unreachable => UNREACHABLE,
        };
        let kind = match kind {
            None => 0,
            Some(ProbeKind::Ping) => 1,
            Some(ProbeKind::DnsUdp) => 2,
            Some(ProbeKind::DnsTcp) => 3,
        };
        Cell { reach, stamp: seconds(confirmed) | kind << 30 }
    }

    /// The cell of a value that this node itself measured: samples confirm it, and nobody's words do.
    pub fn measured(reach: Reach, kind: Option<ProbeKind>, confirmed: Timestamp) -> Self {
        let cell = Cell::new(reach, kind, confirmed);
        Cell { stamp: cell.stamp | MEASURED, ..cell }
    }

    /// The same value, confirmed at another time.
    pub(crate) fn restamped(self, confirmed: Timestamp) -> Self {
        Cell { stamp: self.stamp & !SECONDS | seconds(confirmed), ..self }
    }

    /// Whether this node itself measured it.
    pub fn is_measured(self) -> bool {
        self.stamp & MEASURED != 0
    }

    /// What is known, whatever its age.
    pub fn reach(self) -> Reach {
        match self.reach {
            PENDING => Reach::Pending,
            UNREACHABLE => Reach::Unreachable,
            micros => Reach::Known(Rtt::from_micros(micros)),
        }
    }

    /// The kind of probe that measured it.
    pub fn kind(self) -> Option<ProbeKind> {
        match self.stamp >> 30 {
            1 => Some(ProbeKind::Ping),
            2 => Some(ProbeKind::DnsUdp),
            3 => Some(ProbeKind::DnsTcp),
            _ => None,
        }
    }

    /// When its site last said so; whole seconds.
    pub fn confirmed(self) -> Timestamp {
        Timestamp::from_micros(u64::from(self.stamp & SECONDS) * 1_000_000)
    }
}

/// 17 years.
const SECONDS: u32 = (1 << 29) - 1;
const MEASURED: u32 = 1 << 29;

pub(crate) fn seconds(t: Timestamp) -> u32 {
    u32::try_from(t.as_secs()).unwrap_or(SECONDS).min(SECONDS)
}

/// How old a value may be and still count, and since when a site's silence about it means "unchanged".
///
/// A site does not repeat a value that stays within the tolerance; every word it says in the session that delivered the
/// value confirms it. A value from an earlier session (before a restart of the peer, say) was true at the last word of that
/// session, and ages out from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// When the teller that stands, or stood last, began to tell.
    pub since: Timestamp,
    /// Its last word.
    pub last_word: Timestamp,
    /// The tellers before it, the latest first.
    pub earlier: [Option<Told>; EARLIER],
}

/// From when to when somebody told a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// When it began.
    pub since: Timestamp,
    /// The last word.
    pub last_word: Timestamp,
}

/// How many tellers before the last one are remembered. Within the maximum age of values there are rarely more.
const EARLIER: usize = 3;

impl Confirmed {
    /// By a first teller.
    pub fn new(since: Timestamp, last_word: Timestamp) -> Self {
        Confirmed { since, last_word, earlier: [None; EARLIER] }
    }

    /// By another teller from `since` on.
    pub(crate) fn then(self, since: Timestamp) -> Self {
        let mut earlier = self.earlier;
        earlier.rotate_right(1);
        earlier[0] = Some(Told { since: self.since, last_word: self.last_word });
        Confirmed { since, last_word: since, earlier }
    }
}

impl Cell {
    /// When the value was last true, as far as this node can tell.
    pub fn last_true(self, confirmed: Option<Confirmed>) -> Timestamp {
        let Some(c) = confirmed.filter(|_| !self.is_measured()) else { return self.confirmed() };
        let last = Told { since: c.since, last_word: c.last_word };
        let mut tellers = std::iter::once(last).chain(c.earlier.into_iter().flatten());
        // Stamps are whole seconds: a value of a teller's first second must not fall before it.
        let teller = tellers.find(|told| self.confirmed() + Duration::from_secs(1) > told.since);
        teller.map_or(self.confirmed(), |told| told.last_word.max(self.confirmed()))
    }

    /// What counts at `now`: a value older than `max_age` is pending again (faults I-46).
    pub fn current(self, now: Timestamp, max_age: Duration, confirmed: Option<Confirmed>) -> Reach {
        if now.since(self.last_true(confirmed)) > max_age { Reach::Pending } else { self.reach() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn known(ms: u32) -> Reach {
        Reach::Known(Rtt::from_micros(ms * 1000))
    }

    #[test]
    fn a_cell_keeps_value_kind_and_second() {
        for reach in
            [Reach::Pending, Reach::Unreachable, known(27), Reach::Known(Rtt::MIN), Reach::Known(Rtt::MAX)]
        {
            for kind in [None, Some(ProbeKind::Ping), Some(ProbeKind::DnsUdp), Some(ProbeKind::DnsTcp)] {
                let cell = Cell::new(reach, kind, at(77));
                assert_eq!((cell.reach(), cell.kind(), cell.confirmed()), (reach, kind, at(77)));
            }
        }
        assert_eq!(size_of::<Cell>(), 8);
    }

    #[test]
    fn a_value_is_pending_once_it_is_older_than_the_maximum() {
        let cell = Cell::new(known(27), None, at(100));
        let max = Duration::from_secs(60);
        assert_eq!(cell.current(at(160), max, None), known(27));
        assert_eq!(cell.current(at(161), max, None), Reach::Pending);
    }

    #[test]
    fn words_of_the_session_that_delivered_a_value_confirm_it() {
        let cell = Cell::new(known(27), None, at(100));
        let max = Duration::from_secs(60);
        let same = Confirmed::new(at(90), at(500));
        let later = Confirmed::new(at(110), at(500));
        assert_eq!(cell.current(at(510), max, Some(same)), known(27));
        assert_eq!(cell.current(at(510), max, Some(later)), Reach::Pending);
    }

    /// Behaviour 4: the empty table of a restarted peer wipes nothing, and what it said before ages from its last word on.
    #[test]
    fn a_value_of_an_earlier_teller_was_true_at_its_last_word() {
        let confirmed = Confirmed::new(at(90), at(500)).then(at(502)).then(at(510));
        let last_true = |stamp| Cell::new(known(27), None, at(stamp)).last_true(Some(confirmed));
        assert_eq!([80, 100, 501, 505, 511].map(last_true), [80, 500, 501, 505, 511].map(at));
    }

    #[test]
    fn words_of_others_do_not_confirm_what_this_node_measured() {
        let cell = Cell::measured(known(27), Some(ProbeKind::Ping), at(100));
        assert_eq!((cell.reach(), cell.kind(), cell.is_measured()), (known(27), Some(ProbeKind::Ping), true));
        assert_eq!(cell.last_true(Some(Confirmed::new(at(90), at(500)))), at(100));
        let told = Cell::new(known(27), Some(ProbeKind::DnsTcp), at(100)).restamped(at(130));
        assert_eq!(
            (told.confirmed(), told.kind(), told.is_measured()),
            (at(130), Some(ProbeKind::DnsTcp), false)
        );
    }
}
