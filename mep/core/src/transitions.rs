//! Changes of a peer's state: kept, counted, and told to the others.

use crate::mep::{Mep, Timer};
use crate::output::{DownReason, Output};
use crate::peer::Session;
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
        Why { reason: format!("it has not heard this node for {span:?}"), kind: "not_heard" }
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
        *status.turns.entry((to, why.kind)).or_default() += 1;
        let is_doubt = status.state.has_session() && to.has_session();
        status.state = to;
        status.since = now;
        status.reason = why.reason;
        if is_doubt {
            let peer = status.peer.clone();
            self.outputs.push_back(Output::PeerTurned { peer, state: to });
        }
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
        let Some(session) = self.peers[place].session.as_mut() else { return };
        let span = heard_us.filter(|span| *span >= session.patience / 2);
        session.unheard = span.map(|span| (now, span));
        match span {
            Some(span) => {
                let left = session.patience.saturating_sub(span);
                self.timers.set(Timer::Unheard(place), now + left + grace(session.patience));
            }
            None => self.timers.stop(Timer::Unheard(place)),
        }
        match (self.peers[place].status.state, span) {
            (PeerState::Up, Some(span)) => self.turned(now, place, PeerState::Suspect, Why::unheard(span)),
            (PeerState::Suspect, None) => self.turned(now, place, PeerState::Up, Why::heard()),
            _ => {}
        }
    }

    /// The peer said that it does not hear this node, and then nothing until it must have given this node up: what it says
    /// after that may be lost as well, as over a carrier that waits for acknowledgements (faults I-45).
    pub(crate) fn unheard_too_long(&mut self, now: Timestamp, place: usize) {
        let unheard = self.peers[place].session.as_ref().and_then(|session| session.unheard);
        if let Some((since, span)) = unheard {
            self.session_lost(now, place, DownReason::NotHeard(span + now.since(since)));
        }
    }
}

/// How much later than the peer this node gives a session up that the peer does not hear: what the peer says last may still come.
/// As much earlier its close counts as that of a peer that has given this node up.
fn grace(keepalive: Duration) -> Duration {
    keepalive / 8
}

/// Why a session really ended that the peer closed, or fell silent in, after it had said for so long that it does not hear
/// this node.
pub(crate) fn unheard(now: Timestamp, session: &Session, reason: DownReason) -> DownReason {
    let patience = session.patience;
    let unheard = session.unheard.map(|(since, span)| span + now.since(since));
    match (&reason, unheard) {
        (DownReason::Closed(_) | DownReason::Silent(_), Some(span)) if span + grace(patience) >= patience => {
            DownReason::NotHeard(span)
        }
        _ => reason,
    }
}
