//! What is decided, and the steps that led there.

use arrayvec::ArrayVec;
use gslb_types::{AllDown, GslbMethod, LbMethod, MAX_SITES, Reach, Rtt, SiteIndex};

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
    AllDown(AllDown),
    /// Nothing is left to answer: every service is disabled, or `all_down` has no address of the family.
    NothingLeft,
    /// This LDNS has no row: nobody has measured it.
    UnknownLdns,
    /// What is known of an eligible site for this LDNS.
    Site(SiteIndex, Reach),
    /// An eligible site is pending and the LDNS is new, so the backup method answers.
    Waiting,
    /// No eligible site has an RTT, so the backup method answers.
    NoRtt,
    /// The query is dropped, as configured for LDNS without an RTT.
    Dropped,
    /// Only one site is eligible: there is nothing to choose.
    OnlySite(SiteIndex),
    /// The nearest eligible site.
    Nearest(SiteIndex, Rtt),
    /// So many sites are within the selection tolerance of it and take turns.
    Equal(usize),
    /// The site chosen, by this method.
    Chosen(SiteIndex, GslbMethod),
    /// The service chosen within the site (index into the configuration's services), by this method.
    Service(usize, LbMethod),
    /// The only eligible service of the site.
    OnlyService(usize),
}

/// How many reasons one decision can have: one for each site and a dozen steps.
pub const MAX_REASONS: usize = MAX_SITES + 12;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Decision {
    pub(super) fn say(&mut self, reason: Reason) {
        // Full only if a step is said twice for a site; a missing line of explanation must not stop an answer.
        let _ = self.reasons.try_push(reason);
    }
}
