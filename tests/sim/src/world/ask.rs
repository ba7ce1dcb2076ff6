//! Queries: real bytes in, real bytes out.

use super::{HostIndex, World};
use crate::group::DOMAIN;
use crate::log::What;
use crate::witness::Invariant;
use gslb_core::Input;
use gslb_core::dns::{Transport, answer};
use gslb_types::{AllDown, Ldns, ServiceState};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use std::net::IpAddr;
use std::time::Duration;

/// The longest reply over UDP.
const PAYLOAD: usize = 1232;

/// How old what is published may be while the node task runs: it is renewed every second.
const FRESH: Duration = Duration::from_millis(1_100);

/// What came of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The node does not run, or stands still.
    Dead,
    /// The node chose to say nothing (`drop_ldns_requests`).
    Silence,
    /// A reply.
    Reply(Reply),
}

/// A reply, as far as it matters here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The response code.
    pub rcode: ResponseCode,
    /// Addresses, in order.
    pub addresses: Vec<IpAddr>,
    /// The services that have those addresses (index into the configuration); none for other addresses.
    pub services: Vec<usize>,
    /// Whether the SOA stands in the authority section, as in every NODATA (RFC 2308 section 2.2).
    pub has_soa: bool,
}

impl Answer {
    /// The one service answered, if it is exactly one.
    pub fn service(&self) -> Option<usize> {
        match self {
            Answer::Reply(Reply { services, .. }) if services.len() == 1 => services.first().copied(),
            Answer::Reply(_) | Answer::Dead | Answer::Silence => None,
        }
    }
}

impl World {
    /// Asks a node for the GSLB domain.
    pub fn ask(&mut self, n: HostIndex, ldns: IpAddr) -> Answer {
        self.ask_for(n, ldns, DOMAIN, RecordType::A)
    }

    /// Asks a node for a name. Who asked for the GSLB domain is seen by the node, unless its task stands still.
    pub fn ask_for(&mut self, n: HostIndex, ldns: IpAddr, name: &str, rtype: RecordType) -> Answer {
        let Some(local) = self.hosts[n].local(self.now).filter(|_| self.hosts[n].is_running()) else {
            return Answer::Dead;
        };
        let Some(shared) = self.hosts[n].process.as_ref().map(|p| p.shared.clone()) else {
            return Answer::Dead;
        };
        let published = shared.published.load_full();
        let request = self.request(name, rtype);
        let mut out = vec![0; PAYLOAD];
        let answered = answer(&shared, &published, &request, ldns, Transport::Udp, local, &mut out);
        out.truncate(answered.len);
        let answer = if out.is_empty() { Answer::Silence } else { self.read(&request, &out) };
        self.log.note(self.now, What::Query(n, ldns, format!("{answer:?}")));
        self.check_answer(n, ldns, name, rtype, &answer);
        let host = &self.hosts[n];
        self.witness.check_ages(self.now, host, Ldns::of(ldns, host.config().ldns.masks));
        if let Some(ldns) = answered.sighting
            && self.hosts[n].wake().is_some()
        {
            self.turn(n, Some(Input::Sighting(ldns)));
        }
        if let Some((key, service)) = answered.session
            && let Some(service) = published.config.services.get(service)
            && self.hosts[n].wake().is_some()
        {
            self.turn(n, Some(Input::Session { key, service: service.name.clone() }));
        }
        answer
    }

    fn request(&mut self, name: &str, rtype: RecordType) -> Vec<u8> {
        let id = (self.chance.number() & 0xffff) as u16;
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        let name = Name::from_ascii(name).unwrap_or_default();
        message.add_query(Query::query(name, rtype));
        let mut edns = Edns::new();
        edns.set_max_payload(PAYLOAD as u16);
        message.edns = Some(edns);
        message.to_vec().unwrap_or_default()
    }

    fn read(&mut self, request: &[u8], bytes: &[u8]) -> Answer {
        let message = match Message::from_vec(bytes) {
            Ok(message) if bytes.get(..2) == request.get(..2) => message,
            Ok(_) | Err(_) => {
                self.violated(Invariant::Silence, format!("a reply that nobody understands: {bytes:02x?}"));
                return Answer::Silence;
            }
        };
        let addresses: Vec<IpAddr> = message.answers.iter().filter_map(|r| r.data.ip_addr()).collect();
        let services = addresses.iter().filter_map(|a| self.service_at(*a)).collect();
        let has_soa = message.authorities.iter().any(|r| matches!(r.data, RData::SOA(_)));
        Answer::Reply(Reply { rcode: message.metadata.response_code, addresses, services, has_soa })
    }

    /// Answers always come, and never name a service that is down while this node knows one that is up.
    fn check_answer(&mut self, n: HostIndex, ldns: IpAddr, name: &str, rtype: RecordType, answer: &Answer) {
        if name != DOMAIN || rtype != RecordType::A {
            return;
        }
        let (Some(published), Some(local)) = (self.hosts[n].published(), self.hosts[n].local(self.now))
        else {
            return;
        };
        let id = self.hosts[n].id().clone();
        let Some(vserver) = published.config.vservers.first() else { return };
        if self.hosts[n].wake().is_some_and(|at| at > self.now) && local.since(published.at) > FRESH {
            self.violated(
                Invariant::LateTimeout,
                format!("{id} published last at {:?}, and it is {local:?}", published.at),
            );
        }
        let state = |service: usize| published.services.get(service).map(|s| s.state);
        let vservers = &published.config.vservers;
        let chain = std::iter::successors(Some(vserver), |link| vservers.get(link.backup?));
        let has = |wanted| {
            let mut bound = chain.clone().flat_map(|link| &link.bindings);
            bound.any(|b| state(b.service) == Some(wanted))
        };
        let (is_any_up, is_any_learning) = (has(ServiceState::Up), has(ServiceState::Learning));
        let all_down = chain.clone().last().map(|last| last.all_down).unwrap_or_default();
        let wrong = match answer {
            Answer::Dead => None,
            Answer::Silence if vserver.drop_ldns_requests && self.is_waiting(n, ldns) => None,
            Answer::Silence => Some((Invariant::Silence, format!("{id} gave {ldns} no answer"))),
            Answer::Reply(reply) if reply.rcode != ResponseCode::NoError => {
                Some((Invariant::Silence, format!("{id} answered {ldns} with {}", reply.rcode)))
            }
            Answer::Reply(reply) if reply.addresses.is_empty() => {
                (is_any_up || is_any_learning || all_down != AllDown::Empty || !reply.has_soa)
                    .then(|| (Invariant::Silence, format!("{id} gave {ldns} no address")))
            }
            Answer::Reply(reply) => {
                let down = reply.services.iter().find(|s| is_any_up && state(**s) != Some(ServiceState::Up));
                down.map(|s| {
                    (
                        Invariant::DownService,
                        format!("{id} answered service {s} to {ldns}, which is down while another is up"),
                    )
                })
            }
        };
        if let Some((invariant, what)) = wrong {
            self.violated(invariant, what);
        }
    }

    /// Whether a node may still wait for the RTTs of an LDNS.
    fn is_waiting(&self, n: HostIndex, ldns: IpAddr) -> bool {
        let (Some(shared), Some(local)) = (self.hosts[n].shared(), self.hosts[n].local(self.now)) else {
            return false;
        };
        let row = shared.rtts.row(Ldns::of(ldns, self.hosts[n].config().ldns.masks));
        row.is_none_or(|row| local.since(row.first_seen()) < gslb_core::decide::WAIT_FOR_PENDING)
    }
}
