//! The choice for one request: who is kept, who takes part, who is rationed, and what the method says.

use super::member::Member;
use super::ramp::FULL;
use super::{Balancer, Client, LocalPersistence, MemberId, NoService, Out, PickedBy};
use crate::hash::percentile;
use crate::{Candidate, Measure, Score, choose};
use gslb_types::{LbMethod, Timestamp};
use std::net::IpAddr;

/// The member chosen.
pub(super) struct Chosen {
    pub(super) position: usize,
    pub(super) why: PickedBy,
    pub(super) score: Option<Score>,
    pub(super) tied: usize,
}

impl Chosen {
    const fn without_score(position: usize, why: PickedBy) -> Self {
        Chosen { position, why, score: None, tied: 1 }
    }
}

impl Balancer {
    pub(super) fn select(
        &mut self,
        now: Timestamp,
        client: &Client,
        tried: &[MemberId],
    ) -> Result<Chosen, NoService> {
        if let Some(kept) = self.kept(now, client, tried) {
            return Ok(kept);
        }
        self.gather(now, tried)?;
        let method = self.startup.method(self.method);
        if let Some(position) = self.ration(now, method, client.address, tried.is_empty()) {
            return Ok(Chosen::without_score(position, PickedBy::Ramp));
        }
        let round = if tried.is_empty() { &mut self.round } else { &mut self.second_round };
        let choice =
            choose(method, &self.candidates, self.pointer, *round, client.address).ok_or(NoService::Empty)?;
        *round = round.wrapping_add(u64::from(choice.took_turn));
        let position = self.candidates.get(choice.index).map_or(0, |c| c.position);
        let why = PickedBy::Method(choice.why);
        Ok(Chosen { position, why, score: choice.score, tied: choice.tied })
    }

    /// The member that persistence keeps the client at. It outranks the method, but not the limits: a client whose member is
    /// full is served by another, and so is one whose member refused the request; its session goes along.
    fn kept(&self, now: Timestamp, client: &Client, tried: &[MemberId]) -> Option<Chosen> {
        let (of_client, why): (&dyn Fn(&Member) -> bool, _) = match self.persistence {
            LocalPersistence::None => return None,
            LocalPersistence::Cookie => {
                let service = client.cookie?;
                (&move |m| m.service == service, PickedBy::Cookie)
            }
            LocalPersistence::SourceIp { .. } => {
                let id = self.sessions.member_of(now, client.address)?;
                (&move |m| m.id == id, PickedBy::SourceIp)
            }
        };
        let position = self.members.iter().position(of_client)?;
        let member = self.members.get(position)?;
        let stays = member.keeps_sessions(now) && !tried.contains(&member.id);
        stays.then(|| Chosen::without_score(position, why))
    }

    /// Fills in the candidates: members that are up and can take a request, or while there are none, those not checked yet.
    fn gather(&mut self, now: Timestamp, tried: &[MemberId]) -> Result<(), NoService> {
        self.candidates.clear();
        let mut none = NoService::Empty;
        for (position, member) in self.members.iter().enumerate() {
            match member.out(now) {
                None if tried.contains(&member.id) => none = none.max(NoService::AllTried),
                None => self.candidates.push(member.candidate(now, position, self.method)),
                Some(out) => none = none.max(out.as_no_service()),
            }
        }
        if self.candidates.is_empty() {
            for (position, member) in self.members.iter().enumerate() {
                if member.out(now) == Some(Out::Learning) && !tried.contains(&member.id) {
                    self.candidates.push(member.candidate(now, position, self.method));
                }
            }
        }
        if self.candidates.is_empty() { Err(none) } else { Ok(()) }
    }

    /// Leaves out the candidates that came back and whose turn it is not. Returns one that gets the request by its turn alone,
    /// because the method compares nothing, or nothing of this member that is known.
    /// Turns are saved up by the request, not by the try.
    fn ration(&mut self, now: Timestamp, method: LbMethod, client: IpAddr, saves_up: bool) -> Option<usize> {
        let percent = |members: &[Member], c: &Candidate| {
            members.get(c.position).map_or(FULL, |m| m.ramp.percent(now, self.slow_start))
        };
        let top = self.candidates.iter().map(|c| percent(&self.members, c)).max().unwrap_or(FULL);
        if self.candidates.iter().all(|c| percent(&self.members, c) == top) {
            return None;
        }
        if method == LbMethod::SourceIpHash {
            // By client and not by turn: a client that the member has won back stays won.
            self.candidates.retain(|c| percentile(c.id, client) * top < percent(&self.members, c) * FULL);
            return None;
        }
        let share = |members: &[Member], c: &Candidate| u64::from(c.weight.get()) * percent(members, c);
        let all = self.candidates.iter().map(|c| share(&self.members, c)).sum();
        let mut holder: Option<(u64, usize)> = None;
        for candidate in &self.candidates {
            if percent(&self.members, candidate) == top {
                continue;
            }
            let mine = share(&self.members, candidate);
            let Some(member) = self.members.get_mut(candidate.position) else { continue };
            if saves_up {
                member.ramp.save_up(mine, all);
            }
            if let Some(credit) = member.ramp.turn()
                && holder.is_none_or(|(most, _)| credit > most)
            {
                holder = Some((credit, candidate.position));
            }
        }
        let holder = holder.map(|(_, position)| position);
        if let Some(member) = holder.and_then(|position| self.members.get_mut(position)) {
            member.ramp.pay();
        }
        self.candidates.retain(|c| Some(c.position) == holder || percent(&self.members, c) == top);
        let measure = Measure::of(method, &self.candidates);
        let compared = |c: &&Candidate| measure.is_some_and(|m| m.score(c).is_some());
        holder.filter(|position| {
            !self.candidates.iter().filter(|c| c.position == *position).any(|c| compared(&c))
        })
    }
}
