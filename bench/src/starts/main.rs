//! `bench/starts_vs_gdnsd`: how long a server that was killed is away, ours beside gdnsd, in rounds that take turns (bar R9).

use bench::{Cpus, Failure, Gdnsd, Gslb, Interrupt, Start, StartReport, Starter, absolute, part, pin};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Milliseconds from the start of the process to its first answer, of gslb-dns beside gdnsd's; each start ends with a kill -9.
/// The last line is `ratio R (min..max)`, ours over gdnsd's.
#[derive(Parser)]
#[command(name = "starts_vs_gdnsd", max_term_width = 100)]
struct Args {
    /// How often each is started.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    starts: u32,
    /// Fails if half of our first answers take longer than so many milliseconds: bar R9 says 10.
    #[arg(long, value_name = "MS")]
    at_most: Option<u64>,
    /// The program to measure.
    #[arg(long, value_name = "FILE", default_value = "target/release/gslb-dns")]
    gslb_dns: PathBuf,
    /// The program to compare with.
    #[arg(long, value_name = "FILE", default_value = "gdnsd")]
    gdnsd: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(report) => {
            println!("{report}");
            let is_within = args.at_most.is_none_or(|bar| report.is_within(Duration::from_millis(bar)));
            if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("starts_vs_gdnsd: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<StartReport, Failure> {
    let interrupt = Interrupt::watch()?;
    let cpus = Cpus::choose()?;
    pin(cpus.load)?;
    let folder = tempfile::tempdir().map_err(|e| Failure::System("a folder for files".to_owned(), e))?;
    let program = absolute(&args.gslb_dns)?;
    let ours = Gslb::starter(&program, &part(folder.path(), "gslb-dns")?)?;
    let theirs = Gdnsd::starter(&args.gdnsd, &part(folder.path(), "gdnsd")?)?;
    let mut report = StartReport::default();
    let once = |starter: &Starter| -> Result<Start, Failure> { starter.once(cpus, &interrupt) };
    for _ in 0..args.starts {
        report.add(once(&ours)?, once(&theirs)?);
    }
    Ok(report)
}
