//! What the machine hands out, and why a session ended.

use crate::carrier::CarrierCommand;
use crate::{KnownSession, PeerState, RttRow, ServiceMetric, Sighting};
use gslb_types::{NodeId, SiteName};
use std::time::Duration;

/// What happened, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Something for the carrier to do.
    Carrier(CarrierCommand),
    /// A session stands: both hellos have come. What the peer says from here on confirms what it says.
    PeerUp {
        /// Who.
        peer: NodeId,
    },
    /// A session ended. What the peer said stays said until it is too old.
    PeerDown {
        /// Who.
        peer: NodeId,
        /// Why.
        reason: DownReason,
    },
    /// A session that stands is in doubt, or no longer: nothing but what is shown of it changes.
    PeerTurned {
        /// Who.
        peer: NodeId,
        /// Suspect, or up again.
        state: PeerState,
    },
    /// The peer has told all it knew when the session began.
    Synced {
        /// Who.
        peer: NodeId,
    },
    /// What the peer's site advertises. Rows of LDNS without an entry here can be dropped: the entry asks for them when it
    /// is made, by [`Mep::want`](crate::Mep::want) or by a fresh sighting.
    Rtts {
        /// Who says so; of relayed rows, the relay.
        peer: NodeId,
        /// The only column these rows may be written to: the site in the peer's certificate, or the one it was asked to relay
        /// (threat T8).
        site: SiteName,
        /// The rows.
        rows: Vec<RttRow>,
        /// Who relays them; `None` if the site itself says so.
        via: Option<NodeId>,
        /// How long before its frame the relay last heard who tells the site's column: what silence about its other values
        /// confirms is as old as this. Zero if the site itself says so.
        word_age: Duration,
    },
    /// LDNS the peer knows to have asked.
    Sightings {
        /// Who says so.
        peer: NodeId,
        /// The LDNS.
        sightings: Vec<Sighting>,
    },
    /// Services as the peer's site sees them. Whether they stand in that site is for the owner to check, who knows the
    /// configuration.
    Metrics {
        /// Who says so; of relayed metrics, the node of the site, not the relay.
        peer: NodeId,
        /// Its site.
        site: SiteName,
        /// How long ago the values were taken.
        age: Duration,
        /// The services; those not named keep what was said of them.
        services: Vec<ServiceMetric>,
        /// Who relays them; `None` if the site itself says so.
        via: Option<NodeId>,
        /// As in [`Output::Rtts`].
        word_age: Duration,
    },
    /// No node of this site is heard directly, and a peer that hears one relays what it says from here on. It comes again when the
    /// relay begins anew, as over another connection or because this node read too slowly: that some values came to an end may
    /// have got lost, so that its words confirm from then on what it tells from then on.
    RelayUp {
        /// The site.
        site: SiteName,
        /// The relay.
        via: NodeId,
    },
    /// Nobody relays this site any longer. It is silent, unless it is heard directly or another `RelayUp` follows.
    RelayDown {
        /// The site.
        site: SiteName,
        /// Who relayed it.
        via: NodeId,
        /// Why it ended, for an operator.
        reason: String,
    },
    /// Nobody but the relay claims to hear this site, and others say that they do not hear it: either only the relay still reaches
    /// it, or the relay claims what is not so (threat T8). Its words count on; an operator should look at both.
    Contested {
        /// The site.
        site: SiteName,
        /// The relay.
        via: NodeId,
        /// Who does not hear the site.
        deniers: Vec<NodeId>,
    },
    /// That is over: others hear the site, too, or it is not relayed any longer.
    Settled {
        /// The site.
        site: SiteName,
    },
    /// Uses of persistence sessions. Of two uses of one key the newer counts.
    Sessions {
        /// Who says so.
        peer: NodeId,
        /// The sessions.
        sessions: Vec<KnownSession>,
    },
}

/// Why a session ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DownReason {
    /// Nothing came for the keepalive. The connection is closed; this node dials again.
    #[error("no word for {0:?}")]
    Silent(Duration),
    /// Words come, but say that ours do not arrive (faults I-45). Both ends see the session end.
    #[error("it has not heard this node for {0:?}")]
    NotHeard(Duration),
    /// The peer stopped in good order.
    #[error("peer closed: {0}")]
    Goodbye(String),
    /// The connection broke, or the peer closed it for the reason it gave.
    #[error("connection closed: {0}")]
    Closed(String),
    /// A process with another boot id took the session over: the peer was restarted, or two processes claim one identity,
    /// of which the later one has it until it is gone (faults I-52).
    #[error("its process was started anew, or another one claims its identity")]
    Restarted,
    /// The peer lost this session before we did, and has made another.
    #[error("the peer has made a new connection")]
    Superseded,
    /// The peer breaks the protocol beyond what is skipped and counted.
    #[error("closed for breaking the protocol: {0}")]
    Misbehaved(String),
    /// So many withdrawals wait, more than are kept, because it does not read. In another session its words confirm nothing of
    /// what was told in this one, so what it could not be told ages out there.
    #[error("too far behind: {0} withdrawals wait")]
    Behind(usize),
    /// This node stops.
    #[error("this node stops")]
    Shutdown,
}

impl DownReason {
    /// The word for it in counters.
    pub const fn kind(&self) -> &'static str {
        match self {
            DownReason::Silent(_) => "silent",
            DownReason::NotHeard(_) => "not_heard",
            DownReason::Goodbye(_) => "goodbye",
            DownReason::Closed(_) => "closed",
            DownReason::Restarted => "restarted",
            DownReason::Superseded => "superseded",
            DownReason::Misbehaved(_) => "misbehaved",
            DownReason::Behind(_) => "behind",
            DownReason::Shutdown => "shutdown",
        }
    }
}
