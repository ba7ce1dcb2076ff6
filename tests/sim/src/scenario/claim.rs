//! What a script can expect of the world.

use super::parse::{KINDS, Reader};
use super::words::{ParseError, Words, time};
use crate::world::{Host, HostIndex, World};
use gslb_core::{PeerState, PeerStatus};
use gslb_types::{Ldns, ProbeKind, Reach, Rtt, ServiceState, SiteIndex};
use std::net::IpAddr;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    Row(Vec<HostIndex>, IpAddr, Vec<(usize, Reach)>),
    NoRow(Vec<HostIndex>, IpAddr),
    Kind(Vec<HostIndex>, IpAddr, ProbeKind),
    Peer(HostIndex, HostIndex, PeerState),
    State(Vec<HostIndex>, usize, ServiceState),
    Mismatch(HostIndex, HostIndex, String),
    Count(Counted, Amount),
    TablesEqual,
    All(Vec<Claim>),
}

/// What is counted since the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    Rows(HostIndex),
    Advertised(HostIndex),
    Probes(IpAddr),
    Downs(HostIndex, HostIndex),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amount {
    Exactly(u64),
    AtMost(u64),
    AtLeast(u64),
}

/// What had been counted at the mark.
#[derive(Clone, Copy)]
pub(crate) struct Mark<'a>(pub(crate) &'a dyn Fn(Counted) -> u64);

const PEER_STATES: [(&str, PeerState); 4] = [
    ("up", PeerState::Up),
    ("suspect", PeerState::Suspect),
    ("down", PeerState::Down),
    ("connecting", PeerState::Connecting),
];

const SERVICE_STATES: [(&str, ServiceState); 3] =
    [("up", ServiceState::Up), ("down", ServiceState::Down), ("learning", ServiceState::Learning)];

const CLAIMS: [(&str, &str); 12] = [
    ("row", "row"),
    ("no", "no"),
    ("kind", "kind"),
    ("peer", "peer"),
    ("peers", "peers"),
    ("state", "state"),
    ("mismatch", "mismatch"),
    ("rows", "rows"),
    ("advertised", "advertised"),
    ("probes", "probes"),
    ("downs", "downs"),
    ("tables", "tables"),
];

/// Reads a claim.
pub(super) fn read(reader: &Reader<'_>, words: &mut Words<'_>) -> Result<Claim, ParseError> {
    let count = |counted, words: &mut Words<'_>| Ok(Claim::Count(counted, amount(words)?));
    match words.one_of("a claim", &CLAIMS)? {
        "row" => Ok(Claim::Row(reader.who(words)?, words.address()?, reader.pairs(words, reach)?)),
        "no" => {
            words.expect("row")?;
            Ok(Claim::NoRow(reader.who(words)?, words.address()?))
        }
        "kind" => {
            Ok(Claim::Kind(reader.who(words)?, words.address()?, words.one_of("a kind of probe", &KINDS)?))
        }
        "peer" => Ok(Claim::Peer(reader.node(words)?, reader.node(words)?, peer_state(words)?)),
        "peers" => {
            let (a, b, state) = (reader.node(words)?, reader.node(words)?, peer_state(words)?);
            Ok(Claim::All(vec![Claim::Peer(a, b, state), Claim::Peer(b, a, state)]))
        }
        "state" => {
            let (who, service) = (reader.who(words)?, reader.service(words)?);
            Ok(Claim::State(who, service, words.one_of("a state", &SERVICE_STATES)?))
        }
        "mismatch" => {
            let (a, b) = (reader.node(words)?, reader.node(words)?);
            Ok(Claim::Mismatch(a, b, words.word("the name of a setting")?.to_owned()))
        }
        "rows" => count(Counted::Rows(reader.node(words)?), words),
        "advertised" => count(Counted::Advertised(reader.node(words)?), words),
        "probes" => count(Counted::Probes(words.address()?), words),
        "downs" => count(Counted::Downs(reader.node(words)?, reader.node(words)?), words),
        _ => {
            words.expect("equal")?;
            Ok(Claim::TablesEqual)
        }
    }
}

fn peer_state(words: &mut Words<'_>) -> Result<PeerState, ParseError> {
    words.one_of("a state", &PEER_STATES)
}

fn amount(words: &mut Words<'_>) -> Result<Amount, ParseError> {
    if !words.takes("at") {
        return words.number().map(Amount::Exactly);
    }
    let amount = words.one_of(
        "'most' or 'least'",
        &[("most", Amount::AtMost as fn(u64) -> Amount), ("least", Amount::AtLeast)],
    )?;
    words.number().map(amount)
}

fn reach(words: &mut Words<'_>) -> Result<Reach, ParseError> {
    let error = words.here("expected a time, 'pending' or 'unreachable'".to_owned());
    match words.word("what is known")? {
        "pending" => Ok(Reach::Pending),
        "unreachable" => Ok(Reach::Unreachable),
        text => time(text).map(|rtt| Reach::Known(Rtt::from_duration(rtt))).ok_or(error),
    }
}

impl Claim {
    /// Whether it holds; if not, how things are instead.
    pub(crate) fn check(&self, world: &World, mark: Mark<'_>) -> Result<(), String> {
        let each = |who: &[HostIndex], check: &dyn Fn(&Host) -> Result<(), String>| {
            who.iter().filter_map(|n| world.hosts().get(*n)).try_for_each(check)
        };
        match self {
            Claim::Row(who, ldns, cells) => each(who, &|host| row(world, host, *ldns, cells)),
            Claim::NoRow(who, ldns) => each(who, &|host| match find(host, *ldns) {
                Some(_) => Err(format!("{} has a row of {ldns}", host.id())),
                None => Ok(()),
            }),
            Claim::Kind(who, ldns, kind) => each(who, &|host| {
                let found = find(host, *ldns).and_then(|row| row.cell(host.site()).kind());
                same(&host.id().to_string(), Some(*kind), found)
            }),
            Claim::Peer(a, b, state) => {
                same(&format!("{a} -> {b}"), Some(*state), status(world, *a, *b).map(|status| status.state))
            }
            Claim::State(who, service, state) => each(who, &|host| {
                let view = host.published().and_then(|p| p.services.get(*service).map(|view| view.state));
                same(&host.id().to_string(), Some(*state), view)
            }),
            Claim::Mismatch(a, b, name) => match status(world, *a, *b) {
                Some(status) if status.mismatches.contains(name) => Ok(()),
                Some(status) => Err(format!("mismatches are {:?}", status.mismatches)),
                None => Err("no such peer".to_owned()),
            },
            Claim::Count(counted, amount) => {
                let count = counted.now(world) - (mark.0)(*counted);
                match *amount {
                    Amount::Exactly(n) if count == n => Ok(()),
                    Amount::AtMost(n) if count <= n => Ok(()),
                    Amount::AtLeast(n) if count >= n => Ok(()),
                    Amount::Exactly(_) | Amount::AtMost(_) | Amount::AtLeast(_) => {
                        Err(format!("there were {count}"))
                    }
                }
            }
            Claim::TablesEqual => world.tables_differ().map_or(Ok(()), Err),
            Claim::All(claims) => claims.iter().try_for_each(|claim| claim.check(world, mark)),
        }
    }
}

impl Counted {
    /// The count since the beginning.
    pub(crate) fn now(self, world: &World) -> u64 {
        match self {
            Counted::Rows(n) => world.witness().rows(n),
            Counted::Advertised(n) => world.witness().advertised(n),
            Counted::Probes(ldns) => world.witness().probes_to(ldns),
            Counted::Downs(a, b) => status(world, a, b).map_or(0, |status| status.downs),
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    whose: &str,
    expected: Option<T>,
    found: Option<T>,
) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{whose} has {found:?}")) }
}

fn status(world: &World, a: HostIndex, b: HostIndex) -> Option<PeerStatus> {
    let peer = world.hosts().get(b)?.id();
    world.hosts().get(a)?.published()?.peers.iter().find(|status| status.peer == *peer).cloned()
}

fn find(host: &Host, ldns: IpAddr) -> Option<gslb_core::Row> {
    host.shared()?.rtts.row(Ldns::of(ldns, host.config().ldns.masks))
}

fn row(world: &World, host: &Host, ldns: IpAddr, cells: &[(usize, Reach)]) -> Result<(), String> {
    let Some(row) = find(host, ldns) else { return Err(format!("{} has no row of {ldns}", host.id())) };
    let (Some(published), Some(local)) = (host.published(), host.local(world.now())) else {
        return Err(format!("{} does not run", host.id()));
    };
    for (site, reach) in cells {
        let confirmed = published.sites.get(*site).and_then(|view| view.confirmed);
        let cell = SiteIndex::new(*site).map(|site| row.cell(site)).unwrap_or_default();
        let counts = cell.current(local, host.config().mep.max_age, confirmed);
        if counts != *reach {
            return Err(format!("{} has {counts:?} in column {site}", host.id()));
        }
    }
    Ok(())
}
