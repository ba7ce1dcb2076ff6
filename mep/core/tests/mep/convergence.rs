//! Whatever happens in between: once the network is whole and quiet, everybody knows what everybody says.

use crate::net::{Host, Net, known, ldns, ms, secs, settings};
use gslb_types::Reach;
use proptest::prelude::*;

const NODES: [&str; 3] = ["ber/1", "fra/1", "par/1"];
const LDNS: u32 = 12;

#[derive(Clone, Copy, Debug)]
enum Event {
    Sight(usize, u32),
    Measure(usize, u32, u32),
    Unreachable(usize, u32),
    Cut(usize, usize),
    Heal,
    Restart(usize),
    Goodbye(usize),
    Forget(usize, u32),
    Wait(u64),
}

fn ldns_events() -> impl Strategy<Value = Event> {
    let (host, n) = (0..NODES.len(), 0..LDNS);
    prop_oneof![
        4 => (host.clone(), n.clone()).prop_map(|(h, n)| Event::Sight(h, n)),
        6 => (host.clone(), n.clone(), 1..200_u32).prop_map(|(h, n, v)| Event::Measure(h, n, v)),
        1 => (host, n).prop_map(|(h, n)| Event::Unreachable(h, n)),
        4 => (0..8_000_u64).prop_map(Event::Wait),
    ]
}

fn network_events() -> impl Strategy<Value = Event> {
    let host = 0..NODES.len();
    prop_oneof![
        3 => (host.clone(), host.clone()).prop_map(|(a, b)| Event::Cut(a, b)),
        2 => Just(Event::Heal),
        1 => host.clone().prop_map(Event::Restart),
        1 => host.prop_map(Event::Goodbye),
        1 => (0..30_000_u64).prop_map(Event::Wait),
    ]
}

fn happen(net: &mut Net, event: Event) {
    match event {
        Event::Sight(host, n) => net.sight(host, n),
        Event::Measure(host, n, v) if net.hosts[host].table.entries.contains_key(&ldns(n)) => {
            net.measure(host, n, known(v));
        }
        Event::Unreachable(host, n) if net.hosts[host].table.entries.contains_key(&ldns(n)) => {
            net.measure(host, n, Reach::Unreachable);
        }
        Event::Measure(..) | Event::Unreachable(..) => {}
        Event::Cut(a, b) => {
            net.cuts.insert((a, b));
        }
        Event::Heal => net.heal(),
        Event::Restart(host) => {
            net.kill(host);
            net.start(host, settings(&NODES));
        }
        Event::Goodbye(host) => {
            net.shutdown(host);
            net.kill(host);
            net.start(host, settings(&NODES));
        }
        Event::Forget(host, n) => net.forget(host, n),
        Event::Wait(millis) => net.run(ms(millis)),
    }
}

fn settle(net: &mut Net) {
    net.heal();
    net.run_until(secs(60), |net| net.is_up(0, 1) && net.is_up(0, 2) && net.is_up(1, 2));
    net.run(secs(15));
}

fn assert_converged(net: &Net) {
    for teller in 0..NODES.len() {
        for n in 0..LDNS {
            let told = net.hosts[teller].table.reach(ldns(n));
            for reader in (0..NODES.len()).filter(|reader| *reader != teller) {
                let entry = net.hosts[reader].table.entries.contains_key(&ldns(n));
                if entry && told.is_some_and(|told| told != Reach::Pending) {
                    assert_eq!(net.column(reader, teller, n), told, "what {teller} says of {n}, at {reader}");
                }
            }
        }
        for peer in (0..NODES.len()).filter(|peer| *peer != teller) {
            let status = net.status(teller, peer);
            assert_eq!((status.violations, status.unknown, status.outbox), (0, 0, 0));
            assert_eq!(net.connections(teller, peer), 1);
        }
    }
}

/// What the far ends of a cut know of one another by way of the third.
fn assert_relayed(net: &Net, cut: (usize, usize)) {
    for (reader, teller) in [cut, (cut.1, cut.0)] {
        assert!(net.status(reader, teller).relay.is_some(), "{teller} is not relayed to {reader}");
        for n in 0..LDNS {
            let told = net.hosts[teller].table.reach(ldns(n));
            let entry = net.hosts[reader].table.entries.contains_key(&ldns(n));
            if entry && told.is_some_and(|told| told != Reach::Pending) {
                assert_eq!(net.column(reader, teller, n), told, "what {teller} says of {n}, at {reader}");
            }
        }
        let relay = 3 - reader - teller;
        assert_eq!((net.status(reader, relay).violations, net.status(relay, reader).violations), (0, 0));
    }
}

/// The cut that stays when all else heals: one pair, one or both ways.
fn lasting_cuts() -> impl Strategy<Value = (usize, usize, bool)> {
    prop_oneof![Just((0, 1)), Just((0, 2)), Just((1, 2))]
        .prop_flat_map(|(a, b)| (Just(a), Just(b), any::<bool>()))
}

/// All that nodes of a net said and sent, in order.
fn history(events: &[Event], cut: (usize, usize)) -> (String, Vec<bytes::Bytes>) {
    let mut net = Net::of(&NODES);
    events.iter().for_each(|event| happen(&mut net, *event));
    net.heal();
    net.part(cut.0, cut.1);
    net.run(secs(40));
    let outputs: Vec<_> = net.hosts.iter().map(|host| &host.outputs).collect();
    (format!("{outputs:?}"), net.sent.into_iter().map(|(_, _, _, frame)| frame).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables_agree_after_cuts_restarts_and_goodbyes(
        events in proptest::collection::vec(prop_oneof![3 => ldns_events(), 1 => network_events()], 1..80),
    ) {
        let mut net = Net::of(&NODES);
        events.into_iter().for_each(|event| happen(&mut net, event));
        settle(&mut net);
        assert_converged(&net);
        // Sightings are not passed on, values are: what anybody has measured, everybody knows of.
        for n in 0..LDNS {
            let measured = |host: &Host| host.table.reach(ldns(n)).is_some_and(|told| told != Reach::Pending);
            let knowing = net.hosts.iter().filter(|host| host.table.reach(ldns(n)).is_some()).count();
            prop_assert!(!net.hosts.iter().any(measured) || knowing == NODES.len(), "{} know of {}", knowing, n);
        }
    }

    #[test]
    fn tables_agree_by_way_of_a_third_node_while_a_pair_stays_cut(
        events in proptest::collection::vec(prop_oneof![3 => ldns_events(), 1 => network_events()], 1..60),
        (a, b, both) in lasting_cuts(),
        after in proptest::collection::vec(ldns_events(), 0..40),
    ) {
        let mut net = Net::of(&NODES);
        events.into_iter().for_each(|event| happen(&mut net, event));
        net.heal();
        net.cuts.insert((a, b));
        if both {
            net.cuts.insert((b, a));
        }
        let third = 3 - a - b;
        net.run_until(secs(60), |net| net.is_up(a, third) && net.is_up(b, third));
        net.run(secs(15));
        after.into_iter().for_each(|event| happen(&mut net, event));
        net.run(secs(15));
        assert_relayed(&net, (a, b));
        net.heal();
        settle(&mut net);
        assert_converged(&net);
        prop_assert!((0..3).all(|at| (0..3).all(|of| at == of || net.status(at, of).relay.is_none())));
    }

    #[test]
    fn equal_inputs_give_equal_outputs(
        events in proptest::collection::vec(prop_oneof![3 => ldns_events(), 1 => network_events()], 1..40),
        (a, b, _) in lasting_cuts(),
    ) {
        prop_assert!(history(&events, (a, b)) == history(&events, (a, b)));
    }

    #[test]
    fn tables_agree_though_entries_are_lost_and_come_back(
        events in proptest::collection::vec(
            prop_oneof![4 => ldns_events(), 1 => (0..NODES.len(), 0..LDNS).prop_map(|(h, n)| Event::Forget(h, n))],
            1..80,
        ),
    ) {
        let mut net = Net::of(&NODES);
        settle(&mut net);
        events.into_iter().for_each(|event| happen(&mut net, event));
        settle(&mut net);
        assert_converged(&net);
    }
}
