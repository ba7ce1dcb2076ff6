//! Scripts with steps and time: `tests/scenarios/*.scn`.
//!
//! ```text
//! # Above each step: what is required, and where it says so.
//! sites fra iad sin                          the group: sites, services, settings, resolvers
//! set mep.down_delay "15s"                   any setting of the configuration, in TOML; `at SITE` sets it there only
//! ldns 198.51.100.1 fra 27ms iad 90ms sin 140ms
//!
//! at 0s   start all                          `at` is from the beginning, `after` from the step before, neither is at once
//! at 5s   query fra from 198.51.100.1 -> web-fra
//! after 1s expect row all 198.51.100.1 fra 27ms within 2s
//! ```
//!
//! | statement | what it does |
//! | --- | --- |
//! | `sites NAME...` | first of all; each site has a node and a service `web-NAME` |
//! | `nodes SITE N` | so many nodes at a site: SITE/1, SITE/2 ... |
//! | `service NAME at SITE` | one more service |
//! | `set TABLE.KEY VALUE [at SITE]` | a setting; tables are group, dns, mep, probe, ldns, monitor, vserver, domain; site, node and service for all of them |
//! | `ldns ADDRESS SITE TIME...` | puts a resolver there, or moves one |
//! | `manner ADDRESS KIND HOW` | ping, dns-udp, dns-tcp or all; answers, refuses, prohibited, silent |
//! | `start`, `kill`, `restart`, `stop`, `resume`, `stick`, `mute`, `unmute` `WHO` | a node, those of a site, or `all` (see `World`) |
//! | `freeze WHO [for TIME]`, `jump WHO by TIME` | SIGSTOP; a clock that jumps |
//! | `cut A B`, `cut A -> B`, `heal A B`, `heal all` | the metric exchange, both ways or one way |
//! | `isolate WHO`, `wave A B up TIME down TIME for TIME` | cut off from all others; cut and healed in turns |
//! | `up SERVICE`, `down SERVICE` | how the service really is |
//! | `hide SERVICE from SITE`, `show ...` | whether checks from there reach it |
//! | `query WHO from ADDRESS -> ANSWER` | a service, several joined by `\|` (one of them), an address, `answer`, `nothing` (NODATA), `silence` |
//! | `rotate WHO from ADDRESS over SERVICE...` | as many queries as services, twice: each gets its two |
//! | `every TIME for TIME query ...` | again and again; time passes |
//! | `mark` | from here on `rows`, `advertised`, `probes` and `downs` are counted |
//! | `expect CLAIM [within TIME]` | holds now, or comes to hold in time |
//!
//! | claim | |
//! | --- | --- |
//! | `row WHO ADDRESS SITE VALUE...` | a time, `pending` or `unreachable` |
//! | `no row WHO ADDRESS` | |
//! | `kind WHO ADDRESS KIND` | what measured the node's own value |
//! | `peers A B STATE` | up, down or connecting, as both see it |
//! | `peer A B STATE` | as A sees B |
//! | `state WHO SERVICE STATE` | up, down, learning |
//! | `mismatch A B NAME` | A sees that B's setting differs |
//! | `rows SITE N`, `advertised SITE N`, `probes ADDRESS N`, `downs A B N` | since `mark`; `at most N`, `at least N` |
//! | `tables equal` | all nodes, all columns |

mod claim;
mod parse;
mod run;
mod words;

pub use parse::parse;
pub use run::{Failure, run};
pub use words::ParseError;

use crate::group::Group;
use crate::world::{HostIndex, Manner};
use claim::Claim;
use gslb_types::ProbeKind;
use std::net::IpAddr;
use std::time::Duration;

/// A script that has been read.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) group: Group,
    pub(crate) services: Vec<String>,
    pub(crate) steps: Vec<Step>,
    /// What is wrong with the settings so far.
    wrong: Option<ParseError>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) when: When,
    pub(crate) action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    Now,
    At(Duration),
    After(Duration),
}

/// What is done to the processes named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    Start,
    Kill,
    Restart,
    Stop,
    Freeze(Option<Duration>),
    Resume,
    Stick,
    Mute(bool),
    Jump(Duration),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Process(Vec<HostIndex>, Deed),
    Cut(HostIndex, HostIndex, Ways),
    Isolate(Vec<HostIndex>),
    Wave(HostIndex, HostIndex, (Duration, Duration), Duration),
    Heal(HostIndex, HostIndex),
    HealAll,
    Resolver(IpAddr, Vec<(usize, Duration)>),
    Manner(IpAddr, Vec<ProbeKind>, Manner),
    Service(usize, bool),
    Reach(usize, usize, bool),
    Query(Query),
    Every(Duration, Duration, Query),
    Rotate(Vec<HostIndex>, IpAddr, Vec<usize>),
    Mark,
    Expect(Claim, Duration),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ways {
    Both,
    One,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Query {
    pub(crate) whom: Vec<HostIndex>,
    pub(crate) from: IpAddr,
    pub(crate) expected: Expected,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    /// One of these services.
    OneOf(Vec<usize>),
    /// This address.
    Address(IpAddr),
    /// Any address.
    Answer,
    /// NODATA.
    Nothing,
    /// No reply.
    Silence,
}
