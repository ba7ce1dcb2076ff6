//! From steps to a world in which they happen.

use super::claim::{Claim, Counted, Mark};
use super::{Action, Deed, Expected, Query, Scenario, Step, Ways, When};
use crate::world::{Answer, HostIndex, Reply, World};
use gslb_types::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// A step that did not come out as expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// The step's line.
    pub line: usize,
    /// The step.
    pub step: String,
    /// The world's time.
    pub at: Timestamp,
    /// What was instead.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {:?}): {}", self.line, self.step, self.at, self.why)
    }
}

/// Plays a script. The seed is the world's: a script must hold with any.
pub fn run(scenario: &Scenario, seed: u64) -> Result<World, Failure> {
    let fail = |step: Option<&Step>, at, why| Failure {
        line: step.map_or(0, |step| step.line),
        step: step.map_or_else(String::new, |step| step.text.clone()),
        at,
        why,
    };
    let world = World::new(scenario.group.clone(), seed);
    let world = world.map_err(|errors| fail(None, Timestamp::ZERO, errors.to_string()))?;
    let mut player = Player { world, counts: BTreeMap::new() };
    for step in &scenario.steps {
        let result = player.play(step);
        let violation = player.world.violation().map(|violation| Err(violation.to_string()));
        violation.unwrap_or(result).map_err(|why| fail(Some(step), player.world.now(), why))?;
    }
    Ok(player.world)
}

struct Player {
    world: World,
    /// What had been counted at the mark, by what is counted.
    counts: BTreeMap<String, u64>,
}

impl Player {
    fn play(&mut self, step: &Step) -> Result<(), String> {
        match step.when {
            When::Now => {}
            When::After(span) => self.world.drive(span),
            When::At(time) => {
                let now = self.world.now().since(Timestamp::ZERO);
                let span = time.checked_sub(now).ok_or(format!("it is {now:?} already"))?;
                self.world.drive(span);
            }
        }
        self.act(&step.action)
    }

    fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Process(who, deed) => who.iter().for_each(|n| self.process(*n, *deed)),
            Action::Cut(a, b, Ways::Both) => self.world.cut(*a, *b),
            Action::Cut(a, b, Ways::One) => self.world.cut_one_way(*a, *b),
            Action::Isolate(who) => {
                let others = (0..self.world.hosts().len()).filter(|n| !who.contains(n));
                others
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|b| who.iter().for_each(|a| self.world.cut(*a, b)));
            }
            Action::Wave(a, b, spans, span) => self.world.wave(*a, *b, *spans, *span),
            Action::Heal(a, b) => self.world.heal(*a, *b),
            Action::HealAll => self.world.heal_all(),
            Action::Resolver(ldns, ways) => self.resolver(*ldns, ways),
            Action::Manner(ldns, kinds, manner) => {
                for kind in kinds {
                    self.world.set_manner(*ldns, *kind, *manner);
                }
            }
            Action::Service(service, is_up) => self.world.set_service(*service, *is_up),
            Action::Reach(site, service, is_reached) => self.world.reach(*site, *service, *is_reached),
            Action::Query(query) => return self.query(query),
            Action::Every(pause, span, query) => return self.every(*pause, *span, query),
            Action::Rotate(whom, ldns, services) => return self.rotate(whom, *ldns, services),
            Action::Mark => self.mark(),
            Action::Expect(claim, within) => return self.expect(claim, *within),
        }
        Ok(())
    }

    fn process(&mut self, n: HostIndex, deed: Deed) {
        match deed {
            Deed::Start => self.world.start(n),
            Deed::Kill => self.world.kill(n),
            Deed::Restart => self.world.restart(n),
            Deed::Stop => self.world.stop(n),
            Deed::Freeze(None) => self.world.freeze(n),
            Deed::Freeze(Some(span)) => self.world.freeze_for(n, span),
            Deed::Resume => self.world.resume(n),
            Deed::Stick => self.world.stick(n),
            Deed::Mute(is_mute) => self.world.mute(n, is_mute),
            Deed::Jump(by) => self.world.jump(n, by),
        }
    }

    fn resolver(&mut self, ldns: IpAddr, ways: &[(usize, Duration)]) {
        if !self.world.internet().resolvers.contains_key(&ldns) {
            // Sites without a distance get no reply: slower than any timeout.
            let never = vec![Duration::from_secs(3600); self.world.hosts().len()];
            self.world.put_resolver(ldns, &never);
        }
        for (site, rtt) in ways {
            self.world.move_resolver(ldns, *site, *rtt);
        }
    }

    fn every(&mut self, pause: Duration, span: Duration, query: &Query) -> Result<(), String> {
        let end = self.world.now() + span;
        while self.world.now() < end && self.world.violation().is_none() {
            self.query(query)?;
            self.world.drive(pause);
        }
        Ok(())
    }

    fn query(&mut self, query: &Query) -> Result<(), String> {
        for n in &query.whom {
            let answer = self.world.ask(*n, query.from);
            let is_expected = match (&query.expected, &answer) {
                (Expected::OneOf(services), answer) => {
                    answer.service().is_some_and(|s| services.contains(&s))
                }
                (Expected::Address(address), Answer::Reply(reply)) => reply.addresses == [*address],
                (Expected::Answer, Answer::Reply(reply)) => !reply.addresses.is_empty(),
                (Expected::Nothing, Answer::Reply(reply)) => reply.addresses.is_empty() && reply.has_soa,
                (Expected::Silence, Answer::Silence) => true,
                _ => false,
            };
            if !is_expected {
                let id = self.world.hosts().get(*n).map(|host| host.id().to_string()).unwrap_or_default();
                return Err(format!("{id} answered {}", self.show(&answer)));
            }
        }
        Ok(())
    }

    fn show(&self, answer: &Answer) -> String {
        let services = self.world.hosts().first().map(|h| h.config().services.as_slice()).unwrap_or_default();
        match answer {
            Answer::Dead => "not at all, it does not run".to_owned(),
            Answer::Silence => "not at all".to_owned(),
            Answer::Reply(Reply { addresses, services: found, rcode, .. }) => {
                let names: Vec<_> =
                    found.iter().filter_map(|s| services.get(*s)).map(|s| s.name.to_string()).collect();
                format!("{rcode} {addresses:?} {names:?}")
            }
        }
    }

    fn rotate(&mut self, whom: &[HostIndex], ldns: IpAddr, services: &[usize]) -> Result<(), String> {
        for n in whom {
            let mut times: BTreeMap<Option<usize>, usize> = BTreeMap::new();
            for _ in 0..services.len() * 2 {
                *times.entry(self.world.ask(*n, ldns).service()).or_default() += 1;
            }
            let expected: BTreeMap<Option<usize>, usize> = services.iter().map(|s| (Some(*s), 2)).collect();
            if times != expected {
                return Err(format!("the services got {times:?}"));
            }
        }
        Ok(())
    }

    fn mark(&mut self) {
        let hosts = 0..self.world.hosts().len();
        let pairs = hosts.clone().flat_map(|a| hosts.clone().map(move |b| Counted::Downs(a, b)));
        let resolvers: Vec<IpAddr> = self.world.internet().resolvers.keys().copied().collect();
        let counted = hosts.clone().flat_map(|n| [Counted::Rows(n), Counted::Advertised(n)]);
        let counted = counted.chain(pairs).chain(resolvers.into_iter().map(Counted::Probes));
        self.counts = counted.map(|counted| (format!("{counted:?}"), counted.now(&self.world))).collect();
    }

    fn expect(&mut self, claim: &Claim, within: Duration) -> Result<(), String> {
        let counts = self.counts.clone();
        let at_mark = |counted: Counted| counts.get(&format!("{counted:?}")).copied().unwrap_or(0);
        let mark = Mark(&at_mark);
        if self.world.drive_until(within, |world| claim.check(world, mark).is_ok()).is_some() {
            return Ok(());
        }
        claim.check(&self.world, mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn failure(steps: &str) -> String {
        let script = format!("sites fra iad\nldns 192.0.2.1 fra 20ms iad 90ms\nat 0s start all\n{steps}");
        match run(&parse(&script).unwrap(), 1) {
            Ok(_) => "none".to_owned(),
            Err(failure) => format!("{}: {}", failure.line, failure.why),
        }
    }

    #[test]
    fn a_step_that_comes_out_otherwise_fails_and_says_how_it_was() {
        assert_eq!(failure("at 5s query fra from 192.0.2.1 -> answer"), "none");
        assert_eq!(failure("at 1s expect peers fra iad down within 3s"), "4: 0 -> 1 has Some(Up)");
        assert_eq!(
            failure("at 5s query fra from 192.0.2.1 -> nothing"),
            "4: fra/1 answered No Error [203.0.113.1] [\"web-fra\"]"
        );
        assert_eq!(
            failure("kill fra\nquery fra from 192.0.2.1 -> answer"),
            "5: fra/1 answered not at all, it does not run"
        );
        assert_eq!(failure("at 5s mark\nat 3s mark"), "5: it is 5s already");
        assert_eq!(failure("at 5s expect no row all 192.0.2.1"), "none");
        assert_eq!(failure("at 5s expect row fra 192.0.2.1 fra 20ms"), "4: fra/1 has no row of 192.0.2.1");
    }

    #[test]
    fn what_is_counted_begins_at_the_mark() {
        let steps = "at 5s query fra from 192.0.2.1 -> answer\nat 20s mark\nexpect probes 192.0.2.1 0\nat 31s expect probes 192.0.2.1 at least 4\n";
        assert_eq!(failure(steps), "none");
        let failed = failure(&format!("{steps}expect probes 192.0.2.1 at most 2"));
        assert!(failed.starts_with("8: there were "), "{failed}");
    }
}
