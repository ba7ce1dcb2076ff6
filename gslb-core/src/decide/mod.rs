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
//! proximity:               -> where client and sites are: the closest | unknown: backup method
//! load:                    -> methods that compare what sites have to do: the least | nothing told of it: backup method
//! service:  -> the site's services -> local method -> service
//! rest:     -> the same again without it, for answers of several addresses
//! ```

mod contenders;
mod decision;
mod eligible;
mod load;
mod order;
mod place;
mod proximity;
mod rest;
mod service;
mod site;
mod spill;
mod sticky;
mod subnet;

use crate::location::Locations;
use crate::published::Published;
use crate::sessions::Session;
use crate::table::Row;
use config::Vserver;
use contenders::Contenders;
pub use decision::{Decision, Load, MAX_REASONS, Reason, Rest, Verdict};
use gslb_types::Timestamp;
use ipnet::IpNet;
pub use place::Place;
pub(crate) use place::{is_learning, place};
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

/// Who asks, and for whom.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    /// The LDNS: the address the query came from.
    pub ldns: IpAddr,
    /// The prefix of the client on whose behalf it asks, if it says so and the domain goes by it (RFC 7871).
    pub subnet: Option<Subnet<'a>>,
    /// What is known of where addresses are; `None` is nothing.
    pub locations: Option<&'a Locations>,
    /// Where the client was sent to last, or the LDNS if it asks for itself.
    pub session: Option<Session>,
}

/// The prefix of a client.
#[derive(Clone, Copy)]
pub struct Subnet<'a> {
    /// Truncated.
    pub prefix: IpNet,
    /// The row of the RTT table that covers the whole of the prefix, if there is one.
    pub row: Option<&'a Row>,
}

impl Client<'_> {
    /// One that asks for itself, was not sent anywhere yet, and of whom nothing is known.
    pub fn new(ldns: IpAddr) -> Self {
        Client { ldns, subnet: None, locations: None, session: None }
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
    client: &Client<'_>,
    turn: Turn,
    now: Timestamp,
) -> Decision {
    // Filled in where it stands: it is too large to be moved about for every query.
    let mut decision = Decision::nothing(vserver);
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
    client: &'a Client<'a>,
    turn: Turn,
    now: Timestamp,
}

impl Deciding<'_> {
    fn verdict(&self, steps: &mut Decision) -> Verdict {
        let mut contenders = Contenders::new();
        let (verdict, by) = self.best(&mut contenders, steps);
        if let (2.., Verdict::Service(best)) = (self.policy.addresses, verdict) {
            self.add_rest(best, by, contenders, steps);
        }
        verdict
    }

    /// The best answer, and the virtual server that chose among the contenders, if one did.
    fn best(&self, contenders: &mut Contenders, steps: &mut Decision) -> (Verdict, Option<Self>) {
        if let Some(verdict) = self.by_session(steps) {
            return (verdict, None);
        }
        let by = match self.find_contenders(contenders, steps) {
            Ok(by) => by,
            Err(verdict) => return (verdict, None),
        };
        (by.among(contenders, steps), Some(by))
    }

    fn among(&self, contenders: &Contenders, steps: &mut Decision) -> Verdict {
        match self.site(contenders, steps) {
            Ok(chosen) => self.service(contenders, chosen, steps),
            Err(verdict) => verdict,
        }
    }
}
