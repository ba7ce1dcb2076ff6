//! The services behind an LB virtual server.

use super::{LbMember, Services};
use crate::group::Named;
use crate::model::Service;
use crate::reader::{Item, Table};
use crate::schema::LB_MEMBER;
use crate::units;
use gslb_types::{SiteIndex, Weight};

pub(super) fn members(t: &Table<'_>, site: Option<SiteIndex>, services: &Services<'_>) -> Vec<LbMember> {
    let Some(items) = t.item("services").and_then(Item::into_list) else { return Vec::new() };
    if t.gives_empty_list("services") {
        t.refuse("services", "must name one service at least");
    }
    let mut members: Vec<LbMember> = Vec::new();
    for item in items {
        let (path, spot) = (item.path().to_owned(), item.spot().clone());
        let Some(member) = member(item, services.named) else { continue };
        if members.iter().any(|m| m.service == member.service) {
            t.refuse_at(&spot, &path, "is bound twice; raise its weight instead");
        }
        if let Some(service) = services.get(member.service) {
            if site.is_some_and(|site| site != service.site) {
                t.refuse_at(
                    &spot,
                    &path,
                    "stands in another site: an LB virtual server proxies within its own",
                );
            }
            if service.lb_vserver.is_some() {
                t.refuse_at(
                    &spot,
                    &path,
                    "stands for an LB virtual server itself: name what is behind that one",
                );
            }
        }
        members.push(member);
    }
    members
}

/// `"web-1"` or `{ service = "web-1", weight = 3, max_clients = 200, max_bandwidth = "100Mbps" }`.
fn member(item: Item<'_>, services: &Named<Service>) -> Option<LbMember> {
    let plain = |service| LbMember { service, weight: Weight::ONE, max_clients: None, max_bandwidth: None };
    if !item.is_table() {
        if !item.is_text() {
            item.refuse("expected a service's name, or { service = \"NAME\", weight = 1 }");
            return None;
        }
        return services.names.find(&item).map(plain);
    }
    let t = item.into_table(&LB_MEMBER)?;
    let service = t.item("service").and_then(|i| services.names.find(&i));
    let weight = Weight::new(t.number("weight", 1..=100));
    let max_clients = t.item("max_clients").and_then(|i| i.number(1..=u32::MAX));
    let max_bandwidth = t.item("max_bandwidth").and_then(|i| rate(&i));
    Some(LbMember { weight: weight.ok()?, max_clients, max_bandwidth, ..plain(service?) })
}

pub(crate) fn rate(item: &Item<'_>) -> Option<u64> {
    if !item.is_text() {
        item.refuse("expected a rate, as in \"100Mbps\"");
        return None;
    }
    item.parsed(units::rate)
}
