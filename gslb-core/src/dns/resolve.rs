//! From a question to the records of the answer: RFC 1034 section 4.3.2 with the wildcards of RFC 4592 and the DNAME of
//! RFC 6672, as NSD does it.
//!
//! Aliases are followed within their zone only, as Knot and gdnsd do: a resolver asks again for whatever lies in another
//! zone, so a decision made for it here would be thrown away, and its turn with it.

use super::additional;
use super::compose::{Full, Owner, QUESTION, Reply, Section};
use super::name::{self, LowerName};
use super::rrset::RrSet;
use super::rtype::{A, AAAA, ANY, CNAME, DNAME, DS, NXDOMAIN, REFUSED, YXDOMAIN};
use super::select::{self, Selected};
use super::zones::{Gslb, Node, NodeId, Place, Zones};
use crate::Family;
use crate::published::{Published, Shared};
use arrayvec::ArrayVec;
use gslb_types::Timestamp;
use ipnet::IpNet;
use mep_core::SessionKey;
use std::net::IpAddr;

/// Aliases followed for one question. Zones have a handful; more is a mistake in a zone, and a resolver gives up sooner.
const MAX_ALIASES: usize = 32;

/// Who asks whom, and when.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) shared: &'a Shared,
    pub(super) published: &'a Published,
    pub(super) source: IpAddr,
    /// The prefix of the client on whose behalf the query is, if it says so.
    pub(super) subnet: Option<IpNet>,
    pub(super) now: Timestamp,
}

impl Asked<'_> {
    /// Whom the answer is for: the client's prefix, or the one address that asked.
    pub(super) fn whom(&self) -> IpNet {
        self.subnet.unwrap_or(IpNet::from(self.source))
    }
}

/// What came out beside the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) rcode: u16,
    pub(super) authoritative: bool,
    /// The decision was to leave the query without a reply.
    pub(super) silent: bool,
    /// A GSLB domain that wants RTTs was asked for.
    pub(super) sighting: bool,
    /// The session that the answer uses, and where it leads.
    pub(super) session: Option<(SessionKey, usize)>,
    /// For clients of which prefix of [`Asked::subnet`] this holds: its length, 0 if for all.
    pub(super) scope: u8,
}

/// Resolves the question: `name` in lower case, of class IN. On `Full` the reply holds a part, and `outcome` says what is
/// true of the whole.
pub(super) fn resolve(
    asked: Asked<'_>,
    name: &mut LowerName,
    qtype: u16,
    reply: &mut Reply<'_>,
    outcome: &mut Outcome,
) -> Result<(), Full> {
    let zones = &*asked.published.zones;
    let Some(place) = zones.find(name.as_wire()) else {
        outcome.rcode = REFUSED;
        return Ok(());
    };
    let place = match place {
        Place::Exact(node) if qtype == DS => Place::Exact(zones.node(node).parent_side().unwrap_or(node)),
        Place::Exact(_) | Place::Below(_) => place,
    };
    let zone = zones.node(place.node()).zone();
    Resolving {
        asked,
        zones,
        zone,
        name,
        qtype,
        reply,
        outcome,
        owners: ArrayVec::new(),
        dnames: ArrayVec::new(),
    }
    .run(place)
}

/// What to do after a step.
enum Next {
    Done,
    /// The name has become the target of an alias.
    Follow,
}

struct Resolving<'a, 'r, 'o> {
    asked: Asked<'a>,
    zones: &'a Zones,
    zone: usize,
    /// The name at this point of the chain.
    name: &'r mut LowerName,
    qtype: u16,
    reply: &'r mut Reply<'o>,
    outcome: &'r mut Outcome,
    /// Where the names of the chain stand in the reply, the question's first. One that comes again closes a loop.
    owners: ArrayVec<usize, MAX_ALIASES>,
    /// The DNAMEs of the chain: each is written once.
    dnames: ArrayVec<NodeId, MAX_ALIASES>,
}

impl<'a> Resolving<'a, '_, '_> {
    fn run(&mut self, mut place: Place) -> Result<(), Full> {
        self.owners.push(QUESTION);
        while let Next::Follow = self.step(place)? {
            let target = self.reply.last_rdata();
            let loops = self.owners.iter().any(|at| self.reply.name_at_is(*at, self.name.as_wire()));
            if loops || self.owners.try_push(target).is_err() {
                break;
            }
            match self.zones.find(self.name.as_wire()) {
                Some(next) if self.zones.node(next.node()).zone() == self.zone => place = next,
                Some(_) | None => break,
            }
        }
        Ok(())
    }

    fn step(&mut self, place: Place) -> Result<Next, Full> {
        let zones = self.zones;
        let (id, exact) = match place {
            Place::Exact(id) => (id, true),
            Place::Below(id) => (id, false),
        };
        let node = zones.node(id);
        if let Some(above) = node.hidden_by() {
            let Some(ns) = zones.node(above).cut() else { return self.dname(above) };
            // The parent has the word about DS at a cut (RFC 4035 section 3.1.4.1).
            if !(exact && above == id && self.qtype == DS) {
                return self.referral(zones.node(above), ns);
            }
        }
        self.outcome.authoritative = true;
        if exact {
            return self.records(node);
        }
        if node.set(DNAME).is_some() {
            return self.dname(id);
        }
        match node.wildcard() {
            Some(wildcard) => self.records(zones.node(wildcard)),
            None => {
                self.outcome.rcode = NXDOMAIN;
                self.negative(node)
            }
        }
    }

    /// The answer is in this node, be it the name itself or the wildcard that stands for it.
    fn records(&mut self, node: &'a Node) -> Result<Next, Full> {
        if let Some(domain) = node.domain()
            && let Some(family) = family(self.qtype, domain)
        {
            return self.select(node, domain, family);
        }
        if let Some(set) = node.set(self.qtype) {
            return self.answer(set);
        }
        if self.qtype == ANY {
            // One RRset is answer enough, and the smallest makes the worst amplifier (RFC 8482 section 4.1).
            let Some(set) = node.sets().iter().min_by_key(|set| set.size()) else {
                return self.negative(node);
            };
            self.reply.rrset(Section::Answer, owner(&self.owners, self.name), set)?;
            return Ok(Next::Done);
        }
        match node.set(CNAME).and_then(|set| Some((set.ttl(), set.targets(0).next()?))) {
            Some((ttl, target)) => {
                self.reply.alias(owner(&self.owners, self.name), CNAME, ttl, target)?;
                self.name.set(target);
                Ok(Next::Follow)
            }
            None => self.negative(node),
        }
    }

    fn answer(&mut self, set: &RrSet) -> Result<Next, Full> {
        self.reply.rrset(Section::Answer, owner(&self.owners, self.name), set)?;
        additional::of_answer(self.zones, self.zone, set, self.reply);
        Ok(Next::Done)
    }

    /// A GSLB domain: an answer of one address, or of the configured ones that stand in for it.
    fn select(&mut self, node: &'a Node, domain: Gslb, family: Family) -> Result<Next, Full> {
        let selection = select::select(self.asked, domain.index, family);
        self.outcome.sighting |= selection.wants_rtt;
        self.outcome.session = selection.session;
        self.outcome.scope = self.outcome.scope.max(selection.scope);
        match selection.selected {
            Selected::Silence => self.outcome.silent = true,
            Selected::Nothing => return self.negative(node),
            Selected::Addresses(addresses) => {
                for address in addresses {
                    let owner = owner(&self.owners, self.name);
                    self.reply.address(owner, selection.ttl, address)?;
                }
            }
        }
        Ok(Next::Done)
    }

    /// RFC 6672 section 3.1: the DNAME, and the CNAME it makes of the name.
    fn dname(&mut self, id: NodeId) -> Result<Next, Full> {
        self.outcome.authoritative = true;
        let node = self.zones.node(id);
        let Some((set, target)) = node.set(DNAME).and_then(|set| Some((set, set.targets(0).next()?))) else {
            return self.negative(node);
        };
        if !self.dnames.contains(&id) {
            self.reply.rrset(Section::Answer, Owner::Name(node.owner()), set)?;
            // As many as aliases, so there is room.
            let _ = self.dnames.try_push(id);
        }
        let mut new = self.name.clone();
        let kept = new.as_wire().len().saturating_sub(node.owner().len());
        if !new.graft(kept, target) {
            self.outcome.rcode = YXDOMAIN;
            return Ok(Next::Done);
        }
        self.reply.alias(owner(&self.owners, self.name), CNAME, set.ttl(), new.as_wire())?;
        *self.name = new;
        // The CNAME is what was asked for, or the DNAME leads below itself and makes the name longer for ever.
        let ends = self.qtype == CNAME || name::is_within(target, node.owner());
        Ok(if ends { Next::Done } else { Next::Follow })
    }

    fn referral(&mut self, cut: &Node, ns: &RrSet) -> Result<Next, Full> {
        self.reply.rrset(Section::Authority, Owner::Name(cut.owner()), ns)?;
        additional::glue(self.zones, cut, ns, self.reply)?;
        Ok(Next::Done)
    }

    /// No such name, or nothing of the type: the SOA says for how long (RFC 2308 section 3).
    fn negative(&mut self, node: &Node) -> Result<Next, Full> {
        let zone = self.zones.zone(node);
        if let Some((soa, ttl)) = zone.negative() {
            self.reply.rrset_with_ttl(Section::Authority, Owner::Name(zone.origin()), soa, ttl)?;
        }
        Ok(Next::Done)
    }
}

/// The name at this point of the chain, as an owner.
fn owner<'n>(owners: &[usize], name: &'n LowerName) -> Owner<'n> {
    if owners.len() == 1 { Owner::Question } else { Owner::Name(name.as_wire()) }
}

/// The addresses that a query of this type for a GSLB domain is about. ANY gets one set of addresses, and the decision
/// applies to it as to any other (faults I-20).
fn family(qtype: u16, domain: Gslb) -> Option<Family> {
    match qtype {
        A => Some(Family::V4),
        AAAA => Some(Family::V6),
        ANY if domain.only_v6 => Some(Family::V6),
        ANY => Some(Family::V4),
        _ => None,
    }
}
