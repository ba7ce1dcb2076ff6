//! The commands of the README do what it says, in its order, with a configuration made from the example.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use nix::sys::signal::Signal;
use process::{Process, free_ports};
use std::path::Path;
use std::time::Duration;

const README: &str = include_str!("../../README.md");
const EXAMPLE: &str = include_str!("../../gslb.example.toml");
const SOON: Duration = Duration::from_secs(30);

/// The commands of the README's shell blocks that begin with the program's name, without comments.
fn commands() -> Vec<Vec<&'static str>> {
    let blocks = README.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.split('#').next());
    lines.filter_map(|line| Some(line.strip_prefix("gslb-dns ")?.split_whitespace().collect())).collect()
}

/// The example, moved to loopback addresses and free ports, of the README's group.
fn configuration(port: u16) -> String {
    let edits = [
        (r#"name = "gslb""#, r#"name = "example""#.to_owned()),
        (r#"["0.0.0.0:53", "[::]:53"]"#, format!(r#"["127.0.0.1:{port}"]"#)),
        (r#""0.0.0.0:4353""#, format!(r#""127.0.0.1:{}""#, port + 1)),
        (r#""127.0.0.1:8053""#, format!(r#""127.0.0.1:{}""#, port + 2)),
        (r#"["198.18.1.100:80"]"#, format!(r#"["127.0.0.1:{}"]"#, port + 3)),
    ];
    edits.iter().fold(EXAMPLE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

/// Runs one command in the folder; `run` and `--watch` go on until they are told to end.
fn execute(command: &[&str], folder: &Path, admin: &str) -> Process {
    let in_folder: Vec<String> = command
        .iter()
        .map(|word| match *word {
            "./pki" | "gslb.toml" => folder.join(word).display().to_string(),
            word => word.to_owned(),
        })
        .collect();
    let words: Vec<&str> =
        ["--admin", admin].into_iter().chain(in_folder.iter().map(String::as_str)).collect();
    Process::start(&words)
}

#[test]
fn the_commands_of_the_readme_work_as_printed() {
    let port = free_ports(4);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gslb.toml"), configuration(port)).unwrap();
    let admin = format!("127.0.0.1:{}", port + 2);
    let mut node = None;
    let commands = commands();
    assert_eq!(commands.len(), 9, "{commands:?}");
    for command in commands {
        let mut process = execute(&command, folder.path(), &admin);
        match command.as_slice() {
            ["run", ..] => {
                process::wait_for_listener(&admin, SOON);
                node = Some(process);
            }
            [.., "--watch"] => {
                process.wait_for_line("ams/1", SOON);
                process.interrupt();
                assert!(process.wait(SOON).success(), "{command:?}");
            }
            // The example's other node and its services are not there, and status says so.
            ["status"] => {
                let code = process.wait(SOON).code();
                assert_eq!(code, Some(1), "{}", process.stderr());
                assert!(process.stdout().contains("fra/1 of group example"), "{}", process.stdout());
            }
            _ => {
                let code = process.wait(SOON).code();
                assert_eq!(code, Some(0), "{command:?}: {}", process.stderr());
            }
        }
    }
    let mut node = node.unwrap();
    node.signal(Signal::SIGTERM);
    assert!(node.wait(SOON).success());
}
