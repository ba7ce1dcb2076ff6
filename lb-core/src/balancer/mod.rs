//! One LB virtual server as a machine: told of health, requests and traffic, it says who gets the next request.
//!
//! ```text
//!   request --> persistence --> who takes part --> ramp --> method (or startup round robin) --> pick
//!               kept there      up, enabled, not   rations  choose(), with pointer and round    active + 1
//!               while it can    draining, below    who came
//!                               its limits         back
//! ```
//!
//! The caller says what becomes of each pick: [`Balancer::reached`], [`Balancer::first_byte`], [`Balancer::traffic`], and in the
//! end exactly one of [`Balancer::ended`] and [`Balancer::unsent`]. A pick allocates nothing, but for a client that begins a session.

mod member;
mod outcome;
mod ramp;
mod roster;
mod select;
mod sessions;
mod settings;
mod view;

pub use outcome::{MemberId, NoService, Out, Output, Pick, PickedBy};
pub use settings::{BalancerSettings, LocalPersistence, MemberSettings};
pub use view::{BalancerView, MemberView};

use crate::{Candidate, Measure, ServiceId, SlowStart};
use gslb_types::{LbMethod, Rtt, ServiceName, ServiceState, Timestamp};
use member::{Drain, Member, TimeToFirstByte};
use select::Chosen;
use sessions::Sessions;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    /// Where the request comes from.
    pub address: IpAddr,
    /// What its persistence cookie says.
    pub cookie: Option<ServiceId>,
}

/// One LB virtual server.
#[derive(Clone, Debug)]
pub struct Balancer {
    method: LbMethod,
    slow_start: Duration,
    persistence: LocalPersistence,
    members: Vec<Member>,
    /// Members the configuration has no more, for as long as transactions run there.
    retired: Vec<Member>,
    next_id: u64,
    startup: SlowStart,
    /// The position of the member that got the last request.
    pointer: Option<usize>,
    /// Choices that took a turn.
    round: u64,
    /// Those among them for requests that were refused once. They go round by themselves: if they took turns of the others,
    /// always the same services would be left out where refusals come in the time of the round.
    second_round: u64,
    sessions: Sessions,
    refused: [u64; NoService::ALL.len()],
    outputs: VecDeque<Output>,
    /// The candidates of the choice under way; kept for its memory.
    candidates: Vec<Candidate>,
}

impl Balancer {
    /// A virtual server that has seen no request, and of whose members nothing is known.
    pub fn new(now: Timestamp, settings: BalancerSettings) -> Self {
        let mut new = Balancer {
            method: settings.method,
            slow_start: settings.slow_start,
            persistence: settings.persistence,
            members: Vec::new(),
            retired: Vec::new(),
            next_id: 0,
            startup: SlowStart::new(settings.startup_rr_factor),
            pointer: None,
            round: 0,
            second_round: 0,
            sessions: Sessions::new((32, 128), Duration::ZERO, 0),
            refused: [0; NoService::ALL.len()],
            outputs: VecDeque::new(),
            candidates: Vec::new(),
        };
        new.reconfigure(now, settings);
        new
    }

    /// Other settings. What is known of members of the same name stays, their sessions and the pointer too.
    pub fn reconfigure(&mut self, now: Timestamp, settings: BalancerSettings) {
        self.startup.handle_factor(settings.startup_rr_factor);
        if settings.method != self.method {
            self.startup.handle_method_changed();
        }
        (self.method, self.slow_start) = (settings.method, settings.slow_start);
        self.set_persistence(settings.persistence);
        self.replace_members(now, settings.members);
        self.candidates.reserve(self.members.len());
    }

    /// What the monitors say of a service: its state and the mean of their response times.
    pub fn handle_health(
        &mut self,
        now: Timestamp,
        name: &ServiceName,
        state: ServiceState,
        response_time: Option<Rtt>,
    ) {
        self.change(now, name, |member| {
            if state == ServiceState::Up && member.state == ServiceState::Down {
                member.ttfb = TimeToFirstByte::default();
            }
            (member.state, member.response_time) = (state, response_time);
        });
    }

    /// What is told of a service's load, by the operator's own reckoning, in thousandths.
    pub fn handle_load(&mut self, now: Timestamp, name: &ServiceName, load: Option<u64>) {
        self.change(now, name, |member| member.load = load);
    }

    /// Begins to drain a service, or takes that back (`None`): it gets no new transactions, those under way may go on for so
    /// long, and what still runs then is to be cut ([`Output::Cut`]). Persistence keeps clients there until the deadline.
    pub fn handle_drain(&mut self, now: Timestamp, name: &ServiceName, deadline: Option<Duration>) {
        let drain = deadline.map_or(Drain::Off, |left| Drain::On { until: now + left });
        self.change(now, name, |member| member.drain = drain);
    }

    /// Lets a service take part, or takes it out, until told otherwise or configured otherwise.
    pub fn handle_enabled(&mut self, now: Timestamp, name: &ServiceName, enabled: bool) {
        self.change(now, name, |member| member.enabled = enabled);
    }

    /// Chooses who gets a request and counts it as under way there. `tried` are those that refused this very request.
    pub fn pick(&mut self, now: Timestamp, client: &Client, tried: &[MemberId]) -> Result<Pick, NoService> {
        let chosen = self.select(now, client, tried).inspect_err(|none| {
            let counter = NoService::ALL.iter().position(|n| n == none);
            if let Some(count) = counter.and_then(|at| self.refused.get_mut(at)) {
                *count = count.saturating_add(1);
            }
        })?;
        let Chosen { position, why, score, tied } = chosen;
        let member = self.members.get_mut(position).ok_or(NoService::Empty)?;
        member.begin();
        self.pointer = Some(position);
        // A request that persistence keeps, and a second try, are nobody's turn.
        if tried.is_empty() && !matches!(why, PickedBy::SourceIp | PickedBy::Cookie) {
            self.startup.handle_request();
        }
        if matches!(self.persistence, LocalPersistence::SourceIp { .. }) {
            self.sessions.used(now, client.address, member.id);
        }
        let (name, id) = (member.settings.name.clone(), member.service);
        Ok(Pick { member: member.id, position, name, id, why, score, tied })
    }

    /// The first byte of a response came, so long after the request was sent. Only responses with status 200 may be told
    /// ([S-LRT]): an error page is quick whatever the service does.
    pub fn first_byte(&mut self, _now: Timestamp, member: MemberId, ttfb: Rtt) {
        if let Some(member) = self.member_mut(member) {
            member.ttfb.add(ttfb);
        }
    }

    /// Traffic of a member's transactions, both ways together.
    pub fn traffic(&mut self, now: Timestamp, member: MemberId, bytes: u64, packets: u64) {
        if let Some(member) = self.member_mut(member) {
            member.add_traffic(now, bytes, packets);
        }
    }

    /// Something of a transaction reached the member: it is a request of the member's. To be told once, before
    /// [`Balancer::ended`].
    pub fn reached(&mut self, _now: Timestamp, member: MemberId) {
        if let Some(member) = self.member_mut(member) {
            member.count_request();
        }
    }

    /// A transaction is over.
    pub fn ended(&mut self, _now: Timestamp, member: MemberId) {
        if let Some(member) = self.member_mut(member) {
            member.end();
        }
        self.retired.retain(|m| m.active > 0);
    }

    /// A transaction never reached the member: it is over, and was no request of the member's.
    pub fn unsent(&mut self, now: Timestamp, member: MemberId) {
        self.ended(now, member);
    }

    /// Carries out what is due: ends of drains and of sessions.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.sessions.handle_timeout(now);
        for member in self.members.iter_mut().chain(&mut self.retired) {
            if member.drain_ends(now) {
                self.outputs.push_back(Output::Cut(member.id));
            }
        }
    }

    /// When [`Balancer::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let drains = self.members.iter().chain(&self.retired).filter_map(|m| match m.drain {
            Drain::On { until } => Some(until),
            Drain::Off | Drain::Over => None,
        });
        drains.chain(self.sessions.poll_timeout()).min()
    }

    /// What the virtual server wants done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether some member could take a request of a new client at this moment, or why none could (faults I-72).
    pub fn availability(&self, now: Timestamp) -> Result<(), NoService> {
        let mut none = NoService::Empty;
        for member in &self.members {
            match member.out(now) {
                None => return Ok(()),
                Some(out) => none = none.max(out.as_no_service()),
            }
        }
        Err(none)
    }

    /// Everything it can show of itself.
    pub fn view(&self, now: Timestamp) -> BalancerView {
        let row = |member: &Member| member.candidate(now, 0, self.method);
        let rows: Vec<Candidate> = self.members.iter().map(row).collect();
        let measure = Measure::of(self.method, &rows);
        let (state, reason) = self.effective_state(now);
        let names = self.pointer.and_then(|at| self.members.get(at));
        BalancerView {
            state,
            reason,
            method: self.method,
            startup_left: self.startup.left(),
            pointer: names.map(|m| m.settings.name.clone()),
            sessions: self.sessions.len(),
            retired_active: self.retired.iter().map(|m| u64::from(m.active)).sum(),
            refused: NoService::ALL.into_iter().zip(self.refused).filter(|(_, count)| *count > 0).collect(),
            members: self.members.iter().map(|m| MemberView::of(m, now, self.slow_start, measure)).collect(),
        }
    }

    /// LEARNING rather than DOWN as long as nothing is known of a member that could turn out to be up.
    fn effective_state(&self, now: Timestamp) -> (ServiceState, Option<NoService>) {
        let learning = |m: &Member| m.out(now) == Some(Out::Learning);
        match self.availability(now) {
            Ok(()) => (ServiceState::Up, None),
            Err(none) if self.members.iter().any(learning) => (ServiceState::Learning, Some(none)),
            Err(none) => (ServiceState::Down, Some(none)),
        }
    }
}
