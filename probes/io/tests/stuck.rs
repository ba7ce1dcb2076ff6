//! A program whose start hangs, as one on a disk that does not answer does. Alone in its file: it counts threads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::checks::{script, user};
use common::{LONG, Running, ms, v4};
use gslb_types::Check;
use probes_core::wire::CheckOutcome;
use probes_io::Settings;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

fn target() -> SocketAddr {
    SocketAddr::new(v4(52, 0, 2), 8080)
}

/// Whoever opens this file now is made to wait, as by a disk that does not answer, until the child is killed.
struct Stuck(std::process::Child);

impl Stuck {
    fn at(program: &Path) -> Option<Self> {
        let lease = "import fcntl, signal, sys, time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n\
            f = open(sys.argv[1], 'r+b')\nfcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint('held', flush=True)\ntime.sleep(120)\n";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", lease]).arg(program).stdout(std::process::Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            common::skipped("needs the program `python3`");
            return None;
        };
        let mut said = [0; 4];
        // It stays open: whoever writes to a closed one dies of it.
        let held = child.stdout.as_mut().unwrap().read_exact(&mut said).is_ok();
        let stuck = Stuck(child);
        if !held {
            common::skipped("needs a file system with leases");
            return None;
        }
        Some(stuck)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_program_whose_start_hangs_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever runs it.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("plugin");
    std::fs::copy("/bin/true", &program).unwrap();
    let plugin = user(&[program.to_str().unwrap()]);
    let Some(stuck) = Stuck::at(&program) else { return };
    // No more commands at once than hang, and more checks of the program than there are threads.
    let mut running = Running::start(Settings { commands: 4, ..Settings::default() });
    let name = program.display().to_string();
    for round in 0..20 {
        let why = match running.check(target(), Check::User(plugin.clone()), ms(100)).await {
            CheckOutcome::Unable(why) => why,
            outcome => panic!("{outcome:?}"),
        };
        let expected =
            if round == 0 { format!("{name} is not started") } else { format!("no turn to start {name}") };
        assert_eq!(why, format!("{expected} within 100ms"));
        let began = Instant::now();
        let other = running.check(target(), Check::User(script("echo fine")), LONG).await;
        assert!(matches!(other, CheckOutcome::Reported { .. }), "{other:?}");
        assert!(began.elapsed() < ms(2000), "{:?}", began.elapsed());
    }
    let threads = common::threads_named("user-monitors");
    println!("20 checks of a program whose start hangs, 20 of another beside: {threads} threads");
    assert!(threads <= 3, "one that hangs, one for all others, one for the dying: {threads}");
    // It answers again: so does the check.
    drop(stuck);
    let outcome = running.check(target(), Check::User(plugin), LONG).await;
    assert!(matches!(outcome, CheckOutcome::Reported { .. }), "{outcome:?}");
    running.stop().await;
    let until = Instant::now() + LONG;
    while common::threads_named("user-monitors") > 0 {
        assert!(Instant::now() < until, "threads are left");
        std::thread::sleep(ms(10));
    }
}
