//! The monitors that a service names, with their weights.

use crate::group::Named;
use crate::model::{Monitor, Watch};
use crate::reader::{Item, Table};
use crate::schema::WATCH;
use gslb_types::Weight;
use std::net::IpAddr;

/// The monitors that a key of a service lists, each once.
pub(crate) fn watched(t: &Table<'_>, key: &str, monitors: &Named<Monitor>) -> Vec<Watch> {
    let mut all: Vec<Watch> = Vec::new();
    for item in t.item(key).and_then(Item::into_list).unwrap_or_default() {
        let (path, spot) = (item.path().to_owned(), item.spot().clone());
        let Some(watch) = watch(item, monitors) else { continue };
        if all.iter().any(|w| w.monitor == watch.monitor) {
            t.refuse_at(&spot, &path, "is given twice");
        } else {
            all.push(watch);
        }
    }
    all
}

/// `"web"` or `{ monitor = "web", weight = 3 }`.
fn watch(item: Item<'_>, monitors: &Named<Monitor>) -> Option<Watch> {
    if !item.is_table() {
        return Some(Watch { monitor: monitors.names.find(&item)?, weight: Weight::ONE });
    }
    let t = item.into_table(&WATCH)?;
    let monitor = t.item("monitor").and_then(|i| monitors.names.find(&i));
    let weight = Weight::new(t.number("weight", 1..=100));
    Some(Watch { monitor: monitor?, weight: weight.ok()? })
}

/// Complains of monitors that check from an address of the other family.
pub(crate) fn sources_reach(
    t: &Table<'_>,
    key: &str,
    watched: &[Watch],
    monitors: &Named<Monitor>,
    address: IpAddr,
) {
    let bound = watched.iter().filter_map(|w| monitors.all.get(w.monitor));
    for (name, source) in bound.filter_map(|m| Some((&m.name, m.source?))) {
        if source.is_ipv4() != address.is_ipv4() {
            t.refuse(key, format!("monitor '{name}' checks from {source}, which can't reach {address}"));
        }
    }
}

/// The weight of passing monitors that makes the service up: one that these can reach.
pub(crate) fn threshold(t: &Table<'_>, key: &str, watched: &[Watch]) -> Option<u32> {
    let threshold = t.item(key)?.number(1..=10_000)?;
    let all: u32 = watched.iter().map(|w| u32::from(w.weight.get())).sum();
    if threshold > all {
        t.refuse(key, format!("can't be reached: the weights of the monitors make {all}"));
    }
    Some(threshold)
}
