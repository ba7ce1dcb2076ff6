//! The fixture zone of the fault catalogue, a node that serves it, and packets to ask it with.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a fixture that cannot be built fails the test"
)]

mod packet;

pub(crate) use packet::{ANY, Packet, query, wire};

use arc_swap::ArcSwap;
use config::{
    Admin, Binding, Config, Coordinates, Dns, Domain, Group, LdnsTable, Location, Mep, Node, Persistence,
    Place, Probe, Service, Site, Vserver, Zone, ZoneRecord,
};
use gslb_core::dns::{Answered, Transport, Zones, answer};
use gslb_core::location::Locations;
use gslb_core::{Cell, RttTable, Shared, Turns};
use gslb_types::{
    AllDown, GslbMethod, LbMethod, Ldns, LdnsMasks, ProbeKind, Reach, Rtt, ServiceState, SiteIndex,
    Timestamp, Weight,
};
use hickory_proto::op::Message;
use hickory_proto::rr::{Name, RData, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinEncodable};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// The asker of every query that does not say otherwise.
pub(crate) const LDNS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 53));
/// The seed of every index and table.
const SEED: u64 = 7;
/// The server's limit for UDP replies.
pub(crate) const UDP_PAYLOAD: u16 = 1232;

/// Zone Z of the fault catalogue. `www` is a GSLB domain beside it.
pub(crate) const ZONE: &str = "
@ 3600 SOA ns1.gslb.test. host.gslb.test. 1 7200 1800 259200 5
@ 3600 NS ns1.gslb.test.
@ 3600 NS ns2.gslb.test.
@ 3600 MX 10 mail.gslb.test.
@ 3600 CAA 0 issue \"ca.test\"
ns1 3600 A 192.0.2.1
ns2 3600 A 192.0.2.2
mail 3600 A 192.0.2.3
v4only 60 A 192.0.2.4
a.b.ent 60 A 192.0.2.5
*.wild 60 A 192.0.2.6
alias 60 CNAME www.gslb.test.
_sip._tcp 60 SRV 1 2 5060 v4only.gslb.test.
odd 60 TYPE65399 \\# 414243
";

/// The SOA of negative answers in that zone.
pub(crate) const NEGATIVE_SOA: &str = "gslb.test. 5 SOA ns1.gslb.test. host.gslb.test. 1 7200 1800 259200 5";

/// A node under test.
pub(crate) struct Server {
    pub(crate) shared: Shared,
}

/// What makes a [`Server`], to be changed before it is built.
pub(crate) struct Setup {
    pub(crate) zones: Vec<(&'static str, String)>,
    pub(crate) domains: Vec<(&'static str, u32)>,
    /// Site, address, state.
    pub(crate) services: Vec<(usize, &'static str, ServiceState)>,
    pub(crate) method: GslbMethod,
    pub(crate) all_down: AllDown,
    pub(crate) backup_ip: Vec<&'static str>,
    pub(crate) drop_ldns_requests: bool,
    pub(crate) addresses: u8,
    pub(crate) version: Option<&'static str>,
    pub(crate) identity: Option<&'static str>,
    /// Whether the domains go by client subnets.
    pub(crate) ecs: bool,
    pub(crate) masks: LdnsMasks,
    pub(crate) persistence: Option<Persistence>,
    /// Prefixes that lie where the site of this index lies.
    pub(crate) places: Vec<(&'static str, usize)>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            zones: vec![("gslb.test.", format!("{ZONE}{}", big()))],
            domains: vec![("www.gslb.test.", 5)],
            services: vec![
                (0, "192.0.2.10", ServiceState::Up),
                (1, "192.0.2.20", ServiceState::Up),
                (2, "192.0.2.30", ServiceState::Up),
            ],
            method: GslbMethod::Rtt,
            all_down: AllDown::All,
            backup_ip: Vec::new(),
            drop_ldns_requests: false,
            addresses: 1,
            version: None,
            identity: None,
            ecs: false,
            masks: LdnsMasks::default(),
            persistence: None,
            places: Vec::new(),
        }
    }
}

fn big() -> String {
    let line = |owner: &str, n: usize| format!("{owner} 60 A 203.0.113.{n}\n");
    let sixty = (0..60).map(|n| line("big", n));
    sixty.chain((0..200).map(|n| line("huge", n))).collect()
}

impl Setup {
    pub(crate) fn build(self) -> Server {
        let states: Vec<ServiceState> = self.services.iter().map(|s| s.2).collect();
        let config = Arc::new(self.config());
        let Shared { published, .. } = Shared::new(&config, SEED, Timestamp::ZERO);
        let mut published = Arc::into_inner(published.into_inner()).expect("nobody else holds it");
        for (view, state) in published.services.iter_mut().zip(states) {
            view.state = state;
        }
        published.zones = Arc::new(Zones::new(&config, SEED));
        Server {
            shared: Shared {
                published: ArcSwap::from_pointee(published),
                rtts: RttTable::new(config.sites.len(), SEED),
                locations: ArcSwap::from_pointee(Locations::new(&config, Vec::new())),
                turns: Turns::new(config.vservers.len()),
                dns: Default::default(),
                sessions: gslb_core::SessionTable::new(SEED),
            },
        }
    }

    fn config(self) -> Config {
        let second = Duration::from_secs(1);
        let address = "127.0.0.1:1".parse().unwrap();
        let sites = ["fra", "nyc", "sin"];
        let zones: Vec<Zone> = self.zones.iter().map(|(origin, text)| zone(origin, text)).collect();
        let services = self.services.iter().enumerate();
        Config {
            me: 0,
            dns: Dns {
                listen: Vec::new(),
                udp_threads: 1,
                udp_payload: UDP_PAYLOAD,
                udp_receive_buffer: 0,
                tcp_connections: 1,
                tcp_connections_per_address: 1,
                tcp_idle_timeout: second,
                version: self.version.map(str::to_owned),
                identity: self.identity.map(str::to_owned),
                tls: None,
            },
            admin: Admin { listen: None },
            mep: Mep {
                listen: address,
                ca: "ca".into(),
                certificate: "cert".into(),
                key: "key".into(),
                keepalive: 10 * second,
                metrics_interval: second,
                rtt_interval: 5 * second,
                down_delay: 15 * second,
                max_age: 60 * second,
            },
            probe: Probe {
                order: ProbeKind::DEFAULT_ORDER.to_vec(),
                interval: 5 * second,
                timeout: 2 * second,
                retry_order: 60 * second,
                failed_rounds: 3,
                port: 53,
                source_v4: None,
                source_v6: None,
                per_second: 500,
                new_per_second: 100,
                per_prefix: 2,
            },
            ldns: LdnsTable {
                masks: self.masks,
                idle_timeout: 180 * second,
                cap: 1000,
                private: true,
                exclude: Vec::new(),
                include: Vec::new(),
            },
            group: Group {
                name: "test".into(),
                rtt_tolerance: Duration::from_millis(5),
                must_match: Vec::new(),
                hash: 0,
            },
            databases: Vec::new(),
            locations: self
                .places
                .iter()
                .map(|(prefix, site)| Location {
                    prefixes: vec![prefix.parse().unwrap()],
                    place: place(*site),
                })
                .collect(),
            sites: (0..)
                .zip(sites)
                .map(|(index, name)| Site {
                    name: name.parse().unwrap(),
                    trigger_monitor: Default::default(),
                    place: place(index),
                })
                .collect(),
            nodes: (0..3).map(|n| node(sites[n], n)).collect(),
            sources: Vec::new(),
            monitors: Vec::new(),
            lb_vservers: Vec::new(),
            vservers: vec![Vserver {
                name: "web".parse().unwrap(),
                method: self.method,
                backup_method: GslbMethod::RoundRobin,
                metric: None,
                selection_tolerance: Duration::ZERO,
                answer: config::Answer::Service,
                local_method: LbMethod::RoundRobin,
                all_down: self.all_down,
                backup_ip: self.backup_ip.iter().map(|a| a.parse().unwrap()).collect(),
                drop_ldns_requests: self.drop_ldns_requests,
                bindings: (0..self.services.len())
                    .map(|service| Binding::new(service, Weight::ONE))
                    .collect(),
                has_orders: false,
                order_threshold: 1,
                addresses: self.addresses,
                backup: None,
                spillover: None,
                failback: config::Failback::AtOnce,
                has_limits: false,
                persistence: self.persistence,
                wants_rtt: self.method == GslbMethod::Rtt,
            }],
            domains: self.domains.iter().map(|(name, ttl)| domain(&zones, name, *ttl, self.ecs)).collect(),
            services: services.map(|(n, (site, address, _))| service(n, *site, address)).collect(),
            zones,
        }
    }
}

fn node(site: &str, index: usize) -> Node {
    Node {
        id: format!("{site}/1").parse().unwrap(),
        site: SiteIndex::new(index).unwrap(),
        mep: "127.0.0.1:2".parse().unwrap(),
        transport: Default::default(),
        addresses: Vec::new(),
    }
}

fn service(index: usize, site: usize, address: &str) -> Service {
    Service {
        name: format!("s{index}").parse().unwrap(),
        site: SiteIndex::new(site).unwrap(),
        address: address.parse().unwrap(),
        port: 80,
        monitors: Vec::new(),
        threshold: None,
        remote_monitors: Vec::new(),
        remote_threshold: None,
        lb_vserver: None,
        tells_load: false,
        feed: None,
        max_clients: None,
        max_bandwidth: None,
        enabled: true,
    }
}

/// The sites lie on the equator, 1,112 km from one to the next.
fn place(site: usize) -> Place {
    let longitude = 10.0 * f64::from(u8::try_from(site).unwrap());
    Place { coordinates: Coordinates::new(0.0, longitude), ..Place::default() }
}

fn domain(zones: &[Zone], name: &str, ttl: u32, ecs: bool) -> Domain {
    let name: Name = name.parse().unwrap();
    let holders = zones.iter().enumerate().filter(|(_, zone)| zone.origin.zone_of(&name));
    let (zone, _) = holders.max_by_key(|(_, zone)| zone.origin.num_labels()).unwrap();
    Domain { name, zone, vserver: 0, ttl, ecs }
}

/// A zone from lines `owner ttl type rdata`, owners relative to the origin.
pub(crate) fn zone(origin: &str, text: &str) -> Zone {
    let origin: Name = origin.parse().unwrap();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let records = lines.map(|line| record(&origin, line)).collect();
    Zone { origin: origin.to_lowercase(), records }
}

fn record(origin: &Name, line: &str) -> ZoneRecord {
    let mut fields = line.splitn(4, ' ');
    let mut field = || fields.next().unwrap_or_else(|| panic!("a field is missing in {line:?}"));
    let (owner, ttl, rtype, rdata) = (field(), field(), field(), field());
    let owner = match owner {
        "@" => origin.clone(),
        owner if owner.ends_with('.') => owner.parse().unwrap(),
        owner => owner.parse::<Name>().unwrap().append_domain(origin).unwrap(),
    };
    let (rtype, rdata) = match rtype {
        // hickory-proto reads neither from text: it takes the RNAME for a mail address and cuts it short.
        "DNAME" => (39, wire(rdata)),
        "SOA" => (6, soa(rdata)),
        rtype => match rdata.strip_prefix("\\# ") {
            Some(hex) => (rtype.trim_start_matches("TYPE").parse().unwrap(), unhex(hex)),
            None => {
                let rtype: RecordType = rtype.parse().unwrap();
                (rtype.into(), RData::try_from_str(rtype, rdata).unwrap().to_bytes().unwrap())
            }
        },
    };
    ZoneRecord { owner, rtype, ttl: ttl.parse().unwrap(), rdata }
}

fn soa(text: &str) -> Vec<u8> {
    let fields: Vec<&str> = text.split(' ').collect();
    let numbers = fields[2..].iter().flat_map(|number| number.parse::<u32>().unwrap().to_be_bytes());
    [wire(fields[0]), wire(fields[1]), numbers.collect()].concat()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap()).collect()
}

impl Server {
    /// The fixture as it is.
    pub(crate) fn new() -> Self {
        Setup::default().build()
    }

    /// A node that serves these zones and no GSLB domain.
    pub(crate) fn with_zones(zones: &[(&'static str, &str)]) -> Self {
        let zones = zones.iter().map(|(origin, text)| (*origin, (*text).to_owned())).collect();
        Setup { zones, domains: Vec::new(), ..Setup::default() }.build()
    }

    /// Sends bytes and returns the bytes of the reply; empty for silence.
    pub(crate) fn send(&self, request: &[u8], transport: Transport) -> Vec<u8> {
        self.send_from(LDNS, request, transport, Timestamp::ZERO).0
    }

    pub(crate) fn send_from(
        &self,
        source: IpAddr,
        request: &[u8],
        transport: Transport,
        now: Timestamp,
    ) -> (Vec<u8>, Answered) {
        // Neither the room in the buffer nor what lies in it from before must matter.
        let mut out = vec![0xa5; 65535];
        let published = self.shared.published.load();
        let answered = answer(&self.shared, &published, request, source, transport, now, &mut out);
        out.truncate(answered.len);
        (out, answered)
    }

    /// Asks over UDP.
    pub(crate) fn ask(&self, packet: &Packet) -> Reply {
        Reply::read(&packet.bytes(), self.send(&packet.bytes(), Transport::Udp))
    }

    /// Asks over TCP.
    pub(crate) fn ask_tcp(&self, packet: &Packet) -> Reply {
        Reply::read(&packet.bytes(), self.send(&packet.bytes(), Transport::Tcp))
    }

    /// Makes the sites' RTTs known for an LDNS.
    pub(crate) fn measured(&self, ldns: IpAddr, millis: [u32; 3]) {
        let ldns = Ldns::exact(ldns);
        self.shared.rtts.sighted(ldns, Timestamp::ZERO);
        for (site, millis) in millis.into_iter().enumerate() {
            let reach = Reach::Known(Rtt::from_micros(millis * 1000));
            let cell = Cell::new(reach, Some(ProbeKind::Ping), Timestamp::ZERO);
            self.shared.rtts.write(ldns, SiteIndex::new(site).unwrap(), cell);
        }
    }
}

/// A reply, decoded by hickory-proto, which must understand every one.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) message: Message,
}

impl Reply {
    pub(crate) fn read(request: &[u8], bytes: Vec<u8>) -> Self {
        assert!(!bytes.is_empty(), "no reply");
        let message = Message::from_vec(&bytes).expect("hickory-proto decodes every reply");
        assert_eq!(bytes[..2], request[..2], "the id is echoed");
        let records = [&message.answers, &message.authorities, &message.additionals].map(Vec::len);
        let opt = usize::from(message.edns.is_some()) + usize::from(message.signature.is_some());
        let counts = [6, 8, 10].map(|at| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]])));
        assert_eq!(
            counts,
            [records[0], records[1], records[2] + opt],
            "the counts are those of the sections"
        );
        Reply { bytes, message }
    }

    /// The flags and response code as dnsprobe prints them, without those that are 0: `aa tc rd rcode=3 1/0/1/0`.
    pub(crate) fn header(&self) -> String {
        let flags = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        let names = [(10, "aa"), (9, "tc"), (8, "rd"), (7, "ra"), (6, "z"), (5, "ad"), (4, "cd")];
        let set = names.iter().filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, name)| format!("{name} "));
        let counts: Vec<String> = [4, 6, 8, 10]
            .map(|at| u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]).to_string())
            .to_vec();
        format!("{}rcode={} {}", set.collect::<String>(), flags & 15, counts.join("/"))
    }

    /// Records as text: `www.gslb.test. 5 A 192.0.2.10`, sections apart by `|`, without OPT.
    pub(crate) fn records(&self) -> String {
        let section = |records: &[hickory_proto::rr::Record]| {
            let text = records.iter().map(|r| {
                let (owner, rtype) = (r.name.to_string(), u16::from(r.record_type()));
                match &r.data {
                    RData::Unknown { rdata, .. } if rtype == 39 => {
                        let target = Name::from_bytes(&rdata.anything).unwrap();
                        format!("{owner} {} DNAME {target}", r.ttl)
                    }
                    data => format!("{owner} {} {} {data}", r.ttl, r.record_type()),
                }
            });
            text.collect::<Vec<_>>().join(", ")
        };
        let m = &self.message;
        let sections = [section(&m.answers), section(&m.authorities), section(&m.additionals)];
        sections.join(" | ").trim_end_matches([' ', '|']).to_owned()
    }

    /// The addresses of the answer.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let addresses = self.message.answers.iter().filter_map(|r| r.data.ip_addr());
        addresses.map(|a| a.to_string()).collect()
    }

    /// The OPT record's bytes from its owner on; it is the last record of every reply without TSIG.
    pub(crate) fn opt(&self) -> &[u8] {
        let edns = self.message.edns.as_ref().expect("a reply with OPT");
        let options: usize = edns.options().as_ref().iter().map(|(_, o)| 4 + usize::from(o.len())).sum();
        &self.bytes[self.bytes.len() - 11 - options..]
    }
}
