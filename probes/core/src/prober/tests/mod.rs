//! Claims about the prober, by subject, and the bench they are tried on.

mod budgets;
mod entries;
mod reload;
mod rounds;
mod scale;
mod sharing;
mod storm;

use super::*;
use crate::wire::ProbeOutcome;
use ProbeKind::{DnsTcp, DnsUdp, Ping};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1000)
}

fn ms(n: u32) -> Rtt {
    Rtt::from_micros(n * 1000)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ldns(text: &str) -> Ldns {
    Ldns::exact(ip(text))
}

/// The n-th of many LDNS, each in a /24 of its own.
fn nth(n: u32) -> IpAddr {
    std::net::Ipv4Addr::from_bits(0x0b00_0035 + (n << 8)).into()
}

const A: &str = "192.0.2.1";
const B: &str = "198.51.100.1";

/// How an LDNS, or the sender in its stead, takes the three kinds.
#[derive(Clone, Copy)]
struct Manners([Manner; 3]);

#[derive(Clone, Copy)]
enum Manner {
    /// This comes back, after the time it names or at once.
    Gives(ProbeOutcome),
    /// Nothing comes back, and the sender says so.
    Silent,
    /// The sender says nothing at all.
    Lost,
}

const DARK: Manners = Manners([Manner::Silent; 3]);
const LOST: Manners = Manners([Manner::Lost; 3]);

fn pings(rtt: u32) -> Manners {
    Manners([Manner::Gives(ProbeOutcome::EchoReply(ms(rtt))), Manner::Silent, Manner::Silent])
}

fn gives(ping: ProbeOutcome, udp: ProbeOutcome, tcp: ProbeOutcome) -> Manners {
    Manners([Manner::Gives(ping), Manner::Gives(udp), Manner::Gives(tcp)])
}

/// A prober with a clock, a network and a memory.
struct Bench {
    prober: Prober,
    now: Timestamp,
    manners: BTreeMap<IpAddr, Manners>,
    others: Manners,
    in_flight: BTreeMap<(Timestamp, ProbeId), ProbeOutcome>,
    sent: Vec<(Timestamp, ProbeRequest)>,
    /// Of these, those that did not leave.
    unsent: BTreeSet<ProbeId>,
    events: Vec<Output>,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        Bench::seeded(settings, 7)
    }

    fn seeded(settings: Settings, seed: u64) -> Self {
        Bench {
            prober: Prober::new(settings, seed),
            now: at(0),
            manners: BTreeMap::new(),
            others: DARK,
            in_flight: BTreeMap::new(),
            sent: Vec::new(),
            unsent: BTreeSet::new(),
            events: Vec::new(),
        }
    }

    /// One LDNS with these manners that has just asked.
    fn with(address: &str, manners: Manners) -> Self {
        let mut bench = Bench::new(Settings::default());
        bench.manners.insert(ip(address), manners);
        bench.asks(address);
        bench
    }

    fn asks(&mut self, address: &str) -> Sighting {
        self.sees(ip(address))
    }

    fn sees(&mut self, address: IpAddr) -> Sighting {
        self.sees_aged(address, Duration::ZERO, Origin::Own)
    }

    fn sees_aged(&mut self, address: IpAddr, age: Duration, origin: Origin) -> Sighting {
        let sighting = self.prober.handle_sighting(self.now, address, age, origin);
        self.collect();
        sighting
    }

    fn collect(&mut self) {
        while let Some(output) = self.prober.poll_output() {
            match output {
                Output::Send(request) => self.transmit(request),
                Output::Admitted { .. }
                | Output::Sample { .. }
                | Output::Unreachable { .. }
                | Output::Removed { .. } => self.events.push(output),
            }
        }
    }

    fn transmit(&mut self, request: ProbeRequest) {
        self.sent.push((self.now, request));
        let manners = self.manners.get(&request.target).unwrap_or(&self.others);
        let (after, outcome) = match manners.0[request.kind as usize] {
            Manner::Lost => return,
            Manner::Silent => (request.timeout, ProbeOutcome::TimedOut),
            Manner::Gives(outcome) => (time_of(outcome), outcome),
        };
        if matches!(outcome, ProbeOutcome::SendFailed | ProbeOutcome::NotPermitted) {
            self.unsent.insert(request.id);
        }
        self.in_flight.insert((self.now + after, request.id), outcome);
    }

    /// The next moment at which anything happens.
    fn next(&self) -> Option<Timestamp> {
        let reply = self.in_flight.first_key_value().map(|((at, _), _)| *at);
        [reply, self.prober.poll_timeout()].into_iter().flatten().min()
    }

    fn step(&mut self, moment: Timestamp) {
        self.now = self.now.max(moment);
        while let Some(first) = self.in_flight.first_entry()
            && first.key().0 <= self.now
        {
            let ((_, id), outcome) = first.remove_entry();
            self.prober.handle_reply(self.now, ProbeReply { id, outcome });
            self.collect();
        }
        self.prober.handle_timeout(self.now);
        self.collect();
        if let Some(next) = self.prober.poll_timeout() {
            assert!(next > self.now, "{next:?} is not after {:?}", self.now);
        }
    }

    /// Lets time pass until then.
    fn run(&mut self, until: Timestamp) {
        while let Some(moment) = self.next().filter(|m| *m <= until) {
            self.step(moment);
        }
        self.now = self.now.max(until);
    }

    /// Lets time pass while the LDNS goes on asking each second.
    fn run_asked(&mut self, until: Timestamp, address: &str) {
        while self.now < until {
            self.asks(address);
            self.run((self.now + secs(1)).min(until));
        }
    }

    fn view(&self, address: &str) -> EntryView {
        self.prober.entry(ldns(address)).expect("an entry")
    }

    fn kinds(&self) -> Vec<ProbeKind> {
        self.sent.iter().map(|(_, r)| r.kind).collect()
    }

    fn samples(&self) -> Vec<(Rtt, ProbeKind)> {
        let sample = |o: &Output| match o {
            Output::Sample { rtt, kind, .. } => Some((*rtt, *kind)),
            Output::Send(_)
            | Output::Admitted { .. }
            | Output::Unreachable { .. }
            | Output::Removed { .. } => None,
        };
        self.events.iter().filter_map(sample).collect()
    }

    fn unreachable(&self) -> usize {
        self.events.iter().filter(|o| matches!(o, Output::Unreachable { .. })).count()
    }

    /// The most probes that any half-open second saw, of those that pass the filter.
    fn most_in_a_second(&self, of: impl Fn(&ProbeRequest) -> bool) -> usize {
        let times: Vec<Timestamp> = self.sent.iter().filter(|(_, r)| of(r)).map(|(t, _)| *t).collect();
        let within = |(i, t): (usize, &Timestamp)| times.partition_point(|u| *u < *t + secs(1)) - i;
        times.iter().enumerate().map(within).max().unwrap_or(0)
    }
}

fn time_of(outcome: ProbeOutcome) -> Duration {
    match outcome {
        ProbeOutcome::EchoReply(rtt)
        | ProbeOutcome::DnsAnswer(rtt)
        | ProbeOutcome::Connected(rtt)
        | ProbeOutcome::Reset(rtt)
        | ProbeOutcome::PortUnreachable(rtt) => rtt.as_duration(),
        ProbeOutcome::RouterError => Duration::from_millis(30),
        ProbeOutcome::TimedOut | ProbeOutcome::SendFailed | ProbeOutcome::NotPermitted => Duration::ZERO,
    }
}
