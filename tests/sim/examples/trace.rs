//! Replays a trace of RTTs and prints what came of it: `cargo run -p sim --example trace FILE [TABLE.KEY=VALUE...]`.

use sim::trace::{self, Trace};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("usage: trace FILE [TABLE.KEY=VALUE...]");
        return ExitCode::FAILURE;
    };
    let settings: Vec<String> = arguments.collect();
    match figures(&file, &settings) {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("{file}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn figures(file: &str, settings: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let trace = Trace::parse(&std::fs::read_to_string(file)?)?;
    let mut group = trace::group(&trace);
    for setting in settings {
        let (key, value) = setting.split_once('=').ok_or(format!("'{setting}' is not TABLE.KEY=VALUE"))?;
        group = group.with(key, value);
    }
    Ok(trace::replay(&trace, group, 1)?.to_string())
}
