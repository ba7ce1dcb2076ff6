//! A command as it is to be started: arguments, environment, user, limits.

use gslb_types::UserCheck;
use nix::unistd::{Gid, Uid, User, geteuid};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit, setpriority_process};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

/// Where programs that a script names are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How nice a command is to DNS: above 0, so that a script that computes does not slow down answers.
const NICE: i32 = 10;

/// Descriptors a command may have open.
const DESCRIPTORS: u64 = 256;

/// Bytes of memory a command may fill: enough for a script of any language.
const MEMORY: u64 = 512 << 20;

/// Bytes of a file that a command may write. There is no limit to its processes: the system counts those of its user, whoever
/// started them, so that one service's would stop another's check.
const FILE: u64 = 64 << 20;

/// Whether want of limits has been said.
static COMPLAINED: Once = Once::new();

/// Whether it has been said that commands run as whoever the node runs as.
static UNCHANGED: Once = Once::new();

/// A command to start.
pub(super) struct Order {
    argv: Vec<String>,
    environment: Vec<(&'static str, String)>,
    run_as: String,
    limit: Duration,
}

impl Order {
    pub(super) fn of(check: &UserCheck, target: SocketAddr, source: Option<IpAddr>, limit: Duration) -> Self {
        let (address, port) = (target.ip().to_string(), target.port().to_string());
        let filled = |arg: &String| arg.replace("{address}", &address).replace("{port}", &port);
        let mut environment = vec![
            ("PATH", PATH.to_owned()),
            ("LC_ALL", "C".to_owned()),
            ("HOME", "/".to_owned()),
            ("GSLB_TIMEOUT", limit.as_secs_f64().to_string()),
        ];
        environment.extend(source.map(|source| ("GSLB_SOURCE", source.to_string())));
        let argv = check.command.iter().map(filled).collect();
        environment.extend([("GSLB_ADDRESS", address.clone()), ("GSLB_PORT", port.clone())]);
        Order { argv, environment, run_as: check.run_as.clone(), limit }
    }

    /// What is started: the same for all checks that differ in their target alone.
    pub(super) fn program(&self) -> (String, String) {
        (self.argv.first().cloned().unwrap_or_default(), self.run_as.clone())
    }

    fn command(&self, accounts: &Accounts) -> Result<Command, String> {
        let Some((program, args)) = self.argv.split_first() else { return Err("no command".to_owned()) };
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(self.environment.iter().map(|(k, v)| (k, v))).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if geteuid().is_root() {
            let (uid, gid) = accounts.of(&self.run_as)?;
            // Changing the user takes the supplementary groups and all capabilities as well.
            command.gid(gid.as_raw()).uid(uid.as_raw());
        } else {
            UNCHANGED.call_once(|| {
                let reason = "the node does not run as root";
                tracing::warn!(
                    reason,
                    "commands of monitors run as the node's own user, whatever run_as says"
                );
            });
        }
        Ok(command)
    }

    pub(super) fn start(&self, accounts: &Accounts) -> Result<Child, String> {
        let program = self.argv.first().map_or("", String::as_str);
        let child = self.command(accounts)?.spawn();
        let child = child.map_err(|e| format!("{program} can't be run: {}", super::super::words(&e)))?;
        if let Some(pid) = pid_of(&child) {
            restrict(pid, self.limit);
        }
        Ok(child)
    }
}

/// Users that were looked up. The system may ask a server far away, and that may be as dead as what is monitored: what was
/// found is kept as long as the node runs.
#[derive(Default)]
pub(super) struct Accounts(Mutex<HashMap<String, (Uid, Gid)>>);

impl Accounts {
    fn of(&self, name: &str) -> Result<(Uid, Gid), String> {
        let known = self.lock().get(name).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        // Not under the lock: nobody else is to wait for this one.
        let found = match User::from_name(name) {
            Ok(Some(user)) => (user.uid, user.gid),
            Ok(None) => return Err(format!("there is no user '{name}' to run the command")),
            Err(e) => return Err(format!("user '{name}': {}", e.desc().to_lowercase())),
        };
        self.lock().insert(name.to_owned(), found);
        Ok(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Uid, Gid)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Limits of a process that runs already, for a moment without them. What can't be had is done without, and said once: of
/// a process of another user that takes CAP_SYS_RESOURCE.
fn restrict(pid: Pid, limit: Duration) {
    let most = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
    for (resource, most) in [
        (Resource::Core, most(0)),
        (Resource::Nofile, most(DESCRIPTORS)),
        (Resource::Data, most(MEMORY)),
        (Resource::Fsize, most(FILE)),
        (Resource::Cpu, most(limit.as_secs().saturating_add(2))),
    ] {
        match prlimit(Some(pid), resource, most) {
            // It may have ended by now.
            Ok(_) | Err(Errno::SRCH) => {}
            Err(error) => COMPLAINED.call_once(|| {
                tracing::warn!(%error, "commands of monitors run without limits of memory, descriptors and CPU");
            }),
        }
    }
    let _ = setpriority_process(Some(pid), NICE);
}
