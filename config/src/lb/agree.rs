//! What LB virtual servers must agree with: the services that stand for them, and the other listeners of the node.

use super::{LbKind, LbVserver, Services};
use crate::model::{Admin, Dns, Mep, Service};
use crate::policy::Binding;
use crate::reader::Table;
use crate::settings::taken;
use gslb_types::{LbMethod, SiteIndex};
use std::net::SocketAddr;

/// Refuses services that stand for an LB virtual server of another site, or that are checked beside it.
pub(crate) fn services_agree(services: &Services<'_>, lb: &[Option<LbVserver>]) {
    for (number, t) in services.tables.iter().enumerate().filter(|(_, t)| t.gives("lb_vserver")) {
        if t.gives("monitors") {
            t.refuse(
                "monitors",
                "its state is that of `lb_vserver`: monitors belong to the services behind that",
            );
        }
        let Some(service) = services.get(number) else { continue };
        let stands_for = service.lb_vserver.and_then(|at| lb.get(at)?.as_ref());
        if let Some(lb) = stands_for.filter(|lb| lb.site != service.site) {
            t.refuse("lb_vserver", format!("'{}' stands in another site", lb.name));
        }
    }
}

/// Whether the metric of a method is known of everything a GSLB virtual server is bound to.
///
/// Traffic is counted where it passes through the nodes: at services that stand for an LB virtual server. Or a foreign load
/// balancer counts it, which is their source. Times to the first
/// byte exist only where requests are understood. Of what is wrong itself nothing is said.
pub(crate) fn is_fed(
    method: LbMethod,
    bindings: &[Binding],
    services: &Services<'_>,
    lb: &[Option<LbVserver>],
) -> bool {
    let mut bound = bindings.iter().filter_map(|b| services.get(b.service));
    let understood = |at: usize| match lb.get(at) {
        Some(Some(lb)) => !matches!(lb.kind, LbKind::Tcp { .. }),
        Some(None) | None => true,
    };
    let is_told = |s: &Service| s.feed.as_ref().is_some_and(|feed| feed.feeds(method));
    match method {
        LbMethod::LeastResponseTimeMonitors | LbMethod::RoundRobin | LbMethod::SourceIpHash => true,
        // One that tells it is enough: the others get their turns, as one does whose monitor has not told it yet.
        LbMethod::CustomLoad => {
            bindings.is_empty()
                || bindings
                    .iter()
                    .any(|b| services.get(b.service).is_none_or(|s| tells_load(s, services, lb)))
        }
        LbMethod::LeastBandwidth | LbMethod::LeastPackets | LbMethod::LeastConnections => {
            bound.all(|service| service.lb_vserver.is_some() || is_told(service))
        }
        LbMethod::LeastResponseTime => {
            bound.all(|service| service.lb_vserver.is_some_and(understood) || is_told(service))
        }
    }
}

/// Whether a service's load is told, be it that of what stands behind its LB virtual server. Of what is wrong itself nothing is
/// said.
fn tells_load(service: &Service, services: &Services<'_>, lb: &[Option<LbVserver>]) -> bool {
    match service.lb_vserver.map(|at| lb.get(at).and_then(Option::as_ref)) {
        None => service.tells_load,
        Some(None) => true,
        Some(Some(lb)) => any_tells_load(lb.members.iter().map(|member| member.service), services),
    }
}

/// Whether the load of one at least of these services is told by its monitors or its source.
pub(crate) fn any_tells_load(mut members: impl Iterator<Item = usize>, services: &Services<'_>) -> bool {
    members.any(|member| services.get(member).is_none_or(|service| service.tells_load))
}

/// Refuses addresses of LB virtual servers that something else of the same node listens at.
pub(crate) fn listeners_agree(
    tables: &[Table<'_>],
    vservers: &[Option<LbVserver>],
    here: Option<SiteIndex>,
    (dns, admin, mep): (&Dns, &Admin, &Mep),
) {
    let tls = dns.tls.as_ref().map_or(&[][..], |tls| &tls.listen);
    let admin = admin.listen.as_slice();
    let others: [(&str, &[SocketAddr]); 4] = [
        ("DNS listens at {} (dns.listen)", &dns.listen),
        ("DNS over TLS listens at {} (dns.tls.listen)", tls),
        ("the API listens at {} (admin.listen)", admin),
        ("peers are heard at {} (mep.listen)", std::slice::from_ref(&mep.listen)),
    ];
    for (i, (t, vserver)) in tables.iter().zip(vservers).enumerate() {
        let Some(vserver) = vserver else { continue };
        let before = vservers.iter().take(i).flatten().filter(|v| v.site == vserver.site);
        for address in &vserver.listen {
            let refuse = |what: String| t.refuse("listen", format!("{address} is taken: {what}"));
            for other in before.clone() {
                if let Some(at) = taken(*address, &other.listen) {
                    refuse(format!("LB virtual server '{}' listens at {at}", other.name));
                }
            }
            for (what, at) in others.iter().filter(|_| here == Some(vserver.site)) {
                if let Some(at) = taken(*address, at) {
                    refuse(what.replace("{}", &at.to_string()));
                }
            }
        }
    }
}
