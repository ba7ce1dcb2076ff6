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
        LbMethod::LeastBandwidth | LbMethod::LeastPackets | LbMethod::LeastConnections => {
            bound.all(|service| service.lb_vserver.is_some() || is_told(service))
        }
        LbMethod::LeastResponseTime => {
            bound.all(|service| service.lb_vserver.is_some_and(understood) || is_told(service))
        }
    }
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
