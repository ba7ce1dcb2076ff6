//! nginx's stub_status: four lines about all of it.

use super::super::reading::{Counts, Reading};
use super::{OTHER_KIND, ends, printable};
use gslb_types::SourceItem;

pub(super) fn read(page: &[u8], items: &[SourceItem]) -> Result<Vec<Result<Reading, String>>, String> {
    let text = String::from_utf8_lossy(page);
    let lines: Vec<&str> = text.lines().collect();
    let connections = number(&lines, 1, "Active connections:", 0)?;
    let requests = number(&lines, 3, "", 2)?;
    let reading = number(&lines, 4, "Reading:", 0)?;
    let writing = number(&lines, 4, "Writing:", 0)?;
    ends(page)?;
    let said = Reading {
        words: "answers".to_owned(),
        // Those waiting are idle connections. One of those writing is the look at this page.
        active: Some(reading.saturating_add(writing).saturating_sub(1)),
        connections: Some(connections),
        requests: Some(Counts::from([("requests".to_owned(), requests)])),
        ..Reading::default()
    };
    Ok(items
        .iter()
        .map(|item| match item {
            SourceItem::Nginx => Ok(said.clone()),
            _ => Err(OTHER_KIND.to_owned()),
        })
        .collect())
}

/// The `nth` number behind a word of a line.
fn number(lines: &[&str], line: usize, word: &str, nth: usize) -> Result<u64, String> {
    let text = lines.get(line - 1).copied().unwrap_or_default();
    let behind = text.split_once(word).map(|(_, behind)| behind);
    let number = behind.and_then(|behind| behind.split_ascii_whitespace().nth(nth)?.parse().ok());
    number.ok_or_else(|| {
        let what = if word.is_empty() { "three numbers" } else { word };
        format!("line {line}: no {what} in '{}': not a page of stub_status", printable(text))
    })
}
