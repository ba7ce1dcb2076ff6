//! One monitor of one service.

use super::MonitorSettings;
use super::history::{History, Seen};
use crate::chance::Chance;
use crate::wire::{Check, CheckOutcome, ProbeId};
use gslb_types::{Rtt, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// How long after its timeout a check may be reported; then nobody will (faults I-57).
pub(super) const SLACK: Duration = Duration::from_millis(500);

/// What a monitor thinks of its service.
///
/// ```text
///              first result passes            `fall` failures in a row
///  Unknown --------------------------> Passing ----------------------> Failing
///   ^   |                                 ^     `rise` passes in a row    | ^
///   |   |                                 +-------------------------------+ |
///   |   +-------------------------------------------------------------------+
///   |                          first result fails
///   +--- from passing, when `fall` checks in a row brought nothing: not reported at all, or could not be done
/// ```
///
/// The way back to unknown is for a checker that died, and for one that lost what it needs (descriptors, the CA's file, the
/// command): a last pass must not stand for ever (faults I-57), yet neither says anything bad about the service. A failure
/// stands: that nothing can be found out any more is no sign of recovery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Health {
    /// No result yet, or none any more.
    Unknown,
    /// It passes; so many failures came since the last pass.
    Passing { failures: u32 },
    /// It fails, for this reason; so many passes came since the last failure.
    Failing { passes: u32, why: Arc<str> },
}

/// What a monitor does at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The next check is due then.
    Due(Timestamp),
    /// A check runs.
    Checking { id: ProbeId, deadline: Timestamp },
}

/// One monitor, as the admin API shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonitorView {
    /// Whether it passes; `None` until the first result.
    pub passing: Option<bool>,
    /// Since when that is so.
    pub since: Timestamp,
    /// How many of the last results in a row say the same as the last one.
    pub in_a_row: u32,
    /// What the last check saw, in words for an operator.
    pub last: String,
    /// Response time of the last passed check.
    pub response_time: Option<Rtt>,
    /// The load that the last passed check told of, in thousandths.
    pub load: Option<u64>,
    /// What the last checks saw.
    pub history: History,
}

pub(super) struct Monitor {
    pub(super) settings: MonitorSettings,
    pub(super) health: Health,
    pub(super) phase: Phase,
    /// Start of the last check.
    pub(super) started: Option<Timestamp>,
    pub(super) response_time: Option<Rtt>,
    /// What its last pass told of the load.
    load: Option<u64>,
    /// The beat its checks keep: one turn of it. A check that starts late does not shift it, so that a volley after a start
    /// or a sleep does not become the rhythm of all that were in it.
    turn: Timestamp,
    /// Whether this process may do it, as far as is known.
    is_permitted: bool,
    /// Checks in a row that brought nothing, be it that nobody reported them or that they could not be done.
    missed: u32,
    since: Timestamp,
    in_a_row: u32,
    history: History,
}

impl Monitor {
    /// A monitor whose first check is due at once. Those after it keep the beat that `turn` lies on.
    pub(super) fn new(now: Timestamp, settings: MonitorSettings, turn: Timestamp) -> Self {
        Monitor {
            settings,
            health: Health::Unknown,
            phase: Phase::Due(now),
            started: None,
            response_time: None,
            load: None,
            turn,
            is_permitted: true,
            missed: 0,
            since: now,
            in_a_row: 0,
            history: History::default(),
        }
    }

    /// Whether other settings mean the same check of the same target, with the same meaning of its outcome.
    pub(super) fn does(&self, settings: &MonitorSettings) -> bool {
        let what = |s: &MonitorSettings| (s.target, s.source, s.reverse);
        what(&self.settings) == what(settings) && self.settings.check == settings.check
    }

    /// Goes on with settings of which only pace, counts and weight may be others. A check in flight is not awaited if they
    /// are: its timeout is the old one.
    pub(super) fn adopt(&mut self, now: Timestamp, settings: MonitorSettings, chance: &mut Chance) {
        if settings != self.settings {
            self.settings = settings;
            self.phase = Phase::Due(match self.started {
                Some(started) => {
                    self.turn = started;
                    self.next_turn(now, chance)
                }
                None => now,
            });
        }
    }

    /// The turn after this one, which begins no sooner than half a period after the last check did.
    pub(super) fn next_turn(&mut self, now: Timestamp, chance: &mut Chance) -> Timestamp {
        let wait = self.wait();
        let soonest = self.started.map_or(now, |started| now.max(started + wait / 2));
        // The first turn of a beat that is shifted lies ahead, maybe far enough.
        if self.turn <= soonest {
            self.turn = chance.next_turn(soonest, self.turn, wait);
        }
        self.turn
    }

    /// From one check to the next: longer or shorter for a service that is down, until it shows signs of life.
    fn wait(&self) -> Duration {
        match (&self.health, self.settings.down_time) {
            (Health::Failing { passes: 0, .. }, Some(down_time)) => down_time,
            (Health::Unknown | Health::Passing { .. } | Health::Failing { .. }, _) => self.settings.interval,
        }
    }

    /// Learns from the outcome of a check, or from there being none.
    pub(super) fn learn(&mut self, now: Timestamp, outcome: Option<CheckOutcome>) {
        let before = self.passing();
        self.is_permitted = match outcome {
            Some(CheckOutcome::NotPermitted) => false,
            Some(_) => true,
            None => self.is_permitted,
        };
        let load = match &outcome {
            Some(CheckOutcome::Reported { load, .. }) => *load,
            _ => None,
        };
        let seen = Seen::of(outcome, self.settings.reverse);
        self.missed = if seen.passes().is_none() { self.missed.saturating_add(1) } else { 0 };
        match &seen {
            Seen::Passed { response_time, .. } => {
                self.response_time = response_time.or(self.response_time);
                self.load = load;
                self.pass();
            }
            Seen::Failed(why) => self.fail(why.clone()),
            Seen::Unreported | Seen::NotDone(_) => self.miss(),
        }
        let is_alike = self.history.last().is_some_and(|last| last.passes() == seen.passes());
        self.in_a_row = if is_alike { self.in_a_row.saturating_add(1) } else { 1 };
        self.history.add(now, seen);
        if self.passing() != before {
            self.since = now;
        }
    }

    fn pass(&mut self) {
        match &mut self.health {
            Health::Failing { passes, .. } if *passes + 1 < self.settings.rise => *passes += 1,
            Health::Unknown | Health::Passing { .. } | Health::Failing { .. } => {
                self.health = Health::Passing { failures: 0 };
            }
        }
    }

    fn fail(&mut self, why: Arc<str>) {
        match &mut self.health {
            Health::Passing { failures } if *failures + 1 < self.settings.fall => *failures += 1,
            Health::Unknown | Health::Passing { .. } | Health::Failing { .. } => {
                self.health = Health::Failing { passes: 0, why };
            }
        }
    }

    fn miss(&mut self) {
        if self.is_passing() && self.missed >= self.settings.fall {
            self.health = Health::Unknown;
        }
    }

    /// Whether it has a say: not a ping that this process may not send, as long as it says nothing. That is how the node was
    /// started, and no more to be had from it. What else can't be done is a fault to be mended, and until then nobody knows.
    pub(super) fn counts(&self) -> bool {
        self.is_permitted || *self.settings.check != Check::Ping || self.health != Health::Unknown
    }

    pub(super) fn is_passing(&self) -> bool {
        matches!(self.health, Health::Passing { .. })
    }

    /// What the last checks brought, if that was nothing, so that its verdict is an old one.
    fn unchecked(&self) -> Option<String> {
        match self.missed {
            0 => None,
            1 => Some(format!("the last check: {}", self.last())),
            missed => Some(format!("the last {missed} checks: {}", self.last())),
        }
    }

    /// What it does, and what it saw.
    pub(super) fn describe(&self, saw: &str) -> String {
        let (kind, target) = (self.settings.check.kind(), self.settings.target);
        match *self.settings.check {
            Check::Ping => format!("{kind} {}: {saw}", target.ip()),
            _ => format!("{kind} {target}: {saw}"),
        }
    }

    /// Why it fails, and if that is old news, why there is no other; empty while it does not fail.
    pub(super) fn failure(&self) -> String {
        match (&self.health, self.unchecked()) {
            (Health::Failing { why, .. }, None) => self.describe(why),
            (Health::Failing { why, .. }, Some(unchecked)) => {
                format!("{}; {unchecked}", self.describe(why))
            }
            (Health::Unknown | Health::Passing { .. }, _) => String::new(),
        }
    }

    /// What it adds to the service's response time.
    pub(super) fn measures_now(&self) -> Option<Rtt> {
        self.response_time.filter(|_| self.settings.measures && self.is_passing())
    }

    /// What it adds to the service's load, in thousandths.
    pub(super) fn load_now(&self) -> Option<u64> {
        self.load.filter(|_| self.is_passing())
    }

    pub(super) fn last(&self) -> String {
        self.history.last().map_or_else(|| "not checked yet".to_owned(), Seen::to_string)
    }

    fn passing(&self) -> Option<bool> {
        match self.health {
            Health::Unknown => None,
            Health::Passing { .. } => Some(true),
            Health::Failing { .. } => Some(false),
        }
    }

    pub(super) fn view(&self) -> MonitorView {
        MonitorView {
            passing: self.passing(),
            since: self.since,
            in_a_row: self.in_a_row,
            last: self.last(),
            response_time: self.response_time,
            load: self.load,
            history: self.history.clone(),
        }
    }
}
