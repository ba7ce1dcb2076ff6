//! Starts another server with the fixture zone, for the tests to be pointed at, until it is interrupted:
//! `cargo run -p conformance --example oracle -- nsd 127.0.0.1:5353`.

use conformance::Oracle;
use std::net::SocketAddr;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let address = arguments.next().unwrap_or("127.0.0.1:5353".to_owned());
    let Ok(address) = address.parse::<SocketAddr>() else {
        eprintln!("{address} is no ADDRESS:PORT");
        return ExitCode::FAILURE;
    };
    match Oracle::start(&name, address) {
        Ok(mut oracle) => {
            println!("{name} answers on {address}. In another terminal:");
            println!("SUBJECT={address} cargo test -p conformance --test wire");
            // It ends when this process is interrupted, being of the same foreground group.
            let _ = oracle.wait();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}; there are: {}", Oracle::names().collect::<Vec<_>>().join(", "));
            ExitCode::FAILURE
        }
    }
}
