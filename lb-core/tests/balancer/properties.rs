//! What holds whatever happens.

use crate::fixture::{LRT, LRTM, Played, at_ms, from, seconds, service, settings, us};
use gslb_types::{LbMethod, ServiceState, Weight};
use lb_core::{BalancerSettings, LocalPersistence, NoService, Out, Pick};
use proptest::prelude::*;
use std::net::Ipv4Addr;

const MEMBERS: usize = 5;

#[derive(Clone, Debug)]
enum Event {
    Pick { client: u8 },
    End { which: usize },
    Unsent { which: usize },
    Health { member: usize, up: bool },
    Drain { member: usize, seconds: Option<u64> },
    Enabled { member: usize, enabled: bool },
    Traffic { which: usize, bytes: u64 },
    FirstByte { which: usize, micros: u32 },
    Wait { millis: u64 },
    Reconfigure { members: Vec<usize>, weight: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    let m = 0..MEMBERS;
    prop_oneof![
        12 => any::<u8>().prop_map(|client| Event::Pick { client }),
        6 => any::<usize>().prop_map(|which| Event::End { which }),
        1 => any::<usize>().prop_map(|which| Event::Unsent { which }),
        3 => (m.clone(), any::<bool>()).prop_map(|(member, up)| Event::Health { member, up }),
        1 => (m.clone(), prop::option::of(0u64..40)).prop_map(|(member, seconds)| Event::Drain { member, seconds }),
        1 => (m.clone(), any::<bool>()).prop_map(|(member, enabled)| Event::Enabled { member, enabled }),
        2 => (any::<usize>(), 0u64..5_000).prop_map(|(which, bytes)| Event::Traffic { which, bytes }),
        2 => (any::<usize>(), 0u32..90_000).prop_map(|(which, micros)| Event::FirstByte { which, micros }),
        3 => (0u64..8_000).prop_map(|millis| Event::Wait { millis }),
        1 => (prop::sample::subsequence((0..MEMBERS).collect::<Vec<_>>(), 0..=MEMBERS).prop_shuffle(), 1u64..=100)
            .prop_map(|(members, weight)| Event::Reconfigure { members, weight }),
    ]
}

fn method() -> impl Strategy<Value = LbMethod> {
    prop::sample::select(vec![
        LRTM,
        LRT,
        LbMethod::LeastBandwidth,
        LbMethod::LeastPackets,
        LbMethod::LeastConnections,
        LbMethod::RoundRobin,
        LbMethod::SourceIpHash,
    ])
}

fn configured(method: LbMethod, persistent: bool, members: &[usize], weight: u64) -> BalancerSettings {
    let source_ip = LocalPersistence::SourceIp { mask_v4: 30, mask_v6: 64, timeout: seconds(10), cap: 20 };
    let mut settings = settings(method, MEMBERS);
    settings.members = members.iter().filter_map(|n| settings.members.get(*n).cloned()).collect();
    for (n, member) in settings.members.iter_mut().enumerate() {
        member.weight = Weight::new(1 + (weight + n as u64) % 100).unwrap();
        member.max_clients = (n == 0).then_some(3);
        member.max_bandwidth = (n == 1).then_some(2_000);
    }
    settings.persistence = if persistent { source_ip } else { LocalPersistence::None };
    BalancerSettings { startup_rr_factor: 3, slow_start: seconds(20), ..settings }
}

/// Plays the events; what was picked, and whether everything was as it must be meanwhile.
fn play(method: LbMethod, persistent: bool, events: &[Event]) -> Vec<Result<Pick, NoService>> {
    let everyone: Vec<usize> = (0..MEMBERS).collect();
    let mut lb = Played::unchecked(configured(method, persistent, &everyone, 0));
    let (mut open, mut history, mut millis) = (Vec::<Pick>::new(), Vec::new(), 0);
    for event in events {
        match event {
            Event::Pick { client } => {
                let before = lb.lb.view(lb.now);
                let picked = lb.lb.pick(lb.now, &from(Ipv4Addr::new(10, 0, 0, *client)), &[]);
                check_pick(&before, &picked);
                open.extend(picked.clone());
                history.push(picked);
            }
            Event::End { which } if !open.is_empty() => {
                let pick = open.swap_remove(which % open.len());
                lb.lb.reached(lb.now, pick.member);
                lb.lb.ended(lb.now, pick.member);
            }
            Event::Unsent { which } if !open.is_empty() => {
                let pick = open.swap_remove(which % open.len());
                lb.lb.unsent(lb.now, pick.member);
            }
            Event::Traffic { which, bytes } if !open.is_empty() => {
                lb.lb.traffic(lb.now, open[which % open.len()].member, *bytes, 1);
            }
            Event::FirstByte { which, micros } if !open.is_empty() => {
                lb.lb.first_byte(lb.now, open[which % open.len()].member, us(*micros));
            }
            Event::End { .. } | Event::Unsent { .. } | Event::Traffic { .. } | Event::FirstByte { .. } => (),
            Event::Health { member, up } => {
                lb.health(*member, if *up { ServiceState::Up } else { ServiceState::Down });
            }
            Event::Drain { member, seconds: s } => {
                lb.lb.handle_drain(lb.now, &service(*member), s.map(seconds));
            }
            Event::Enabled { member, enabled } => lb.lb.handle_enabled(lb.now, &service(*member), *enabled),
            Event::Wait { millis: more } => {
                millis += more;
                lb.go_to(at_ms(millis));
                assert!(lb.lb.poll_timeout().is_none_or(|next| next > lb.now));
                while lb.lb.poll_output().is_some() {}
            }
            Event::Reconfigure { members, weight } => {
                lb.lb.reconfigure(lb.now, configured(method, persistent, members, *weight));
            }
        }
        assert_eq!(lb.lb.view(lb.now).active(), open.len() as u64);
        assert!(lb.lb.view(lb.now).sessions <= 20);
    }
    history
}

/// Nobody is picked that takes no part, and nobody refused while somebody does.
fn check_pick(before: &lb_core::BalancerView, picked: &Result<Pick, NoService>) {
    match picked {
        Ok(pick) => {
            let member = &before.members[pick.position];
            assert_eq!(member.name, pick.name);
            let learning = before.state == ServiceState::Learning && member.state == ServiceState::Learning;
            let kept = pick.why == lb_core::PickedBy::SourceIp
                && matches!(member.out, Some(Out::Draining | Out::Learning));
            assert!(member.out.is_none() || learning || kept, "{member:?} was picked");
        }
        Err(none) => assert_eq!((before.state, before.reason), (ServiceState::Down, Some(*none))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn only_those_who_take_part_are_picked_and_every_open_transaction_is_counted_once(
        method in method(), persistent in any::<bool>(), events in prop::collection::vec(event(), 0..150),
    ) {
        play(method, persistent, &events);
    }

    #[test]
    fn equal_histories_make_equal_picks(
        method in method(), persistent in any::<bool>(), events in prop::collection::vec(event(), 0..100),
    ) {
        prop_assert_eq!(play(method, persistent, &events), play(method, persistent, &events));
    }

    /// Faults I-58: equals differ by one at most, after any number of requests.
    #[test]
    fn ties_are_fair_within_one(members in 1usize..9, requests in 0usize..100, keep_open in any::<bool>()) {
        let mut lb = Played::up(settings(LRTM, members));
        let mut shares = vec![0usize; members];
        for _ in 0..requests {
            let pick = lb.pick();
            shares[pick.position] += 1;
            if !keep_open {
                lb.lb.ended(lb.now, pick.member);
            }
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{shares:?}");
        }
    }
}
