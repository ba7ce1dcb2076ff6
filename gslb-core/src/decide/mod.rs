//! Which service is answered to an LDNS, and why. A pure function: equal arguments, equal answer.
//!
//! Two levels (behaviour 2): first the site, among those with an eligible service; then the service within it. Each step is a
//! file, and leaves its reasons:
//!
//! ```text
//! eligible: services of the family -> up ones, else those of the backup virtual server, else learning ones, else all_down
//! spill:    not those that are full, nor of a virtual server with too much to do, while a backup can answer
//! place:    what clients were sent to stands, if failback is not at once
//! order:    -> those of the first order with enough of them
//! sticky:   a client that has a session stays at its service, whatever the steps above and below say
//! site:     -> their sites -> method rtt: known ones compete | pending and new: backup method | none known: backup method
//! load:                    -> methods that compare what sites have to do: the least | nothing told of it: backup method
//! service:  -> the site's services -> local method -> service
//! ```

mod contenders;
mod decision;
mod eligible;
mod load;
mod order;
mod place;
mod service;
mod site;
mod spill;
mod sticky;

use crate::published::Published;
use crate::sessions::Session;
use crate::table::Row;
use arrayvec::ArrayVec;
use config::Vserver;
use contenders::Contenders;
pub use decision::{Decision, Load, MAX_REASONS, Reason, Verdict};
use gslb_types::Timestamp;
pub use place::Place;
pub(crate) use place::{place, waits_before};
pub(crate) use spill::bits_a_second;
use std::net::IpAddr;
use std::time::Duration;

/// How long after first sight the backup method answers while an eligible site is pending (behaviour 3).
pub const WAIT_FOR_PENDING: Duration = Duration::from_secs(10);

/// Round robin's place, handed in so that the decision itself remembers nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Counts the decisions that took turns.
    pub round: u64,
    /// The service answered last (index into the configuration's services): the tie pointer.
    pub last: Option<usize>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The LDNS: the address the query came from.
    pub ldns: IpAddr,
    /// Whom the answer is for: the LDNS, or the first address of the subnet it asks for. What is hashed.
    pub key: IpAddr,
    /// Where `key` was sent to last.
    pub session: Option<Session>,
}

impl Client {
    /// An LDNS that asks for itself and was not sent anywhere yet.
    pub fn new(ldns: IpAddr) -> Self {
        Client { ldns, key: ldns, session: None }
    }
}

/// Which addresses are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A.
    V4,
    /// AAAA.
    V6,
}

/// Chooses. `row` is the LDNS's row of the RTT table, if it has one.
pub fn decide(
    vserver: usize,
    family: Family,
    published: &Published,
    row: Option<&Row>,
    client: &Client,
    turn: Turn,
    now: Timestamp,
) -> Decision {
    // Filled in where it stands: it is too large to be moved about for every query.
    let mut decision = Decision {
        verdict: Verdict::Empty,
        vserver,
        place: None,
        took_turn: false,
        reasons: ArrayVec::new(),
    };
    if let Some(policy) = published.config.vservers.get(vserver) {
        let deciding = Deciding { index: vserver, policy, family, published, row, client, turn, now };
        decision.verdict = deciding.verdict(&mut decision);
    }
    decision
}

/// A virtual server that is asked for an answer, and what it may look at.
#[derive(Clone, Copy)]
struct Deciding<'a> {
    index: usize,
    policy: &'a Vserver,
    family: Family,
    published: &'a Published,
    row: Option<&'a Row>,
    client: &'a Client,
    turn: Turn,
    now: Timestamp,
}

impl Deciding<'_> {
    fn verdict(&self, steps: &mut Decision) -> Verdict {
        if let Some(verdict) = self.by_session(steps) {
            return verdict;
        }
        let mut contenders = Contenders::new();
        let by = match self.find_contenders(&mut contenders, steps) {
            Ok(by) => by,
            Err(verdict) => return verdict,
        };
        match by.site(&contenders, steps) {
            Ok(chosen) => by.service(&contenders, chosen, steps),
            Err(verdict) => verdict,
        }
    }
}
