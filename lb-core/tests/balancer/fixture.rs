//! Small helpers: a virtual server with services `s0`, `s1`, ... that is played by hand.

use gslb_types::{LbMethod, Rtt, ServiceName, ServiceState, Timestamp, Weight};
use lb_core::{
    Balancer, BalancerSettings, Client, LocalPersistence, MemberId, MemberSettings, NoService, Pick,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

pub(crate) const LRTM: LbMethod = LbMethod::LeastResponseTimeMonitors;
pub(crate) const LRT: LbMethod = LbMethod::LeastResponseTime;

pub(crate) fn at(seconds: u64) -> Timestamp {
    at_ms(seconds * 1_000)
}

pub(crate) fn at_ms(millis: u64) -> Timestamp {
    Timestamp::from_micros(1_000_000_000 + millis * 1_000)
}

pub(crate) fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn us(n: u32) -> Rtt {
    Rtt::from_micros(n)
}

pub(crate) fn service(n: usize) -> ServiceName {
    ServiceName::new(&format!("s{n}")).unwrap()
}

pub(crate) fn member(n: usize) -> MemberSettings {
    MemberSettings {
        name: service(n),
        weight: Weight::ONE,
        max_clients: None,
        max_bandwidth: None,
        enabled: true,
    }
}

/// No slow start of either kind, no persistence.
pub(crate) fn settings(method: LbMethod, members: usize) -> BalancerSettings {
    BalancerSettings {
        method,
        startup_rr_factor: 0,
        slow_start: Duration::ZERO,
        persistence: LocalPersistence::None,
        members: (0..members).map(member).collect(),
    }
}

pub(crate) fn client() -> Client {
    from(Ipv4Addr::new(192, 0, 2, 1))
}

pub(crate) fn from(address: impl Into<IpAddr>) -> Client {
    Client { address: address.into(), cookie: None }
}

/// A virtual server and the little that its caller keeps.
pub(crate) struct Played {
    pub(crate) lb: Balancer,
    pub(crate) now: Timestamp,
}

impl Played {
    /// All services are up, with equal response times of monitors and of first bytes.
    pub(crate) fn up(settings: BalancerSettings) -> Self {
        let members = settings.members.len();
        let mut new = Played::unchecked(settings);
        for n in 0..members {
            new.health(n, ServiceState::Up);
        }
        new
    }

    pub(crate) fn unchecked(settings: BalancerSettings) -> Self {
        Played { lb: Balancer::new(at(0), settings), now: at(0) }
    }

    pub(crate) fn health(&mut self, n: usize, state: ServiceState) {
        let response_time = (state == ServiceState::Up).then(|| us(5_000));
        self.lb.handle_health(self.now, &service(n), state, response_time);
    }

    pub(crate) fn go_to(&mut self, now: Timestamp) {
        self.now = now;
        self.lb.handle_timeout(now);
    }

    /// The service that gets one more request, which stays open.
    pub(crate) fn pick(&mut self) -> Pick {
        self.lb.pick(self.now, &client(), &[]).unwrap()
    }

    pub(crate) fn refusal(&mut self) -> NoService {
        self.lb.pick(self.now, &client(), &[]).unwrap_err()
    }

    /// The places of those that get so many requests, each over before the next.
    pub(crate) fn serve(&mut self, requests: usize) -> Vec<usize> {
        let one = |_| {
            let pick = self.pick();
            self.lb.ended(self.now, pick.member);
            pick.position
        };
        (0..requests).map(one).collect()
    }

    /// How many of so many requests each service gets.
    pub(crate) fn shares(&mut self, requests: usize) -> Vec<usize> {
        let mut shares = vec![0; self.lb.view(self.now).members.len()];
        for position in self.serve(requests) {
            shares[position] += 1;
        }
        shares
    }

    /// The number of each service, found by picking every one once; nothing stays open, the last one got the last request.
    pub(crate) fn ids(&mut self) -> Vec<MemberId> {
        let mut ids = Vec::new();
        while let Ok(pick) = self.lb.pick(self.now, &client(), &ids) {
            ids.push(pick.member);
            self.lb.unsent(self.now, pick.member);
        }
        ids
    }
}
