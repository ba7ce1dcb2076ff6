//! `/v1/ldns`: the RTT table, in pages, and row by row.

use super::View;
use crate::params::{Params, parse};
use crate::refusal::{Refusal, quoted};
use gslb_core::Row;
use gslb_types::{ProbeKind, Reach, SiteIndex};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Rows on a page, unless asked otherwise.
const LIMIT: usize = 100;

/// Rows on a page at most.
const LARGEST: usize = 1000;

const AN_ADDRESS: &str = "an IPv4 or IPv6 address";

/// A page of the RTT table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LdnsPage {
    /// In the order of their addresses, IPv4 first.
    pub ldns: Vec<Ldns>,
    /// How many rows the whole table has.
    pub total: usize,
    /// The `after` of the next page; `null` if this is the last.
    pub next: Option<IpAddr>,
}

/// What all sites know of one LDNS.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ldns {
    /// Its address, the bits beyond the mask zero.
    pub ldns: IpAddr,
    /// How long ago it was first heard of; whole seconds.
    pub first_seen_age_ms: u64,
    /// How long ago it last asked anybody in the group; whole seconds.
    pub last_seen_age_ms: u64,
    /// What each site says.
    pub sites: Vec<Cell>,
}

/// What one site says of an LDNS.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The site.
    pub site: String,
    /// What decisions take it for.
    pub state: CellState,
    /// The advertised RTT, if it is known.
    pub rtt_us: Option<u32>,
    /// The kind of probe that measured it.
    pub kind: Option<ProbeKind>,
    /// How long ago the site's word was last true, as far as this node can tell; `null` if there is none.
    pub age_ms: Option<u64>,
}

/// Whether an RTT is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Not measured yet, or too long ago.
    Pending,
    /// It is.
    Known,
    /// All kinds of probes timed out.
    Unreachable,
}

impl From<Reach> for CellState {
    fn from(reach: Reach) -> Self {
        match reach {
            Reach::Pending => CellState::Pending,
            Reach::Known(_) => CellState::Known,
            Reach::Unreachable => CellState::Unreachable,
        }
    }
}

pub(crate) fn ldns_page(view: &View<'_>, params: &Params) -> Result<LdnsPage, Refusal> {
    let after = params.parsed::<IpAddr>("after", AN_ADDRESS)?;
    let limit = limit(params)?;
    let sites = sites(view, params)?;
    // One row more than wanted tells whether there is another page.
    let mut rows = view.shared.rtts.page(after.map(gslb_types::Ldns::exact), limit + 1);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|(ldns, _)| ldns.address());
    let ldns = rows.iter().map(|(ldns, row)| entry(view, ldns.address(), row, &sites)).collect();
    Ok(LdnsPage { ldns, total: view.shared.rtts.len(), next })
}

pub(crate) fn ldns(view: &View<'_>, params: &Params) -> Result<Ldns, Refusal> {
    let address: IpAddr = params.segment("ldns", AN_ADDRESS)?;
    let sites = sites(view, params)?;
    let ldns = gslb_types::Ldns::of(address, view.config().ldns.masks);
    match view.shared.rtts.row(ldns) {
        Some(row) => Ok(entry(view, ldns.address(), &row, &sites)),
        None => Err(Refusal::not_found(format!(
            "{ldns} has not asked any node for a GSLB domain within the last {:?}, or is never probed",
            view.config().ldns.idle_timeout
        ))),
    }
}

fn limit(params: &Params) -> Result<usize, Refusal> {
    let what = format!("a number from 1 to {LARGEST}");
    match params.text("limit") {
        None => Ok(LIMIT),
        Some(text) => match parse("limit", text, &what)? {
            limit @ 1..=LARGEST => Ok(limit),
            _ => Err(Refusal::bad(format!("limit: expected {what}, not {}", quoted(text)))),
        },
    }
}

/// The site asked for, or all.
fn sites(view: &View<'_>, params: &Params) -> Result<Vec<SiteIndex>, Refusal> {
    let all = || (0..view.config().sites.len()).filter_map(SiteIndex::new);
    let Some(wanted) = params.text("site") else { return Ok(all().collect()) };
    let found: Vec<_> = all().filter(|index| view.site(*index) == wanted).collect();
    if found.is_empty() {
        let known: Vec<_> = all().map(|index| view.site(index)).collect();
        return Err(Refusal::bad(format!(
            "there is no site {}; there are: {}",
            quoted(wanted),
            known.join(", ")
        )));
    }
    Ok(found)
}

fn entry(view: &View<'_>, ldns: IpAddr, row: &Row, sites: &[SiteIndex]) -> Ldns {
    Ldns {
        ldns,
        first_seen_age_ms: view.age_ms(row.first_seen()),
        last_seen_age_ms: view.age_ms(row.last_seen()),
        sites: sites.iter().map(|site| cell(view, row, *site)).collect(),
    }
}

fn cell(view: &View<'_>, row: &Row, site: SiteIndex) -> Cell {
    let (cell, confirmed) = (row.cell(site), view.published.sites.get(site.get()).and_then(|s| s.confirmed));
    let current = cell.current(view.now, view.config().mep.max_age, confirmed);
    let has_word = cell.reach() != Reach::Pending;
    Cell {
        site: view.site(site),
        state: current.into(),
        rtt_us: current.rtt().map(|rtt| rtt.as_micros()),
        kind: cell.kind(),
        age_ms: has_word.then(|| view.age_ms(cell.last_true(confirmed))),
    }
}
