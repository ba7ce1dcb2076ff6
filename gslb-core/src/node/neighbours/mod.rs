//! The other nodes of this node's site: who of them measures which LDNS, and what confirms what they tell.
//!
//! To share the LDNS out anew means to look at all of them, so it is done at most once in [`SPACING`], for all that came and went
//! meanwhile. A neighbour whose session ends and stands again within it has not been gone: nothing is done for it (threat T8).
//!
//! ```text
//!             session               session ended          SPACING
//! (unknown) ----------> Standing ------------------> Gone ---------> (unknown): at once if it was silent
//!                        ^    ^   session, same process |
//!                        |    +-------------------------+
//!                        |       shared out             v session, other process
//!                        +-------------------------- Restarted: what it told is nobody's
//! ```

#[cfg(test)]
mod tests;

use crate::cell::Confirmed;
use gslb_types::{Ldns, NodeId, Timestamp};
use mep_core::PeerStatus;
use probes_core::prober::Share;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The LDNS are shared out at most so often. Who comes or goes has this long to make up its mind: values live for much longer.
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
    /// Nor for what these told. Who has their share now may never have heard of it.
    gone: BTreeSet<NodeId>,
    /// Those that must tell all again: who was not listened to; and everybody, if somebody is gone, to vouch for what they have of it.
    pub(crate) asked: BTreeSet<NodeId>,
}

impl Settled {
    /// Whether the words of no neighbour confirm what was told of an LDNS up to now.
    pub(crate) fn is_orphaned(&self, ldns: Ldns) -> bool {
        !self.restarted.is_empty() && self.restarted.contains(self.before.owner(ldns))
    }

    /// Whether it was told by a neighbour that is gone.
    pub(crate) fn is_inherited(&self, ldns: Ldns) -> bool {
        !self.gone.is_empty() && self.gone.contains(self.before.owner(ldns))
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
            self.settle_at(self.not_before(now));
        }
    }

    /// A session ended. If it was by silence, the dead interval is over, and nobody is waited for any longer.
    pub(crate) fn peer_down(&mut self, now: Timestamp, peer: &NodeId, by_silence: bool) {
        if let Some(heard) = self.heard.get_mut(peer) {
            heard.session = Session::Gone;
            self.settle_at(if by_silence { self.not_before(now) } else { now + SPACING });
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
        let (restarted, lost, asked) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut settled = Settled { before: self.share.clone(), restarted, gone: lost, asked };
        for (peer, session) in gone {
            self.heard.remove(&peer);
            if let Session::Restarted { at, boot } = session {
                self.comes(now, &peer, boot);
                settled.asked.extend(Some(peer.clone()).filter(|_| at < now));
                settled.restarted.insert(peer);
            } else {
                settled.gone.insert(peer);
            }
        }
        if !settled.gone.is_empty() {
            settled.asked.extend(self.heard.keys().cloned());
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

    /// When the LDNS may be shared out next.
    fn not_before(&self, now: Timestamp) -> Timestamp {
        self.settled.map_or(now, |settled| now.max(settled + SPACING))
    }

    fn settle_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}
