//! Changes of a peer's state: kept, counted, and told to the others.

use crate::mep::Mep;
use crate::output::DownReason;
use crate::status::{MOST_TRANSITIONS, PeerState, Transition};
use gslb_types::Timestamp;
use std::time::Duration;

/// Why a state changed: for an operator, and the word for its kind.
pub(crate) struct Why {
    pub(crate) reason: String,
    pub(crate) kind: &'static str,
}

impl Why {
    pub(crate) fn established(dialled: bool) -> Self {
        let how = if dialled { "dialled" } else { "was dialled by it" };
        Why { reason: format!("session established; this node {how}"), kind: "established" }
    }

    fn quiet(span: Duration) -> Self {
        Why { reason: format!("no word for {span:?}"), kind: "quiet" }
    }

    fn unheard(span: Duration) -> Self {
        Why { reason: format!("it has not heard this node for {span:?}"), kind: "unheard" }
    }

    fn heard() -> Self {
        Why { reason: "heard again, both ways".to_owned(), kind: "heard" }
    }
}

impl From<&DownReason> for Why {
    fn from(reason: &DownReason) -> Self {
        Why { reason: reason.to_string(), kind: reason.kind() }
    }
}

impl Mep {
    /// A peer is in another state from here on.
    pub(crate) fn turned(&mut self, now: Timestamp, place: usize, to: PeerState, why: Why) {
        self.transitions += 1;
        let number = self.transitions;
        let status = &mut self.peers[place].status;
        let transition = Transition {
            number,
            at: now,
            from: status.state,
            to,
            reason: why.reason.clone(),
            kind: why.kind,
        };
        if status.transitions.len() == MOST_TRANSITIONS {
            status.transitions.pop_front();
        }
        status.transitions.push_back(transition);
        if to == PeerState::Down {
            status.downs += 1;
            *status.downs_by_reason.entry(why.kind).or_default() += 1;
        }
        status.state = to;
        status.since = now;
        status.reason = why.reason;
        self.links_changed(now);
    }

    /// Half of what makes a peer down: long enough that two words were lost.
    pub(crate) fn doubtful(&self) -> Duration {
        self.settings.keepalive / 2
    }

    /// Nothing was heard for half the keepalive.
    pub(crate) fn grew_quiet(&mut self, now: Timestamp, place: usize) {
        if self.peers[place].status.state == PeerState::Up {
            let why = Why::quiet(self.doubtful());
            self.turned(now, place, PeerState::Suspect, why);
        }
    }

    /// A word came, which says how long ago the peer last heard this node.
    pub(crate) fn heard(&mut self, now: Timestamp, place: usize, heard_us: Option<Duration>) {
        let unheard = heard_us.filter(|span| *span >= self.doubtful());
        match (self.peers[place].status.state, unheard) {
            (PeerState::Up, Some(span)) => self.turned(now, place, PeerState::Suspect, Why::unheard(span)),
            (PeerState::Suspect, None) => self.turned(now, place, PeerState::Up, Why::heard()),
            _ => {}
        }
    }
}
