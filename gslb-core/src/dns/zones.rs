//! Names to answers: the index over zones, static records and GSLB domains, built once for each configuration.
//!
//! Every name that exists has a node: owners of records, GSLB domains, and the empty names between them and their apex
//! (RFC 4592 section 2.2.2). A node belongs to the deepest zone that holds its name. What can be known before a query comes
//! is computed here: which cut or DNAME hides a node, which wildcard stands below it.

use super::build;
use super::name::{self, LowerName};
use super::rrset::RrSet;
use super::rtype::{A, AAAA, NS};
use config::Config;
use foldhash::fast::FixedState;
use hickory_proto::rr::Name;
use std::collections::HashMap;

/// The place of a node in the index.
pub(super) type NodeId = usize;

/// The index.
pub struct Zones {
    pub(super) by_name: HashMap<Box<[u8]>, NodeId, FixedState>,
    pub(super) nodes: Vec<Node>,
    pub(super) zones: Vec<Zone>,
    /// Labels of the name that has most: nothing longer needs to be looked for.
    pub(super) most_labels: usize,
}

/// A zone.
#[derive(Debug)]
pub(super) struct Zone {
    /// The apex, in the case of the configuration.
    pub(super) origin: Box<[u8]>,
    pub(super) soa: Option<RrSet>,
    /// TTL of the SOA in negative answers: the lower of its own and its MINIMUM (RFC 2308 section 5).
    pub(super) negative_ttl: u32,
}

/// A name that exists.
#[derive(Debug)]
pub(super) struct Node {
    /// Index of its zone.
    pub(super) zone: usize,
    /// The name in the case of the configuration.
    pub(super) owner: Box<[u8]>,
    /// By type.
    pub(super) sets: Vec<RrSet>,
    /// The highest zone cut at or above it, or DNAME above it: answers come from there.
    pub(super) hidden_by: Option<NodeId>,
    /// The asterisk below it.
    pub(super) wildcard: Option<NodeId>,
    /// The GSLB domain of this name.
    pub(super) domain: Option<Gslb>,
    /// The same name in the zone above, if this is the apex of a zone: DS lives there (RFC 4035 section 3.1.4.1).
    pub(super) parent_side: Option<NodeId>,
    pub(super) is_apex: bool,
}

/// A GSLB domain in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gslb {
    /// Index into [`Config::domains`].
    pub(super) index: usize,
    /// Whether a query of type ANY is answered with an AAAA: no service has an IPv4 address.
    pub(super) only_v6: bool,
}

/// Where a name is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It exists.
    Exact(NodeId),
    /// It does not; this is the nearest ancestor that does (RFC 4592 section 3.3.1).
    Below(NodeId),
}

impl Place {
    pub(super) fn node(self) -> NodeId {
        match self {
            Place::Exact(node) | Place::Below(node) => node,
        }
    }
}

impl Zones {
    /// Builds the index. The seed is random in production, so that nobody can choose names that collide (threat T12).
    pub fn new(config: &Config, seed: u64) -> Self {
        build::build(config, seed)
    }

    /// Which GSLB domain a name is, as an index into [`Config::domains`]; a wildcard domain counts for the names it stands
    /// for. For `explain`, which asks by name as a query does; the final dot may be left out.
    pub fn domain(&self, name: &str) -> Option<usize> {
        let mut lower = LowerName::root();
        if !lower.set(&build::wire(&Name::from_ascii(name).ok()?)) {
            return None;
        }
        let node = match self.find(lower.as_wire())? {
            Place::Exact(node) => self.node(node),
            Place::Below(encloser) => self.node(self.node(encloser).wildcard?),
        };
        node.domain.filter(|_| node.hidden_by.is_none()).map(|d| d.index)
    }

    /// Finds a name in lower case; `None` if it lies in no zone.
    pub(super) fn find(&self, name: &[u8]) -> Option<Place> {
        if let Some(node) = self.by_name.get(name) {
            return Some(Place::Exact(*node));
        }
        let depth = name::labels(name);
        let nearest = depth.saturating_sub(self.most_labels).max(1);
        let found = name::suffixes(name).skip(nearest).find_map(|suffix| self.by_name.get(suffix));
        found.map(|node| Place::Below(*node))
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn zone(&self, node: &Node) -> &Zone {
        &self.zones[node.zone]
    }
}

impl Zone {
    pub(super) fn origin(&self) -> &[u8] {
        &self.origin
    }

    /// The SOA, and its TTL in negative answers.
    pub(super) fn negative(&self) -> Option<(&RrSet, u32)> {
        self.soa.as_ref().map(|soa| (soa, self.negative_ttl))
    }
}

impl Node {
    pub(super) fn zone(&self) -> usize {
        self.zone
    }

    pub(super) fn owner(&self) -> &[u8] {
        &self.owner
    }

    pub(super) fn sets(&self) -> &[RrSet] {
        &self.sets
    }

    pub(super) fn set(&self, rtype: u16) -> Option<&RrSet> {
        self.sets.iter().find(|set| set.rtype() == rtype)
    }

    pub(super) fn hidden_by(&self) -> Option<NodeId> {
        self.hidden_by
    }

    pub(super) fn wildcard(&self) -> Option<NodeId> {
        self.wildcard
    }

    pub(super) fn domain(&self) -> Option<Gslb> {
        self.domain
    }

    pub(super) fn parent_side(&self) -> Option<NodeId> {
        self.parent_side
    }

    /// The NS records of a zone cut.
    pub(super) fn cut(&self) -> Option<&RrSet> {
        if self.is_apex { None } else { self.set(NS) }
    }

    /// Both address sets, where there are any.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &RrSet> {
        [A, AAAA].into_iter().filter_map(|rtype| self.set(rtype))
    }
}
