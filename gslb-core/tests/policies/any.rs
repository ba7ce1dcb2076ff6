//! Any policy in any state: what must hold of every decision (behaviour 6).

use crate::fixture::{LDNS, at, group, load, site};
use gslb_core::decide::{Place, Verdict};
use gslb_core::dns::{Transport, answer};
use gslb_core::{
    Cell, Client, Decision, Family, Published, Row, Session, SessionKey, Shared, Traffic, Turn, decide,
};
use gslb_types::{Ldns, Reach, Rtt, ServiceState, Timestamp};
use std::net::Ipv4Addr;
use std::sync::Arc;

const GROUPS: u64 = 200;
const STATES: u64 = 500;

/// Numbers that look random and are the same each time (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize]
    }

    fn is_so(&mut self, in_a_hundred: u64) -> bool {
        self.roll(100) < in_a_hundred
    }
}

const SERVICES: [&str; 5] = ["a1", "a2", "b1", "c1", "c2"];

fn vserver(dice: &mut Dice, backup: Option<&str>) -> String {
    let method = dice.one(&[
        "rtt",
        "round_robin",
        "source_ip_hash",
        "least_connections",
        "least_bandwidth",
        "least_response_time",
    ]);
    let local = dice.one(&["lrtm", "round_robin", "source_ip_hash", "least_connections"]);
    let mut text = format!("method = \"{method}\"\nlocal_method = \"{local}\"\n");
    text += &format!("backup_method = \"{}\"\n", dice.one(&["round_robin", "source_ip_hash"]));
    text +=
        &format!("selection_tolerance = \"{}ms\"\norder_threshold = {}\n", dice.roll(30), 1 + dice.roll(3));
    text += &match dice.one(&["all", "empty", "backup_ip", "last_good"]) {
        "backup_ip" => "all_down = \"backup_ip\"\nbackup_ip = [\"192.0.2.99\"]\n".to_owned(),
        word => format!("all_down = \"{word}\"\n"),
    };
    if dice.is_so(10) {
        text += "drop_ldns_requests = true\n";
    }
    if dice.is_so(40) {
        text += "persistence = \"source_ip\"\npersistence_id = 7\n";
    }
    if let Some(backup) = backup {
        text +=
            &format!("backup_vserver = \"{backup}\"\nspillover_connections = 50\nfailback = \"manual\"\n");
    }
    let mut bound: Vec<String> = Vec::new();
    for service in SERVICES {
        if dice.is_so(60) {
            let (weight, order) = (1 + dice.roll(5), 1 + dice.roll(2));
            bound.push(format!("{{ service = \"{service}\", weight = {weight}, order = {order} }}"));
        }
    }
    if bound.is_empty() {
        bound.push("\"b1\"".to_owned());
    }
    text + &format!("services = [{}]\n", bound.join(", "))
}

/// The same group as each of two nodes has it.
fn groups(dice: &mut Dice) -> [Shared; 2] {
    let length = dice.roll(3);
    let names = ["www", "second", "third"];
    let mut text = String::new();
    for (n, name) in names.iter().enumerate().take(length as usize + 1) {
        let backup = (n < length as usize).then(|| names[n + 1]);
        let header = if n == 0 { String::new() } else { format!("[[vservers]]\nname = \"{name}\"\n") };
        text += &(header + &vserver(dice, backup));
    }
    let limits = [("a1", "max_clients = 60"), ("c2", "max_bandwidth = \"1kbps\"")];
    let text = group(&text, &limits[..dice.roll(3) as usize]);
    let text = text.replacen(
        "name = \"a/1\"",
        "name = \"b/1\"\nmep = \"198.18.0.9:4353\"\n[[nodes]]\nname = \"a/1\"",
        1,
    );
    ["a/1", "b/1"].map(|node| Shared::new(&load(&text, Some(node)), 1, at(0)))
}

/// One state, put into both nodes alike.
fn stir(dice: &mut Dice, nodes: &[Shared; 2]) -> Timestamp {
    let now = at(1000);
    let like = nodes[0].published.load_full();
    let ldns = Ldns::exact(LDNS);
    let states = [
        ServiceState::Up,
        ServiceState::Up,
        ServiceState::Down,
        ServiceState::Learning,
        ServiceState::Disabled,
    ];
    let services: Vec<_> = SERVICES
        .map(|_| {
            let traffic = Traffic {
                active: dice.is_so(80).then(|| dice.roll(100)),
                bytes: dice.is_so(80).then(|| dice.roll(5000)),
                ttfb: dice.is_so(80).then(|| Rtt::from_micros(1 + dice.roll(9) as u32)),
                ..Traffic::default()
            };
            let response_time = dice.is_so(80).then(|| Rtt::from_micros(1 + dice.roll(9) as u32));
            (dice.one(&states), Some(traffic).filter(Traffic::is_seen), response_time)
        })
        .to_vec();
    let vservers = like.config.vservers.len();
    let flags = |dice: &mut Dice, n: usize, percent| (0..n).map(|_| dice.is_so(percent)).collect::<Vec<_>>();
    let last_good: Vec<Vec<bool>> =
        like.config.vservers.iter().map(|v| flags(dice, v.bindings.len(), 40)).collect();
    let spilled = flags(dice, vservers, 30);
    let standing: Vec<_> = (0..vservers)
        .map(|_| {
            let place = Place { link: dice.roll(3) as u16, order: 1 + dice.roll(2) as u16 };
            [Some(place).filter(|_| dice.is_so(20)), None]
        })
        .collect();
    let first_seen = dice.one(&[0, 995]);
    let reaches = [0, 1, 2].map(|_| match dice.roll(4) {
        0 => Reach::Pending,
        1 => Reach::Unreachable,
        _ => Reach::Known(Rtt::from_micros(1000 * (1 + dice.roll(40) as u32))),
    });
    let (is_known, has_session, session) = (dice.is_so(80), dice.is_so(50), dice.roll(5) as usize);
    let key = SessionKey::new(7, LDNS, 32);
    for node in nodes {
        let mut published = copy(&node.published.load());
        for (view, (state, traffic, response_time)) in published.services.iter_mut().zip(&services) {
            (view.state, view.traffic, view.response_time) = (*state, *traffic, *response_time);
        }
        published.last_good.clone_from(&last_good);
        published.spilled.clone_from(&spilled);
        published.standing.clone_from(&standing);
        node.published.store(Arc::new(published));
        node.rtts.remove(ldns);
        if is_known {
            node.rtts.sighted(ldns, at(first_seen));
            for (n, reach) in reaches.into_iter().enumerate() {
                node.rtts.write(ldns, site(n), Cell::new(reach, None, now));
            }
        }
        node.sessions.remove(&key);
        if has_session {
            node.sessions.write(key, Session { service: session, used: at(900) });
        }
    }
    now
}

/// What is published, to be changed.
fn copy(published: &Published) -> Published {
    let fresh = Shared::new(&published.config, 1, at(0));
    Arc::into_inner(fresh.published.into_inner()).unwrap()
}

fn decided(node: &Shared, now: Timestamp, turn: Turn) -> Decision {
    let published = node.published.load();
    let vserver = &published.config.vservers[0];
    let row: Option<Row> = node.rtts.row(Ldns::exact(LDNS));
    let client = Client { session: node.session(vserver, LDNS.into()), ..Client::new(LDNS) };
    decide(0, Family::V4, &published, row.as_ref(), &client, turn, now)
}

/// What a query is answered: addresses, or none, or nothing at all.
fn answered(node: &Shared, now: Timestamp) -> Option<Vec<Ipv4Addr>> {
    let mut query = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["www", "gslb", "test"] {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    let mut reply = [0; 512];
    let published = node.published.load();
    let done = answer(node, &published, &query, LDNS, Transport::Udp, now, &mut reply);
    let records = usize::from(reply[7]);
    let record = |n: usize| {
        let end = query.len() + 16 * (n + 1);
        Ipv4Addr::from(<[u8; 4]>::try_from(&reply[end - 4..end]).unwrap())
    };
    (done.len > 0).then(|| (0..records).map(record).collect())
}

/// The services of the whole chain in this state.
fn has(node: &Shared, state: ServiceState) -> bool {
    let published = node.published.load();
    let config = &published.config;
    let chain = std::iter::successors(config.vservers.first(), |v| config.vservers.get(v.backup?));
    chain.flat_map(|v| &v.bindings).any(|b| published.services[b.service].state == state)
}

/// 100,000 states of 200 groups.
#[test]
fn any_decision_is_the_answer_and_the_same_at_every_node_and_never_a_service_that_is_down_while_one_is_up() {
    let mut seen = [0_u32; 4];
    let mut persistent = 0;
    for group in 0..GROUPS {
        let mut dice = Dice(group);
        let nodes = groups(&mut dice);
        for state in 0..STATES {
            let now = stir(&mut dice, &nodes);
            let turn = nodes[0].turns.of(0, false).unwrap().look();
            let explained = decided(&nodes[0], now, turn);
            let context = || format!("group {group}, state {state}: {explained:?}");
            assert_eq!(
                decided(&nodes[1], now, turn),
                explained,
                "another node decides otherwise; {}",
                context()
            );
            let config = nodes[0].published.load().config.clone();
            let service = |s: usize| &config.services[s];
            let expected = match explained.verdict {
                Verdict::Service(s) => Some(vec![service(s).address]),
                Verdict::BackupIp => Some(config.vservers[explained.vserver].backup_ip.clone()),
                Verdict::Empty => Some(Vec::new()),
                Verdict::Drop => None,
            };
            let given = answered(&nodes[0], now).map(|all| all.into_iter().map(Into::into).collect());
            assert_eq!(given, expected, "{}", context());
            if let Verdict::Service(s) = explained.verdict {
                let is = nodes[0].published.load().services[s].state;
                assert!(
                    is == ServiceState::Up
                        || is == ServiceState::Learning
                        || !has(&nodes[0], ServiceState::Up),
                    "{}",
                    context()
                );
                assert!(is != ServiceState::Disabled, "{}", context());
            }
            let other = Turn { round: turn.round + 1, last: Some(dice.roll(5) as usize) };
            let is_bound_to_pointer =
                explained.reasons.iter().any(|r| matches!(r, gslb_core::Reason::Service(..)));
            if !explained.took_turn && !is_bound_to_pointer {
                assert_eq!(decided(&nodes[0], now, other).verdict, explained.verdict, "{}", context());
            }
            seen[match explained.verdict {
                Verdict::Service(_) => 0,
                Verdict::BackupIp => 1,
                Verdict::Empty => 2,
                Verdict::Drop => 3,
            }] += 1;
            persistent +=
                u32::from(matches!(explained.reasons.first(), Some(gslb_core::Reason::Persistent(_))));
        }
    }
    println!(
        "{} states: services, backup addresses, nothing, dropped: {seen:?}; kept by a session: {persistent}",
        GROUPS * STATES
    );
    assert!(seen.iter().all(|n| *n > 100) && persistent > 5000, "{seen:?} {persistent}");
}
