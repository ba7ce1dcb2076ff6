//! LDNS that the nodes of a site share out: what is a neighbour's, what is ours, and how it changes hands.

use super::*;
use gslb_types::NodeId;

fn share(others: &[&str]) -> Share {
    let node = |name: &str| name.parse::<NodeId>().unwrap();
    Share::among(node("fra/1"), others.iter().map(|name| node(name)))
}

impl Bench {
    fn shares(&mut self, others: &[&str]) {
        self.prober.set_share(self.now, share(others));
        self.collect();
    }

    /// A neighbour says what measured an LDNS, or that nothing does.
    fn told(&mut self, address: IpAddr, kind: Option<ProbeKind>) {
        let reach = kind.map_or(gslb_types::Reach::Unreachable, |_| gslb_types::Reach::Known(ms(20)));
        self.prober.note_elsewhere(Ldns::exact(address), reach, kind);
    }

    fn probes_of(&self, address: IpAddr) -> Vec<(Timestamp, ProbeKind)> {
        self.sent.iter().filter(|(_, r)| r.target == address).map(|(t, r)| (*t, r.kind)).collect()
    }
}

/// Of the many LDNS the first so many that are a neighbour's, or ours, when two share out.
fn some(ours: bool, count: usize) -> Vec<IpAddr> {
    let share = share(&["fra/2"]);
    (0..).map(nth).filter(|a| share.is_ours(Ldns::exact(*a)) == ours).take(count).collect()
}

fn shared() -> Bench {
    let mut bench = Bench::new(Settings::default());
    bench.others = pings(20);
    bench.shares(&["fra/2"]);
    bench
}

#[test]
fn a_neighbour_s_ldns_has_an_entry_and_is_not_probed() {
    let mut bench = shared();
    let (theirs, ours) = (some(false, 1)[0], some(true, 1)[0]);
    assert_eq!((bench.sees(theirs), bench.sees(ours)), (Sighting::Admitted, Sighting::Admitted));
    bench.run(at(60_000));
    assert_eq!(bench.probes_of(theirs), []);
    assert!(bench.probes_of(ours).len() > 8);
    assert_eq!((bench.prober.stats().ldns, bench.prober.stats().ours), (2, 1));
    assert_eq!(bench.prober.entry(Ldns::exact(theirs)).map(|e| (e.ours, e.next_round)), Some((false, None)));
    bench.run(at(181_000));
    assert_eq!((bench.prober.stats().ldns, bench.prober.stats().ours), (0, 0));
}

/// To be told the same again costs no walk: what stands in the queues keeps its times.
#[test]
fn the_same_nodes_share_as_before_without_a_walk() {
    let mut bench = shared();
    let theirs = some(false, 50);
    theirs.iter().for_each(|a| {
        bench.sees(*a);
    });
    bench.run(at(20_000));
    let before = bench.prober.stats();
    bench.shares(&["fra/2"]);
    assert_eq!((bench.prober.stats(), bench.prober.stats().share_walks), (before, 1));
    bench.shares(&[]);
    assert_eq!((bench.prober.stats().ours, bench.prober.stats().share_walks), (50, 2));
}

#[test]
fn the_budgets_are_all_for_our_own() {
    let mut bench = shared();
    some(false, 1000).into_iter().for_each(|a| {
        bench.sees(a);
    });
    let ours = some(true, 50);
    ours.iter().for_each(|a| {
        bench.sees(*a);
    });
    bench.run(at(600));
    assert!(ours.iter().all(|a| bench.probes_of(*a).len() == 1));
    assert_eq!(bench.sent.len(), 50);
}

#[test]
fn what_a_neighbour_measured_is_taken_over_within_an_interval_with_the_kind_that_worked() {
    let mut bench = shared();
    let theirs = some(false, 200);
    for address in &theirs {
        bench.sees(*address);
        bench.told(*address, Some(DnsTcp));
    }
    bench.others = Manners([Manner::Silent, Manner::Silent, Manner::Gives(ProbeOutcome::Connected(ms(30)))]);
    bench.run(at(100_000));
    bench.shares(&[]);
    assert!(bench.sent.len() < 25, "no volley: {}", bench.sent.len());
    bench.run(at(105_000));
    assert!(theirs.iter().all(|a| matches!(bench.probes_of(*a)[..], [(_, DnsTcp), ..])));
    assert_eq!(bench.prober.stats().ours, 200);
}

#[test]
fn taking_over_many_stays_within_the_budget_and_is_no_flood_of_newcomers() {
    let settings = Settings { per_second: 100, new_per_second: 1, ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.others = pings(20);
    bench.shares(&["fra/2"]);
    for address in some(false, 1000) {
        bench.sees(address);
        bench.told(address, Some(Ping));
    }
    bench.run(at(1000));
    bench.shares(&[]);
    bench.run(at(13_000));
    assert!(bench.most_in_a_second(|_| true) <= 100);
    assert!(bench.samples().len() > 900, "{}", bench.samples().len());
}

#[test]
fn an_ldns_that_nobody_has_measured_is_probed_soon_after_it_becomes_ours() {
    let mut bench = shared();
    let theirs = some(false, 1)[0];
    bench.sees(theirs);
    bench.run(at(3000));
    bench.shares(&[]);
    bench.run(at(4000));
    assert!(matches!(bench.probes_of(theirs)[..], [(sent, Ping)] if sent >= at(3000)));
}

#[test]
fn what_changes_hands_to_and_fro_is_not_probed_more_often_than_its_interval() {
    let mut bench = Bench::new(Settings::default());
    bench.others = pings(20);
    let moving = some(false, 1)[0];
    for second in 0..60 {
        bench.sees(moving);
        bench.shares(if second % 2 == 0 { &[] } else { &["fra/2"] });
        bench.run(at(second * 1000 + 1000));
    }
    let probes = bench.probes_of(moving);
    assert!(probes.len() > 3, "{probes:?}");
    assert!(probes.windows(2).all(|w| w[1].0.since(w[0].0) >= secs(5)), "{probes:?}");
}

#[test]
fn a_reply_that_comes_after_the_hand_over_does_not_count() {
    let mut bench = Bench::new(Settings::default());
    bench.others = pings(20);
    let moving = some(false, 1)[0];
    bench.sees(moving);
    bench.shares(&["fra/2"]);
    bench.run(at(10_000));
    assert_eq!((bench.samples(), bench.prober.stats().late, bench.sent.len()), (vec![], 1, 1));
}

#[test]
fn newcomers_do_not_push_out_what_a_neighbour_has_measured() {
    let mut bench = Bench::new(Settings { cap: 2, ..Settings::default() });
    bench.shares(&["fra/2"]);
    let theirs = some(false, 4);
    bench.sees(theirs[0]);
    bench.told(theirs[0], Some(Ping));
    bench.run(at(5000));
    assert_eq!((bench.sees(theirs[1]), bench.sees(theirs[2])), (Sighting::Admitted, Sighting::Admitted));
    let kept = |b: &Bench, n: usize| b.prober.entry(Ldns::exact(theirs[n])).is_some();
    assert_eq!((kept(&bench, 0), kept(&bench, 1), kept(&bench, 2)), (true, false, true));
    bench.told(theirs[0], None);
    bench.run(at(6000));
    assert_eq!((bench.sees(theirs[3]), kept(&bench, 0)), (Sighting::Admitted, false));
}

/// All sites hear of a new LDNS within milliseconds.
#[test]
fn sites_that_hear_of_an_ldns_together_do_not_probe_it_in_step() {
    let second_round = |seed| {
        let mut bench = Bench::seeded(Settings::default(), seed);
        bench.others = pings(20);
        bench.asks(A);
        bench.run(at(8000));
        bench.sent[1].0
    };
    let rounds: Vec<Timestamp> = (1..20).map(second_round).collect();
    assert!(rounds.iter().all(|t| *t >= at(5000) && *t <= at(7750)), "{rounds:?}");
    let (first, last) = (rounds.iter().min().unwrap(), rounds.iter().max().unwrap());
    assert!(last.since(*first) > secs(2), "{rounds:?}");
}

/// An LDNS that was pushed out and comes back is probed an interval after its last round, through whose hands it may go meanwhile.
#[test]
fn an_ldns_that_comes_back_is_not_probed_sooner_for_changing_hands() {
    let mut bench = Bench::new(Settings { cap: 1, ..Settings::default() });
    let (first, other) = (some(false, 1)[0], some(true, 1)[0]);
    bench.sees(first);
    bench.run(at(1_000));
    assert_eq!((bench.sees(other), bench.sees(first)), (Sighting::Admitted, Sighting::Admitted));
    bench.shares(&["fra/2"]);
    bench.run(at(1_500));
    bench.shares(&[]);
    bench.run(at(4_900));
    assert_eq!(bench.probes_of(first).len(), 1);
    bench.run(at(8_000));
    assert!(bench.probes_of(first).len() > 1);
}
