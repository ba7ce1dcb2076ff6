//! Persistence by source IP: which member the client of an address was sent to last.

use super::outcome::MemberId;
use gslb_types::{Timers, Timestamp};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// How many sessions a new one looks at, at most, to find one that may go.
const LOOKS: usize = 8;

/// The sessions of one virtual server.
///
/// A use only notes its time; the deadline of a session is moved when it comes, not at each use. So a request of a known
/// client costs one look-up, and one timer per session is all there is.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    masks: (u8, u8),
    idle_timeout: Duration,
    cap: usize,
    by_client: BTreeMap<IpAddr, Session>,
    deadlines: Timers<IpAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    member: MemberId,
    used: Timestamp,
}

impl Sessions {
    pub(super) fn new(masks: (u8, u8), idle_timeout: Duration, cap: usize) -> Self {
        Sessions { masks, idle_timeout, cap, by_client: BTreeMap::new(), deadlines: Timers::new() }
    }

    /// Other settings for the same sessions. Other masks make other clients, so the sessions begin anew.
    pub(super) fn reconfigure(&mut self, masks: (u8, u8), idle_timeout: Duration, cap: usize) {
        if masks != self.masks {
            *self = Sessions::new(masks, idle_timeout, cap);
            return;
        }
        (self.idle_timeout, self.cap) = (idle_timeout, cap);
        while self.by_client.len() > cap {
            self.push_out();
        }
        for (client, session) in &self.by_client {
            self.deadlines.set(*client, session.used + idle_timeout);
        }
    }

    /// The member of this client, if it has a session that is not over.
    pub(super) fn member_of(&self, now: Timestamp, client: IpAddr) -> Option<MemberId> {
        let session = self.by_client.get(&self.masked(client))?;
        (now.since(session.used) < self.idle_timeout).then_some(session.member)
    }

    /// The client was sent to this member.
    pub(super) fn used(&mut self, now: Timestamp, client: IpAddr, member: MemberId) {
        let client = self.masked(client);
        if let Some(session) = self.by_client.get_mut(&client) {
            *session = Session { member, used: now };
            return;
        }
        if self.cap == 0 {
            return;
        }
        while self.by_client.len() >= self.cap {
            self.push_out();
        }
        self.by_client.insert(client, Session { member, used: now });
        self.deadlines.set(client, now + self.idle_timeout);
    }

    /// Forgets what is over.
    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(client) = self.deadlines.expired(now) {
            let Some(session) = self.by_client.get(&client) else { continue };
            let over = session.used + self.idle_timeout;
            if over > now {
                self.deadlines.set(client, over);
            } else {
                self.by_client.remove(&client);
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.deadlines.next()
    }

    pub(super) fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Takes out one session: of those whose deadline comes next, the first that was not used since the deadline was set, else
    /// the one used longest ago. The table may be as large as it is: the cost is that of a few looks.
    fn push_out(&mut self) {
        let mut oldest: Option<(Timestamp, IpAddr)> = None;
        for _ in 0..LOOKS {
            let Some(deadline) = self.deadlines.next() else { break };
            let Some(client) = self.deadlines.expired(deadline) else { break };
            let Some(session) = self.by_client.get(&client) else { continue };
            let over = session.used + self.idle_timeout;
            if over <= deadline {
                self.by_client.remove(&client);
                return;
            }
            self.deadlines.set(client, over);
            oldest = oldest.min(Some((session.used, client))).or(Some((session.used, client)));
        }
        if let Some((_, client)) = oldest.or_else(|| self.any()) {
            self.by_client.remove(&client);
            self.deadlines.stop(client);
        }
    }

    fn any(&self) -> Option<(Timestamp, IpAddr)> {
        self.by_client.first_key_value().map(|(client, session)| (session.used, *client))
    }

    /// The address with the bits beyond the mask cleared; an IPv4 address in IPv6 form is the IPv4 address.
    fn masked(&self, client: IpAddr) -> IpAddr {
        match client.to_canonical() {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.masks.0.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(a) & mask))
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.masks.1.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(a) & mask))
            }
        }
    }
}
