//! `answer`: the one function behind every transport.

use super::chaos;
use super::compose::{Full, Owner, Reply, Section};
use super::edns::{Edns, OptReply};
use super::name::LowerName;
use super::resolve::{Asked, Outcome, resolve};
use super::rtype::{
    AXFR, BADVERS, CLASS_ANY, CLASS_CH, CLASS_IN, FORMERR, IXFR, NOERROR, NOTAUTH, NOTIMP, NXDOMAIN, REFUSED,
    TXT, YXDOMAIN,
};
use super::tsig::Signature;
use super::wire::{self, ErrorReply, Request, Unanswerable};
use crate::counters::DnsCounters;
use crate::published::{Published, Shared};
use gslb_types::Timestamp;
use mep_core::SessionKey;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

const AA: u16 = 0x0400;
const TC: u16 = 0x0200;
const RD: u16 = 0x0100;
/// The largest UDP reply to an asker without EDNS, and the least that one with EDNS can ask for (RFC 6891 section 6.2.3).
const LEAST_UDP: u16 = 512;

/// What carries the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP: replies are limited by the client's EDNS size and ours.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Length of the reply in the buffer; 0 means no reply.
    pub len: usize,
    /// The asker, if the query was for a GSLB domain whose method wants RTTs: to be noted as a sighting. Set even when there
    /// is no reply because no RTT is known yet: measuring is what will end the silence.
    pub sighting: Option<IpAddr>,
    /// The persistence session that the reply uses, and the service it leads to (index into the configuration's): to be noted.
    pub session: Option<(SessionKey, usize)>,
}

/// Answers one request. `out` is where the reply is written: at least 65,535 bytes for stream transports, the UDP payload
/// size for UDP. A smaller buffer makes for shorter replies, with TC.
pub fn answer(
    shared: &Shared,
    published: &Published,
    request: &[u8],
    source: IpAddr,
    transport: Transport,
    now: Timestamp,
    out: &mut [u8],
) -> Answered {
    let counters = &shared.dns;
    add(match transport {
        Transport::Udp => &counters.udp_requests,
        Transport::Tcp => &counters.tcp_requests,
        Transport::Tls => &counters.tls_requests,
    });
    let asked = Asked { shared, published, source: source.to_canonical(), subnet: None, now };
    let mut answering = Answering { asked, transport, out, sighting: None, session: None };
    let mut name = LowerName::root();
    let len = match wire::read(request, &mut name) {
        Ok(request) => answering.query(&request, &mut name),
        Err(Unanswerable::Error(error)) => answering.error(&error),
        Err(Unanswerable::Silence) => None,
    };
    if len.is_none() && answering.sighting.is_none() {
        add(&counters.dropped);
    }
    Answered { len: len.unwrap_or(0), sighting: answering.sighting, session: answering.session }
}

/// One request being answered. Each step returns the length of the reply, or `None` for silence.
struct Answering<'a, 'o> {
    asked: Asked<'a>,
    transport: Transport,
    out: &'o mut [u8],
    sighting: Option<IpAddr>,
    session: Option<(SessionKey, usize)>,
}

impl<'a> Answering<'a, '_> {
    fn query(&mut self, request: &Request<'_>, name: &mut LowerName) -> Option<usize> {
        let counters = &self.asked.shared.dns;
        if let Some(edns) = &request.edns {
            add(&counters.edns);
            if edns.ecs.is_some() {
                add(&counters.ecs);
            }
        }
        if let Some(signature) = &request.tsig {
            return self.not_authenticated(request, signature);
        }
        match (request.qclass, request.qtype) {
            // Zones are not handed out (faults I-21).
            (CLASS_IN | CLASS_ANY, AXFR | IXFR) => self.plain(request, NOTIMP),
            // Class ANY means the one class there is, as for Knot and gdnsd.
            (CLASS_IN | CLASS_ANY, _) => self.resolved(request, name),
            (CLASS_CH, _) => self.chaos(request, name),
            _ => self.plain(request, REFUSED),
        }
    }

    fn resolved(&mut self, request: &Request<'_>, name: &mut LowerName) -> Option<usize> {
        let mut opt = self.opt(request.edns.as_ref(), request.question.len());
        let subnet = request.edns.as_ref().and_then(|edns| edns.ecs?.prefix());
        let asked = Asked { subnet, ..self.asked };
        let mut reply = self.reply(request, opt.as_ref())?;
        let mut outcome = Outcome { rcode: NOERROR, ..Outcome::default() };
        let truncated = resolve(asked, name, request.qtype, &mut reply, &mut outcome) == Err(Full);
        if truncated {
            reply.clear();
            add(&asked.shared.dns.truncated);
        }
        let flags =
            flags(request.rd) | if outcome.authoritative { AA } else { 0 } | if truncated { TC } else { 0 };
        if let Some(opt) = &mut opt {
            opt.scope = outcome.scope;
        }
        let len = reply.finish(request.id, flags, outcome.rcode, opt.as_ref());
        if outcome.sighting {
            self.sighting = Some(asked.source);
        }
        self.session = outcome.session;
        if outcome.silent {
            return None;
        }
        count_rcode(&asked.shared.dns, outcome.rcode);
        Some(len)
    }

    fn chaos(&mut self, request: &Request<'_>, name: &LowerName) -> Option<usize> {
        let Some(text) = chaos::text(name.as_wire(), request.qtype, &self.asked.published.config.dns) else {
            return self.plain(request, REFUSED);
        };
        let mut buffer = [0; 256];
        let rdata = chaos::rdata(text, &mut buffer);
        let opt = self.opt(request.edns.as_ref(), request.question.len());
        let mut reply = self.reply(request, opt.as_ref())?;
        let written = reply.record(Section::Answer, Owner::Question, (TXT, CLASS_CH), 0, rdata);
        let truncated = written == Err(Full);
        if truncated {
            reply.clear();
        }
        let flags = flags(request.rd) | if truncated { TC } else { 0 };
        let len = reply.finish(request.id, flags, NOERROR, opt.as_ref());
        count_rcode(&self.asked.shared.dns, NOERROR);
        Some(len)
    }

    fn not_authenticated(&mut self, request: &Request<'_>, signature: &Signature<'_>) -> Option<usize> {
        let limit = self.limit(request.edns.as_ref());
        let len = self.plain(request, NOTAUTH)?;
        Some(signature.append_badkey(self.out, len, limit))
    }

    /// A reply without records.
    fn plain(&mut self, request: &Request<'_>, rcode: u16) -> Option<usize> {
        let opt = self.opt(request.edns.as_ref(), request.question.len());
        let counters = &self.asked.shared.dns;
        let mut reply = self.reply(request, opt.as_ref())?;
        count_rcode(counters, rcode);
        Some(reply.finish(request.id, flags(request.rd), rcode, opt.as_ref()))
    }

    fn error(&mut self, error: &ErrorReply<'_>) -> Option<usize> {
        // Without options: those of the request may be what is wrong.
        let opt = error.edns.map(|edns| OptReply {
            size: self.asked.published.config.dns.udp_payload,
            extended_rcode: u8::try_from(error.rcode >> 4).unwrap_or(0),
            dnssec_ok: edns.dnssec_ok,
            ..OptReply::default()
        });
        if error.edns.is_some() {
            add(&self.asked.shared.dns.edns);
        }
        let reserved = opt.as_ref().map_or(0, OptReply::len);
        let mut reply = Reply::new(self.out, usize::from(LEAST_UDP), reserved, error.question)?;
        count_rcode(&self.asked.shared.dns, error.rcode);
        let flags = u16::from(error.opcode) << 11 | flags(error.rd);
        Some(reply.finish(error.id, flags, error.rcode, opt.as_ref()))
    }

    fn reply(&mut self, request: &Request<'_>, opt: Option<&OptReply<'_>>) -> Option<Reply<'_>> {
        let limit = self.limit(request.edns.as_ref());
        Reply::new(self.out, limit, opt.map_or(0, OptReply::len), request.question)
    }

    fn opt<'e>(&self, edns: Option<&Edns<'e>>, question: usize) -> Option<OptReply<'e>>
    where
        'a: 'e,
    {
        let edns = edns?;
        let config = &self.asked.published.config.dns;
        let mut opt = OptReply {
            size: config.udp_payload,
            extended_rcode: 0,
            dnssec_ok: edns.dnssec_ok,
            ecs: edns.ecs,
            scope: 0,
            nsid: config.identity.as_deref().filter(|_| edns.nsid).map(str::as_bytes),
        };
        // A name of this server so long that it leaves no room for the question is not worth a silence.
        if 12 + question + opt.len() > self.limit(Some(edns)) {
            opt.nsid = None;
        }
        Some(opt)
    }

    /// The longest reply. Over UDP it is this server's own limit that counts, whatever the asker takes: larger packets come
    /// in fragments, and fragments get lost or forged (faults I-04, RFC 9715).
    fn limit(&self, edns: Option<&Edns<'_>>) -> usize {
        let ours = self.asked.published.config.dns.udp_payload.max(LEAST_UDP);
        usize::from(match self.transport {
            Transport::Udp => edns.map_or(LEAST_UDP, |e| e.size.clamp(LEAST_UDP, ours)),
            Transport::Tcp | Transport::Tls => u16::MAX,
        })
    }
}

fn flags(rd: bool) -> u16 {
    if rd { RD } else { 0 }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn count_rcode(counters: &DnsCounters, rcode: u16) {
    add(match rcode {
        NOERROR => &counters.noerror,
        FORMERR => &counters.formerr,
        NXDOMAIN => &counters.nxdomain,
        NOTIMP => &counters.notimp,
        REFUSED => &counters.refused,
        YXDOMAIN => &counters.yxdomain,
        NOTAUTH => &counters.notauth,
        BADVERS => &counters.badvers,
        _ => &counters.servfail,
    });
}
