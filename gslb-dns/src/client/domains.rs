//! `gslb-dns domains`.

use super::Shown;
use super::table::Sheet;
use admin::api::{Domains, States};

pub(super) fn show(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let Domains { domains } = serde_json::from_slice(body)?;
    let mut sheet = Sheet::new(["DOMAIN", "ZONE", "VSERVER", "TTL", "SERVICES UP"]);
    for domain in domains {
        let States { up, down, learning, disabled } = domain.services;
        sheet.row(vec![
            domain.domain,
            domain.zone,
            domain.vserver,
            format!("{} s", domain.ttl_s),
            format!("{up} of {}", up + down + learning + disabled),
        ]);
    }
    Ok(Shown::plain(sheet.text()))
}
