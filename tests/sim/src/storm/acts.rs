//! What can happen in a storm.

use super::Storm;
use super::any::any_rtt;
use crate::world::{HostIndex, Manner, World};
use gslb_types::ProbeKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const KINDS: [ProbeKind; 3] = ProbeKind::DEFAULT_ORDER;

impl Storm {
    /// Does one thing.
    pub(super) fn act(&mut self) {
        match self.chance.below(114) {
            0..28 => self.queries(),
            28..34 => self.forged(),
            34..36 => self.flood(),
            36..50 => self.ways(),
            50..56 => self.manners(),
            56..72 => self.links(),
            72..76 => self.transports(),
            76..90 => self.processes(),
            90..100 => self.services(),
            100..104 => self.session(),
            _ => self.quality(),
        }
    }

    pub(super) fn host(&mut self) -> HostIndex {
        self.chance.place(self.world.hosts().len())
    }

    fn queries(&mut self) {
        for _ in 0..=self.chance.below(4) {
            let (n, ldns) = (self.host(), self.any_resolver());
            self.world.ask(n, ldns);
        }
    }

    fn any_resolver(&mut self) -> IpAddr {
        let place = self.chance.place(self.resolvers.len());
        self.resolvers[place]
    }

    /// Queries with forged sources: nobody is there, or somebody who must not be probed.
    fn forged(&mut self) {
        let n = self.host();
        let address: IpAddr = match self.chance.below(5) {
            0 => Ipv4Addr::LOCALHOST.into(),
            1 => Ipv4Addr::BROADCAST.into(),
            2 => Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(self.chance.number())).into(),
            3 => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(self.chance.below(50)) << 64).into(),
            _ => Ipv4Addr::from_bits(0x2d00_0000 + self.chance.below(1 << 20)).into(),
        };
        self.world.remark(format!("forged {address} at {n}"));
        self.world.ask(n, address);
    }

    fn flood(&mut self) {
        let (n, size) = (self.host(), 20 + self.chance.below(150));
        let spread = [1, 1 << 8][self.chance.place(2)];
        self.world.remark(format!("flood of {size} at {n}"));
        for k in 0..size {
            self.world.ask(n, Ipv4Addr::from_bits(0x2e00_0000 + k * spread).into());
            if k % 16 == 0 {
                let pause = self.chance.within(Duration::from_millis(40));
                self.world.drive(pause);
            }
        }
    }

    /// The way to a resolver becomes longer or shorter, or worse.
    fn ways(&mut self) {
        let sites = self.world.group().sites().len();
        let (ldns, site) = (self.any_resolver(), self.chance.place(sites));
        let chance = &mut self.chance;
        let (what, by) = (chance.below(5), chance.within(Duration::from_millis(4)));
        let (rtt, loss) = (any_rtt(chance), chance.pick([50, 300, 900]));
        self.world.remark(format!("way {what} of {ldns} from {site}"));
        let Some(way) = self.world.internet().resolvers.get_mut(&ldns).and_then(|r| r.ways.get_mut(site))
        else {
            return;
        };
        match what {
            0 => way.rtt += by,
            1 => way.rtt = way.rtt.saturating_sub(by).max(Duration::from_millis(1)),
            2 => way.rtt = rtt,
            3 => way.jitter = by,
            _ => way.loss = if way.loss == 0 { loss } else { 0 },
        }
    }

    fn manners(&mut self) {
        let ldns = self.any_resolver();
        let manner = self.chance.pick([Manner::Answers, Manner::Refuses, Manner::Prohibited, Manner::Silent]);
        let kinds = if self.chance.below(4) == 0 { KINDS.to_vec() } else { vec![self.chance.pick(KINDS)] };
        self.world.remark(format!("{ldns} takes {kinds:?} as {manner:?}"));
        for kind in kinds {
            self.world.set_manner(ldns, kind, manner);
        }
    }

    fn links(&mut self) {
        let (a, b) = (self.host(), self.host());
        let what = self.chance.below(9);
        self.world.remark(format!("link {what} {a} {b}"));
        match what {
            0 | 1 if a != b => self.world.cut(a, b),
            2 | 3 if a != b => self.world.cut_one_way(a, b),
            4 => self.isolate(a),
            5 if a != b => {
                let spans = (self.any_wave(), self.any_wave());
                let span = self.chance.within(Duration::from_secs(90));
                self.world.wave(a, b, spans, span);
            }
            6 => self.world.heal_all(),
            _ => self.world.heal(a, b),
        }
    }

    fn any_wave(&mut self) -> Duration {
        self.chance.between(Duration::from_secs(1), Duration::from_secs(20))
    }

    /// A node is cut off from all others, or its whole site from the others.
    fn isolate(&mut self, n: HostIndex) {
        let site = self.world.hosts()[n].site();
        let is_whole_site = self.chance.below(2) == 0;
        let inside =
            |world: &World, k: HostIndex| k == n || (is_whole_site && world.hosts()[k].site() == site);
        let hosts = 0..self.world.hosts().len();
        for (a, b) in hosts.clone().flat_map(|a| hosts.clone().map(move |b| (a, b))) {
            if inside(&self.world, a) && !inside(&self.world, b) {
                self.world.cut(a, b);
            }
        }
    }

    /// What concerns new connections, or one of the two transports.
    fn transports(&mut self) {
        let (a, b) = (self.host(), self.host());
        let what = self.chance.below(6);
        self.world.remark(format!("transport {what} {a} {b}"));
        match what {
            0 | 1 if a != b => self.world.block_udp(a, b, true),
            2 => (0..self.world.hosts().len())
                .filter(|k| *k != a)
                .for_each(|k| self.world.block_udp(a, k, true)),
            3 => self.world.refuse(a, true),
            4 => self.world.refuse(a, false),
            _ => self.world.block_udp(a, b, false),
        }
    }

    fn processes(&mut self) {
        let n = self.host();
        let what = self.chance.below(12);
        self.world.remark(format!("process {what} {n}"));
        let span = self.chance.within(Duration::from_secs(40));
        match what {
            0 => self.world.kill(n),
            1 => self.world.restart(n),
            2 => self.world.stop(n),
            3 | 4 => self.world.freeze_for(n, span),
            5 => {
                let by = self.chance.pick([1, 10, 100, 3_600, 86_400]);
                self.world.jump(n, Duration::from_secs(by));
                self.clock_jumped();
            }
            6 => self.world.mute(n, true),
            7 => self.world.mute(n, false),
            8 => self.world.stick(n),
            9 => {
                let drift = self.chance.pick([-20_000, -300, 0, 300, 20_000]);
                self.world.drift(n, drift);
            }
            _ => {
                self.world.resume(n);
                self.world.start(n);
            }
        }
    }

    fn services(&mut self) {
        let service = self.chance.place(self.world.hosts()[0].config().services.len());
        let is_up = self.chance.below(2) == 0;
        if self.chance.below(4) == 0 {
            let sites = self.world.group().sites().len();
            let site = self.chance.place(sites);
            self.world.remark(format!("service {service} from {site} reached: {is_up}"));
            return self.world.reach(site, service, is_up);
        }
        self.world.remark(format!("service {service} up: {is_up}"));
        self.world.set_service(service, is_up);
    }

    fn quality(&mut self) {
        let (a, b) = (self.host(), self.host());
        let chance = &mut self.chance;
        let what = chance.below(4);
        let (latency, jitter) =
            (chance.within(Duration::from_millis(300)), chance.within(Duration::from_millis(200)));
        let (loss, rate) = (chance.pick([0, 20, 300]), u64::from(100 + chance.below(5_000)));
        self.world.remark(format!("quality {what} {a} {b}"));
        match what {
            0 | 1 => self.world.set_network(latency, jitter, loss),
            2 => self.world.narrow(a, b, Some(rate)),
            _ => self.world.widen_all(),
        }
    }
}
