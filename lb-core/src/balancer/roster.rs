//! The members: who is there, who joined and who left.

use super::member::{Drain, Member};
use super::ramp::Ramp;
use super::sessions::Sessions;
use super::{Balancer, LocalPersistence, MemberId, MemberSettings, Out};
use gslb_types::{ServiceName, Timestamp};
use std::time::Duration;

impl Balancer {
    /// Changes something of a member, and draws the consequences if it joins or leaves by that.
    pub(super) fn change(&mut self, now: Timestamp, name: &ServiceName, how: impl FnOnce(&mut Member)) {
        if let Some(member) = self.members.iter_mut().find(|m| m.settings.name == *name) {
            let stood = member.standing().is_none();
            how(member);
            match (stood, member.standing().is_none()) {
                (false, true) => {
                    member.join(now);
                    self.startup.handle_service_joined();
                }
                (true, false) => self.startup.handle_service_left(),
                (true, true) | (false, false) => (),
            }
            if matches!(member.standing(), Some(out) if out != Out::Learning) {
                member.been_out = true;
            }
        }
    }

    pub(super) fn member_mut(&mut self, id: MemberId) -> Option<&mut Member> {
        self.members.iter_mut().chain(&mut self.retired).find(|m| m.id == id)
    }

    /// The members of these settings, in their order. Those of a name that is there already stay what they are.
    pub(super) fn replace_members(&mut self, now: Timestamp, settings: Vec<MemberSettings>) {
        let first = self.next_id == 0;
        let before: Vec<ServiceName> = self.members.iter().map(|m| m.settings.name.clone()).collect();
        let mut old = std::mem::take(&mut self.members);
        for wanted in settings {
            let known = old.iter().position(|m| m.settings.name == wanted.name);
            let member = match known {
                Some(at) => old.swap_remove(at),
                None => self.arrival(&wanted, first),
            };
            self.members.push(member);
            let name = wanted.name.clone();
            self.change(now, &name, |member| {
                if member.settings.enabled != wanted.enabled {
                    member.enabled = wanted.enabled;
                }
                member.settings = wanted;
            });
        }
        for member in old {
            if member.standing().is_none() {
                self.startup.handle_service_left();
            }
            if member.active > 0 {
                self.retired.push(member);
            }
        }
        self.move_pointer(&before);
    }

    /// A member that was not there: a new one, or one that was taken away while transactions ran and still run there. Its
    /// health has to be told anew.
    fn arrival(&mut self, settings: &MemberSettings, first: bool) -> Member {
        if let Some(at) = self.retired.iter().position(|m| m.settings.name == settings.name) {
            let old = self.retired.swap_remove(at);
            let fresh = Member::new(old.id, settings.clone());
            return Member {
                active: old.active,
                totals: old.totals,
                window: old.window,
                been_out: true,
                ..fresh
            };
        }
        let id = MemberId(self.next_id);
        self.next_id += 1;
        Member { been_out: !first, ..Member::new(id, settings.clone()) }
    }

    /// The pointer stays at its member, or at the last one before it that is still there: so the same one is next as before.
    fn move_pointer(&mut self, before: &[ServiceName]) {
        let last = self.pointer.take();
        let upto = before.get(..last.map_or(0, |at| at + 1)).unwrap_or(before);
        self.pointer =
            upto.iter().rev().find_map(|name| self.members.iter().position(|m| m.settings.name == *name));
    }

    pub(super) fn set_persistence(&mut self, persistence: LocalPersistence) {
        self.persistence = persistence;
        match persistence {
            LocalPersistence::SourceIp { mask_v4, mask_v6, timeout, cap } => {
                self.sessions.reconfigure((mask_v4, mask_v6), timeout, cap);
            }
            LocalPersistence::None | LocalPersistence::Cookie => {
                self.sessions = Sessions::new((32, 128), Duration::ZERO, 0);
            }
        }
    }
}

impl Member {
    /// It takes part from this moment on.
    fn join(&mut self, now: Timestamp) {
        self.ramp = if self.been_out { Ramp::begin(now) } else { Ramp::Full };
    }

    /// Whether its drain has come to its end.
    pub(super) fn drain_ends(&mut self, now: Timestamp) -> bool {
        let ends = matches!(self.drain, Drain::On { until } if until <= now);
        if ends {
            self.drain = Drain::Over;
        }
        ends
    }
}
