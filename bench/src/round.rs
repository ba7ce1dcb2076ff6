//! One server's turn, and what an answer cost in it.

use crate::process::Process;
use crate::{Failure, Gdnsd, Generator, Gslb, Interrupt, Load, Tally};
use std::net::SocketAddrV4;
use std::time::Duration;

/// Load before each measurement, so that caches and queues are as they will be.
const WARM_UP: Duration = Duration::from_millis(300);

/// A server that can be measured.
pub(crate) trait Server {
    /// For people.
    const NAME: &str;

    /// Where it answers.
    fn address(&self) -> SocketAddrV4;

    /// Its process.
    fn process(&mut self) -> &mut Process;

    /// Whether what it did is what was to be measured.
    fn check(&mut self, _: &Tally) -> Result<(), Failure> {
        Ok(())
    }
}

/// What the answers of one turn cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// CPU microseconds of the server for each answer.
    pub micros: f64,
    /// Answers a second.
    pub per_second: f64,
    /// Queries without an answer, of all.
    pub loss: f64,
}

/// A turn of each server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// gslb-dns.
    pub ours: Cost,
    /// gdnsd.
    pub theirs: Cost,
}

impl Round {
    /// Both, one after the other.
    pub fn measure(
        ours: &mut Gslb,
        theirs: &mut Gdnsd,
        load: &Load,
        time: Duration,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        Ok(Round {
            ours: measure(ours, load, time, interrupt)?,
            theirs: measure(theirs, load, time, interrupt)?,
        })
    }

    /// What ours cost in terms of theirs.
    pub fn ratio(&self) -> f64 {
        self.ours.micros / self.theirs.micros
    }
}

fn measure<S: Server>(
    server: &mut S,
    load: &Load,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<Cost, Failure> {
    let mut generator = Generator::connect(server.address(), load)?;
    generator.run(WARM_UP, interrupt)?;
    let before = server.process().cpu_time()?;
    let tally = generator.run(time, interrupt)?;
    let used = server.process().cpu_time()?.saturating_sub(before);
    server.process().check()?;
    server.check(&tally)?;
    match tally {
        Tally { wrong: 1.., .. } => Err(Failure::Wrong(S::NAME, tally.wrong)),
        Tally { received: 0, .. } => Err(Failure::Silent(S::NAME)),
        _ => Ok(Cost::of(&tally, used)),
    }
}

impl Cost {
    fn of(tally: &Tally, used: Duration) -> Self {
        let answers = tally.received as f64;
        Cost {
            micros: used.as_secs_f64() * 1e6 / answers,
            per_second: answers / tally.time.as_secs_f64(),
            loss: 1.0 - answers / tally.sent as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_time_over_answers() {
        let tally = Tally { sent: 1000, received: 900, wrong: 0, time: Duration::from_secs(3) };
        let cost = Cost::of(&tally, Duration::from_micros(1800));
        assert_eq!((cost.micros, cost.per_second), (2.0, 300.0));
        assert!((cost.loss - 0.1).abs() < 1e-9);
    }
}
