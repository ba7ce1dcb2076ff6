//! Runs one storm and shows how it ends: `cargo run -p sim --example storm SEED`. With `--all` it shows all that happened.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = arguments.first().and_then(|seed| seed.parse().ok());
    let Some(seed) = seed else {
        eprintln!("usage: storm SEED [--all]");
        return ExitCode::FAILURE;
    };
    let all = arguments.iter().any(|argument| argument == "--all");
    let mut prepare = |world: &mut sim::World| {
        if all {
            world.log().keep_all();
        }
    };
    match sim::storm::run_in(seed, &mut prepare) {
        Ok(survived) => println!("{survived:?}"),
        Err(failure) => {
            println!("{failure}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
