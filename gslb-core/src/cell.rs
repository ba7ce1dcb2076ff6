//! One value of the RTT table, and how long it counts.

use gslb_types::{ProbeKind, Reach, Rtt, Timestamp};
use std::time::Duration;

const PENDING: u32 = 0;
const UNREACHABLE: u32 = REACH;

/// The bits of a value: RTTs take 24 of them, as the longest is 10 s.
const REACH: u32 = (1 << TELLER_AT) - 1;
const TELLER_AT: u32 = 24;
const _: () = assert!(Rtt::MAX.as_micros() < UNREACHABLE);

/// What one site advertises of its way to one LDNS: eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Low 24 bits: microseconds, or one of the two marks above. High 8 bits: the number of who told it.
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

    /// The same value, told by the teller that `confirmed` names last: its words confirm it.
    pub(crate) fn told_by(self, confirmed: Confirmed) -> Self {
        Cell { reach: self.reach & REACH | u32::from(confirmed.number) << TELLER_AT, ..self }
    }

    /// The cell of a value that this node itself measured, or was told by somebody who does not vouch for it: samples confirm it,
    /// and nobody's words do.
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
        match self.reach & REACH {
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

    fn teller(self) -> u8 {
        (self.reach >> TELLER_AT) as u8
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
    /// Tellers are counted, and each value holds the number of its own: stamps are whole seconds, and one that begins may follow
    /// within the second in which the one before told something.
    pub number: u8,
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
        Confirmed { since, last_word, number: 0, earlier: [None; EARLIER] }
    }

    /// By another teller from `since` on.
    pub(crate) fn then(self, since: Timestamp) -> Self {
        let mut earlier = self.earlier;
        earlier.rotate_right(1);
        earlier[0] = Some(Told { since: self.since, last_word: self.last_word });
        Confirmed { since, last_word: since, number: self.number.wrapping_add(1), earlier }
    }

    /// The tellers by their numbers, the last one first.
    fn tellers(self) -> impl Iterator<Item = (u8, Told)> {
        let last = Told { since: self.since, last_word: self.last_word };
        let before = (1..).map(move |n| self.number.wrapping_sub(n)).zip(self.earlier);
        std::iter::once((self.number, last)).chain(before.filter_map(|(number, told)| Some((number, told?))))
    }
}

impl Cell {
    /// When the value was last true, as far as this node can tell.
    pub fn last_true(self, confirmed: Option<Confirmed>) -> Timestamp {
        let Some(c) = confirmed.filter(|_| !self.is_measured()) else { return self.confirmed() };
        // Numbers come round again. Stamps are whole seconds: a value of a teller's first second must not fall before it.
        let told_it = |number: u8, told: Told| {
            number == self.teller() && self.confirmed() + Duration::from_secs(1) > told.since
        };
        let teller = c.tellers().find(|(number, told)| told_it(*number, *told));
        teller.map_or(self.confirmed(), |(_, told)| told.last_word.max(self.confirmed()))
    }

    /// Whether this was true later than what is known.
    pub(crate) fn is_later_than(self, known: Cell, confirmed: Confirmed) -> bool {
        self.confirmed() > known.last_true(Some(confirmed))
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
                let told = cell.told_by(Confirmed { number: 255, ..Confirmed::new(at(1), at(2)) });
                assert_eq!((told.reach(), told.kind(), told.confirmed()), (reach, kind, at(77)));
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
        let first = Confirmed::new(at(90), at(500));
        let second = first.then(at(502));
        let third = second.then(at(510));
        let told = |by: Confirmed, stamp| Cell::new(known(27), None, at(stamp)).told_by(by);
        let last_true = |(by, stamp)| told(by, stamp).last_true(Some(third));
        assert_eq!(
            [(first, 80), (first, 100), (first, 501), (second, 505), (third, 511)].map(last_true),
            [80, 500, 501, 505, 511].map(at)
        );
    }

    /// Faults I-46: two tellers may have one second in common, the one its last and the other its first.
    #[test]
    fn the_words_of_a_teller_do_not_confirm_what_the_one_before_told_in_the_same_second() {
        let ms = |n: u64| Timestamp::from_micros(n * 1000);
        let before = Confirmed::new(at(90), ms(120_760));
        let after = Confirmed { last_word: at(500), ..before.then(ms(120_900)) };
        let cell = Cell::new(known(27), None, at(120));
        assert_eq!(cell.told_by(before).last_true(Some(after)), ms(120_760));
        assert_eq!(cell.told_by(after).last_true(Some(after)), at(500));
        let round = (0..256).fold(after, |confirmed, n| confirmed.then(at(600 + n)));
        assert_eq!(round.number, after.number);
        assert_eq!(cell.told_by(after).last_true(Some(round)), at(120), "numbers come round");
    }

    /// A relay may have of a site what the site has taken back since; storm 4475.
    #[test]
    fn what_nobody_vouches_for_is_news_only_where_nothing_later_is_known() {
        let before = Confirmed::new(at(90), at(161));
        let confirmed = before.then(at(166));
        let from_the_relay = |stamp| Cell::measured(known(121), None, at(stamp));
        let taken_back = Cell::new(Reach::Unreachable, None, at(143)).told_by(before);
        let is_news = |stamp, known| from_the_relay(stamp).is_later_than(known, confirmed);
        assert_eq!([137, 161, 162].map(|stamp| is_news(stamp, taken_back)), [false, false, true]);
        assert!(is_news(137, Cell::default()), "of an LDNS of which the site has said nothing");
        let withdrawn = Cell::new(Reach::Pending, None, at(143)).told_by(before);
        assert!(!is_news(137, withdrawn), "a withdrawal is a word, too");
        assert_eq!(from_the_relay(137).last_true(Some(confirmed)), at(137), "nobody's words confirm it");
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
