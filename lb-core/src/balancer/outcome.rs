//! What comes of a request: the member that gets it and why, or why none does.

use crate::choose::Why;
use crate::{Score, ServiceId};
use gslb_types::ServiceName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A member of an LB virtual server, for as long as anything may be said of it: a number that is never given twice, so that
/// a transaction that outlives a change of the configuration is not counted at another member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct MemberId(pub(super) u64);

/// The member that gets a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pick {
    /// Whom to tell of what becomes of the transaction.
    pub member: MemberId,
    /// Its place in the settings that are in force at this moment.
    pub position: usize,
    /// Its name.
    pub name: ServiceName,
    /// What a persistence cookie says for it.
    pub id: ServiceId,
    /// Why this one.
    pub why: PickedBy,
    /// Its score before this request, where scores decided.
    pub score: Option<Score>,
    /// How many members had this score, itself included; 1 where scores did not decide.
    pub tied: usize,
}

/// Why a member gets a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PickedBy {
    /// The method chose it.
    Method(Why),
    /// It came back a while ago, and this is the share it gets so far.
    Ramp,
    /// It had the last request of this client's address.
    SourceIp,
    /// The client's cookie names it.
    Cookie,
}

impl PickedBy {
    /// The words for it in explanations.
    pub const fn as_str(self) -> &'static str {
        match self {
            PickedBy::Method(why) => why.as_str(),
            PickedBy::Ramp => "its growing share after coming back",
            PickedBy::SourceIp => "persistence by source IP",
            PickedBy::Cookie => "persistence by cookie",
        }
    }
}

/// Why a member is given no request of a new client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Out {
    /// The operator has taken it out.
    Disabled,
    /// Its monitors fail.
    Down,
    /// It has not been checked yet; it stands in only while no member is up.
    Learning,
    /// It drains.
    Draining,
    /// It has as many clients as it may.
    MaxClients,
    /// It has as much traffic as it may.
    MaxBandwidth,
}

impl Out {
    /// The words for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Out::Disabled => "disabled",
            Out::Down => "down",
            Out::Learning => "not checked yet",
            Out::Draining => "draining",
            Out::MaxClients => "at max_clients",
            Out::MaxBandwidth => "at max_bandwidth",
        }
    }

    /// What it means for the virtual server if this is all there is.
    pub(super) const fn as_no_service(self) -> NoService {
        match self {
            Out::Disabled => NoService::AllDisabled,
            Out::Down | Out::Learning => NoService::AllDown,
            Out::Draining => NoService::AllDraining,
            Out::MaxClients | Out::MaxBandwidth => NoService::AllFull,
        }
    }
}

/// Why no member gets a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoService {
    /// No service is bound.
    Empty,
    /// All are taken out by the operator.
    AllDisabled,
    /// None is up.
    AllDown,
    /// Those that are up take nothing new.
    AllDraining,
    /// Those that are up have as many clients, or as much traffic, as they may.
    AllFull,
    /// Those that could take it have refused this very request already.
    AllTried,
}

impl NoService {
    /// All of them, in the order of their index.
    pub const ALL: [NoService; 6] = [
        NoService::Empty,
        NoService::AllDisabled,
        NoService::AllDown,
        NoService::AllDraining,
        NoService::AllFull,
        NoService::AllTried,
    ];

    /// The words for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            NoService::Empty => "no service is bound",
            NoService::AllDisabled => "every service is disabled",
            NoService::AllDown => "no service is up",
            NoService::AllDraining => "every service that is up is draining",
            NoService::AllFull => "every service that is up is at its limit of clients or bandwidth",
            NoService::AllTried => "every service that is up refused the request",
        }
    }
}

impl fmt::Display for NoService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an LB virtual server wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// The deadline of its drain has passed: its running transactions are to be cut.
    Cut(MemberId),
}
