//! Builds the index from a configuration.

use super::name::{self, MAX_NAME};
use super::rrset::RrSet;
use super::rtype::{DNAME, SOA};
use super::zones::{Gslb, Node, NodeId, Zone, Zones};
use config::{Config, Domain, ZoneRecord};
use foldhash::fast::FixedState;
use hickory_proto::rr::Name;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Builds the index. Equal arguments make equal indices: nodes are numbered in the order of the configuration.
pub(super) fn build(config: &Config, seed: u64) -> Zones {
    let mut builder = Builder {
        index: Zones {
            by_name: HashMap::with_hasher(FixedState::with_seed(seed)),
            nodes: Vec::new(),
            zones: Vec::new(),
            most_labels: 0,
        },
        apexes: BTreeMap::new(),
        records: Vec::new(),
        parent_sides: BTreeMap::new(),
    };
    for (zone, settings) in config.zones.iter().enumerate() {
        builder.apexes.insert(lower(&settings.origin), zone);
        let origin = wire(&settings.origin).into();
        builder.index.zones.push(Zone { origin, soa: None, negative_ttl: 0 });
    }
    for (zone, settings) in config.zones.iter().enumerate() {
        let apex = builder.node(zone, &wire(&settings.origin));
        builder.index.nodes[apex].is_apex = true;
        for record in &settings.records {
            builder.record(zone, record);
        }
    }
    for (index, domain) in config.domains.iter().enumerate() {
        builder.domain(config, index, domain);
    }
    builder.finish()
}

/// A name in wire form, in the case it was written in.
pub(super) fn wire(name: &Name) -> Vec<u8> {
    let mut wire = Vec::with_capacity(MAX_NAME);
    for label in name.iter() {
        // A label of hickory's is never longer than 63 bytes.
        wire.push(u8::try_from(label.len()).unwrap_or(0));
        wire.extend_from_slice(label);
    }
    wire.push(0);
    wire
}

fn lower(name: &Name) -> Vec<u8> {
    wire(name).to_ascii_lowercase()
}

/// RRsets under way, by type.
type Records<'a> = BTreeMap<u16, SetUnderWay<'a>>;

/// TTL and RDATA.
struct SetUnderWay<'a> {
    ttl: u32,
    rdatas: Vec<&'a [u8]>,
    /// The same, to find one among very many.
    known: BTreeSet<&'a [u8]>,
}

struct Builder<'a> {
    index: Zones,
    apexes: BTreeMap<Vec<u8>, usize>,
    /// By node.
    records: Vec<Records<'a>>,
    /// Nodes that the zone above has at the apex of another zone.
    parent_sides: BTreeMap<Vec<u8>, NodeId>,
}

impl<'a> Builder<'a> {
    fn record(&mut self, zone: usize, record: &'a ZoneRecord) {
        let owner = wire(&record.owner);
        let lower = owner.to_ascii_lowercase();
        let node = if self.deepest(&lower) == Some(zone) {
            self.node(zone, &owner)
        } else if self.apexes.contains_key(&lower) && self.zone_above(&lower) == Some(zone) {
            self.parent_side(zone, owner)
        } else {
            // A deeper zone of ours has the word about this name; what this one says of it would never be asked.
            return;
        };
        let new = || SetUnderWay { ttl: record.ttl, rdatas: Vec::new(), known: BTreeSet::new() };
        let set = self.records[node].entry(record.rtype).or_insert_with(new);
        // An RRset is a set (RFC 2181 section 5.5).
        if set.known.insert(&record.rdata) {
            set.rdatas.push(&record.rdata);
        }
    }

    fn domain(&mut self, config: &Config, index: usize, domain: &Domain) {
        let name = wire(&domain.name);
        if self.deepest(&name.to_ascii_lowercase()) != Some(domain.zone) {
            return;
        }
        let services = config.vservers.get(domain.vserver).into_iter().flat_map(|v| &v.bindings);
        let mut addresses = services.filter_map(|b| Some(config.services.get(b.service)?.address));
        let only_v6 = addresses.clone().next().is_some() && addresses.all(|a| a.is_ipv6());
        let node = self.node(domain.zone, &name);
        self.index.nodes[node].domain = Some(Gslb { index, only_v6 });
    }

    /// The deepest zone that holds a name.
    fn deepest(&self, lower: &[u8]) -> Option<usize> {
        name::suffixes(lower).find_map(|suffix| self.apexes.get(suffix)).copied()
    }

    fn zone_above(&self, apex: &[u8]) -> Option<usize> {
        self.deepest(name::parent(apex)?)
    }

    /// The node of a name, made if there is none, with all nodes up to the apex.
    fn node(&mut self, zone: usize, owner: &[u8]) -> NodeId {
        let lower = owner.to_ascii_lowercase();
        if let Some(node) = self.index.by_name.get(lower.as_slice()) {
            return *node;
        }
        if !self.apexes.contains_key(&lower)
            && let Some(parent) = name::parent(owner)
        {
            self.node(zone, parent);
        }
        let node = self.push(zone, owner.into());
        self.index.most_labels = self.index.most_labels.max(name::labels(&lower));
        self.index.by_name.insert(lower.into(), node);
        node
    }

    fn parent_side(&mut self, zone: usize, owner: Vec<u8>) -> NodeId {
        let lower = owner.to_ascii_lowercase();
        if let Some(node) = self.parent_sides.get(&lower) {
            return *node;
        }
        let node = self.push(zone, owner.into());
        self.parent_sides.insert(lower, node);
        node
    }

    fn push(&mut self, zone: usize, owner: Box<[u8]>) -> NodeId {
        self.records.push(Records::new());
        self.index.nodes.push(Node {
            zone,
            owner,
            sets: Vec::new(),
            hidden_by: None,
            wildcard: None,
            domain: None,
            parent_side: None,
            is_apex: false,
        });
        self.index.nodes.len() - 1
    }

    fn finish(mut self) -> Zones {
        for (node, records) in self.index.nodes.iter_mut().zip(&self.records) {
            let sets = records.iter();
            node.sets = sets.map(|(t, set)| RrSet::new(*t, set.ttl, set.rdatas.iter().copied())).collect();
        }
        let names: Vec<(Box<[u8]>, NodeId)> =
            self.index.by_name.iter().map(|(name, id)| (name.clone(), *id)).collect();
        for (name, id) in names {
            self.index.nodes[id].hidden_by = self.hidden_by(&name, id);
            self.index.nodes[id].parent_side = self.parent_sides.get(&*name).copied();
            self.link_wildcard(&name, id);
            if self.index.nodes[id].is_apex {
                self.link_soa(id);
            }
        }
        self.index
    }

    /// The highest cut or DNAME on the way up to the apex. A cut hides its own name as well, a DNAME only what lies below.
    fn hidden_by(&self, name: &[u8], id: NodeId) -> Option<NodeId> {
        let mut hidden_by = None;
        for suffix in name::suffixes(name) {
            let above = *self.index.by_name.get(suffix)?;
            let node = &self.index.nodes[above];
            if node.cut().is_some() || above != id && node.set(DNAME).is_some() {
                hidden_by = Some(above);
            }
            if node.is_apex {
                break;
            }
        }
        hidden_by
    }

    fn link_wildcard(&mut self, name: &[u8], id: NodeId) {
        if name::is_wildcard(name)
            && let Some(parent) = name::parent(name).and_then(|p| self.index.by_name.get(p)).copied()
            && self.index.nodes[parent].zone == self.index.nodes[id].zone
        {
            self.index.nodes[parent].wildcard = Some(id);
        }
    }

    fn link_soa(&mut self, apex: NodeId) {
        let Some(set) = self.records[apex].get(&SOA) else { return };
        let soa = RrSet::new(SOA, set.ttl, set.rdatas.iter().copied().take(1));
        // MINIMUM is the last field.
        let minimum = soa.first().and_then(|rdata| rdata.last_chunk()).map_or(0, |m| u32::from_be_bytes(*m));
        let zone = self.index.nodes[apex].zone;
        let zone = &mut self.index.zones[zone];
        zone.negative_ttl = minimum.min(set.ttl);
        zone.soa = Some(soa);
    }
}
