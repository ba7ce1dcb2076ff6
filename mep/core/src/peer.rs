//! One peer: its connections, its session, and when it is dialled.
//!
//! ```text
//!            dial, or be dialled            peer's hello will do
//! (nothing) ---------------------> candidate --------------------> session
//!     ^                                |                              |
//!     |   refused, closed, no hello    |    silent, goodbye, closed   |
//!     +--------------------------------+------------------------------+
//!       dial again after the back-off
//! ```

use crate::PeerStatus;
use crate::backoff::Backoff;
use crate::carrier::{ConnId, Over};
use crate::link::Link;
use crate::outbox::Queue;
use crate::settings::PeerSettings;
use gslb_types::{NodeId, SiteName, Timestamp, Transport};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Connections of one peer that may wait for a hello at once: one each way, and their successors.
pub(crate) const MOST_CANDIDATES: usize = 4;

/// Boots remembered as displaced; the oldest are forgotten, which at worst lets a duplicate in for a moment.
const MOST_DISPLACED: usize = 16;

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    /// Whether this end, the lower of the two, decides which connection becomes the session.
    pub(crate) decides: bool,
    pub(crate) transport: Transport,
    pub(crate) dial: Dial,
    /// What the next dial tries.
    pub(crate) next_over: Over,
    pub(crate) backoff: Backoff,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) session: Option<Session>,
    displaced: VecDeque<u64>,
    /// Until when nothing is heard from it.
    pub(crate) quarantine: Timestamp,
    pub(crate) status: PeerStatus,
}

/// What is being done about a missing connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dial {
    /// Nothing: there is a connection.
    Idle,
    /// The back-off runs.
    Waiting,
    /// The carrier was told to, over this.
    InFlight(Over),
}

/// A connection whose hello has not come.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) link: Link,
    pub(crate) dialled: bool,
    pub(crate) over: Over,
    /// Whether this end's hello was sent.
    pub(crate) offered: bool,
    pub(crate) certificate_expires: i64,
}

/// A connection over which both hellos have come.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) link: Link,
    pub(crate) boot: u64,
    /// The number of the hello it began with.
    pub(crate) number: u64,
    pub(crate) since: Timestamp,
    /// From one word of ours to the next at most.
    pub(crate) pause: Duration,
    /// How long the less patient end waits for a word.
    pub(crate) patience: Duration,
    /// When the peer last said that it had not heard this node for a while, and for how long; `None` if it heard it lately.
    pub(crate) unheard: Option<(Timestamp, Duration)>,
    pub(crate) queue: Queue,
    /// When the peer began to tell all it knows.
    pub(crate) snapshot_began: Option<Timestamp>,
    /// Whether it has told all it knew.
    pub(crate) synced: bool,
    pub(crate) violations: u64,
    pub(crate) over: Over,
    /// Whether its connection can't stay for long, so that another one over the same carrier may take its place.
    pub(crate) ageing: bool,
    /// Whether the peer understands what version 1.1 brought.
    pub(crate) knows_relays: bool,
    /// This node's links are to be told.
    pub(crate) links_due: bool,
    /// The sites it was asked to relay.
    pub(crate) requested: BTreeSet<SiteName>,
    /// It is to be told so.
    pub(crate) request_due: bool,
    /// It is to be asked for a snapshot.
    pub(crate) snapshot_wanted: bool,
    /// Sites it was asked for before it acknowledges the request that takes them back: words about them are under way.
    pub(crate) released: BTreeSet<SiteName>,
    /// The number of the frame with the last request, and whether the peer had read it when it sent its last frame.
    pub(crate) request_number: u64,
    pub(crate) request_read: bool,
    /// Values it told, and those of them that nobody can have.
    pub(crate) values_in: u64,
    pub(crate) implausible: u64,
}

impl Candidate {
    pub(crate) fn new(conn: ConnId, dialled: bool, over: Over, certificate_expires: i64) -> Self {
        Candidate { link: Link::new(conn), dialled, over, offered: false, certificate_expires }
    }
}

impl Peer {
    pub(crate) fn new(settings: &PeerSettings, me: &NodeId) -> Self {
        Peer {
            id: settings.id.clone(),
            decides: *me < settings.id,
            transport: settings.transport,
            dial: Dial::Idle,
            next_over: match settings.transport {
                Transport::Auto | Transport::Quic => Over::Quic,
                Transport::Grpc => Over::Grpc,
            },
            backoff: Backoff::default(),
            candidates: Vec::new(),
            session: None,
            displaced: VecDeque::new(),
            quarantine: Timestamp::ZERO,
            status: PeerStatus::new(settings.id.clone(), settings.address),
        }
    }

    /// Whether a session over this may take the place of the one that stands, without a gap.
    pub(crate) fn would_be_better(&self, over: Over) -> bool {
        let Some(session) = &self.session else { return false };
        (self.transport, session.over, over) == (Transport::Auto, Over::Grpc, Over::Quic)
            || (session.ageing && session.over == over)
    }

    /// What to dial over for a session that would be better than the one that stands.
    pub(crate) fn better_over(&self) -> Option<Over> {
        let ageing = self.session.as_ref().filter(|session| session.ageing).map(|session| session.over);
        ageing.or_else(|| self.would_be_better(Over::Quic).then_some(Over::Quic))
    }

    /// Whether nothing stands and nothing is on its way.
    pub(crate) fn is_alone(&self) -> bool {
        self.session.is_none() && self.candidates.is_empty() && self.dial == Dial::Idle
    }

    /// A dial over this came to nothing: the next one tries the other, if the peer may be reached either way.
    pub(crate) fn try_other_carrier(&mut self, over: Over) {
        self.next_over = match (self.transport, over) {
            (Transport::Auto, Over::Quic) | (Transport::Grpc, _) => Over::Grpc,
            (Transport::Auto, Over::Grpc) | (Transport::Quic, _) => Over::Quic,
        };
    }

    pub(crate) fn has_session_on(&self, conn: ConnId) -> bool {
        self.session.as_ref().is_some_and(|session| session.link.conn == conn)
    }

    pub(crate) fn take_candidate(&mut self, conn: ConnId) -> Option<Candidate> {
        let place = self.candidates.iter().position(|candidate| candidate.link.conn == conn)?;
        Some(self.candidates.remove(place))
    }

    pub(crate) fn candidate(&mut self, conn: ConnId) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|candidate| candidate.link.conn == conn)
    }

    /// The end that does not decide offers one connection at a time: the first that it has not offered, if none is offered.
    pub(crate) fn next_offer(&self) -> Option<ConnId> {
        if self.decides || self.candidates.iter().any(|candidate| candidate.offered) {
            return None;
        }
        self.candidates.first().map(|candidate| candidate.link.conn)
    }

    /// Remembers the boot of a process whose session another process took over.
    pub(crate) fn displace(&mut self, boot: u64) {
        if self.displaced.len() == MOST_DISPLACED {
            self.displaced.pop_front();
        }
        self.displaced.push_back(boot);
    }

    /// Whether a process may have a session: not if another took its place and still has it.
    pub(crate) fn admits(&mut self, boot: u64) -> bool {
        if self.session.as_ref().is_some_and(|session| session.boot != boot) && self.displaced.contains(&boot)
        {
            return false;
        }
        self.displaced.retain(|displaced| *displaced != boot);
        true
    }

    /// When it was last heard, in the session if there is one.
    pub(crate) fn last_word(&self) -> Option<Timestamp> {
        self.session.as_ref().and_then(|session| session.link.last_word).or(self.status.last_word)
    }

    /// The status at this moment.
    pub(crate) fn status(&self) -> PeerStatus {
        let mut status = self.status.clone();
        if let Some(session) = &self.session {
            status.sent_seq = session.link.sent;
            status.received_seq = session.link.received;
            status.outbox = session.queue.len();
        }
        status
    }
}
