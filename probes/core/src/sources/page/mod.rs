//! The pages of foreign load balancers, and what they say. Whatever stands there, nothing panics; what is not understood is
//! said with its place.

mod envoy;
mod haproxy;
mod nginx;
mod prometheus;
#[cfg(test)]
mod tests;

use super::reading::Reading;
use gslb_types::{SourceItem, SourceKind};

/// The largest page that is read. A row of HAProxy's takes some 500 bytes: room for 8,000 servers.
pub const LARGEST: usize = 4 << 20;

/// What is said when an item is looked for in a page of another kind, which configurations rule out.
const OTHER_KIND: &str = "is not in pages of this kind";

/// What a page says of each item, in their order; or why it is no such page.
pub fn read(
    kind: SourceKind,
    page: &[u8],
    items: &[SourceItem],
) -> Result<Vec<Result<Reading, String>>, String> {
    match kind {
        SourceKind::Haproxy => haproxy::read(page, items),
        SourceKind::Envoy => envoy::read(page, items),
        SourceKind::Nginx => nginx::read(page, items),
        SourceKind::Prometheus => prometheus::read(page, items),
    }
}

/// A page of lines ends with the end of one: where it does not, the rest is missing, and with it maybe half of a number.
fn ends(page: &[u8]) -> Result<(), String> {
    match page.last() {
        None | Some(b'\n') => Ok(()),
        Some(_) => Err("half a page: its last line has no end".to_owned()),
    }
}

/// Words of a page that go into reasons and logs: short, and without what would steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(120).collect::<String>().trim().to_owned()
}
