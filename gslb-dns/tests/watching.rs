//! What an operator sees of the exchange while a node stands still (faults I-44), and when it goes on.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use nix::sys::signal::Signal;
use process::group::Group;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

const KEEPALIVE: Duration = Duration::from_secs(4);

/// Who hears whom, as the first node has it, once it is so.
fn matrix(group: &Group, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + SOON;
    loop {
        let matrix = group.exchange(0)["matrix"].clone();
        if is_so(&matrix) {
            return matrix;
        }
        assert!(Instant::now() < end, "{matrix:#}");
    }
}

#[test]
fn a_node_that_stands_still_is_suspect_then_down_and_one_fault_and_then_back() {
    let group = Group::start_with(&format!("keepalive = \"{}s\"", KEEPALIVE.as_secs()));
    let mut watching = group.ask(0, &["--json", "peers", "--watch"]);
    let state: Value = serde_json::from_str(&watching.wait_for_line(r#""event":"state""#, SOON)).unwrap();
    assert_eq!(state["data"]["peers"].as_array().map(Vec::len), Some(2));
    matrix(&group, |m| {
        m["degraded"] == json!([]) && m["unheard"] == json!([]) && !m.to_string().contains("null")
    });

    group.nodes[2].signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    let mut told = |from: &str, to: &str| {
        let parts = [format!(r#""from":"{from}""#), format!(r#""to":"{to}""#)];
        let line = watching.wait_for_parts(&[&parts[0], r#""peer":"sin/1""#, &parts[1]], SOON);
        println!("{:?} after SIGSTOP: {line}", stopped.elapsed());
        stopped.elapsed()
    };
    let suspect = told("up", "suspect");
    assert!(suspect < KEEPALIVE, "{suspect:?}");
    let down = told("suspect", "down");
    assert!(down >= KEEPALIVE / 2 && down < 3 * KEEPALIVE, "{down:?}: at most three keepalives");

    // When the other node has said so too, nobody hears it: one fault.
    let matrix = matrix(&group, |m| m["unheard"] == json!(["sin/1"]));
    assert_eq!(matrix["degraded"], json!([]), "{matrix:#}");
    let mut table = group.ask(0, &["peers", "--matrix"]);
    assert!(table.wait(SOON).success());
    let table = table.stdout();
    println!("{table}");
    assert!(table.contains("\n  nobody hears sin/1"), "{table}");

    group.nodes[2].signal(Signal::SIGCONT);
    told("down", "up");
    group.await_peers(0, "two sessions", |peers| peers.iter().all(|peer| peer["state"] == "up"));
    watching.interrupt();
    assert!(watching.wait(SOON).success());
}
