//! The steps of a decision, for programs and for people.

use crate::api::CellState;
use gslb_types::{AllDown, GslbMethod, LbMethod};
use serde::{Deserialize, Serialize};

/// How close a site is to where a client is known to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closeness {
    /// The site lists the client's autonomous system.
    Asn(u32),
    /// Along the great circle.
    Kilometres(u32),
    /// So many qualifiers in a row are the same, from the continent down.
    Qualifiers(u8),
}

/// A step on the way to the answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// For programs.
    #[serde(flatten)]
    pub reason: Reason,
    /// For people.
    pub text: String,
}

/// A step on the way to the answer, for programs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// No service has an address of the family.
    NoServiceOfFamily,
    /// The client stays at this service.
    Persistent {
        /// Which.
        service: String,
    },
    /// The client stays at this site.
    PersistentSite {
        /// Which.
        site: String,
    },
    /// The session led to a service that is down.
    SessionEnds {
        /// Which.
        service: String,
    },
    /// A place that stands although a better one can be answered.
    Standing {
        /// How many virtual servers of the chain come before.
        link: u16,
        /// The order.
        order: u16,
        /// How many services of it are up.
        services: usize,
    },
    /// A virtual server has too much to do, or too little of it is up.
    Spilled {
        /// Which.
        vserver: String,
    },
    /// All services of a virtual server are full.
    AllFull {
        /// Which.
        vserver: String,
    },
    /// Nobody can take what is too much.
    NowhereToSpill,
    /// A service is full.
    Full {
        /// Which.
        service: String,
    },
    /// Nothing before it can be answered, so this virtual server answers.
    Backup {
        /// Which.
        vserver: String,
    },
    /// So many services of an order can be answered, which are too few.
    TooFewOfOrder {
        /// The order.
        order: u16,
        /// How many.
        services: usize,
    },
    /// The services of this order compete.
    Order {
        /// The order.
        order: u16,
        /// How many.
        services: usize,
    },
    /// So many services are up.
    Up {
        /// How many.
        services: usize,
    },
    /// None is up; so many have not been checked yet and stand in.
    Learning {
        /// How many.
        services: usize,
    },
    /// None is up: this decides.
    AllDown {
        /// The policy.
        all_down: AllDown,
    },
    /// Nothing is left to answer.
    NothingLeft,
    /// This LDNS has no row.
    UnknownLdns,
    /// What is known of an eligible site.
    Site {
        /// The site.
        site: String,
        /// Whether an RTT is known.
        state: CellState,
        /// The RTT.
        rtt_us: Option<u32>,
    },
    /// A site is pending and the LDNS is new.
    Waiting,
    /// No eligible site has an RTT.
    NoRtt,
    /// The query is dropped.
    Dropped,
    /// Only one site is eligible.
    OnlySite {
        /// Which.
        site: String,
    },
    /// The nearest eligible site.
    Nearest {
        /// Which.
        site: String,
        /// How far it is.
        rtt_us: u32,
    },
    /// What an eligible site has to do.
    Load {
        /// The site.
        site: String,
        /// Open transactions, bytes, packets or microseconds of its services; nothing if that is not told.
        n: Option<u64>,
        /// The weights of those services together.
        weight: Option<u32>,
    },
    /// Nothing is told of what any site has to do.
    NothingTold,
    /// A site of which nothing is told has its share by the backup method.
    ShareOfUntold {
        /// Which.
        site: String,
    },
    /// The RTTs are those of the client's own prefix.
    OfSubnet {
        /// Its length.
        length: u8,
    },
    /// Nothing tells which site is closest to the client.
    NowhereKnown,
    /// The site that is closest to where the client is known to be.
    Closest {
        /// Which.
        site: String,
        /// By what.
        by: Closeness,
    },
    /// The site that has the least to do.
    Least {
        /// Which.
        site: String,
        /// What it has to do.
        n: u64,
        /// Over this weight.
        weight: u32,
    },
    /// So many sites are as good.
    Equal {
        /// How many.
        sites: usize,
    },
    /// The site chosen.
    Chosen {
        /// Which.
        site: String,
        /// How.
        method: GslbMethod,
    },
    /// The service chosen within the site.
    Service {
        /// Which.
        service: String,
        /// How.
        method: LbMethod,
    },
    /// The only eligible service of the site.
    OnlyService {
        /// Which.
        service: String,
    },
}
