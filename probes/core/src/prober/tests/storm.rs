//! Random storms of queries, replies, losses, sleeps and reloads, and what must hold in all of them.

use super::*;

fn settings(chance: &mut Chance) -> Settings {
    let pick = |chance: &mut Chance, of: &[u32]| of[chance.up_to(of.len() as u32 - 1) as usize];
    Settings {
        per_second: pick(chance, &[7, 60, 500]),
        new_per_second: pick(chance, &[3, 50]),
        per_prefix: pick(chance, &[1, 2, 9]),
        cap: pick(chance, &[5, 60, 1000]) as usize,
        idle_timeout: secs(pick(chance, &[6, 30, 180]).into()),
        failed_rounds: pick(chance, &[1, 3]),
        ..Settings::default()
    }
}

/// One of 180 addresses: some alone in their prefix, some in a crowd, some IPv6.
fn anybody(chance: &mut Chance) -> IpAddr {
    match chance.up_to(2) {
        0 => nth(chance.up_to(59)),
        1 => std::net::Ipv4Addr::from_bits(0xcb00_7100 + chance.up_to(59)).into(),
        _ => std::net::Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) + (u128::from(chance.up_to(59)) << 70))
            .into(),
    }
}

fn any_manners(chance: &mut Chance) -> Manners {
    let mut manner = |good: ProbeOutcome| match chance.up_to(9) {
        0..=3 => Manner::Silent,
        4 => Manner::Lost,
        5 => Manner::Gives(ProbeOutcome::RouterError),
        6 => Manner::Gives([ProbeOutcome::SendFailed, ProbeOutcome::NotPermitted][chance.up_to(1) as usize]),
        _ => Manner::Gives(good),
    };
    Manners([
        manner(ProbeOutcome::EchoReply(ms(20))),
        manner(ProbeOutcome::DnsAnswer(ms(30))),
        manner(ProbeOutcome::Reset(ms(40))),
    ])
}

/// What the storm itself remembers, to hold the prober to it.
#[derive(Default)]
struct Witness {
    known: BTreeMap<Ldns, Timestamp>,
    rounds: BTreeMap<Ldns, Timestamp>,
    checked_events: usize,
}

impl Witness {
    fn check(&mut self, bench: &Bench, cap: usize) {
        for event in &bench.events[self.checked_events..] {
            match event {
                Output::Admitted { ldns, .. } => {
                    assert!(self.known.insert(*ldns, bench.now).is_none(), "admitted twice: {ldns}");
                }
                Output::Removed { ldns, .. } => assert!(self.known.remove(ldns).is_some(), "{ldns}"),
                Output::Sample { ldns, .. } | Output::Unreachable { ldns } => {
                    assert!(self.known.contains_key(ldns), "{ldns} has no entry");
                }
                Output::Send(_) => unreachable!("kept apart"),
            }
        }
        self.checked_events = bench.events.len();
        let stats = bench.prober.stats();
        assert_eq!(stats.ldns, self.known.len());
        assert!(stats.ldns <= cap && stats.proven <= stats.ldns);
        assert_eq!(bench.prober.awaited.len(), bench.prober.deadlines.len());
        for entry in bench.prober.table.iter().filter(|e| e.was_probed) {
            let ldns = bench.prober.table.ldns_of(entry);
            let before = self.rounds.insert(ldns, entry.started).filter(|b| *b != entry.started);
            let interval = bench.prober.settings.interval;
            let apart = before.map(|b| entry.started.since(b));
            assert!(apart.is_none_or(|a| a >= interval), "{ldns} began rounds {apart:?} apart");
        }
    }
}

/// A round may be long, and end just before the next; but no interval sees more than two rounds' kinds, less the one that
/// began the first.
fn check_pace(bench: &Bench, interval: Duration) {
    let mut by_target = BTreeMap::<IpAddr, Vec<Timestamp>>::new();
    for (t, r) in &bench.sent {
        by_target.entry(r.target).or_default().push(*t);
    }
    for (target, sent) in &by_target {
        for (i, t) in sent.iter().enumerate() {
            let within = sent[i..].iter().filter(|u| u.since(*t) < interval);
            assert!(within.count() <= 5, "{target} at {t:?}");
        }
    }
}

fn storm(seed: u64) {
    println!("seed {seed}");
    let mut chance = Chance::new(seed);
    let settings = settings(&mut chance);
    let mut bench = Bench::seeded(settings.clone(), seed);
    let mut witness = Witness::default();
    for _ in 0..1500 {
        match chance.up_to(19) {
            0..=11 => {
                let (address, age) = (anybody(&mut chance), chance.within(secs(9)));
                let age = if chance.up_to(2) == 0 { age } else { Duration::ZERO };
                let origin = [Origin::Own, Origin::Peer][chance.up_to(1) as usize];
                bench.sees_aged(address, age, origin);
            }
            12..=14 => {
                let (address, manners) = (anybody(&mut chance), any_manners(&mut chance));
                bench.manners.insert(address, manners);
            }
            15 => {
                let id = ProbeId(u64::from(chance.up_to(u32::MAX)));
                bench.prober.handle_reply(bench.now, ProbeReply { id, outcome: ProbeOutcome::TimedOut });
                bench.collect();
            }
            16 if chance.up_to(20) == 0 => {
                let slept = bench.now + chance.within(secs(100));
                bench.step(slept);
            }
            _ => bench.run(bench.now + chance.within(Duration::from_millis(700))),
        }
        witness.check(&bench, settings.cap);
    }
    assert!(bench.most_in_a_second(|_| true) <= settings.per_second as usize);
    check_pace(&bench, settings.interval);
    let crowd = |r: &ProbeRequest| {
        !bench.unsent.contains(&r.id) && matches!(r.target, IpAddr::V4(a) if a.octets()[0] == 203)
    };
    assert!(bench.most_in_a_second(crowd) <= settings.per_prefix as usize);
    // Left alone, everybody is forgotten, and nothing is left to wait for.
    let end = bench.now + settings.idle_timeout + secs(1);
    bench.run(end);
    witness.check(&bench, settings.cap);
    assert_eq!((bench.prober.stats().ldns, bench.prober.poll_timeout()), (0, None));
    assert!(bench.prober.awaited.is_empty() && bench.prober.deadlines.is_empty());
}

#[test]
fn a_hundred_random_storms_keep_every_promise() {
    (0..100).for_each(storm);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut chance = Chance::new(1);
        let mut bench = Bench::seeded(Settings::default(), seed);
        for _ in 0..200 {
            let address = anybody(&mut chance);
            bench.sees(address);
            bench.run(bench.now + Duration::from_millis(50));
        }
        bench.sent
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
