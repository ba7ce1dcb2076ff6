//! The other nodes of this node's site: who of them measures which LDNS, and what confirms what they tell.
//!
//! To share the LDNS out anew means to look at all of them, so it is done at most once in [`SPACING`], for all that came and went
//! meanwhile. A neighbour whose session ends and stands again within it has not been gone: nothing is done for it (threat T8).
//!
//! ```text
//!             session               session ended          SPACING
//! (unknown) ----------> Standing ------------------> Gone ---------> (unknown)
//!                        ^    ^   session, same process |
//!                        |    +-------------------------+
//!                        |       shared out             v session, other process
//!                        +-------------------------- Restarted: what it told is nobody's
//! ```

use crate::cell::Confirmed;
use gslb_types::{Ldns, NodeId, Timestamp};
use mep_core::PeerStatus;
use probes_core::prober::Share;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The LDNS are shared out at most so often. A death is noticed by silence after the dead interval of many seconds; this much
/// more does not matter, as values live for much longer.
pub(crate) const SPACING: Duration = Duration::from_secs(1);

/// Those that share.
pub(crate) struct Neighbours {
    me: NodeId,
    heard: BTreeMap<NodeId, Heard>,
    share: Share,
    /// When what has changed takes effect.
    due: Option<Timestamp>,
    /// When the LDNS were shared out last.
    settled: Option<Timestamp>,
    /// Whether one has come since. It may have told values of its share.
    has_newcomer: bool,
}

/// A neighbour that shares.
#[derive(Clone, Copy)]
struct Heard {
    since: Timestamp,
    last_word: Timestamp,
    /// Of its process.
    boot: Option<u64>,
    session: Session,
}

/// See the diagram above.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Session {
    Standing,
    Gone,
    /// Its new process is not listened to until what the old one told is put in order.
    Restarted {
        at: Timestamp,
        boot: Option<u64>,
    },
}

/// What is to be done when the LDNS are shared out anew.
pub(crate) struct Settled {
    /// The share before.
    before: Share,
    /// Nobody vouches for what these told before.
    restarted: BTreeSet<NodeId>,
    /// Those that were not listened to: they must tell again.
    pub(crate) unheard: Vec<NodeId>,
}

impl Settled {
    /// Whether the words of no neighbour confirm what was told of an LDNS up to now.
    pub(crate) fn is_orphaned(&self, ldns: Ldns) -> bool {
        !self.restarted.is_empty() && self.restarted.contains(self.before.owner(ldns))
    }
}

impl Neighbours {
    /// None yet: all LDNS are this node's.
    pub(crate) fn new(me: NodeId) -> Self {
        let share = Share::among(me.clone(), []);
        Neighbours { share, me, heard: BTreeMap::new(), due: None, settled: None, has_newcomer: false }
    }

    /// A session stands, with a process that has this number.
    pub(crate) fn peer_up(&mut self, now: Timestamp, peer: &NodeId, boot: Option<u64>) {
        let Some(heard) = self.heard.get_mut(peer) else {
            self.comes(now, peer, boot);
            // At once: it begins to tell.
            self.share_out();
            return self.settle_at(now + SPACING);
        };
        if heard.boot == boot {
            heard.session = Session::Standing;
            heard.last_word = now;
        } else {
            heard.session = Session::Restarted { at: now, boot };
            self.settle_at(self.settled.map_or(now, |settled| now.max(settled + SPACING)));
        }
    }

    /// A session ended.
    pub(crate) fn peer_down(&mut self, now: Timestamp, peer: &NodeId) {
        if let Some(heard) = self.heard.get_mut(peer) {
            heard.session = Session::Gone;
            self.settle_at(now + SPACING);
        }
    }

    /// When [`Neighbours::settle`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.due
    }

    /// Lets what has changed take effect, if it is time. Says what that means for the LDNS, if somebody came, or is gone for
    /// good: then they must be shared out anew.
    pub(crate) fn settle(&mut self, now: Timestamp) -> Option<Settled> {
        self.due.take_if(|due| *due <= now)?;
        let gone: Vec<(NodeId, Session)> = self
            .heard
            .iter()
            .filter(|(_, heard)| heard.session != Session::Standing)
            .map(|(peer, heard)| (peer.clone(), heard.session))
            .collect();
        if gone.is_empty() && !self.has_newcomer {
            return None;
        }
        let mut settled =
            Settled { before: self.share.clone(), restarted: BTreeSet::new(), unheard: Vec::new() };
        for (peer, session) in gone {
            self.heard.remove(&peer);
            if let Session::Restarted { at, boot } = session {
                self.comes(now, &peer, boot);
                settled.unheard.extend(Some(peer.clone()).filter(|_| at < now));
                settled.restarted.insert(peer);
            }
        }
        self.share_out();
        self.has_newcomer = false;
        self.settled = Some(now);
        Some(settled)
    }

    /// Takes over when each was heard last.
    pub(crate) fn heard(&mut self, statuses: &[PeerStatus]) {
        for status in statuses {
            if let Some(heard) = self.heard.get_mut(&status.peer)
                && heard.session == Session::Standing
                && let Some(last_word) = status.last_word
            {
                heard.last_word = heard.last_word.max(last_word);
            }
        }
    }

    /// Which LDNS are whose.
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// Whether this node measures an LDNS.
    pub(crate) fn is_ours(&self, ldns: Ldns) -> bool {
        self.share.is_ours(ldns)
    }

    /// Since when one of them tells; `None` if it is not listened to.
    pub(crate) fn told_since(&self, peer: &NodeId) -> Option<Timestamp> {
        let heard = self.heard.get(peer).filter(|heard| heard.session == Session::Standing);
        heard.map(|heard| heard.since)
    }

    /// What confirms the values they told: the word of the one heard longest ago, so that none is held for younger than it is.
    pub(crate) fn confirmed(&self) -> Option<Confirmed> {
        let since = self.heard.values().map(|heard| heard.since).min()?;
        let last_word = self.heard.values().map(|heard| heard.last_word).min()?;
        Some(Confirmed::new(since, last_word))
    }

    fn share_out(&mut self) {
        self.share = Share::among(self.me.clone(), self.heard.keys().cloned());
    }

    fn comes(&mut self, now: Timestamp, peer: &NodeId, boot: Option<u64>) {
        let heard = Heard { since: now, last_word: now, boot, session: Session::Standing };
        self.heard.insert(peer.clone(), heard);
        self.has_newcomer = true;
    }

    fn settle_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Timestamp {
        Timestamp::from_micros(n * 1000)
    }

    fn node(name: &str) -> NodeId {
        name.parse().unwrap()
    }

    fn neighbours() -> Neighbours {
        Neighbours::new(node("a/1"))
    }

    impl Neighbours {
        fn up(&mut self, now: u64, peer: &str) {
            self.peer_up(ms(now), &node(peer), Some(1));
        }

        /// Another process of it.
        fn restarts(&mut self, now: u64, peer: &str, boot: u64) {
            self.peer_down(ms(now), &node(peer));
            self.peer_up(ms(now), &node(peer), Some(boot));
        }

        fn down(&mut self, now: u64, peer: &str) {
            self.peer_down(ms(now), &node(peer));
        }

        fn sharing(&self) -> Vec<String> {
            self.share().nodes().map(ToString::to_string).collect()
        }

        /// How often the LDNS are shared out until then.
        fn walks(&mut self, until: u64) -> usize {
            let mut walks = 0;
            while let Some(due) = self.poll_timeout().filter(|due| *due <= ms(until)) {
                walks += usize::from(self.settle(due).is_some());
            }
            walks
        }
    }

    #[test]
    fn a_newcomer_shares_at_once_and_the_ldns_are_walked_once_for_all_that_come_together() {
        let mut n = neighbours();
        n.up(0, "a/2");
        assert_eq!(
            (n.sharing(), n.poll_timeout()),
            (vec!["a/1".to_owned(), "a/2".to_owned()], Some(ms(1000)))
        );
        n.up(900, "a/3");
        assert!(n.settle(ms(999)).is_none());
        assert_eq!((n.walks(999), n.walks(60_000)), (0, 1));
        assert_eq!(n.sharing(), ["a/1", "a/2", "a/3"]);
    }

    #[test]
    fn one_that_dies_shares_until_the_others_take_over() {
        let mut n = neighbours();
        n.up(0, "a/2");
        n.walks(1000);
        n.down(50_000, "a/2");
        assert_eq!((n.walks(50_999), n.sharing().len()), (0, 2));
        assert_eq!((n.walks(51_000), n.sharing(), n.poll_timeout()), (1, vec!["a/1".to_owned()], None));
    }

    #[test]
    fn a_session_that_stands_again_soon_was_never_gone() {
        let mut n = neighbours();
        n.up(0, "a/2");
        n.walks(1000);
        for reconnect in 1..=1000 {
            n.down(reconnect * 2000, "a/2");
            n.up(reconnect * 2000 + 999, "a/2");
            assert_eq!((n.walks(reconnect * 2000 + 1999), n.sharing().len()), (0, 2));
        }
        assert_eq!(n.told_since(&node("a/2")), Some(ms(0)));
        assert_eq!(n.confirmed(), Some(Confirmed::new(ms(0), ms(2_000_999))));
    }

    /// A neighbour that flaps as fast as it likes, or as unluckily as it can.
    #[test]
    fn flapping_costs_one_walk_a_second_at_most() {
        for period in [1, 7, 100, 333, 501, 999, 1001, 1500] {
            let mut n = neighbours();
            let mut walks = 0;
            for turn in 0..60_000 / period {
                let now = turn * period;
                walks += n.walks(now);
                if turn % 2 == 0 { n.up(now, "a/2") } else { n.down(now, "a/2") }
            }
            println!("T8: a session that turns every {period} ms for a minute: {walks} walks");
            assert!(walks <= 60, "{period}: {walks}");
        }
    }

    #[test]
    fn the_words_of_one_that_is_gone_confirm_nothing() {
        let mut n = neighbours();
        n.up(0, "a/2");
        n.up(0, "a/3");
        n.down(10_000, "a/2");
        assert_eq!(n.confirmed(), Some(Confirmed::new(ms(0), ms(0))));
        n.walks(11_000);
        n.up(20_000, "a/2");
        assert_eq!(n.told_since(&node("a/2")), Some(ms(20_000)), "another time, in which it tells anew");
    }

    fn ldns(n: u8) -> Ldns {
        Ldns::exact([192, 0, 2, n].into())
    }

    /// Faults I-46: the words of the new process do not confirm what the old one said.
    #[test]
    fn what_a_process_told_is_nobody_s_once_another_has_taken_its_place() {
        let mut n = neighbours();
        n.up(0, "a/2");
        n.up(0, "a/3");
        n.walks(1000);
        n.restarts(50_000, "a/2", 2);
        let settled = n.settle(ms(50_000)).unwrap();
        assert_eq!((settled.unheard.len(), n.sharing().len(), n.poll_timeout()), (0, 3, None));
        for l in (0..99).map(ldns) {
            assert_eq!(settled.is_orphaned(l), n.share().owner(l).to_string() == "a/2", "{l}");
        }
        assert_eq!(n.told_since(&node("a/2")), Some(ms(50_000)));
    }

    #[test]
    fn a_neighbour_that_restarts_again_at_once_is_listened_to_a_second_later_and_asked_to_tell_again() {
        let mut n = neighbours();
        n.up(0, "a/2");
        n.walks(1000);
        n.restarts(50_000, "a/2", 2);
        assert_eq!(n.walks(50_000), 1);
        n.restarts(50_300, "a/2", 3);
        assert_eq!((n.told_since(&node("a/2")), n.poll_timeout()), (None, Some(ms(51_000))));
        assert_eq!(n.settle(ms(51_000)).unwrap().unheard, [node("a/2")]);
        assert_eq!(n.told_since(&node("a/2")), Some(ms(51_000)));
    }

    #[test]
    fn new_processes_without_end_cost_one_walk_a_second_at_most() {
        let mut n = neighbours();
        n.up(0, "a/2");
        let mut walks = 0;
        for turn in 0..6000 {
            walks += n.walks(turn * 10);
            n.restarts(turn * 10, "a/2", turn + 2);
        }
        println!("T8: a neighbour that restarts 100 times a second for a minute: {walks} walks");
        assert!((59..=60).contains(&walks), "{walks}");
    }
}
