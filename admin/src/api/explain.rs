//! `/v1/explain`: what an LDNS would be answered now, and why.
//!
//! The decision comes from [`gslb_core::decide()`] itself, with the turn that the next query would get and that this look does
//! not take; the reasons are those it left, in order. There is no second implementation that could say otherwise.

use super::{CellState, View};
use crate::params::{Params, parse};
use crate::refusal::{Refusal, quoted};
use gslb_core::decide::{Load, Subnet, Verdict as Decided};
use gslb_core::location::Closeness as Close;
use gslb_core::{Client, Decision, Family, decide};
use gslb_types::{AllDown, GslbMethod, LbMethod, Reach, Rtt};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What an LDNS would be answered, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explain {
    /// The GSLB domain.
    pub name: String,
    /// `A` or `AAAA`.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Who asks.
    pub ldns: IpAddr,
    /// The row of the RTT table it falls into, by the masks.
    pub ldns_entry: IpAddr,
    /// The client subnet the query would carry.
    pub ecs: Option<Ecs>,
    /// The virtual server that decides.
    pub vserver: String,
    /// Its method.
    pub method: GslbMethod,
    /// What comes of it.
    pub answer: Answer,
    /// Whether the answer depends on the turn, so that the next one may be another.
    pub takes_turn: bool,
    /// The turn it was decided with.
    pub turn: Turn,
    /// The steps that led there, in order.
    pub reasons: Vec<Step>,
}

/// A client subnet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ecs {
    /// As given.
    pub subnet: String,
    /// Whether it has a say in the decision.
    pub used: bool,
    /// For clients of which prefix around theirs the answer is: its length, 0 for all (RFC 7871 section 7.2.1).
    pub scope: u8,
    /// In words.
    pub text: String,
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// What kind of answer it is.
    pub verdict: Verdict,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// The service chosen.
    pub service: Option<String>,
    /// Its site.
    pub site: Option<String>,
    /// TTL of the answer.
    pub ttl_s: u32,
}

/// How close a site is to where a client is known to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closeness {
    /// The site lists the client's autonomous system.
    Asn(u32),
    /// Along the great circle.
    Kilometres(u32),
    /// So many qualifiers in a row are the same, from the continent down.
    Qualifiers(usize),
}

/// What kind of answer there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A service's address.
    Service,
    /// The virtual server's backup addresses.
    BackupIp,
    /// NODATA.
    Empty,
    /// No answer at all.
    Drop,
}

/// A place in round robin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// Counts the decisions that took turns.
    pub round: u64,
    /// The service answered last.
    pub last_service: Option<String>,
}

impl Turn {
    pub(crate) fn of(view: &View<'_>, turn: gslb_core::Turn) -> Self {
        Turn { round: turn.round, last_service: turn.last.map(|service| view.service(service)) }
    }
}

/// A step on the way to the answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// For programs.
    #[serde(flatten)]
    pub reason: Reason,
    /// For people.
    pub text: String,
}

/// A step on the way to the answer, for programs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// No service has an address of the family.
    NoServiceOfFamily,
    /// The client stays at this service.
    Persistent {
        /// Which.
        service: String,
    },
    /// The session led to a service that is down.
    SessionEnds {
        /// Which.
        service: String,
    },
    /// A place that stands although a better one can be answered.
    Standing {
        /// How many virtual servers of the chain come before.
        link: u16,
        /// The order.
        order: u16,
        /// How many services of it are up.
        services: usize,
    },
    /// A virtual server has too much to do, or too little of it is up.
    Spilled {
        /// Which.
        vserver: String,
    },
    /// All services of a virtual server are full.
    AllFull {
        /// Which.
        vserver: String,
    },
    /// Nobody can take what is too much.
    NowhereToSpill,
    /// A service is full.
    Full {
        /// Which.
        service: String,
    },
    /// Nothing before it can be answered, so this virtual server answers.
    Backup {
        /// Which.
        vserver: String,
    },
    /// So many services of an order can be answered, which are too few.
    TooFewOfOrder {
        /// The order.
        order: u16,
        /// How many.
        services: usize,
    },
    /// The services of this order compete.
    Order {
        /// The order.
        order: u16,
        /// How many.
        services: usize,
    },
    /// So many services are up.
    Up {
        /// How many.
        services: usize,
    },
    /// None is up; so many have not been checked yet and stand in.
    Learning {
        /// How many.
        services: usize,
    },
    /// None is up: this decides.
    AllDown {
        /// The policy.
        all_down: AllDown,
    },
    /// Nothing is left to answer.
    NothingLeft,
    /// This LDNS has no row.
    UnknownLdns,
    /// What is known of an eligible site.
    Site {
        /// The site.
        site: String,
        /// Whether an RTT is known.
        state: CellState,
        /// The RTT.
        rtt_us: Option<u32>,
    },
    /// A site is pending and the LDNS is new.
    Waiting,
    /// No eligible site has an RTT.
    NoRtt,
    /// The query is dropped.
    Dropped,
    /// Only one site is eligible.
    OnlySite {
        /// Which.
        site: String,
    },
    /// The nearest eligible site.
    Nearest {
        /// Which.
        site: String,
        /// How far it is.
        rtt_us: u32,
    },
    /// What an eligible site has to do.
    Load {
        /// The site.
        site: String,
        /// Open transactions, bytes, packets or microseconds of its services; nothing if that is not told.
        n: Option<u64>,
        /// The weights of those services together.
        weight: Option<u32>,
    },
    /// Nothing is told of what any site has to do.
    NothingTold,
    /// A site of which nothing is told has its share by the backup method.
    ShareOfUntold {
        /// Which.
        site: String,
    },
    /// The RTTs are those of the client's own prefix.
    OfSubnet {
        /// Its length.
        length: u8,
    },
    /// Nothing tells which site is closest to the client.
    NowhereKnown,
    /// The site that is closest to where the client is known to be.
    Closest {
        /// Which.
        site: String,
        /// By what.
        by: Closeness,
    },
    /// The site that has the least to do.
    Least {
        /// Which.
        site: String,
        /// What it has to do.
        n: u64,
        /// Over this weight.
        weight: u32,
    },
    /// So many sites are as good.
    Equal {
        /// How many.
        sites: usize,
    },
    /// The site chosen.
    Chosen {
        /// Which.
        site: String,
        /// How.
        method: GslbMethod,
    },
    /// The service chosen within the site.
    Service {
        /// Which.
        service: String,
        /// How.
        method: LbMethod,
    },
    /// The only eligible service of the site.
    OnlyService {
        /// Which.
        service: String,
    },
}

pub(crate) fn explain(view: &View<'_>, params: &Params) -> Result<Explain, Refusal> {
    let domain = domain(view, params.required("name")?)?;
    let family = family(params.text("type").unwrap_or("A"))?;
    let ldns: IpAddr = parse("ldns", params.required("ldns")?, "an IPv4 or IPv6 address")?;
    let ecs = params.text("ecs").map(prefix).transpose()?;
    let ldns = ldns.to_canonical();
    let missing = || Refusal::not_found(format!("{} has no virtual server", domain.name.to_ascii()));
    let policy = view.config().vservers.get(domain.vserver).ok_or_else(missing)?;

    let entry = gslb_types::Ldns::of(ldns, view.config().ldns.masks);
    let turns = view.shared.turns.of(domain.vserver, family == Family::V6);
    let turn = turns.map(|turns| turns.look()).unwrap_or_default();
    let row = view.shared.rtts.row(entry);
    let masks = view.config().ldns.masks;
    let subnet = ecs.filter(|prefix| domain.ecs && prefix.prefix_len() > 0);
    let covering = subnet.and_then(|p| gslb_types::Ldns::covering(p.network(), p.prefix_len(), masks));
    let of_subnet = covering.and_then(|entry| view.shared.rtts.row(entry));
    let subnet = subnet.map(|prefix| Subnet { prefix, row: of_subnet.as_ref() });
    let locations = view.shared.locations.load();
    let whom = subnet.map_or(IpNet::from(ldns), |subnet| subnet.prefix);
    let session = view.shared.session(policy, whom);
    let client = Client { ldns, subnet, locations: Some(&locations), session };
    let decision = decide(domain.vserver, family, &view.published, row.as_ref(), &client, turn, view.now);
    // The backups' reasons are told in the terms of the backup.
    let decided_by = view.config().vservers.get(decision.vserver).unwrap_or(policy);
    Ok(Explain {
        name: domain.name.to_ascii(),
        rtype: word(family).to_owned(),
        ldns,
        ldns_entry: entry.address(),
        ecs: ecs.map(|prefix| use_of(prefix, domain, &decision)),
        vserver: policy.name.to_string(),
        method: policy.method,
        answer: answer(view, domain, decided_by, family, &decision),
        takes_turn: decision.took_turn,
        turn: Turn::of(view, turn),
        reasons: decision.reasons.iter().map(|reason| step(view, decided_by, family, *reason)).collect(),
    })
}

fn domain<'a>(view: &'a View<'_>, wanted: &str) -> Result<&'a config::Domain, Refusal> {
    let index = view.published.zones.domain(wanted);
    index.and_then(|index| view.config().domains.get(index)).ok_or_else(|| {
        Refusal::not_found(format!("{} is no GSLB domain; /v1/domains lists them", quoted(wanted)))
    })
}

fn family(rtype: &str) -> Result<Family, Refusal> {
    match rtype.to_ascii_uppercase().as_str() {
        "A" => Ok(Family::V4),
        "AAAA" => Ok(Family::V6),
        _ => Err(Refusal::bad(format!(
            "type: expected A or AAAA, the types answered by selection, not {}",
            quoted(rtype)
        ))),
    }
}

fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "A",
        Family::V6 => "AAAA",
    }
}

/// A client subnet is accepted and has no say: decisions go by the address of the LDNS.
fn prefix(text: &str) -> Result<IpNet, Refusal> {
    let what = "a prefix such as 192.0.2.0/24 or 2001:db8::/56";
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = parse("ecs", address, what)?;
    let longest: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = if length.is_empty() { longest } else { parse("ecs", length, what)? };
    let prefix = IpNet::new(address, length);
    prefix
        .map(|prefix| prefix.trunc())
        .map_err(|_| Refusal::bad(format!("ecs: expected {what}, not {}", quoted(text))))
}

fn use_of(subnet: IpNet, domain: &config::Domain, decision: &Decision) -> Ecs {
    let scope = match decision.verdict {
        Decided::Service(_) => decision.scope,
        Decided::BackupIp | Decided::Empty | Decided::Drop => 0,
    };
    let text = match (domain.ecs, IpNet::new(subnet.network(), scope)) {
        (false, _) => "not used for decisions: the LDNS address decides".to_owned(),
        (true, Ok(reached)) if scope > 0 => format!("the answer is for clients of {}", reached.trunc()),
        (true, _) => "it makes no difference: the answer is for all clients".to_owned(),
    };
    Ecs { subnet: subnet.to_string(), used: scope > 0, scope, text }
}

fn answer(
    view: &View<'_>,
    domain: &config::Domain,
    policy: &config::Vserver,
    family: Family,
    decision: &Decision,
) -> Answer {
    let nothing =
        |verdict| Answer { verdict, addresses: Vec::new(), service: None, site: None, ttl_s: domain.ttl };
    match decision.verdict {
        Decided::Service(index) => {
            let service = view.config().services.get(index);
            Answer {
                addresses: service.map(|s| s.address).into_iter().collect(),
                service: service.map(|s| s.name.to_string()),
                site: service.map(|s| view.site(s.site)),
                ..nothing(Verdict::Service)
            }
        }
        Decided::BackupIp => {
            let of_family = policy.backup_ip.iter().filter(|a| a.is_ipv6() == (family == Family::V6));
            Answer { addresses: of_family.copied().collect(), ..nothing(Verdict::BackupIp) }
        }
        Decided::Empty => nothing(Verdict::Empty),
        Decided::Drop => nothing(Verdict::Drop),
    }
}

fn step(view: &View<'_>, policy: &config::Vserver, family: Family, reason: gslb_core::Reason) -> Step {
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
        R::Load(site, load) => {
            let (site, unit) = (view.site(site), unit(policy.metric));
            let text = match load {
                Some(Load { n, weight }) => format!("{site} has {n} {unit} over a weight of {weight}"),
                None => format!("{site} tells nothing of what it has to do"),
            };
            (Reason::Load { site, n: load.map(|l| l.n), weight: load.map(|l| l.weight) }, text)
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
fn unit(metric: Option<LbMethod>) -> &'static str {
    match metric {
        Some(LbMethod::LeastBandwidth) => "bytes",
        Some(LbMethod::LeastPackets) => "packets",
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

fn ms(rtt: Rtt) -> String {
    let us = rtt.as_micros();
    format!("{}.{:03} ms", us / 1000, us % 1000)
}
