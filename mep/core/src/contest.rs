//! What one peer alone claims: that it hears a site which nobody else hears.
//!
//! It may be right, as when all other links to the site are cut, or lie, and keep a dead site in the answers (threat T8). This
//! node cannot know: it takes the relay's word, says aloud that all others contradict it, and asks somebody else as soon as
//! somebody else hears the site, too.

use crate::asking::Relay;
use crate::mep::Mep;
use crate::output::Output;
use crate::peer::Peer;
use gslb_types::{NodeId, SiteName, Timestamp};
use std::time::Duration;

/// That all others contradict the relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    since: Timestamp,
    /// Whether it has been said aloud.
    raised: bool,
}

impl Contest {
    /// When it is to be said aloud, if it has not been. Links take a moment to be told: a site that comes up is heard by one
    /// first, one that dies is lost by one last.
    pub(crate) fn raise_at(self, patience: Duration) -> Option<Timestamp> {
        (!self.raised).then(|| self.since + patience)
    }
}

/// What the others say of a site, the relay apart.
struct Others {
    hear_it: bool,
    deniers: Vec<NodeId>,
}

impl Mep {
    /// Compares a relay's claim to hear the site with what the others say.
    pub(crate) fn judge_relay(&mut self, now: Timestamp, site: &SiteName) {
        let Some(relay) = self.asking.relays.get(site).copied().filter(|relay| relay.stands) else { return };
        let others = self.others(now, site, relay);
        let is_contested = !others.hear_it && !others.deniers.is_empty();
        match relay.contest {
            None if is_contested => self.note_contest(site, Some(Contest { since: now, raised: false })),
            Some(contest) if is_contested => {
                if contest.raise_at(self.doubtful()).is_some_and(|at| at <= now) {
                    self.raise(site, relay, contest.since, others.deniers);
                }
            }
            Some(Contest { raised: true, .. }) if others.hear_it => {
                self.asking.doubt(now, site, relay.place);
                self.drop_relay(now, site, "another peer hears the site, too; this one alone has claimed to");
            }
            contest => {
                self.settle(site, contest);
                self.note_contest(site, None);
            }
        }
    }

    /// A contest is over.
    pub(crate) fn settle(&mut self, site: &SiteName, contest: Option<Contest>) {
        if contest.is_some_and(|contest| contest.raised) {
            self.show_contest(site, None);
            self.outputs.push_back(Output::Settled { site: site.clone() });
        }
    }

    fn raise(&mut self, site: &SiteName, relay: Relay, since: Timestamp, deniers: Vec<NodeId>) {
        self.note_contest(site, Some(Contest { since, raised: true }));
        self.show_contest(site, Some(since));
        let status = &mut self.peers[relay.place].status;
        status.contests += 1;
        let contested = Output::Contested { site: site.clone(), via: status.peer.clone(), deniers };
        self.outputs.push_back(contested);
    }

    fn note_contest(&mut self, site: &SiteName, contest: Option<Contest>) {
        if let Some(relay) = self.asking.relays.get_mut(site) {
            relay.contest = contest;
        }
    }

    fn show_contest(&mut self, site: &SiteName, since: Option<Timestamp>) {
        for peer in self.peers.iter_mut().filter(|peer| peer.id.site == *site) {
            peer.status.contested = since;
        }
    }

    /// Only who has told its links lately has a say, and only of sites that stand in its configuration.
    fn others(&self, now: Timestamp, site: &SiteName, relay: Relay) -> Others {
        let keepalive = self.settings.keepalive;
        let has_say = |(place, peer): &(usize, &Peer)| {
            let is_fresh = peer.status.links_at.is_some_and(|told| now.since(told) < keepalive);
            *place != relay.place && peer.is_synced() && is_fresh
        };
        let peers = || self.peers.iter().enumerate().filter(has_say).map(|(_, peer)| peer);
        let denies = |peer: &&Peer| {
            peer.status.links.iter().any(|link| link.peer.site == *site) && peer.has_lost(site)
        };
        Others {
            hear_it: peers().any(|peer| peer.heard_of(now, site, keepalive).next().is_some()),
            deniers: peers().filter(denies).map(|peer| peer.id.clone()).collect(),
        }
    }
}
