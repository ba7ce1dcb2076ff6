//! What is decided, and the steps that led there.

use super::place::Place;
use crate::location::Closeness;
use arrayvec::ArrayVec;
use gslb_types::{AllDown, GslbMethod, LbMethod, MAX_SITES, Reach, Rtt, SiteIndex};

/// A step on the way to the answer, in order; `explain` prints them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The virtual server has no service with an address of the family: NODATA.
    NoServiceOfFamily,
    /// The client stays at this service, as its session says.
    Persistent(usize),
    /// The client stays at this site: its session leads to a service there, which has no address of the family.
    PersistentSite(SiteIndex),
    /// The session led to this service, which is down or disabled: the client is sent anew.
    SessionEnds(usize),
    /// So many services of this place are up, which stands until clients may come back to a better one.
    Standing(Place, usize),
    /// This virtual server has too much to do, or too little of it is up, so that its backup is asked.
    Spilled(usize),
    /// All services of this virtual server are full, so that its backup is asked.
    AllFull(usize),
    /// Nobody can take what is too much, so it is answered all the same.
    NowhereToSpill,
    /// This service is full.
    Full(usize),
    /// Nothing that comes before it can be answered, so this virtual server answers in place of the one that was asked.
    Backup(usize),
    /// So many of its services are up.
    Up(usize),
    /// So many services of this order can be answered, which are fewer than `order_threshold`.
    TooFewOfOrder(u16, usize),
    /// The services of this order compete, so many.
    Order(u16, usize),
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
    /// The RTTs are those of the client's own prefix, as long as this; the LDNS has no say.
    OfSubnet(u8),
    /// Nobody knows where the client is, or nothing of it is comparable to where the eligible sites are.
    NowhereKnown,
    /// The eligible site that is closest, and how close.
    Closest(SiteIndex, Closeness),
    /// What an eligible site has to do.
    Load(SiteIndex, Load),
    /// Nothing is told of what an eligible site has to do.
    Untold(SiteIndex),
    /// Nothing is told of what any eligible site has to do, so the backup method answers.
    NothingTold,
    /// Nothing is told of this site, and it has what the backup method gives it.
    ShareOfUntold(SiteIndex),
    /// The eligible site that has the least to do.
    Least(SiteIndex, Load),
    /// So many sites are as good, those within the selection tolerance among them, and take turns.
    Equal(usize),
    /// The site chosen, by this method.
    Chosen(SiteIndex, GslbMethod),
    /// The service chosen within the site (index into the configuration's services), by this method.
    Service(usize, LbMethod),
    /// The only eligible service of the site.
    OnlyService(usize),
}

/// What a site has to do: an exact fraction, which is less where the weight is more. Packed, so that a reason takes 16 bytes:
/// there is room for dozens in each decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(Rust, packed(4))]
pub struct Load {
    /// Open transactions, bytes or packets of its services together; or microseconds, times transactions if those are told.
    pub n: u64,
    /// The weights of its services together.
    pub weight: u32,
}

impl Load {
    pub(super) fn and(self, other: Load) -> Load {
        Load { n: self.n.saturating_add(other.n), weight: self.weight.saturating_add(other.weight) }
    }

    pub(super) fn is_less_than(self, other: Load) -> bool {
        let (this, other) = self.crossed(other);
        this < other
    }

    pub(super) fn equals(self, other: Load) -> bool {
        let (this, other) = self.crossed(other);
        this == other
    }

    /// Both over one denominator. 64 bits times 32 bits cannot overflow 128.
    fn crossed(self, other: Load) -> (u128, u128) {
        (u128::from(self.n) * u128::from(other.weight), u128::from(other.n) * u128::from(self.weight))
    }
}

/// How many reasons one decision can have: one for each site, and the steps. Of more than that the rest is not told.
pub const MAX_REASONS: usize = MAX_SITES + 24;

/// What is answered after the best.
pub type Rest = ArrayVec<u16, { config::MAX_ADDRESSES as usize - 1 }>;

/// What is answered, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub verdict: Verdict,
    /// The virtual server that decided: the one that was asked, or a backup of it (index into the configuration's).
    pub vserver: usize,
    /// The place that was answered in the order of preference, if something there is up.
    pub place: Option<Place>,
    /// Where the client's session goes on leading, if that is not the service of the verdict.
    pub kept: Option<usize>,
    /// The services that are answered after the one of the verdict (indices into the configuration's services).
    pub rest: Rest,
    /// Whether the answer depended on the turn, so that the round must move on.
    pub took_turn: bool,
    /// For clients of which prefix around theirs the same holds: its length, 0 if it did not depend on their prefix.
    pub scope: u8,
    /// The steps that led there.
    pub reasons: ArrayVec<Reason, MAX_REASONS>,
}

/// What to do with the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer the address of this service (index into the configuration's services).
    Service(usize),
    /// Answer the backup addresses of the virtual server that decided, those of the family.
    BackupIp,
    /// Answer no address: NODATA with the SOA.
    Empty,
    /// Answer nothing at all.
    Drop,
}

impl Decision {
    /// To be filled in.
    pub(super) fn nothing(vserver: usize) -> Self {
        let (rest, reasons) = (Rest::new(), ArrayVec::new());
        Decision {
            verdict: Verdict::Empty,
            vserver,
            place: None,
            kept: None,
            rest,
            took_turn: false,
            scope: 0,
            reasons,
        }
    }

    pub(super) fn say(&mut self, reason: Reason) {
        // Full only if a step is said twice for a site; a missing line of explanation must not stop an answer.
        let _ = self.reasons.try_push(reason);
    }
}
