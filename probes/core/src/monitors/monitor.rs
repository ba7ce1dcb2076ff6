//! One monitor of one service.

use super::MonitorSettings;
use crate::chance::Chance;
use crate::wire::{Check, CheckOutcome, ProbeId};
use gslb_types::{Rtt, Timestamp};
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
///   +--- from anywhere, when `fall` checks in a row were not reported at all
/// ```
///
/// The way back to unknown is for a checker that died: its last word must not stand for ever (faults I-57), yet its silence
/// says nothing bad about the service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Health {
    /// No result yet, or none any more.
    Unknown,
    /// It passes; so many failures came since the last pass.
    Passing { failures: u32 },
    /// It fails, for this reason; so many passes came since the last failure.
    Failing { passes: u32, why: String },
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
    /// What the last check saw, in words for an operator.
    pub last: String,
    /// Response time of the last passed check.
    pub response_time: Option<Rtt>,
}

pub(super) struct Monitor {
    pub(super) settings: MonitorSettings,
    pub(super) health: Health,
    pub(super) phase: Phase,
    /// Start of the last check.
    pub(super) started: Option<Timestamp>,
    pub(super) response_time: Option<Rtt>,
    /// Whether this process may do it, as far as is known.
    is_permitted: bool,
    /// Checks in a row that nobody reported.
    unreported: u32,
    last: String,
}

impl Monitor {
    /// A monitor whose first check is due at once.
    pub(super) fn new(now: Timestamp, settings: MonitorSettings) -> Self {
        Monitor {
            settings,
            health: Health::Unknown,
            phase: Phase::Due(now),
            started: None,
            response_time: None,
            is_permitted: true,
            unreported: 0,
            last: "not checked yet".to_owned(),
        }
    }

    /// Whether other settings mean the same check of the same target.
    pub(super) fn does(&self, settings: &MonitorSettings) -> bool {
        (&self.settings.check, self.settings.target) == (&settings.check, settings.target)
    }

    /// Goes on with settings of which only the pace and the counts may be others. A check in flight is not awaited if they
    /// are: its timeout is the old one.
    pub(super) fn adopt(&mut self, now: Timestamp, settings: MonitorSettings, chance: &mut Chance) {
        if settings != self.settings {
            let next = self.started.map(|started| chance.next_turn(now, started, settings.interval));
            self.phase = Phase::Due(next.unwrap_or(now));
            self.settings = settings;
        }
    }

    /// Learns from the outcome of a check, or from there being none.
    pub(super) fn learn(&mut self, outcome: Option<CheckOutcome>) {
        let Some(outcome) = outcome else { return self.miss() };
        self.unreported = 0;
        self.is_permitted = outcome != CheckOutcome::NotPermitted;
        match outcome {
            CheckOutcome::Passed(rtt) => {
                self.last = format!("passed in {rtt}");
                self.response_time = Some(rtt);
                self.pass();
            }
            CheckOutcome::Failed(why) => {
                self.last = format!("failed: {why}");
                self.fail(why);
            }
            CheckOutcome::NotPermitted => self.last = "not permitted to this process".to_owned(),
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

    fn fail(&mut self, why: String) {
        match &mut self.health {
            Health::Passing { failures } if *failures + 1 < self.settings.fall => *failures += 1,
            Health::Unknown | Health::Passing { .. } | Health::Failing { .. } => {
                self.health = Health::Failing { passes: 0, why };
            }
        }
    }

    fn miss(&mut self) {
        self.last = "no report from the checker".to_owned();
        self.unreported = self.unreported.saturating_add(1);
        if self.unreported >= self.settings.fall {
            self.health = Health::Unknown;
        }
    }

    /// Whether it has a say: not while it may not run and never could.
    pub(super) fn counts(&self) -> bool {
        self.is_permitted || self.health != Health::Unknown
    }

    /// What it does, and what it saw last.
    pub(super) fn describe(&self, saw: &str) -> String {
        let (kind, target) = (kind(&self.settings.check), self.settings.target);
        match self.settings.check {
            Check::Ping => format!("{kind} {}: {saw}", target.ip()),
            Check::Tcp | Check::Http { .. } => format!("{kind} {target}: {saw}"),
        }
    }

    pub(super) fn last(&self) -> &str {
        &self.last
    }

    pub(super) fn view(&self) -> MonitorView {
        MonitorView {
            passing: match self.health {
                Health::Unknown => None,
                Health::Passing { .. } => Some(true),
                Health::Failing { .. } => Some(false),
            },
            last: self.last.clone(),
            response_time: self.response_time,
        }
    }
}

fn kind(check: &Check) -> &'static str {
    match check {
        Check::Ping => "ping",
        Check::Tcp => "tcp",
        Check::Http { .. } => "http",
    }
}
