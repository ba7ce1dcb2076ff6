//! Persistence sessions in a storm: used at any node, and the same at all of them in the end.
//!
//! An age travels instead of a time, so that a use is taken for younger by as long as its frame was held back (faults I-57).
//! Which of two uses is the newer one is therefore left open where they may be on their way at once: there a client is sent to
//! the same service.

use super::Storm;
use crate::witness::Invariant;
use crate::world::HostIndex;
use gslb_core::SessionKey;
use gslb_types::Timestamp;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Clients in a storm.
const CLIENTS: u32 = 12;

/// Clients that come in the peace after it.
const LATE: u32 = 6;

/// For how long a use may be on its way: a connection outlives a cut of 30 s, and a process one of 40 s that stands still.
const UNDER_WAY: Duration = Duration::from_secs(90);

/// A session that was used so lately has ended nowhere: less than the idle timeout, whatever a clock gains.
const ALIVE: Duration = Duration::from_secs(100);

/// What clients were last sent to, and when.
#[derive(Default)]
pub(super) struct Sessions(BTreeMap<SessionKey, Use>);

struct Use {
    service: usize,
    at: Timestamp,
    in_peace: bool,
}

impl Storm {
    /// A client is sent to a service.
    pub(super) fn session(&mut self) {
        let (n, client) = (self.host(), self.chance.below(CLIENTS));
        self.use_session(n, client, false);
    }

    /// A clock has jumped: to that node the sessions so far are older than to the others, or have ended.
    pub(super) fn clock_jumped(&mut self) {
        self.sessions.0.clear();
    }

    /// All sessions are told within an exchange interval.
    pub(super) fn last_sessions(&mut self) {
        for client in CLIENTS..CLIENTS + LATE {
            let n = self.host();
            self.use_session(n, client, true);
        }
    }

    fn use_session(&mut self, n: HostIndex, client: u32, in_peace: bool) {
        let address = Ipv4Addr::from_bits(0xc633_6400 + client);
        let key = SessionKey { persistence: 1 + client % 2, client: address.into(), prefix: 32 };
        let any = self.chance.place(self.world.hosts()[0].config().services.len());
        let now = self.world.now();
        let before = self.sessions.0.get(&key).filter(|used| now.since(used.at) < UNDER_WAY);
        let service = before.map_or(any, |used| used.service);
        self.world.remark(format!("{address} is sent to {service} at {n}"));
        if self.world.use_session(n, key, service) {
            self.sessions.0.insert(key, Use { service, at: now, in_peace });
        }
    }

    /// Looks whether all nodes send a client to the same service, and one that came in peace to the one it was sent to.
    pub(super) fn sessions_agree(&mut self) {
        let (now, hosts) = (self.world.now(), self.world.hosts());
        let services = &hosts[0].config().services;
        let wrong = self.sessions.0.iter().find_map(|(key, used)| {
            let known: Vec<_> = hosts.iter().map(|host| host.session(now, key)).collect();
            // Nobody may have been told of it, if who used it was cut off until the end of its process.
            let is_alive = now.since(used.at) < ALIVE && known.iter().any(Option::is_some);
            let said: Vec<_> = known.iter().map(|known| known.as_ref().map(|known| &known.service)).collect();
            let last = services.get(used.service).map(|service| &service.name);
            let differ = said.iter().any(|one| *one != said[0]);
            let is_lost = used.in_peace && said[0] != last;
            ((is_alive && differ) || is_lost)
                .then(|| format!("{} is sent to {said:?}, and was last sent to {last:?}", key.client))
        });
        if let Some(what) = wrong {
            self.world.violated(Invariant::Sessions, what);
        }
    }
}
