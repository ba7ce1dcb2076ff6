//! `gslb-dns sites`.

use super::Shown;
use super::table::{Sheet, duration, or_dash};
use admin::api::{Site, Sites};

pub(super) fn show(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let Sites { sites } = serde_json::from_slice(body)?;
    let mut sheet = Sheet::new([
        "SITE",
        "HEARD",
        "CONFIRMED",
        "SPEAKER",
        "NODES",
        "UP",
        "DOWN",
        "LEARNING",
        "TRIGGER",
        "NOTE",
    ]);
    for site in sites {
        sheet.row(vec![
            site.site.clone(),
            heard(&site),
            or_dash(site.confirmed_age_ms, |age| format!("{} ago", duration(age))),
            or_dash(site.speaker.clone(), |speaker| speaker),
            nodes(&site),
            site.services.up.to_string(),
            site.services.down.to_string(),
            site.services.learning.to_string(),
            site.trigger_monitor.clone(),
            note(&site),
        ]);
    }
    Ok(Shown::plain(sheet.text()))
}

fn heard(site: &Site) -> String {
    match &site.relay {
        _ if site.own => "this site".to_owned(),
        _ if site.connected => "directly".to_owned(),
        Some(relay) => format!("by {relay}"),
        None => or_dash(site.silent_ms, |silent| format!("not for {}", duration(silent))),
    }
}

fn nodes(site: &Site) -> String {
    let nodes = site.nodes.iter().map(|node| {
        let state = node.state.as_deref().unwrap_or("this node");
        let shares = if node.shares == Some(false) { ", no share" } else { "" };
        format!("{} {state}{shares}", node.node)
    });
    nodes.collect::<Vec<_>>().join(", ")
}

/// What its silence does to its services.
fn note(site: &Site) -> String {
    match (site.held_ms, site.taken_down_age_ms, site.down_in_ms) {
        (Some(held), ..) => format!("heard again, held for {} more", duration(held)),
        (None, Some(taken), _) => format!("silence decides since {}", duration(taken)),
        (None, None, Some(0)) => "silence decides now".to_owned(),
        (None, None, Some(left)) => format!("silence decides in {}", duration(left)),
        (None, None, None) => String::new(),
    }
}
