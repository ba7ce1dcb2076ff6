//! HAProxy's statistics in CSV (its management guide, section 9.1). Columns go by their names: each version adds some. All rows
//! are as long as the first: a shorter one is the last of a page that was cut off.

use super::super::reading::{Counts, Health, Reading, Timed};
use super::{OTHER_KIND, ends, printable};
use csv::{ByteRecord, ReaderBuilder};
use gslb_types::{Rtt, SourceItem};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn read(page: &[u8], items: &[SourceItem]) -> Result<Vec<Result<Reading, String>>, String> {
    let text = page.trim_ascii_start();
    let text = text.strip_prefix(b"# ").or(text.strip_prefix(b"#")).unwrap_or(text);
    let mut reader = ReaderBuilder::new().from_reader(text);
    let columns = Columns::of(reader.byte_headers().map_err(|e| words(&e))?)?;
    // Only now: of what is no such page at all, that is what there is to say.
    ends(page)?;
    let mut rows: BTreeMap<(Vec<u8>, Vec<u8>), (u64, ByteRecord)> = BTreeMap::new();
    let named = items.iter().filter_map(|item| match item {
        SourceItem::Haproxy { proxy, server } => Some((proxy.as_bytes(), server.as_bytes())),
        SourceItem::Envoy { .. } | SourceItem::Nginx | SourceItem::Prometheus(_) => None,
    });
    let wanted: BTreeSet<_> = named.collect();
    for record in reader.into_byte_records() {
        let record = record.map_err(|e| words(&e))?;
        let (Some(proxy), Some(server)) = (record.get(columns.proxy), record.get(columns.server)) else {
            continue;
        };
        if wanted.contains(&(proxy, server)) {
            let line = record.position().map_or(0, csv::Position::line);
            rows.entry((proxy.to_owned(), server.to_owned())).or_insert((line, record));
        }
    }
    let said = items.iter().map(|item| {
        let SourceItem::Haproxy { proxy, server } = item else { return Err(OTHER_KIND.to_owned()) };
        let (line, record) = rows
            .get(&(proxy.clone().into_bytes(), server.clone().into_bytes()))
            .ok_or_else(|| format!("haproxy has no '{proxy}/{server}'"))?;
        Row { columns: &columns, line: *line, record }.reading(server)
    });
    Ok(said.collect())
}

fn words(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!("line {line} has {len} fields, the first line has {expected_len}: half a page?")
        }
        _ => error.to_string(),
    }
}

/// Where each column stands.
struct Columns {
    proxy: usize,
    server: usize,
    by_name: BTreeMap<String, usize>,
}

impl Columns {
    fn of(header: &ByteRecord) -> Result<Self, String> {
        let named = header.iter().enumerate();
        let by_name: BTreeMap<String, usize> =
            named.map(|(at, name)| (String::from_utf8_lossy(name).trim().to_owned(), at)).collect();
        let column = |name: &str| {
            by_name.get(name).copied().ok_or_else(|| {
                format!(
                    "the first line has no column '{name}': no statistics in CSV; does the URL end in ';csv'?"
                )
            })
        };
        Ok(Columns { proxy: column("pxname")?, server: column("svname")?, by_name })
    }
}

/// One row.
struct Row<'a> {
    columns: &'a Columns,
    line: u64,
    record: &'a ByteRecord,
}

impl Row<'_> {
    fn reading(&self, server: &str) -> Result<Reading, String> {
        let status = self.text("status");
        let (sessions, is_tcp) = (self.number("scur")?, self.text("mode") == "tcp");
        Ok(Reading {
            // That it listens says nothing of what stands behind it.
            health: if server == "FRONTEND" { of_frontend(&status) } else { health(&status) },
            words: self.words(server, &status),
            active: sessions,
            // Below the frontend a session is a request, which shares connections with others.
            connections: sessions.filter(|_| is_tcp || server == "FRONTEND"),
            bytes: counts([("bin", self.number("bin")?), ("bout", self.number("bout")?)]),
            requests: self.requests(is_tcp)?,
            timing: self.response_time(is_tcp)?.map(Timed::Mean),
            load: None,
        })
    }

    /// Requests, or sessions where nobody understands requests.
    fn requests(&self, is_tcp: bool) -> Result<Option<Counts>, String> {
        let requests = self.number("req_tot")?.filter(|_| !is_tcp);
        Ok(counts([("stot", requests.or(self.number("stot")?))]))
    }

    /// Of the last 1024: the time to the response's head, or to the connection where there are no responses. In whole
    /// milliseconds, so 0 stands for less than one, unless nothing was ever sent there.
    fn response_time(&self, is_tcp: bool) -> Result<Option<Rtt>, String> {
        let Some(ms) = self.number(if is_tcp { "ctime" } else { "rtime" })? else { return Ok(None) };
        let is_used = self.number("lbtot")?.or(self.number("stot")?).is_some_and(|n| n > 0);
        let micros = u32::try_from(ms.max(1).saturating_mul(1000)).unwrap_or(u32::MAX);
        Ok((ms > 0 || is_used).then_some(Rtt::from_micros(micros)))
    }

    /// `DOWN, L4CON: Connection refused`.
    fn words(&self, server: &str, status: &str) -> String {
        let (check, detail) = (self.text("check_status"), self.text("last_chk"));
        // The mark of a check that is under way: what stands there is what the one before it saw.
        let check = check.trim_start_matches("* ");
        let is_checked = !matches!(server, "BACKEND" | "FRONTEND") && !check.is_empty();
        match is_checked && health(status) == Health::Down && !status.starts_with("MAINT") {
            true if detail.is_empty() => printable(&format!("{status}, {check}")),
            true => printable(&format!("{status}, {check}: {detail}")),
            false => printable(status),
        }
    }

    fn text(&self, column: &str) -> String {
        let field = self.columns.by_name.get(column).and_then(|at| self.record.get(*at));
        String::from_utf8_lossy(field.unwrap_or_default()).trim().to_owned()
    }

    fn number(&self, column: &str) -> Result<Option<u64>, String> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = || format!("line {}, column '{column}': '{}' is no number", self.line, printable(&text));
        text.parse().map(Some).map_err(|_| wrong())
    }
}

fn counts<const N: usize>(counters: [(&str, Option<u64>); N]) -> Option<Counts> {
    let counts: Counts = counters.into_iter().filter_map(|(name, n)| Some((name.to_owned(), n?))).collect();
    Some(counts).filter(|counts| !counts.is_empty())
}

fn of_frontend(status: &str) -> Health {
    match health(status) {
        Health::Up => Health::Unsaid,
        other => other,
    }
}

/// What a status stands for. `UP 1/3` is on its way down and `DOWN 1/2` on its way up, and neither is there yet.
fn health(status: &str) -> Health {
    match status.split([' ', '(']).next().unwrap_or_default() {
        "UP" | "OPEN" => Health::Up,
        // NOLB and DRAIN still serve those they know, and are to get nobody else.
        "DOWN" | "MAINT" | "DRAIN" | "NOLB" | "STOP" | "FULL" => Health::Down,
        "no" if status.starts_with("no check") => Health::Unsaid,
        _ => Health::Unknown,
    }
}
