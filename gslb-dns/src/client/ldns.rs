//! `gslb-dns ldns`.

use super::Shown;
use super::table::{Sheet, duration, or_dash, time};
use admin::api::{Cell, CellState, Ldns, LdnsPage};
use gslb_types::ProbeKind;

/// A page of the RTT table: a row for each LDNS, a column for each site.
pub(super) fn show_page(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let page: LdnsPage = serde_json::from_slice(body)?;
    let Some(first) = page.ldns.first() else {
        return Ok(Shown::plain(format!("no LDNS here; the table has {}\n", page.total)));
    };
    let sites = first.sites.iter().map(|cell| cell.site.clone());
    let mut sheet =
        Sheet::with_header(["LDNS", "ASKED"].map(str::to_owned).into_iter().chain(sites).collect());
    for ldns in &page.ldns {
        let row = [ldns.ldns.to_string(), format!("{} ago", duration(ldns.last_seen_age_ms))];
        sheet.row(row.into_iter().chain(ldns.sites.iter().map(short)).collect());
    }
    let more = page.next.map(|next| format!("; more by --after {next}")).unwrap_or_default();
    Ok(Shown::plain(format!("{}\n{} of {} LDNS{more}\n", sheet.text(), page.ldns.len(), page.total)))
}

/// One LDNS: a row for each site.
pub(super) fn show(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let ldns: Ldns = serde_json::from_slice(body)?;
    let mut sheet = Sheet::new(["SITE", "STATE", "RTT", "BY", "CONFIRMED"]);
    for cell in &ldns.sites {
        sheet.row(vec![
            cell.site.clone(),
            state(cell.state).to_owned(),
            or_dash(cell.rtt_us, |us| time(u64::from(us))),
            or_dash(cell.kind, |kind| kind.to_string()),
            or_dash(cell.age_ms, |ms| format!("{} ago", duration(ms))),
        ]);
    }
    let [first, last] = [ldns.first_seen_age_ms, ldns.last_seen_age_ms].map(duration);
    Ok(Shown::plain(format!("{}: first seen {first} ago, asked {last} ago\n\n{}", ldns.ldns, sheet.text())))
}

fn short(cell: &Cell) -> String {
    match (cell.state, cell.rtt_us) {
        (CellState::Known, Some(us)) => {
            format!("{} {}", time(u64::from(us)), cell.kind.map_or("", ProbeKind::as_str))
                .trim_end()
                .to_owned()
        }
        (other, _) => state(other).to_owned(),
    }
}

fn state(state: CellState) -> &'static str {
    match state {
        CellState::Pending => "pending",
        CellState::Known => "known",
        CellState::Unreachable => "unreachable",
    }
}
