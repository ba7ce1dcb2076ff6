//! A server as a process on one CPU, and how much of the CPU it has used.

use crate::{Cpus, Failure, Interrupt, pin};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to end.
const END: Duration = Duration::from_secs(3);

/// From one look at a server that is getting ready to the next.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How much of a log is shown when something goes wrong.
const LOG_LINES: usize = 15;

/// A running server. Dropping it ends it.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

/// Which CPU a process is to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The one that is measured.
    Measured,
    /// The ones beside it.
    Beside,
}

impl Process {
    /// Starts it on its CPU. What it writes goes to a file in `folder`.
    pub(crate) fn start(
        name: &'static str,
        command: &mut Command,
        folder: &Path,
        cpus: Cpus,
        role: Role,
    ) -> Result<Self, Failure> {
        let log = folder.join("log");
        let file = File::create(&log).map_err(Failure::system(log.display().to_string()))?;
        let copy = file.try_clone().map_err(Failure::system(log.display().to_string()))?;
        command.stdin(Stdio::null()).stdout(file).stderr(copy);
        // A process begins on the CPU of the thread that starts it.
        if role == Role::Measured {
            pin(cpus.server)?;
        }
        let child = command.spawn();
        pin(cpus.load)?;
        let program = command.get_program().to_string_lossy().into_owned();
        Ok(Process { name, child: child.map_err(Failure::system(program))?, log })
    }

    /// For people.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// CPU time of all its threads so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration, Failure> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let entries = fs::read_dir(&tasks).map_err(Failure::system(tasks.clone()))?;
        // A thread that ends meanwhile takes its time with it; those that answer don't end.
        let times = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("schedstat")).ok());
        Ok(times.filter_map(|text| on_cpu(&text)).sum())
    }

    /// Waits until `missing` says that nothing is, for at most `within`.
    pub(crate) fn wait_until(
        &mut self,
        within: Duration,
        interrupt: &Interrupt,
        mut missing: impl FnMut() -> Option<String>,
    ) -> Result<(), Failure> {
        let end = Instant::now() + within;
        loop {
            interrupt.check()?;
            self.check()?;
            let Some(why) = missing() else { return Ok(()) };
            if Instant::now() >= end {
                return Err(Failure::NotReady { server: self.name, within, why, log: self.log_end() });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Fails if it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(Failure::Ended { server: self.name, log: self.log_end() }),
        }
    }

    /// Ends it at once, without a word.
    pub(crate) fn kill(mut self) -> Result<(), Failure> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(Failure::system(self.name))
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.split_at(lines.len().saturating_sub(LOG_LINES)).1.join("\n")
    }

    fn end(&mut self) -> std::io::Result<()> {
        let pid = i32::try_from(self.child.id()).map_err(std::io::Error::other)?;
        if self.child.try_wait()?.is_none() {
            kill(Pid::from_raw(pid), Signal::SIGTERM)?;
        }
        let end = Instant::now() + END;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= end {
                self.child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("cannot end {} (process {}): {error}", self.name, self.child.id());
        }
    }
}

/// Time on a CPU: the first number of a schedstat file, in nanoseconds.
fn on_cpu(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_time_on_a_cpu() {
        assert_eq!(on_cpu("1500 77 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(on_cpu(""), None);
        assert_eq!(on_cpu("x 1 2"), None);
    }

    fn start(folder: &Path, script: &str) -> Process {
        let cpus = Cpus::choose().unwrap();
        let mut command = Command::new("sh");
        Process::start("sh", command.args(["-c", script]), folder, cpus, Role::Measured).unwrap()
    }

    #[test]
    fn a_process_that_computes_uses_time_and_ends_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(folder.path(), "while :; do :; done");
        let id = process.child.id();
        let used = |p: &Process| p.cpu_time().unwrap() > Duration::from_millis(10);
        let mut waited = 0;
        while !used(&process) {
            process.check().unwrap();
            std::thread::sleep(LOOK_AGAIN);
            waited += 1;
            assert!(waited < 600, "it does not get on");
        }
        drop(process);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn a_process_that_ends_early_is_told_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(folder.path(), "echo first; echo why >&2; exit 3");
        let failure = process
            .wait_until(Duration::from_secs(30), &Interrupt::default(), || Some("never".into()))
            .unwrap_err();
        assert!(matches!(&failure, Failure::Ended { log, .. } if log == "first\nwhy"), "{failure}");
    }

    #[test]
    fn a_process_that_never_gets_ready_is_not_waited_for_longer_than_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(folder.path(), "sleep 100");
        let within = Duration::from_millis(120);
        let failure =
            process.wait_until(within, &Interrupt::default(), || Some("a word".into())).unwrap_err();
        assert!(matches!(&failure, Failure::NotReady { why, .. } if why == "a word"), "{failure}");
    }
}
