//! The additional section: addresses of the names an answer points to, from the same zone (RFC 1034 section 4.3.2 step 6).
//!
//! GSLB domains have no addresses of their own and add nothing here: they would be decisions nobody asked for.

use super::compose::{Full, Owner, Reply, Section};
use super::name::{self, LowerName};
use super::rrset::RrSet;
use super::rtype::{DNAME, MX, NS, SRV};
use super::zones::{Node, Place, Zones};

/// Targets looked up for one answer. The records beyond it stand in the answer all the same.
const MAX_TARGETS: usize = 32;

/// Adds the addresses of an answer's targets as far as there is room: they help, and nobody needs them.
pub(super) fn of_answer(zones: &Zones, zone: usize, set: &RrSet, reply: &mut Reply<'_>) {
    let (before, glue) = match set.rtype() {
        NS => (0, true),
        MX => (2, false),
        SRV => (6, false),
        _ => return,
    };
    for target in distinct(set, before) {
        if let Some(node) = addresses(zones, zone, target, glue) {
            let _ = write(node, target, reply);
        }
    }
}

/// Adds the addresses of the name servers of a cut. Those that live below the cut must be there, or the reply is truncated:
/// without them nobody finds the servers (RFC 9471 section 3.1). The others go in as far as there is room.
pub(super) fn glue(zones: &Zones, cut: &Node, ns: &RrSet, reply: &mut Reply<'_>) -> Result<(), Full> {
    let known = || distinct(ns, 0).filter_map(|t| Some((t, addresses(zones, cut.zone(), t, true)?)));
    let is_below = |target: &[u8]| name::is_within(target, cut.owner());
    for (target, node) in known().filter(|(target, _)| is_below(target)) {
        write(node, target, reply)?;
    }
    for (target, node) in known().filter(|(target, _)| !is_below(target)) {
        let _ = write(node, target, reply);
    }
    Ok(())
}

fn distinct(set: &RrSet, before: usize) -> impl Iterator<Item = &[u8]> {
    set.targets(before).take(MAX_TARGETS).enumerate().filter_map(move |(index, target)| {
        let mut earlier = set.targets(before).take(index);
        (!earlier.any(|other| other.eq_ignore_ascii_case(target))).then_some(target)
    })
}

/// The node whose addresses a target has. `glue` admits names below a cut.
fn addresses<'z>(zones: &'z Zones, zone: usize, target: &[u8], glue: bool) -> Option<&'z Node> {
    let mut lower = LowerName::root();
    if !lower.set(target) {
        return None;
    }
    let (node, holder) = match zones.find(lower.as_wire())? {
        Place::Exact(id) => (zones.node(id), zones.node(id)),
        // What a DNAME renames has no addresses of its own.
        Place::Below(id) if zones.node(id).set(DNAME).is_some() => return None,
        Place::Below(id) => (zones.node(zones.node(id).wildcard()?), zones.node(id)),
    };
    let visible = match holder.hidden_by() {
        None => true,
        Some(above) => glue && zones.node(above).cut().is_some(),
    };
    (visible && node.zone() == zone).then_some(node)
}

/// Writes all addresses of a node, or none.
fn write(node: &Node, target: &[u8], reply: &mut Reply<'_>) -> Result<(), Full> {
    let before = reply.checkpoint();
    for set in node.addresses() {
        if let Err(full) = reply.rrset(Section::Additional, Owner::Name(target), set) {
            reply.rollback(before);
            return Err(full);
        }
    }
    Ok(())
}
