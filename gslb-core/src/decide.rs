//! Which service is answered to an LDNS, and why. A pure function: equal arguments, equal answer.

use crate::published::Published;
use crate::table::Row;
use arrayvec::ArrayVec;
use gslb_types::{GslbMethod, Rtt, ServiceState, SiteIndex, Timestamp};
use std::net::IpAddr;

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
}

/// Which addresses are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A.
    V4,
    /// AAAA.
    V6,
}

/// A step on the way to the answer, in order; `explain` prints them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The virtual server has no service with an address of the family: NODATA.
    NoServiceOfFamily,
    /// So many of its services are up.
    Up(usize),
    /// None is up, but so many have not been checked yet and stand in.
    Learning(usize),
    /// None is up: `all_down` decides.
    AllDown(gslb_types::AllDown),
    /// What is known of the site for this LDNS.
    Site(SiteIndex, gslb_types::Reach),
    /// This LDNS has no row: nobody has measured it.
    UnknownLdns,
    /// An eligible site is pending and the LDNS is new, so the backup method answers.
    Waiting,
    /// No eligible site has an RTT, so the backup method answers.
    NoRtt,
    /// The query is dropped, as configured for LDNS without an RTT.
    Dropped,
    /// The nearest eligible site.
    Nearest(SiteIndex, Rtt),
    /// So many sites are within the selection tolerance and take turns.
    Equal(usize),
    /// The method that chose the site.
    Method(GslbMethod),
    /// The site chosen.
    Chosen(SiteIndex),
    /// The service chosen within it (index into the configuration's services).
    Service(usize),
}

/// How many reasons one decision can have: one for each site and a dozen steps.
pub const MAX_REASONS: usize = gslb_types::MAX_SITES + 12;

/// What is answered, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub verdict: Verdict,
    /// Whether the answer depended on the turn, so that the round must move on.
    pub took_turn: bool,
    /// The steps that led there.
    pub reasons: ArrayVec<Reason, MAX_REASONS>,
}

/// What to do with the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer the address of this service (index into the configuration's services).
    Service(usize),
    /// Answer the virtual server's backup addresses of the family.
    BackupIp,
    /// Answer no address: NODATA with the SOA.
    Empty,
    /// Answer nothing at all.
    Drop,
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
    let _ = (vserver, family, published, row, client, turn, now, ServiceState::Up);
    Decision { verdict: Verdict::Empty, took_turn: false, reasons: ArrayVec::new() }
}
