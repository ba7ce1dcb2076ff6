//! Who tells a column when sessions and relays come and go.

use super::*;

fn at(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

fn site() -> SiteIndex {
    SiteIndex::new(1).unwrap()
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn sites() -> Sites {
    Sites { sessions: BTreeMap::new(), columns: vec![Column::default(); 2] }
}

impl Sites {
    fn up(&mut self, now: u64, peer: &str) {
        self.peer_up(at(now), site(), &node(peer), true);
    }

    /// A session with a node of version 1.0.
    fn old_up(&mut self, now: u64, peer: &str) {
        self.peer_up(at(now), site(), &node(peer), false);
    }

    /// The peer has told all; who must be asked.
    fn told_all(&mut self, now: u64, peer: &str) -> Option<String> {
        self.synced(at(now), &node(peer)).map(|node| node.to_string())
    }

    fn down(&mut self, now: u64, peer: &str) -> Option<String> {
        self.peer_down(at(now), &node(peer)).map(|node| node.to_string())
    }

    fn who(&self) -> Option<String> {
        self.teller(site()).map(|teller| match teller {
            Teller::Speaker(node) => node.to_string(),
            Teller::Relay(node) => format!("by {node}"),
        })
    }

    /// When a value was last true that the teller of that number told then.
    fn last_true(&self, number: u8, stamp: u64) -> Timestamp {
        let teller = Confirmed { number, ..Confirmed::new(at(0), at(0)) };
        let cell = crate::Cell::new(gslb_types::Reach::Unreachable, None, at(stamp)).told_by(teller);
        cell.last_true(self.confirmed(site()))
    }
}

#[test]
fn the_first_session_is_written_from_its_first_row_on() {
    let mut sites = sites();
    assert_eq!(sites.who(), None);
    sites.up(10, "b/2");
    assert_eq!(sites.who().as_deref(), Some("b/2"));
    assert_eq!((sites.told_all(11, "b/2"), sites.who().as_deref()), (None, Some("b/2")));
}

#[test]
fn the_lowest_name_that_has_told_all_speaks_and_is_asked_to_tell_again() {
    let mut sites = sites();
    sites.up(10, "b/2");
    sites.told_all(11, "b/2");
    sites.up(20, "b/1");
    assert_eq!(sites.who().as_deref(), Some("b/2"), "it has told nothing yet");
    assert_eq!(sites.told_all(21, "b/1").as_deref(), Some("b/1"));
    sites.up(30, "b/3");
    assert_eq!((sites.told_all(31, "b/3"), sites.who().as_deref()), (None, Some("b/1")));
    assert_eq!((sites.down(40, "b/3"), sites.who().as_deref()), (None, Some("b/1")));
    assert_eq!((sites.down(41, "b/1").as_deref(), sites.who().as_deref()), (Some("b/2"), Some("b/2")));
    assert_eq!((sites.down(42, "b/2"), sites.who()), (None, None));
}

#[test]
fn who_is_still_telling_all_is_asked_to_begin_anew() {
    let mut sites = sites();
    sites.up(10, "b/1");
    sites.up(10, "b/2");
    assert_eq!((sites.down(11, "b/1").as_deref(), sites.who().as_deref()), (Some("b/2"), Some("b/2")));
}

/// Issue "MEP as operators trust it", 8: what it told before it became the speaker would be lost.
#[test]
fn a_node_of_version_1_0_takes_no_other_s_place() {
    let mut sites = sites();
    sites.up(10, "b/2");
    sites.told_all(11, "b/2");
    sites.old_up(20, "b/1");
    assert_eq!((sites.told_all(21, "b/1"), sites.who().as_deref()), (None, Some("b/2")));
    assert_eq!((sites.down(30, "b/2").as_deref(), sites.who().as_deref()), (Some("b/1"), Some("b/1")));
    sites.old_up(40, "b/0");
    assert_eq!((sites.told_all(41, "b/0"), sites.who().as_deref()), (None, Some("b/1")));
}

#[test]
fn a_node_that_can_be_asked_takes_the_place_of_one_that_cannot_whatever_their_names() {
    let mut sites = sites();
    sites.old_up(10, "b/1");
    assert_eq!((sites.told_all(11, "b/1"), sites.who().as_deref()), (None, Some("b/1")), "the only one");
    sites.up(20, "b/2");
    assert_eq!(sites.who().as_deref(), Some("b/1"), "the other has told nothing yet");
    assert_eq!((sites.told_all(21, "b/2").as_deref(), sites.who().as_deref()), (Some("b/2"), Some("b/2")));
}

#[test]
fn when_the_speaker_is_lost_a_node_of_version_1_0_speaks_only_if_no_other_can() {
    let mut sites = sites();
    sites.up(10, "b/9");
    sites.told_all(11, "b/9");
    for old in ["b/1", "b/2"] {
        sites.old_up(12, old);
    }
    sites.told_all(13, "b/2");
    sites.up(14, "b/8");
    assert_eq!(sites.down(20, "b/9").as_deref(), Some("b/8"), "it can be asked to begin anew");
    assert_eq!(sites.down(30, "b/8").as_deref(), Some("b/2"), "b/1 has not told all yet");
    assert_eq!(sites.down(40, "b/2").as_deref(), Some("b/1"));
}

#[test]
fn a_relay_tells_only_while_no_node_of_the_site_does() {
    let mut sites = sites();
    sites.relay_up(at(5), site(), &node("c/1"));
    assert_eq!(sites.who().as_deref(), Some("by c/1"));
    sites.up(10, "b/1");
    assert_eq!(sites.who().as_deref(), Some("b/1"));
    sites.down(20, "b/1");
    assert_eq!(sites.who().as_deref(), Some("by c/1"));
    sites.relay_down(at(30), site());
    assert_eq!(sites.who(), None);
}

/// Faults I-46: what nobody tells any more ages from the last word of who told it.
#[test]
fn values_are_as_old_as_the_last_word_of_who_told_them() {
    let mut sites = sites();
    sites.up(10, "b/1");
    sites.heard_at(site(), at(50));
    assert_eq!(sites.last_true(0, 12), at(50));
    sites.down(55, "b/1");
    assert_eq!(sites.last_true(0, 12), at(50));
    sites.relay_up(at(60), site(), &node("c/1"));
    sites.relayed(at(60), site(), &node("c/1"), Duration::from_secs(3));
    sites.relayed(at(70), site(), &node("c/1"), Duration::from_secs(3));
    assert_eq!((sites.last_true(0, 12), sites.last_true(1, 61)), (at(50), at(67)));
    sites.up(80, "b/1");
    sites.heard_at(site(), at(90));
    assert_eq!(
        [(0, 12), (1, 61), (2, 81)].map(|(by, stamp)| sites.last_true(by, stamp)),
        [at(50), at(67), at(90)]
    );
}

/// Likewise: what it does not tell again may have come to an end meanwhile.
#[test]
fn a_relay_that_begins_anew_confirms_what_it_tells_from_then_on() {
    let mut sites = sites();
    let relay = node("c/1");
    sites.relay_up(at(60), site(), &relay);
    for second in [60, 70] {
        sites.relayed(at(second), site(), &relay, Duration::from_secs(1));
    }
    sites.relay_up(at(80), site(), &relay);
    for second in [80, 90] {
        sites.relayed(at(second), site(), &relay, Duration::from_secs(1));
    }
    assert_eq!((sites.last_true(0, 62), sites.last_true(1, 80)), (at(69), at(89)));
    assert_eq!(sites.who().as_deref(), Some("by c/1"));
}

#[test]
fn what_was_confirmed_before_the_task_failed_stands() {
    let mut sites = sites();
    sites.resume([None, Some(Confirmed::new(at(10), at(60)))]);
    assert_eq!(sites.last_true(0, 12), at(60));
    sites.up(70, "b/1");
    assert_eq!((sites.last_true(0, 12), sites.last_true(1, 70)), (at(60), at(70)));
}
