//! Commands of user monitors: what they say, what they get, what they may, and that they end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::checks::{script, user};
use common::{LONG, Running, ms, v4};
use gslb_types::{Check, UserCheck};
use probes_core::wire::{CheckOutcome, CheckRequest};
use probes_io::{Reply, Request, Settings};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn target() -> SocketAddr {
    SocketAddr::new(v4(52, 0, 1), 8080)
}

async fn run(check: UserCheck, timeout: Duration) -> CheckOutcome {
    let mut running = Running::on_port(53);
    let outcome = running.check(target(), Check::User(check), timeout).await;
    running.stop().await;
    outcome
}

/// What a script that passes says.
async fn says(text: &str) -> String {
    match run(script(text), LONG).await {
        CheckOutcome::Reported { words, .. } => words,
        outcome => panic!("{text}: {outcome:?}"),
    }
}

fn failed(why: &str) -> CheckOutcome {
    CheckOutcome::Failed(why.to_owned())
}

fn unable(why: &str) -> CheckOutcome {
    CheckOutcome::Unable(why.to_owned())
}

/// Waits for what comes soon.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(ms(10));
    }
}

fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        common::skipped("needs root");
    }
    root
}

/// A folder that a command may write to, whoever runs it.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

#[tokio::test]
async fn the_exit_code_is_the_verdict_and_the_first_line_the_reason() {
    assert_eq!(says("echo 'DISK OK - 5% used | time=1s'; echo more").await, "DISK OK - 5% used");
    assert_eq!(says("echo 'DISK at 91%'; exit 1").await, "WARNING: DISK at 91%");
    assert_eq!(run(script("echo full; exit 2"), LONG).await, failed("CRITICAL: full"));
    assert_eq!(run(script("echo hm; exit 3"), LONG).await, failed("UNKNOWN: hm"));
    assert_eq!(run(script("echo 'went wrong' >&2; exit 77"), LONG).await, failed("exit code 77: went wrong"));
    assert_eq!(run(script("exec 2>/dev/null; kill -SEGV $$"), LONG).await, failed("killed by signal 11"));
}

#[tokio::test]
async fn the_labelled_time_is_the_response_time_if_one_is_asked_for() {
    let check = |output: &str, label: &str| UserCheck {
        perf_label: Some(label.to_owned()),
        ..script(&format!("echo '{output}'"))
    };
    let outcome = run(check("OK | size=3B time=0.25s;1;2", "time"), LONG).await;
    let CheckOutcome::Reported { response_time, words, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((response_time.as_duration(), words.as_str()), (ms(250), "OK"));
    let outcome = run(check("OK | size=3B", "time"), LONG).await;
    assert_eq!(outcome, failed("no time labelled 'time' in its performance data; OK"));
}

#[tokio::test]
async fn the_labelled_load_is_told_with_each_pass_and_its_absence_fails_nothing() {
    let check = |output: &str| UserCheck {
        load_label: Some("load".to_owned()),
        perf_label: Some("time".to_owned()),
        ..script(&format!("echo '{output}'"))
    };
    let outcome = run(check("OK | load=1.5;;;0 time=3ms"), LONG).await;
    let CheckOutcome::Reported { response_time, words, load } = outcome else { panic!("{outcome:?}") };
    assert_eq!((response_time.as_duration(), words.as_str(), load), (ms(3), "OK", Some(1_500)));
    let outcome = run(check("OK | load=U time=3ms"), LONG).await;
    let CheckOutcome::Reported { words, load, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((words.as_str(), load), ("OK; no load labelled 'load' in its performance data", None));
    let failing = UserCheck { load_label: Some("load".to_owned()), ..script("echo 'full | load=1'; exit 2") };
    assert_eq!(run(failing, LONG).await, failed("CRITICAL: full"));
}

#[tokio::test]
async fn no_shell_reads_the_arguments_and_the_target_is_filled_in() {
    let echo = user(&["/bin/echo", "{address}:{port}", "$HOME;", "`id`", "{", "a b"]);
    let outcome = run(echo, LONG).await;
    let CheckOutcome::Reported { words, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(words, "OK: 127.52.0.1:8080 $HOME; `id` { a b");
}

#[tokio::test]
async fn the_environment_is_what_is_written_down_and_nothing_else() {
    // A shell adds PWD, SHLVL and _ by itself.
    let words = says("exec /usr/bin/env | /usr/bin/sort | /usr/bin/tr '\\n' ' '").await;
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let rest = "OK: GSLB_ADDRESS=127.52.0.1 GSLB_PORT=8080 GSLB_TIMEOUT=20 HOME=/ LC_ALL=C";
    assert_eq!(words, format!("{rest} {path} PWD=/"));
    assert_eq!(says("read line && echo $line; echo end").await, "OK: end", "nothing to read");
}

#[tokio::test]
async fn a_command_has_few_rights() {
    let status = |key: &str| {
        let text = format!("sed -n 's/^{key}:[[:space:]]*//p' /proc/self/status | tr '\\t' ' '");
        async move { says(&text).await.trim_start_matches("OK").trim_start_matches(": ").to_owned() }
    };
    assert_eq!(status("NoNewPrivs").await, "1");
    assert_eq!(status("CapEff").await, "0000000000000000");
    assert_eq!(status("CapAmb").await, "0000000000000000");
    if is_root() {
        assert_eq!(says("id -un; id -G").await, "OK: nobody");
        assert_eq!(status("Groups").await, "", "no supplementary groups");
        let root = UserCheck { run_as: "root".to_owned(), ..script("id -un") };
        assert!(matches!(run(root, LONG).await, CheckOutcome::Reported { words, .. } if words == "OK: root"));
        let stranger = UserCheck { run_as: "no-such-user".to_owned(), ..script("true") };
        let why = "there is no user 'no-such-user' to run the command";
        assert_eq!(run(stranger, LONG).await, unable(why));
    }
}

#[tokio::test]
async fn a_command_has_limits() {
    // Limits of another user's process take CAP_SYS_RESOURCE, which not every root has.
    let own = |text: &str| UserCheck { run_as: "root".to_owned(), ..script(text) };
    // They are set a moment after it has started; the niceness is the last.
    let limited = "until [ $(nice) = 10 ]; do :; done;";
    let show =
        own(&format!("{limited} echo $(ulimit -c) $(ulimit -n) $(ulimit -d) $(ulimit -t) $(ulimit -f)"));
    let outcome = run(show, LONG).await;
    let CheckOutcome::Reported { words, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(words, "OK: 0 256 524288 22 131072");
    let memory = own(&format!("{limited} dd if=/dev/zero bs=1G count=1 of=/dev/null 2>&1 || exit 2"));
    let why = "CRITICAL: dd: memory exhausted by input buffer of size 1073741824 bytes (1.0 GiB)";
    assert_eq!(run(memory, LONG).await, failed(why));
}

#[tokio::test]
async fn what_can_not_be_run_says_nothing_about_the_service() {
    let missing = run(user(&["/nonexistent/check"]), LONG).await;
    assert_eq!(missing, unable("/nonexistent/check can't be run: no such file or directory"));
    let folder = open_folder();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "exit 0").unwrap();
    let plain = plain.to_str().unwrap();
    assert_eq!(run(user(&[plain]), LONG).await, unable(&format!("{plain} can't be run: permission denied")));
}

/// Whether a process is there that is not only waiting to be buried.
fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

/// The pids that a script has written down.
fn pids(file: &Path, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect();
    let mut all: Vec<String> = Vec::new();
    soon("pids", || {
        all = read();
        all.len() == count
    });
    all
}

#[tokio::test]
async fn at_the_timeout_it_is_killed_and_all_that_it_started() {
    let folder = open_folder();
    let file = folder.path().join("pids");
    let text = format!(
        "trap '' TERM HUP INT; sleep 300 & echo $! >> {0}; (sleep 301 & echo $! >> {0}; wait) & echo $! >> {0}; echo $$ >> {0}; wait",
        file.display()
    );
    let began = Instant::now();
    assert_eq!(run(script(&text), ms(1000)).await, failed("no verdict within 1s"));
    assert!((ms(1000)..ms(3000)).contains(&began.elapsed()), "{:?}", began.elapsed());
    for pid in pids(&file, 4) {
        soon("killed", || !is_alive(&pid));
    }
}

#[tokio::test]
async fn what_it_leaves_behind_is_killed_when_it_ends() {
    let folder = open_folder();
    let file = folder.path().join("pids");
    let words = says(&format!("sleep 300 & echo $! > {}; echo fine", file.display())).await;
    assert_eq!(words, "OK: fine");
    for pid in pids(&file, 1) {
        soon("killed", || !is_alive(&pid));
    }
}

#[tokio::test]
async fn a_command_does_not_outlive_the_sender_of_checks() {
    let folder = open_folder();
    let file = folder.path().join("pids");
    let running = Running::on_port(53);
    let check = Check::User(script(&format!("echo $$ > {}; exec sleep 300", file.display())));
    let id = probes_core::wire::ProbeId(1);
    let request = CheckRequest { id, check: check.into(), target: target(), source: None, timeout: LONG };
    running.requests().send(Request::Check(request)).await.unwrap();
    let waiting = tokio::task::spawn_blocking({
        let file = file.clone();
        move || pids(&file, 1)
    });
    let pid = waiting.await.unwrap().remove(0);
    assert!(is_alive(&pid));
    running.stop().await;
    soon("killed", || !is_alive(&pid));
}

#[tokio::test]
async fn its_output_is_read_to_the_end_and_kept_to_a_bound() {
    // More than any pipe holds: it would never end if nobody read.
    let outcome = run(script("echo first; head -c 50000000 /dev/zero; echo; exit 2"), LONG).await;
    assert_eq!(outcome, failed("CRITICAL: first"));
    let line = run(script("head -c 300000 /dev/zero | tr '\\0' x; exit 2"), LONG).await;
    assert_eq!(line, failed(&format!("CRITICAL: {}", "x".repeat(200))));
    assert_eq!(run(user(&["/usr/bin/yes"]), ms(500)).await, failed("no verdict within 500ms"));
}

#[tokio::test]
async fn some_run_at_once_and_no_more() {
    let folder = open_folder();
    let settings = Settings { commands: 3, ..Settings::default() };
    let running = Running::start(settings);
    // Each counts who runs beside it.
    let text = format!(
        "cd {0}; mkdir $$; ls -d [0-9]* | wc -l >> counts; sleep 0.1; rmdir $$",
        folder.path().display()
    );
    let (sent, requests) = (12, running.requests());
    for n in 0..sent {
        let check = Check::User(script(&text)).into();
        let request = CheckRequest {
            id: probes_core::wire::ProbeId(n),
            check,
            target: target(),
            source: None,
            timeout: LONG,
        };
        requests.send(Request::Check(request)).await.unwrap();
    }
    drop(requests);
    let replies = running.drain().await;
    let passed = |reply: &&Reply| matches!(reply, Reply::Check(check) if matches!(check.outcome, CheckOutcome::Reported { .. }));
    assert_eq!(replies.iter().filter(passed).count() as u64, sent, "{replies:?}");
    let counts = std::fs::read_to_string(folder.path().join("counts")).unwrap();
    let most = counts.lines().map(|line| line.trim().parse::<u32>().unwrap()).max().unwrap();
    println!("{sent} commands, {most} at once at most");
    assert!((1..=3).contains(&most), "{most}");
}

#[tokio::test]
async fn a_command_that_finds_no_turn_says_nothing_about_the_service() {
    let mut running = Running::start(Settings { commands: 1, ..Settings::default() });
    let check = Check::User(user(&["/bin/sleep", "300"])).into();
    let id = probes_core::wire::ProbeId(u64::MAX);
    let long = CheckRequest { id, check, target: target(), source: None, timeout: LONG };
    running.requests().send(Request::Check(long)).await.unwrap();
    let outcome = running.check(target(), Check::User(script("true")), ms(300)).await;
    assert_eq!(outcome, unable("no turn among the commands that run within 300ms"));
    running.stop().await;
}

#[tokio::test]
async fn a_command_that_writes_without_end_keeps_nobody_from_anything() {
    // One thread for all: the ticks are late if the command's output is read in one go.
    let mut running = Running::on_port(53);
    let ticks = tokio::spawn(async {
        let mut worst = Duration::ZERO;
        for _ in 0..100 {
            let began = Instant::now();
            tokio::time::sleep(ms(10)).await;
            worst = worst.max(began.elapsed());
        }
        worst
    });
    let flood = script("head -c 3000000000 /dev/zero & head -c 3000000000 /dev/zero >&2 & wait");
    let outcome = running.check(target(), Check::User(flood), ms(1500)).await;
    let worst = ticks.await.unwrap();
    println!("a tick of 10 ms took {worst:?} at most beside a command that floods");
    assert_eq!(outcome, failed("no verdict within 1.5s"));
    assert!(worst < ms(500), "{worst:?}");
    running.stop().await;
}
