//! Sites that a node does not hear itself, heard by way of another one.

use crate::net::{Net, known, ldns, ms, node, secs, settings};
use gslb_types::{Reach, ServiceName, ServiceState, SiteName, Timestamp};
use mep_core::proto::{self, frame::Body};
use mep_core::{Output, PeerState, ServiceMetric};
use prost::Message;
use std::time::Duration;

fn of(nodes: &[&str]) -> Net {
    let mut net = Net::of(nodes);
    net.run_until(secs(6), Net::is_meshed);
    net.run(secs(10));
    net
}

/// Three sites, and an LDNS that all know, with a value of par (2).
fn trio() -> Net {
    let mut net = of(&["ber/1", "fra/1", "par/1"]);
    net.sight(2, 1);
    net.run(secs(1));
    net.measure(2, 1, known(27));
    net.run(secs(6));
    net
}

fn site(net: &Net, n: usize) -> SiteName {
    net.hosts[n].id.site.clone()
}

/// Relays that came and went at a node, with the reasons.
fn relays(net: &Net, at: usize, since: Timestamp) -> Vec<String> {
    let word = |o: &Output| match o {
        Output::RelayUp { site, via } => Some(format!("{site} via {via}")),
        Output::RelayDown { site, reason, .. } => Some(format!("{site}: {reason}")),
        _ => None,
    };
    net.outputs_since(at, since).filter_map(word).collect()
}

fn is_relayed(net: &Net, at: usize, of: usize) -> bool {
    net.status(at, of).relay.is_some()
}

/// Ages of the site's last word, as the relayed outputs since then have them.
fn word_ages(net: &Net, at: usize, of: usize, since: Timestamp) -> Vec<(Timestamp, Duration)> {
    let wanted = site(net, of);
    let outputs = net.hosts[at].outputs.iter().filter(|(when, _)| *when >= since);
    let age = |o: &Output| match o {
        Output::Rtts { site, via: Some(_), word_age, .. }
        | Output::Metrics { site, via: Some(_), word_age, .. } => (*site == wanted).then_some(*word_age),
        _ => None,
    };
    outputs.filter_map(|(when, o)| Some((*when, age(o)?))).collect()
}

#[test]
fn a_site_whose_link_is_cut_is_heard_by_way_of_another() {
    let mut net = trio();
    let cut = net.now;
    net.part(0, 2);
    let took = net.run_until(secs(11), |net| is_relayed(net, 0, 2) && is_relayed(net, 2, 0));
    println!("relayed {took:?} after the cut");
    assert_eq!(relays(&net, 0, cut), ["par via fra/1"]);
    assert_eq!(relays(&net, 2, cut), ["ber via fra/1"]);
    let status = net.status(0, 2);
    assert_eq!((status.state, status.relay), (PeerState::Down, Some(node("fra/1"))));
    net.measure(2, 1, known(90));
    let told = net.run_until(secs(6), |net| net.column(0, 2, 1) == Some(known(90)));
    println!("a change was known {told:?} after it");
    assert!(told <= ms(60), "{told:?}");
    net.run(secs(60));
    assert_eq!(relays(&net, 0, cut).len(), 1, "it stands");
    let ages = word_ages(&net, 0, 2, net.now.before(secs(60)));
    assert!(ages.windows(2).all(|pair| pair[1].0.since(pair[0].0) <= ms(1_050)), "a word every interval");
    let oldest = ages.iter().map(|(_, age)| *age).max().unwrap();
    println!("the site's last word was at most {oldest:?} old at the relay");
    assert!(oldest <= ms(3_350), "{oldest:?}");
    for (a, b) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        assert_eq!((net.status(a, b).violations, net.status(a, b).downs), (0, 0));
    }
}

#[test]
fn everything_the_site_had_said_is_told_when_the_relay_begins() {
    let mut net = of(&["ber/1", "fra/1", "par/1"]);
    net.part(0, 2);
    net.run(secs(20));
    for n in 0..5_000 {
        net.sight(1, n);
    }
    net.run(secs(2));
    for n in 0..5_000 {
        net.measure(2, n, known(10 + n % 90));
    }
    net.set_metrics(2, vec![up("web"), up("mail")]);
    net.run(secs(7));
    assert!((0..5_000).all(|n| net.column(0, 2, n) == Some(known(10 + n % 90))));
    net.kill(0);
    net.cuts.clear();
    net.start(0, settings(&["ber/1", "fra/1", "par/1"]));
    net.part(0, 2);
    let start = net.now;
    net.run_until(secs(6), |net| is_relayed(net, 0, 2));
    let took = net.run_until(secs(6), |net| net.column(0, 2, 4_999) == Some(known(10 + 4_999 % 90)));
    println!("5,000 rows {took:?} after the relay began");
    net.run(secs(2));
    assert!((0..5_000).all(|n| net.column(0, 2, n) == Some(known(10 + n % 90))));
    assert_eq!(metrics(&net, 0, start).last(), Some(&(node("par/1"), vec![up("mail"), up("web")])));
    assert_eq!(net.status(0, 1).relayed_rows_in, 5_000);
    assert!(net.status(1, 0).relayed_rows_out >= 5_000);
}

fn up(name: &str) -> ServiceMetric {
    ServiceMetric::new(ServiceName::new(name).unwrap(), ServiceState::Up)
}

/// Relayed metrics, by the node that said them.
fn metrics(net: &Net, at: usize, since: Timestamp) -> Vec<(gslb_types::NodeId, Vec<ServiceMetric>)> {
    let told = |o: &Output| match o {
        Output::Metrics { peer, services, via: Some(_), .. } => Some((peer.clone(), services.clone())),
        _ => None,
    };
    net.outputs_since(at, since).filter_map(told).collect()
}

#[test]
fn a_change_of_state_passes_a_relay_at_once() {
    let mut net = trio();
    net.set_metrics(2, vec![up("web")]);
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.run(ms(1_500));
    let down = ServiceMetric { state: ServiceState::Down, ..up("web") };
    let since = net.now;
    net.set_metrics(2, vec![down.clone()]);
    let told = |net: &Net| metrics(net, 0, since).last() == Some(&(node("par/1"), vec![down.clone()]));
    let took = net.run_until(secs(1), told);
    println!("known {took:?} after it");
    assert!(took <= ms(40), "{took:?}");
}

#[test]
fn a_withdrawn_value_is_withdrawn_at_the_far_end_too() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.measure(2, 1, Reach::Pending);
    net.run(secs(6));
    assert_eq!(net.column(0, 2, 1), Some(Reach::Pending));
}

/// Its words would go on confirming what it does not know to be over.
#[test]
fn a_relay_without_an_entry_tells_a_withdrawal_on() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.run(secs(2));
    net.forget(1, 1);
    net.withdraw(2, 1);
    net.run(secs(7));
    assert_eq!(net.column(0, 2, 1), Some(Reach::Pending));
}

/// Likewise: it has pushed the entry out, and hears the site's next value all the same.
#[test]
fn a_relay_without_an_entry_tells_the_next_value_on() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.run(secs(2));
    net.forget(1, 1);
    net.measure(2, 1, known(90));
    net.run(secs(7));
    assert_eq!(net.column(0, 2, 1), Some(known(90)));
}

#[test]
fn a_site_heard_again_is_not_relayed_any_longer() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.run(ms(1));
    let healed = net.now;
    net.heal();
    net.run_until(secs(15), |net| net.is_up(0, 2));
    net.run(ms(100));
    assert_eq!(relays(&net, 0, healed), ["par: the site is heard directly"]);
    assert!(!is_relayed(&net, 0, 2));
    let rest = net.now;
    net.run(secs(30));
    let relayed = net.sent.iter().filter(|(at, _, _, frame)| {
        *at >= rest && matches!(proto::Frame::decode(frame.clone()).unwrap().body, Some(Body::Relayed(_)))
    });
    assert_eq!(relayed.count(), 0);
    assert_eq!((net.status(0, 1).violations, net.status(1, 0).violations), (0, 0));
}

#[test]
fn a_one_way_cut_is_no_different() {
    let mut net = trio();
    net.cuts.insert((2, 0));
    net.run_until(secs(12), |net| is_relayed(net, 0, 2) && is_relayed(net, 2, 0));
    net.measure(2, 1, known(90));
    net.run(secs(6));
    assert_eq!(net.column(0, 2, 1), Some(known(90)));
}

/// Only what nobody hears is silent: the relay says so at once, and does not keep a dead site alive.
#[test]
fn a_relay_that_loses_the_site_says_so() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.run(ms(1));
    let died = net.now;
    net.shutdown(2);
    let took = net.run_until(secs(1), |net| !is_relayed(net, 0, 2));
    println!("a goodbye was known {took:?} after it");
    assert!(took <= ms(150), "{took:?}");
    assert_eq!(relays(&net, 0, died), ["par: the relay does not hear the site any longer"]);
    net.run(secs(60));
    assert_eq!(relays(&net, 0, died).len(), 1);
}

#[test]
fn a_site_that_falls_silent_is_silent_everywhere_within_the_keepalive() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.run(secs(20));
    net.kill(2);
    let took = net.run_until(secs(11), |net| !is_relayed(net, 0, 2));
    println!("not relayed any longer {took:?} after it died");
    let oldest = word_ages(&net, 0, 2, net.now.before(secs(11))).into_iter().map(|(_, age)| age).max();
    println!("the oldest word told was {oldest:?} old");
    assert!(oldest > Some(secs(8)), "its age is told while it is quiet");
}

#[test]
fn when_one_relay_is_lost_another_is_asked() {
    let mut net = of(&["ber/1", "fra/1", "par/1", "sto/1"]);
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    let via = net.status(0, 2).relay.unwrap();
    let first = (0..4).find(|n| net.hosts[*n].id == via).unwrap();
    let other = 4 - first;
    net.run(ms(1));
    let lost = net.now;
    net.part(first, 2);
    net.run_until(secs(12), |net| net.status(0, 2).relay == Some(net.hosts[other].id.clone()));
    let gap = relays(&net, 0, lost);
    println!("{gap:?}");
    assert_eq!(gap.len(), 2);
    net.sight(2, 9);
    net.run(secs(1));
    net.measure(2, 9, known(33));
    net.measure(other, 9, known(44));
    net.run(secs(6));
    assert_eq!(net.column(0, 2, 9), Some(known(33)));
    // The relay itself hears the site by way of the other, too.
    assert_eq!(net.status(first, 2).relay, Some(net.hosts[other].id.clone()));
}

/// Its session stands, but nothing passes over it any longer: the site must not be taken down for that.
#[test]
fn when_a_relay_does_not_answer_another_is_asked_soon() {
    let mut net = of(&["ber/1", "fra/1", "par/1", "sto/1"]);
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    let first = (0..4).find(|n| Some(&net.hosts[*n].id) == net.status(0, 2).relay.as_ref()).unwrap();
    net.heal();
    net.run_until(secs(60), Net::is_meshed);
    net.run(secs(5));
    net.part(0, 2);
    net.run(ms(7_500));
    net.part(0, first);
    net.run_until(secs(11), |net| net.status(0, 2).state == PeerState::Down);
    assert_eq!(net.status(0, first).state, PeerState::Up, "it is asked first");
    let took = net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    println!("another one relayed {took:?} later");
    assert_eq!(net.status(0, 2).relay, Some(net.hosts[4 - first].id.clone()));
    assert!(took <= ms(2_600), "{took:?}");
}

/// Likewise if two of three have just fallen silent, whoever is asked first: the site must not be down by then.
#[test]
fn the_one_relay_that_is_left_is_found_before_a_short_delay_is_over() {
    for left in [1, 3, 4] {
        let mut net = of(&["ber/1", "fra/1", "par/1", "sto/1", "osl/1"]);
        net.part(0, 2);
        net.run(ms(9_000));
        for dead in [1, 3, 4].into_iter().filter(|n| *n != left) {
            net.part(0, dead);
        }
        net.run_until(secs(3), |net| net.status(0, 2).state == PeerState::Down);
        let took = net.run_until(secs(11), |net| is_relayed(net, 0, 2));
        println!("with {left} left: {took:?}");
        assert_eq!(net.status(0, 2).relay, Some(net.hosts[left].id.clone()));
        assert!(took <= ms(2_000), "{took:?}");
    }
}

/// One hop: what was relayed is not relayed on.
#[test]
fn nothing_is_relayed_twice() {
    let mut net = of(&["ber/1", "fra/1", "par/1", "sto/1"]);
    let cut = net.now;
    // A chain: ber - fra - par - sto.
    for (a, b) in [(0, 2), (0, 3), (1, 3)] {
        net.part(a, b);
    }
    net.run(secs(40));
    assert_eq!(net.status(0, 2).relay, Some(node("fra/1")));
    assert_eq!(net.status(1, 3).relay, Some(node("par/1")));
    assert_eq!(net.status(0, 3).relay, None);
    assert!(relays(&net, 0, cut).iter().all(|word| !word.starts_with("sto")), "{:?}", relays(&net, 0, cut));
}

#[test]
fn of_a_site_of_two_nodes_one_that_is_heard_is_enough() {
    let mut net = of(&["ber/1", "fra/1", "par/1", "par/2"]);
    let cut = net.now;
    net.part(0, 2);
    net.run(secs(30));
    assert_eq!(relays(&net, 0, cut), Vec::<String>::new());
    net.part(0, 3);
    net.run_until(secs(11), |net| is_relayed(net, 0, 3));
    assert_eq!(net.status(0, 2).relay, Some(node("fra/1")));
    net.set_metrics(2, vec![up("web")]);
    net.set_metrics(3, vec![up("mail")]);
    net.run(secs(3));
    let told = metrics(&net, 0, cut);
    assert!(told.contains(&(node("par/1"), vec![up("web")])), "{told:?}");
    assert!(told.contains(&(node("par/2"), vec![up("mail")])), "{told:?}");
    // The relay hears one of the two: that is enough, too.
    net.shutdown(2);
    net.run(secs(30));
    assert_eq!(net.status(0, 3).relay, Some(node("fra/1")));
}

#[test]
fn the_nodes_of_ones_own_site_are_not_relayed() {
    let mut net = of(&["ber/1", "ber/2", "fra/1"]);
    let cut = net.now;
    net.part(0, 1);
    net.run(secs(60));
    assert_eq!((relays(&net, 0, cut), relays(&net, 1, cut)), (vec![], vec![]));
}

/// The table of an entry made late is completed by the relay as well.
#[test]
fn values_of_a_relayed_site_are_told_again_to_who_asks() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.run(secs(10));
    net.forget(0, 1);
    net.sight(0, 1);
    let took = net.run_until(secs(1), |net| net.column(0, 2, 1) == Some(known(27)));
    println!("there {took:?} after the entry");
    assert!(took <= ms(60), "{took:?}");
}

#[test]
fn a_slow_asker_costs_no_more_memory_than_the_cap() {
    let mut net = Net::new();
    let nodes = ["ber/1", "fra/1", "par/1"];
    for (n, id) in nodes.iter().enumerate() {
        net.add(id);
        let mut small = settings(&nodes);
        if n == 1 {
            small.outbox_cap = 4_000;
        }
        net.start(n, small);
    }
    net.run_until(secs(6), Net::is_meshed);
    for n in 0..20_000 {
        net.sight(2, n);
    }
    net.run(secs(30));
    net.part(0, 2);
    net.run_until(secs(12), |net| is_relayed(net, 0, 2));
    net.slow.insert((1, 0), 20_000);
    for round in 0..5 {
        for n in 0..20_000 {
            net.measure(2, n, known(10 + (round + n) % 100));
        }
        for _ in 0..60 {
            net.run(ms(100));
            let waiting = net.status(1, 0).outbox;
            assert!(waiting <= 4_000, "{waiting}");
        }
    }
    println!("{} resyncs", net.status(1, 0).resyncs);
    assert!(net.status(1, 0).resyncs > 0);
    net.slow.clear();
    net.run(secs(90));
    for n in 0..20_000 {
        assert_eq!(net.column(0, 2, n), Some(known(10 + (4 + n) % 100)));
    }
    assert!(net.hosts[0].table.entries.contains_key(&ldns(19_999)));
}

/// The relay falls silent itself, for a while too short to end its session: it may be asked again as soon as it speaks.
#[test]
fn a_relay_that_was_not_heard_for_a_while_is_asked_again() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    // The site's last word is some seconds old at the relay, so it is too old before the relay is silent for long enough.
    net.part(1, 2);
    net.run(secs(4));
    net.part(0, 1);
    net.run(secs(1));
    net.mend(1, 2);
    net.run_until(secs(12), |net| !is_relayed(net, 0, 2));
    assert_eq!(net.status(0, 1).downs, 0, "the relay is suspect, not down");
    net.mend(0, 1);
    let took = net.run_until(secs(20), |net| is_relayed(net, 0, 2));
    println!("relayed again after {took:?}");
}

#[test]
fn a_node_that_starts_makes_its_sessions_before_it_asks_for_relays() {
    let mut net = trio();
    net.kill(0);
    let start = net.now;
    net.start(0, settings(&["ber/1", "fra/1", "par/1"]));
    net.run(secs(20));
    assert!(net.is_meshed());
    assert_eq!(relays(&net, 0, start), Vec::<String>::new());
}

/// What the relay lacks, for whatever reason, is not what the site has withdrawn.
#[test]
fn a_value_the_relay_does_not_have_is_not_withdrawn() {
    let mut net = trio();
    net.part(0, 2);
    net.run_until(secs(11), |net| is_relayed(net, 0, 2));
    net.run(secs(2));
    net.hosts[1].takes_no_rows = true;
    net.hosts[1].table.columns.clear();
    net.run(secs(7));
    assert_eq!(net.column(0, 2, 1), Some(known(27)), "that is no withdrawal");
    net.measure(2, 1, known(90));
    net.run(secs(7));
    assert_eq!(net.column(0, 2, 1), Some(known(90)), "it hears what it does not keep");
    net.measure(2, 1, Reach::Pending);
    net.run(secs(7));
    assert_eq!(net.column(0, 2, 1), Some(Reach::Pending), "that is one");
}
