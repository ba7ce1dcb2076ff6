//! Two nodes of one group, each with a view of its own.

use super::Standing;
use crate::decide::Place;
use crate::published::{Published, Shared};
use crate::traffic::Traffic;
use config::Config;
use gslb_types::ServiceState::{self, Down, Learning, Up};
use gslb_types::Timestamp;
use mep_core::SessionKey;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// a1 with b1 behind it, as another order or as a backup.
const SERVICES: &str = r#"
version = 1
node = "a/1"
[[sites]]
name = "a"
[[nodes]]
name = "a/1"
mep = "198.18.0.1:4353"
[[sources]]
name = "h"
kind = "haproxy"
url = "http://127.0.0.1:8404/;csv"
[[services]]
name = "a1"
site = "a"
address = "192.0.2.1"
port = 80
source = "h"
source_name = "web/a1"
[[services]]
name = "b1"
site = "a"
address = "192.0.2.2"
port = 80
source = "h"
source_name = "web/b1"
[[vservers]]
name = "www"
"#;

fn ordered(keys: &str) -> Arc<Config> {
    load(&format!("{SERVICES}services = [\"a1\", {{ service = \"b1\", order = 2 }}]\n{keys}"))
}

fn spilling(keys: &str) -> Arc<Config> {
    let backup = "[[vservers]]\nname = \"other\"\nservices = [\"b1\"]\n";
    load(&format!("{SERVICES}services = [\"a1\"]\nbackup_vserver = \"other\"\n{keys}\n{backup}"))
}

fn load(text: &str) -> Arc<Config> {
    let mut read = |_: &Path| Ok(text.as_bytes().to_vec());
    Arc::new(config::load(Path::new("/etc/gslb.toml"), &mut read, None).unwrap_or_else(|e| panic!("{e}")))
}

fn at(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

struct Node {
    standing: Standing,
    published: Published,
}

impl Node {
    fn new(config: &Arc<Config>) -> Self {
        let published = Shared::new(config, 1, at(0)).published.into_inner();
        let published = Arc::into_inner(published).unwrap();
        Node { standing: Standing::new(config.clone()), published }
    }

    /// The services turn so, and it decides. Returns what is to be told.
    fn sees(&mut self, now: u64, states: [ServiceState; 2]) -> Vec<SessionKey> {
        self.published.services.iter_mut().zip(states).for_each(|(view, state)| view.state = state);
        self.standing.settle(at(now), &mut self.published)
    }

    fn is_busy(&mut self, now: u64, active: u64) -> (bool, usize) {
        self.published.services.iter_mut().for_each(|view| view.state = Up);
        self.published.services[0].traffic = Some(Traffic { active: Some(active), ..Traffic::default() });
        let told = self.standing.settle(at(now), &mut self.published).len();
        (self.published.spilled[0], told)
    }

    /// The order that stands although a better one is up.
    fn stands(&self) -> Option<u16> {
        self.published.standing(0, false).map(|place: Place| place.order)
    }

    /// All it knows, heard by another whose clock began so much later.
    fn tells_all(&self, now: u64, other: &mut Node, theirs: u64) {
        for session in self.standing.known_after(at(now), None, 99) {
            other.standing.hear(at(theirs), &session);
        }
    }
}

const MANUAL: &str = "failback = \"manual\"";

#[test]
fn clients_come_back_at_once_unless_configured() {
    let mut n = Node::new(&ordered(""));
    for (now, states) in [(1, [Up, Up]), (2, [Down, Up]), (3, [Up, Up])] {
        assert_eq!((n.sees(now, states), n.stands()), (vec![], None));
    }
}

#[test]
fn with_manual_failback_clients_come_back_when_an_operator_says_so() {
    let mut n = Node::new(&ordered(MANUAL));
    n.sees(1, [Up, Up]);
    assert_eq!(n.sees(2, [Down, Up]).len(), 1, "the failure is told");
    for now in [3, 1000, 100_000] {
        assert_eq!((n.sees(now, [Up, Up]).len(), n.stands()), (0, Some(2)));
    }
    n.standing.release(0);
    assert_eq!((n.sees(100_001, [Up, Up]).len(), n.stands()), (1, None), "the return is told, too");
    assert_eq!((n.sees(100_002, [Up, Up]).len(), n.stands()), (0, None));
}

#[test]
fn what_clients_were_sent_to_is_left_when_it_fails_itself() {
    let mut n = Node::new(&ordered(MANUAL));
    n.sees(1, [Up, Up]);
    n.sees(2, [Down, Up]);
    n.sees(3, [Up, Down]);
    assert_eq!(n.stands(), None);
    n.sees(4, [Up, Up]);
    assert_eq!(n.stands(), None, "they were brought back by the failure");
}

#[test]
fn a_delay_counts_from_when_the_better_one_is_up_without_a_break() {
    let mut n = Node::new(&ordered("failback_delay = \"30s\""));
    n.sees(1, [Up, Up]);
    n.sees(2, [Down, Up]);
    n.sees(10, [Up, Up]);
    n.sees(20, [Down, Up]);
    n.sees(25, [Up, Up]);
    n.sees(54, [Up, Up]);
    assert_eq!(n.stands(), Some(2));
    assert_eq!((n.sees(55, [Up, Up]).len(), n.stands()), (1, None));
}

/// Faults I-54: what is not checked yet at the start has not failed.
#[test]
fn a_start_sends_nobody_away_for_good() {
    let mut n = Node::new(&ordered(MANUAL));
    n.sees(0, [Learning, Learning]);
    n.sees(1, [Learning, Up]);
    n.sees(2, [Up, Up]);
    assert_eq!(n.stands(), None);
    let mut m = Node::new(&ordered(MANUAL));
    m.sees(1, [Down, Up]);
    m.sees(2, [Up, Up]);
    assert_eq!(m.stands(), Some(2), "here it has");
}

#[test]
fn a_restarted_node_learns_from_the_others_what_stands() {
    let config = ordered(MANUAL);
    let (mut old, mut new) = (Node::new(&config), Node::new(&config));
    old.sees(1, [Up, Up]);
    old.sees(2, [Down, Up]);
    old.sees(900, [Up, Up]);
    new.sees(0, [Up, Up]);
    assert_eq!(new.stands(), None);
    old.tells_all(1000, &mut new, 1);
    new.sees(1, [Up, Up]);
    assert_eq!((old.stands(), new.stands()), (Some(2), Some(2)));
}

#[test]
fn the_later_of_two_decisions_counts_at_both_nodes() {
    let config = ordered(MANUAL);
    let (mut one, mut two) = (Node::new(&config), Node::new(&config));
    for node in [&mut one, &mut two] {
        node.sees(1, [Up, Up]);
        node.sees(2, [Down, Up]);
        node.sees(3, [Up, Up]);
    }
    one.standing.release(0);
    one.sees(50, [Up, Up]);
    two.tells_all(52, &mut one, 52);
    one.tells_all(52, &mut two, 52);
    one.sees(52, [Up, Up]);
    two.sees(52, [Up, Up]);
    assert_eq!((one.stands(), two.stands()), (None, None));
}

#[test]
fn spilling_over_ends_only_when_there_is_room_again() {
    let mut n = Node::new(&spilling("spillover_connections = 100"));
    let run = [99, 100, 95, 90, 89, 95].map(|active| n.is_busy(1, active));
    assert_eq!(run, [(false, 0), (true, 1), (true, 0), (true, 0), (false, 1), (false, 0)]);
}

#[test]
fn nodes_that_saw_different_moments_come_to_the_same() {
    let config = spilling("spillover_connections = 100");
    let (mut one, mut two) = (Node::new(&config), Node::new(&config));
    assert!(one.is_busy(10, 101).0);
    one.is_busy(11, 95);
    assert!(!two.is_busy(11, 95).0);
    one.tells_all(12, &mut two, 12);
    assert_eq!((one.is_busy(13, 95), two.is_busy(13, 95)), ((true, 0), (true, 0)));
}

#[test]
fn what_a_node_sees_to_be_otherwise_it_takes_from_nobody() {
    let config = spilling("spillover_connections = 100");
    let (mut one, mut two) = (Node::new(&config), Node::new(&config));
    one.is_busy(10, 101);
    two.is_busy(10, 5);
    one.tells_all(11, &mut two, 11);
    assert_eq!(two.is_busy(12, 5), (false, 0), "and it tells nothing against it");
}

#[test]
fn too_little_health_spills_over_and_more_must_be_up_to_come_back() {
    let text = format!(
        "{SERVICES}services = [\"a1\", {{ service = \"b1\", weight = 2 }}]\nbackup_vserver = \"other\"\nspillover_health = 62\n[[vservers]]\nname = \"other\"\nservices = [\"b1\"]\n"
    );
    let mut n = Node::new(&load(&text));
    let mut spilled = |states| {
        n.sees(1, states);
        n.published.spilled[0]
    };
    assert_eq!(
        [[Up, Up], [Down, Up], [Up, Down], [Down, Up], [Up, Up]].map(&mut spilled),
        [false, false, true, true, false]
    );
}

#[test]
fn a_start_whose_checks_are_not_done_yet_spills_nothing_over() {
    let config = spilling("spillover_health = 50");
    let mut n = Node::new(&config);
    for states in [[Learning, Learning], [Learning, Up]] {
        n.sees(1, states);
        assert!(!n.published.spilled[0], "{states:?}");
    }
    n.sees(2, [Down, Up]);
    assert!(n.published.spilled[0], "checked, and down");
}

#[test]
fn a_decision_is_told_as_old_as_it_is() {
    let mut n = Node::new(&ordered(MANUAL));
    n.sees(1, [Up, Up]);
    let keys = n.sees(2, [Down, Up]);
    let known = n.standing.known(at(500), &keys[0]).unwrap();
    assert_eq!((known.idle, known.service.as_str()), (Duration::from_secs(498), "a1"));
    assert!(Standing::is_decision(&known.key));
    let other = SessionKey { prefix: 128, client: "2001:db8::1".parse().unwrap(), ..known.key };
    assert_eq!(n.standing.known(at(500), &other), None);
}

/// What a restarted node is told stands, although it has not heard yet whether that is up.
#[test]
fn what_is_not_checked_yet_is_not_left() {
    let config = ordered(MANUAL);
    let (mut old, mut new) = (Node::new(&config), Node::new(&config));
    old.sees(1, [Up, Up]);
    old.sees(2, [Down, Up]);
    old.sees(900, [Up, Up]);
    old.tells_all(1000, &mut new, 0);
    assert_eq!(new.sees(0, [Learning, Learning]).len(), 0);
    assert_eq!(new.sees(1, [Up, Learning]).len(), 0, "nothing is told against the others");
    new.sees(2, [Up, Up]);
    assert_eq!(new.stands(), Some(2));
}
