//! From what a decision left of its steps to words.

use super::{Closeness, Reason, Step};
use crate::api::View;
use gslb_core::Family;
use gslb_core::decide::Load;
use gslb_core::location::Closeness as Close;
use gslb_types::{AllDown, GslbMethod, LbMethod, Reach, Rtt};

pub(super) fn step(
    view: &View<'_>,
    policy: &config::Vserver,
    family: Family,
    reason: gslb_core::Reason,
) -> Step {
    use gslb_core::Reason as R;
    let service_s = |n: usize| if n == 1 { "1 service is".to_owned() } else { format!("{n} services are") };
    let vserver =
        |index: usize| view.config().vservers.get(index).map_or(String::new(), |v| v.name.to_string());
    let (reason, text) = match reason {
        R::NoServiceOfFamily => {
            let wanted = if family == Family::V6 { "IPv6" } else { "IPv4" };
            (Reason::NoServiceOfFamily, format!("no service of {} has an {wanted} address", policy.name))
        }
        R::Persistent(service) => {
            let service = view.service(service);
            let text = format!("its session keeps it at {service}");
            (Reason::Persistent { service }, text)
        }
        R::PersistentSite(site) => {
            let site = view.site(site);
            let text = format!(
                "its session leads to a service of {site} without an address of this type: it stays at {site}"
            );
            (Reason::PersistentSite { site }, text)
        }
        R::SessionEnds(service) => {
            let service = view.service(service);
            let text = format!("its session led to {service}, which is down or disabled, so it is sent anew");
            (Reason::SessionEnds { service }, text)
        }
        R::Standing(place, services) => {
            let (link, order) = (place.link, place.order);
            let text = format!(
                "{} up of order {order}, {link} virtual servers into the chain: clients stay there until they may come back",
                service_s(services)
            );
            (Reason::Standing { link, order, services }, text)
        }
        R::Spilled(index) => {
            let vserver = vserver(index);
            let text = format!("{vserver} has spilled over, so its backup is asked");
            (Reason::Spilled { vserver }, text)
        }
        R::AllFull(index) => {
            let vserver = vserver(index);
            let text = format!("all services of {vserver} are full, so its backup is asked");
            (Reason::AllFull { vserver }, text)
        }
        R::NowhereToSpill => (
            Reason::NowhereToSpill,
            "no backup can take what is too much, so it is answered all the same".to_owned(),
        ),
        R::Full(service) => {
            let service = view.service(service);
            let text = format!("{service} is full");
            (Reason::Full { service }, text)
        }
        R::Backup(index) => {
            let vserver = vserver(index);
            let text =
                format!("nothing before it can be answered, so the backup virtual server {vserver} answers");
            (Reason::Backup { vserver }, text)
        }
        R::TooFewOfOrder(order, services) => {
            let (threshold, are) = (policy.order_threshold, service_s(services));
            let text = format!("{are} there of order {order}, fewer than order_threshold = {threshold}");
            (Reason::TooFewOfOrder { order, services }, text)
        }
        R::Order(order, services) => {
            let text = format!("the services of order {order} compete: {services}");
            (Reason::Order { order, services }, text)
        }
        R::Up(services) => (Reason::Up { services }, format!("{} up", service_s(services))),
        R::Learning(services) => (
            Reason::Learning { services },
            format!("no service is up; {} not checked yet, and answered meanwhile", service_s(services)),
        ),
        R::AllDown(all_down) => {
            (Reason::AllDown { all_down }, format!("no service is up: {}", all_down_text(all_down)))
        }
        R::NothingLeft => (Reason::NothingLeft, "nothing is left to answer".to_owned()),
        R::UnknownLdns => (Reason::UnknownLdns, "no site has measured this LDNS: it has no row".to_owned()),
        R::Site(site, reach) => site_step(view.site(site), reach),
        R::Waiting => (
            Reason::Waiting,
            "a site is pending and the LDNS is new, so the RTTs do not decide yet".to_owned(),
        ),
        R::NoRtt => (Reason::NoRtt, "no site has an RTT, so the backup method decides".to_owned()),
        R::Dropped => (Reason::Dropped, "drop_ldns_requests drops the query".to_owned()),
        R::OnlySite(site) => {
            let site = view.site(site);
            let text = format!("{site} is the only site that can be answered");
            (Reason::OnlySite { site }, text)
        }
        R::Nearest(site, rtt) => {
            let site = view.site(site);
            let text = format!("{site} is the nearest: {}", ms(rtt));
            (Reason::Nearest { site, rtt_us: rtt.as_micros() }, text)
        }
        R::OfSubnet(length) => (
            Reason::OfSubnet { length },
            format!("the client's own /{length} is measured, so its RTTs decide"),
        ),
        R::NowhereKnown => {
            (Reason::NowhereKnown, "nothing tells where the client is, compared to the sites".to_owned())
        }
        R::Closest(site, by) => {
            let site = view.site(site);
            let (text, by) = closeness(&site, by);
            (Reason::Closest { site, by }, text)
        }
        R::Load(site, Load { n, weight }) => {
            let (site, unit) = (view.site(site), unit(policy.metric));
            let text = format!("{site} has {n} {unit} over a weight of {weight}");
            (Reason::Load { site, n: Some(n), weight: Some(weight) }, text)
        }
        R::Untold(site) => {
            let site = view.site(site);
            let text = format!("{site} tells nothing of what it has to do");
            (Reason::Load { site, n: None, weight: None }, text)
        }
        R::NothingTold => {
            (Reason::NothingTold, "no site tells what it has to do, so the backup method decides".to_owned())
        }
        R::ShareOfUntold(site) => {
            let site = view.site(site);
            let text = format!("{site} tells nothing, and it has what the backup method gives it");
            (Reason::ShareOfUntold { site }, text)
        }
        R::Least(site, Load { n, weight }) => {
            let site = view.site(site);
            let text =
                format!("{site} has the least to do: {n} {} over a weight of {weight}", unit(policy.metric));
            (Reason::Least { site, n, weight }, text)
        }
        R::Equal(sites) => {
            let tolerance = policy.selection_tolerance;
            let text = match policy.method {
                GslbMethod::Rtt => {
                    format!(
                        "{sites} sites are within the selection tolerance of {tolerance:?} and take turns"
                    )
                }
                _ => format!("{sites} sites have as little to do and take turns"),
            };
            (Reason::Equal { sites }, text)
        }
        R::Chosen(site, method) => {
            let site = view.site(site);
            let text = format!("{site} is chosen by {}", method.as_str());
            (Reason::Chosen { site, method }, text)
        }
        R::Service(service, method) => {
            let service = view.service(service);
            let text = format!("{service} is chosen within the site by {}", method.as_str());
            (Reason::Service { service, method }, text)
        }
        R::OnlyService(service) => {
            let service = view.service(service);
            let text = format!("{service} is the only service there that can be answered");
            (Reason::OnlyService { service }, text)
        }
    };
    Step { reason, text }
}

fn closeness(site: &str, by: Close) -> (String, Closeness) {
    match by {
        Close::Asn(asn) => (format!("{site} lists AS{asn}, the client's own"), Closeness::Asn(asn)),
        Close::Distance(km) => (format!("{site} is the closest, {km} km away"), Closeness::Kilometres(km)),
        Close::Qualifiers(n) => (
            format!("{site} shares the most of its location with the client: {n} from the continent down"),
            Closeness::Qualifiers(n),
        ),
    }
}

fn site_step(site: String, reach: Reach) -> (Reason, String) {
    let text = match reach {
        Reach::Pending => format!("{site} is pending: not measured, or too long ago"),
        Reach::Known(rtt) => format!("{site} is {} away", ms(rtt)),
        Reach::Unreachable => format!("{site} does not reach it"),
    };
    (Reason::Site { site, state: reach.into(), rtt_us: reach.rtt().map(Rtt::as_micros) }, text)
}

/// What loads are counted in.
pub(super) fn unit(metric: Option<LbMethod>) -> &'static str {
    match metric {
        Some(LbMethod::LeastBandwidth) => "bytes",
        Some(LbMethod::LeastPackets) => "packets",
        Some(LbMethod::CustomLoad) => "thousandths of its load",
        Some(LbMethod::LeastResponseTime | LbMethod::LeastResponseTimeMonitors) => {
            "microseconds, times open transactions where those are told,"
        }
        _ => "open transactions",
    }
}

fn all_down_text(all_down: AllDown) -> &'static str {
    match all_down {
        AllDown::All => "all_down = all answers as if all were",
        AllDown::Empty => "all_down = empty answers no address",
        AllDown::BackupIp => "all_down = backup_ip answers the backup addresses",
        AllDown::LastGood => "all_down = last_good answers those that were up last",
    }
}

pub(super) fn ms(rtt: Rtt) -> String {
    let us = rtt.as_micros();
    format!("{}.{:03} ms", us / 1000, us % 1000)
}
