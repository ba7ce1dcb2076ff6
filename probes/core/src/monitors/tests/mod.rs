//! Claims about monitors.

mod faults;
mod pace;
mod reload;
mod storm;
mod undone;
mod verdicts;
mod weights;

use super::*;
use crate::wire::CheckOutcome;
use ServiceState::{Down, Learning, Up};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1000)
}

fn ms(n: u32) -> Rtt {
    Rtt::from_micros(n * 1000)
}

fn tcp(port: u16) -> MonitorSettings {
    MonitorSettings { rise: 2, ..MonitorSettings::new(Check::Tcp, SocketAddr::from(([192, 0, 2, 1], port))) }
}

fn service(index: usize, monitors: Vec<MonitorSettings>) -> ServiceSettings {
    ServiceSettings {
        service: index,
        name: ServiceName::new(&format!("s{index}")).unwrap(),
        monitors,
        threshold: None,
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The machine with the clock and the answers of a checker.
struct Bench {
    machine: Monitors,
    now: Timestamp,
    checks: VecDeque<CheckRequest>,
    verdicts: Vec<(usize, ServiceState)>,
    measured: Vec<(usize, Rtt, Rtt)>,
    remeaned: Vec<(usize, Option<Rtt>)>,
    loads: Vec<(usize, Option<u64>)>,
}

impl Bench {
    fn new(services: Vec<ServiceSettings>) -> Self {
        let mut bench = Bench {
            machine: Monitors::new(7),
            now: at(0),
            checks: VecDeque::new(),
            verdicts: Vec::new(),
            measured: Vec::new(),
            remeaned: Vec::new(),
            loads: Vec::new(),
        };
        bench.machine.set_bindings(at(0), services);
        bench.collect();
        bench
    }

    fn collect(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Check(request) => self.checks.push_back(request),
                Output::Verdict { service, state, .. } => self.verdicts.push((service, state)),
                Output::Measured { service, response_time, mean, .. } => {
                    self.measured.push((service, response_time, mean));
                }
                Output::Remeaned { service, mean } => self.remeaned.push((service, mean)),
                Output::Load { service, load } => self.loads.push((service, load)),
            }
        }
    }

    /// Lets time pass until the machine asks for the next check.
    fn next_check(&mut self) -> CheckRequest {
        loop {
            if let Some(request) = self.checks.pop_front() {
                return request;
            }
            self.now = self.machine.poll_timeout().expect("something to wait for");
            self.machine.handle_timeout(self.now);
            self.collect();
        }
    }

    fn reply(&mut self, request: &CheckRequest, outcome: CheckOutcome) {
        self.machine.handle_reply(self.now, CheckReply { id: request.id, outcome });
        self.collect();
    }

    /// Answers the next checks: passed, failed, unable, not permitted, and no report at all.
    fn run(&mut self, results: &str) {
        for result in results.chars() {
            let request = self.next_check();
            match result {
                'P' => self.reply(&request, passed(10)),
                'F' => self.reply(&request, failed()),
                'U' => self.reply(&request, unable()),
                'N' => self.reply(&request, CheckOutcome::NotPermitted),
                '-' => self.leave(),
                other => panic!("{other}"),
            }
        }
    }

    /// Lets time pass until the machine gives a check up.
    fn leave(&mut self) {
        let before = self.machine.stats().overdue;
        while self.machine.stats().overdue == before {
            self.now = self.machine.poll_timeout().expect("something to wait for");
            self.machine.handle_timeout(self.now);
        }
        self.collect();
    }

    fn state(&self, service: usize) -> ServiceState {
        self.machine.view(service).unwrap().state
    }

    fn reason(&self, service: usize) -> String {
        self.machine.view(service).unwrap().reason
    }
}

fn passed(rtt: u32) -> CheckOutcome {
    CheckOutcome::Passed(ms(rtt))
}

fn failed() -> CheckOutcome {
    CheckOutcome::Failed("connection refused".to_owned())
}

fn unable() -> CheckOutcome {
    CheckOutcome::Unable("no such command".to_owned())
}

fn at_port(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}
