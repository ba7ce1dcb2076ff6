//! Claims about the judgement of services.

use super::*;
use std::path::Path;

const GROUP: &str = r#"
version = 1
node = "a/1"
[mep]
down_delay = "15s"
[[sites]]
name = "a"
[[sites]]
name = "b"
[[nodes]]
name = "a/1"
mep = "198.18.1.1:4353"
[[nodes]]
name = "b/1"
mep = "198.18.2.1:4353"
[[nodes]]
name = "b/2"
mep = "198.18.2.2:4353"
[[monitors]]
name = "web"
kind = "tcp"
[[services]]
name = "a1"
site = "a"
address = "192.0.2.10"
port = 80
monitors = ["web"]
[[services]]
name = "a2"
site = "a"
address = "192.0.2.11"
port = 80
[[services]]
name = "b1"
site = "b"
address = "192.0.2.20"
port = 80
monitors = ["web"]
[[services]]
name = "off"
site = "b"
address = "192.0.2.21"
port = 80
enabled = false
[[services]]
name = "a6"
site = "a"
address = "2001:db8::10"
port = 80
monitors = ["web"]
[[zones]]
name = "gslb.test"
records = '''
@ SOA ns1 hostmaster 1 1h 15m 1w 5s
@ NS ns1
ns1 A 198.18.1.1
'''
[[vservers]]
name = "www"
services = ["a1", "b1", "a6"]
[[domains]]
name = "www.gslb.test"
vserver = "www"
"#;
const A1: usize = 0;
const B1: usize = 2;
const OFF: usize = 3;
const A6: usize = 4;

fn health() -> Health {
    with("", "")
}

/// With more of site b, and of its service b1.
fn with(site: &str, service: &str) -> Health {
    let text = GROUP.replace("name = \"b\"\n", &format!("name = \"b\"\n{site}\n"));
    let text = text.replace("name = \"b1\"\n", &format!("name = \"b1\"\n{service}\n"));
    let mut read = |_: &Path| Ok(text.clone().into_bytes());
    let config = config::load(Path::new("/etc/gslb.toml"), &mut read, None);
    Health::new(Arc::new(config.unwrap_or_else(|errors| panic!("{errors}"))), at(0))
}

fn at(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

fn site_b() -> SiteIndex {
    SiteIndex::new(1).unwrap()
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

use ServiceState::{Disabled, Down, Learning, Up};

impl Health {
    fn silent_since(&self) -> Option<Timestamp> {
        self.contact(site_b()).unwrap().silent_since()
    }

    /// Does all that falls due until then.
    fn runs_until(&mut self, end: u64) -> ServiceState {
        while let Some(due) = self.poll_timeout().filter(|due| *due <= at(end)) {
            self.handle_timeout(due);
            assert!(self.poll_timeout().is_none_or(|next| next > due));
        }
        self.services[B1].state
    }

    fn says(&mut self, now: u64, peer: &str, state: ServiceState) -> ServiceState {
        self.peer_said(at(now), &node(peer), B1, state, None, false);
        self.services[B1].state
    }

    fn states(&self) -> Vec<ServiceState> {
        self.services.iter().map(|s| s.state).collect()
    }
}

#[test]
fn at_the_start_nothing_is_taken_for_up_but_what_nobody_checks() {
    assert_eq!(health().states(), [Learning, Up, Learning, Disabled, Learning]);
}

#[test]
fn the_word_of_its_site_decides() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    assert_eq!(h.says(1, "b/1", Up), Up);
    assert_eq!(h.says(2, "b/1", Down), Down);
    assert_eq!(h.take_changes().len(), 2);
    assert_eq!(h.says(3, "b/1", Down), Down);
    assert_eq!(h.take_changes(), []);
}

/// Threat T8: a peer speaks for its own site only.
#[test]
fn the_word_of_another_site_does_not() {
    let mut h = health();
    h.peer_said(at(1), &node("b/1"), A1, Down, None, false);
    h.own_verdict(at(1), A1, Up, "all monitors pass");
    h.peer_said(at(2), &node("b/1"), A1, Down, None, false);
    h.peer_said(at(2), &node("a/1"), B1, Up, None, false);
    assert_eq!((h.services[A1].state, h.services[B1].state), (Up, Learning));
}

#[test]
fn one_node_of_a_site_that_sees_it_up_is_enough() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/2"));
    assert_eq!(h.says(1, "b/1", Up), Up);
    assert_eq!(h.says(2, "b/2", Down), Up);
    assert_eq!(h.says(3, "b/1", Down), Down);
}

/// Behaviour 4: peers keep their last word while a node that has just started is learning.
#[test]
fn a_node_that_learns_does_not_take_back_its_last_word() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(20), site_b(), &node("b/1"));
    h.peer_up(at(21), site_b(), &node("b/1"));
    assert_eq!(h.says(22, "b/1", Learning), Up);
    assert_eq!(h.says(35, "b/1", Learning), Up);
    assert_eq!(h.says(36, "b/1", Learning), Learning, "its checker never reports");
}

/// Faults I-57: who knew, and knows no longer in the same session, has lost its checker.
#[test]
fn a_node_that_lost_its_checker_is_believed() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    assert_eq!(h.says(2, "b/1", Learning), Learning);
    assert_eq!(h.says(3, "b/1", Up), Up);
}

/// Faults I-43: a glitch shorter than the delay changes nothing.
#[test]
fn a_silent_site_is_down_after_the_delay_and_not_before() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    assert_eq!(h.poll_timeout(), Some(at(115)));
    h.handle_timeout(at(114));
    assert_eq!(h.services[B1].state, Up);
    h.handle_timeout(at(115));
    assert_eq!((h.services[B1].state, h.services[OFF].state), (Down, Disabled));
    assert_eq!(h.services[B1].reason, "no word from site b for 15s");
}

#[test]
fn a_session_that_comes_back_in_time_stops_the_clock() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/1"));
    assert_eq!(h.poll_timeout(), None);
}

#[test]
fn a_site_is_silent_only_when_all_its_nodes_are() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/2"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.handle_timeout(at(119));
    assert_eq!((h.services[B1].state, h.silent_since()), (Up, None));
    h.peer_down(at(120), site_b(), &node("b/2"));
    assert_eq!((h.poll_timeout(), h.silent_since()), (Some(at(135)), Some(at(120))));
}

#[test]
fn a_site_never_heard_is_down_after_the_delay() {
    let mut h = health();
    h.handle_timeout(at(15));
    assert_eq!(h.services[B1].state, Down);
}

/// Faults I-55: told once when the last one goes and once when the first one comes.
#[test]
fn a_virtual_server_without_a_service_is_told_once() {
    let mut h = health();
    assert_eq!(h.take_turned(), []);
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), A1, Up, "passed");
    h.says(1, "b/1", Up);
    assert_eq!(h.take_turned(), [(0, true)]);
    h.own_verdict(at(2), A1, Down, "refused");
    assert_eq!(h.take_turned(), []);
    h.says(3, "b/1", Down);
    assert_eq!((h.take_turned(), h.take_turned()), (vec![(0, false)], vec![]));
}

/// Behaviour 4: a node that has just been started and has not checked anything yet knows less than its neighbour.
#[test]
fn a_node_that_learns_does_not_outvote_one_that_has_checked() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/2"));
    h.peer_said(at(1), &node("b/1"), B1, Down, Some(Rtt::from_micros(7)), false);
    assert_eq!(h.says(2, "b/2", Learning), Down);
    assert_eq!(h.services[B1].response_time, Some(Rtt::from_micros(7)));
}

/// Behaviour 6, `last_good`: the IPv6 service that is up says nothing about which IPv4 service was last.
#[test]
fn each_address_family_remembers_who_was_up_last() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), A1, Up, "passed");
    h.says(1, "b/1", Down);
    h.own_verdict(at(2), A6, Up, "passed");
    h.own_verdict(at(3), A1, Down, "refused");
    let last_good = h.last_good()[0].clone();
    assert_eq!(last_good, [true, false, true]);
}

#[test]
fn who_was_up_last_is_remembered_when_all_are_down() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), A1, Down, "refused");
    h.says(2, "b/1", Up);
    h.says(3, "b/1", Down);
    assert_eq!(h.last_good()[0][..2], [false, true]);
}

/// Faults I-43: under a flapping link an answer changes at most once per hold time.
#[test]
fn a_site_that_was_taken_down_is_held_down_for_the_delay() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    assert_eq!(h.runs_until(115), Down);
    h.peer_up(at(120), site_b(), &node("b/1"));
    assert_eq!(h.says(121, "b/1", Up), Down);
    assert_eq!((h.contact(site_b()).unwrap().held_until(), h.silent_since()), (Some(at(130)), None));
    assert_eq!((h.runs_until(129), h.runs_until(130)), (Down, Up));
    assert_eq!(h.contact(site_b()).unwrap().held_until(), None);
}

#[test]
fn a_site_that_falls_silent_in_its_hold_stays_down() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.runs_until(115);
    h.peer_up(at(120), site_b(), &node("b/1"));
    h.says(121, "b/1", Up);
    h.peer_down(at(125), site_b(), &node("b/1"));
    assert_eq!(h.runs_until(500), Down);
    h.peer_up(at(501), site_b(), &node("b/1"));
    assert_eq!(h.says(502, "b/1", Up), Up, "the hold is long over");
}

/// Each change of a square wave is at least the delay after the one before, whatever its period.
#[test]
fn no_square_wave_moves_an_answer_more_than_once_per_hold_time() {
    for period in 1..60_u64 {
        let mut h = health();
        let mut changed: Vec<u64> = Vec::new();
        let mut state = Learning;
        for second in 0..600 {
            if second % period == 0 {
                match second / period % 2 {
                    0 => h.peer_up(at(second), site_b(), &node("b/1")),
                    _ => h.peer_down(at(second), site_b(), &node("b/1")),
                }
            }
            if second / period % 2 == 0 {
                h.says(second, "b/1", Up);
            }
            let after = h.runs_until(second);
            if after != state {
                changed.push(second);
            }
            state = after;
        }
        assert!(changed.windows(2).all(|w| w[1] - w[0] >= 15), "period {period}: {changed:?}");
        assert_eq!(changed.len() > 1, period > 15, "period {period}: {changed:?}");
    }
}

#[test]
fn a_site_heard_for_the_first_time_is_not_held() {
    let mut h = health();
    assert_eq!(h.runs_until(15), Down);
    h.peer_up(at(16), site_b(), &node("b/1"));
    assert_eq!(h.says(16, "b/1", Up), Up);
}

fn relayed(h: &mut Health, now: u64, state: ServiceState) -> ServiceState {
    h.peer_said(at(now), &node("b/1"), B1, state, None, true);
    h.services[B1].state
}

/// Faults I-45: a site that another hears is not down.
#[test]
fn a_relay_in_time_stops_the_clock_and_its_words_count() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.relay_up(at(102), site_b(), &node("c/1"));
    assert_eq!((h.runs_until(400), h.silent_since()), (Up, None));
    assert_eq!(relayed(&mut h, 401, Down), Down);
    assert_eq!(h.services[B1].reason, "said by b/1, relayed by c/1");
    assert_eq!(relayed(&mut h, 402, Up), Up);
    h.relay_down(at(500), site_b());
    assert_eq!((h.runs_until(514), h.runs_until(515)), (Up, Down));
}

#[test]
fn a_relay_brings_a_site_back_after_the_hold() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.runs_until(115);
    h.relay_up(at(118), site_b(), &node("c/1"));
    assert_eq!(relayed(&mut h, 118, Up), Down);
    assert_eq!((h.runs_until(129), h.runs_until(130)), (Down, Up));
}

#[test]
fn a_relay_of_a_node_that_was_just_started_does_not_take_back_its_last_word() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.relay_up(at(101), site_b(), &node("c/1"));
    assert_eq!((relayed(&mut h, 102, Learning), relayed(&mut h, 115, Learning)), (Up, Up));
    assert_eq!(relayed(&mut h, 117, Learning), Learning);
}

/// The word of a node that is gone stands as long as that of a site that is.
#[test]
fn of_two_nodes_the_one_that_is_gone_is_forgotten_after_the_delay() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/2"));
    h.says(1, "b/1", Up);
    h.says(1, "b/2", Down);
    h.peer_down(at(100), site_b(), &node("b/1"));
    assert_eq!((h.says(101, "b/2", Down), h.runs_until(114), h.runs_until(115)), (Up, Up, Down));
}

/// The same by way of a relay, which does not say that it has lost one of the two.
#[test]
fn of_two_relayed_nodes_the_one_that_is_spoken_of_no_longer_is_forgotten() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.relay_up(at(101), site_b(), &node("c/1"));
    let said = |h: &mut Health, now: u64, node_: &str, state| {
        h.peer_said(at(now), &node(node_), B1, state, None, true);
        h.runs_until(now)
    };
    said(&mut h, 102, "b/1", Up);
    let states: Vec<ServiceState> = (103..125).map(|now| said(&mut h, now, "b/2", Down)).collect();
    // 15 s, and three times the metrics interval.
    let stood = states.iter().filter(|state| **state == Up).count();
    assert_eq!((stood, states.last()), (17, Some(&Down)), "{states:?}");
}

/// State and judge of b1, while its site is heard and up, heard and down, and silent, as its monitors here say.
fn judged(trigger: &str, here: ServiceState) -> [(ServiceState, Judge); 3] {
    let mut h = with(&format!("trigger_monitor = \"{trigger}\""), "remote_monitors = [\"web\"]");
    let now = |h: &Health| (h.services[B1].state, h.services[B1].judge);
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), B1, here, "as seen from here");
    h.says(2, "b/1", Up);
    let up = now(&h);
    h.says(3, "b/1", Down);
    let down = now(&h);
    h.says(4, "b/1", Up);
    h.peer_down(at(10), site_b(), &node("b/1"));
    h.runs_until(24);
    assert_eq!(now(&h), up, "not before the delay");
    h.runs_until(25);
    [up, down, now(&h)]
}

/// Behaviour 4, `trigger_monitor`.
#[test]
fn each_trigger_lets_the_own_monitors_decide_at_its_time() {
    use Judge::{RemoteMonitors, SiteWord};
    assert_eq!(judged("always", Up), [(Up, RemoteMonitors); 3]);
    assert_eq!(judged("always", Down), [(Down, RemoteMonitors); 3]);
    assert_eq!(judged("mep_down", Up), [(Up, SiteWord), (Down, SiteWord), (Up, RemoteMonitors)]);
    assert_eq!(judged("mep_down", Down), [(Up, SiteWord), (Down, SiteWord), (Down, RemoteMonitors)]);
    let both = "mep_down_or_service_down";
    assert_eq!(judged(both, Up), [(Up, SiteWord), (Up, RemoteMonitors), (Up, RemoteMonitors)]);
    assert_eq!(judged(both, Down), [(Up, SiteWord), (Down, RemoteMonitors), (Down, RemoteMonitors)]);
}

#[test]
fn without_remote_monitors_every_trigger_leaves_a_silent_site_down() {
    for trigger in ["always", "mep_down", "mep_down_or_service_down"] {
        let mut h = with(&format!("trigger_monitor = \"{trigger}\""), "");
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.own_verdict(at(1), B1, Up, "no monitor of this node watches it");
        assert_eq!(h.says(1, "b/1", Down), Down);
        assert_eq!(h.says(2, "b/1", Up), Up);
        h.peer_down(at(10), site_b(), &node("b/1"));
        assert_eq!((h.runs_until(25), h.services[B1].judge), (Down, Judge::Silence));
    }
}

/// With `always` the site's word gives only metrics.
#[test]
fn a_site_whose_word_does_not_decide_still_gives_metrics() {
    let mut h = with("", "remote_monitors = [\"web\"]");
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), B1, Up, "passed");
    h.own_response_time(at(1), B1, Some(Rtt::from_micros(9000)));
    h.peer_said(at(2), &node("b/1"), B1, Up, Some(Rtt::from_micros(7)), false);
    assert_eq!(h.services[B1].response_time, Some(Rtt::from_micros(7)));
    h.peer_down(at(10), site_b(), &node("b/1"));
    h.runs_until(25);
    assert_eq!((h.services[B1].state, h.services[B1].response_time), (Up, Some(Rtt::from_micros(9000))));
}

/// A mismatch of configurations must not stick.
#[test]
fn what_its_site_calls_disabled_comes_back_when_it_no_longer_does() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    assert_eq!(h.says(1, "b/1", Disabled), Disabled);
    assert_eq!(h.says(2, "b/1", Up), Up);
    h.peer_said(at(3), &node("b/1"), OFF, Up, None, false);
    assert_eq!(h.services[OFF].state, Disabled, "this one is disabled here as well");
}

fn site_a() -> SiteIndex {
    SiteIndex::new(0).unwrap()
}

/// All nodes of the group answer alike: what the other sites take for up, the site's own nodes do, too.
#[test]
fn a_service_of_this_site_is_up_while_a_neighbour_sees_it_up() {
    let mut h = health();
    h.peer_up(at(0), site_a(), &node("a/2"));
    h.peer_said(at(1), &node("a/2"), A1, Up, None, false);
    assert_eq!((h.services[A1].state, h.services[A1].judge), (Up, Judge::SiteWord), "before the first check");
    h.own_verdict(at(2), A1, Down, "refused");
    assert_eq!(h.services[A1].state, Up);
    assert_eq!(h.services[A1].own.as_ref().map(|own| own.state), Some(Down), "this is what it tells others");
    h.peer_said(at(3), &node("a/2"), A1, Down, None, false);
    assert_eq!((h.services[A1].state, h.services[A1].judge), (Down, Judge::OwnMonitors));
}

#[test]
fn the_word_of_a_neighbour_that_is_gone_stands_for_the_delay() {
    let mut h = health();
    h.peer_up(at(0), site_a(), &node("a/2"));
    h.own_verdict(at(1), A1, Down, "refused");
    h.peer_said(at(1), &node("a/2"), A1, Up, None, false);
    h.peer_down(at(100), site_a(), &node("a/2"));
    h.runs_until(114);
    assert_eq!(h.services[A1].state, Up);
    h.runs_until(115);
    assert_eq!(h.services[A1].state, Down);
    assert_eq!(h.contact(site_a()).unwrap().silent_since(), None, "a site is not silent to itself");
}

/// A service bound to two virtual servers was good for each at another time.
#[test]
fn each_virtual_server_remembers_its_own_who_was_up_last() {
    let more = "[[vservers]]\nname = \"two\"\nservices = [\"a1\", \"a6\"]\n";
    let text = format!("{GROUP}{more}");
    let mut read = |_: &Path| Ok(text.clone().into_bytes());
    let config = config::load(Path::new("/etc/gslb.toml"), &mut read, None).unwrap();
    let mut h = Health::new(Arc::new(config), at(0));
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), A1, Up, "passed");
    h.says(1, "b/1", Up);
    h.own_verdict(at(2), A1, Down, "refused");
    h.says(3, "b/1", Down);
    // Of www b1 was up last; of two it was a1.
    assert_eq!(h.last_good(), [vec![false, true, false], vec![true, false]]);
}
