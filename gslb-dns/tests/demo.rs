//! The demonstration does what it says: real nodes, real probes, and the answer moves.

mod process;

use process::{Process, free_ports};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const NAME: &str = "www.demo.example";

fn resolver(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 53, 0, n)
}

fn web(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 80, 0, n)
}

#[test]
fn every_node_answers_the_nearest_site_and_follows_a_resolver_that_moves() {
    let port = free_ports(100);
    let node = |n: u16| SocketAddr::from(([127, 0, 0, 1], port + n));
    let mut demo = Process::start(&["demo", "--port", &port.to_string(), "--change-after", "2"]);
    demo.wait_for_line("Ask any node", Duration::from_secs(60));
    for n in 1..=3 {
        for at in 0..3 {
            // The first resolver may move while this runs on a busy machine.
            if n > 1 {
                assert_eq!(process::ask(resolver(n), node(at), NAME), [web(n)], "resolver {n} at node {at}");
            }
        }
    }
    demo.wait_for_line("has moved", Duration::from_secs(30));
    let moved = Instant::now();
    for at in 0..3 {
        while process::ask(resolver(1), node(at), NAME) != [web(3)] {
            assert!(moved.elapsed() < Duration::from_secs(30), "node {at} does not follow");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    demo.interrupt();
    assert!(demo.wait(Duration::from_secs(10)).success());
}

#[test]
fn a_second_demonstration_on_the_same_ports_says_what_to_do() {
    let port = free_ports(100);
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut demo = Process::start(&["demo", "--port", &port.to_string()]);
    assert_eq!(demo.wait(Duration::from_secs(30)).code(), Some(1));
    let said = demo.stderr();
    assert!(said.contains(&format!("127.0.0.1:{port}")) && said.contains("--port"), "{said}");
    drop(taken);
}
