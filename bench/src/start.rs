//! One start of a server, from the process to the first answer, and what many of them make (bar R9).

use crate::process::{Process, Role};
use crate::query::is_answer;
use crate::report::median;
use crate::{Cpus, Failure, Interrupt, NAME, Query, query};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a start may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long an answer is waited for before the query is sent again: what a start is told to.
const GRAIN: Duration = Duration::from_micros(500);

/// How to start a server, with its files written.
#[derive(Debug)]
pub struct Starter {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) folder: PathBuf,
    pub(crate) address: SocketAddrV4,
}

/// What one start took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// From before the process was made until its first answer came.
    pub first_answer: Duration,
    /// CPU time of its threads until then.
    pub cpu: Duration,
}

impl Starter {
    /// Starts it, asks until it answers, and kills it as `kill -9` does.
    pub fn once(&self, cpus: Cpus, interrupt: &Interrupt) -> Result<Start, Failure> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.folder);
        let begun = Instant::now();
        let mut process = Process::start(self.name, &mut command, &self.folder, cpus, Role::Measured)?;
        let ask = query(NAME, Query::Plain);
        loop {
            interrupt.check()?;
            if self.answers(&ask).unwrap_or(false) {
                break;
            }
            process.check()?;
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Silent(self.name));
            }
        }
        let start = Start { first_answer: begun.elapsed(), cpu: process.cpu_time()? };
        process.kill()?;
        Ok(start)
    }

    /// A socket for each query: a refusal by the kernel while nobody listens must not be taken for a later one's.
    fn answers(&self, ask: &[u8]) -> std::io::Result<bool> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(GRAIN))?;
        socket.connect(self.address)?;
        socket.send(ask)?;
        let mut reply = [0; 512];
        let len = match socket.recv(&mut reply) {
            Ok(len) => len,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::ConnectionRefused {
                    std::thread::sleep(GRAIN);
                }
                return Err(error);
            }
        };
        Ok(reply.get(..len).is_some_and(is_answer))
    }
}

/// The starts of a run, in turn.
#[derive(Clone, Debug, Default)]
pub struct StartReport {
    ours: Vec<Start>,
    theirs: Vec<Start>,
}

impl StartReport {
    /// Adds one start of each.
    pub fn add(&mut self, ours: Start, theirs: Start) {
        self.ours.push(ours);
        self.theirs.push(theirs);
    }

    /// Whether our first answers came within a bar: half of them, since the machine may hold up any of them.
    pub fn is_within(&self, bar: Duration) -> bool {
        median(self.ours.iter().map(|start| millis(start.first_answer))) <= millis(bar)
    }
}

/// Medians and the worst of each, and as the last line `ratio R (min..max)`.
impl fmt::Display for StartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, starts) in [("gslb-dns", &self.ours), ("gdnsd", &self.theirs)] {
            let answers = || starts.iter().map(|start| millis(start.first_answer));
            let cpu = median(starts.iter().map(|start| millis(start.cpu)));
            let (middle, worst) = (median(answers()), answers().fold(0.0, f64::max));
            let count = starts.len();
            writeln!(
                f,
                "{name:<9} first answer after {middle:.1} ms (worst {worst:.1}), CPU {cpu:.1} ms; {count} starts"
            )?;
        }
        let ratios = || {
            self.ours.iter().zip(&self.theirs).map(|(a, b)| millis(a.first_answer) / millis(b.first_answer))
        };
        let (min, max) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
        write!(f, "ratio {:.2} ({min:.2}..{max:.2})", median(ratios()))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(answer: u64, cpu: u64) -> Start {
        Start { first_answer: Duration::from_millis(answer), cpu: Duration::from_millis(cpu) }
    }

    #[test]
    fn the_last_line_is_the_median_ratio_with_its_range() {
        let mut report = StartReport::default();
        for (ours, theirs) in [(9, 3), (8, 4), (10, 4)] {
            report.add(start(ours, 7), start(theirs, 2));
        }
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "gslb-dns  first answer after 9.0 ms (worst 10.0), CPU 7.0 ms; 3 starts",
                "gdnsd     first answer after 4.0 ms (worst 4.0), CPU 2.0 ms; 3 starts",
                "ratio 2.50 (2.00..3.00)"
            ]
        );
        assert_eq!([8, 9, 10].map(|bar| report.is_within(Duration::from_millis(bar))), [false, true, true]);
    }
}
