//! `gslb-dns services`.

use super::Shown;
use super::table::{NOTHING, Sheet, duration, or_dash, time};
use admin::api::{Monitor, Services};
use std::net::SocketAddr;

pub(super) fn show(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let Services { services } = serde_json::from_slice(body)?;
    let mut sheet =
        Sheet::new(["SERVICE", "SITE", "ADDRESS", "STATE", "FOR", "RESPONSE", "MONITORS", "JUDGE", "REASON"]);
    for service in services {
        sheet.row(vec![
            service.service,
            service.site,
            SocketAddr::new(service.address, service.port).to_string(),
            service.state.to_string(),
            duration(service.state_age_ms),
            or_dash(service.response_time_us, |us| time(u64::from(us))),
            monitors(&service.monitors),
            service.judge.replace('_', " "),
            service.reason,
        ]);
    }
    Ok(Shown::plain(sheet.text()))
}

fn monitors(monitors: &[Monitor]) -> String {
    let shown: Vec<String> =
        monitors.iter().map(|m| format!("{} {}", m.monitor, verdict(m.passing))).collect();
    if shown.is_empty() { NOTHING.to_owned() } else { shown.join(", ") }
}

fn verdict(passing: Option<bool>) -> &'static str {
    match passing {
        Some(true) => "passes",
        Some(false) => "fails",
        None => "has not run",
    }
}
