//! `bench/proxy_vs_haproxy`: CPU time per request of LB virtual servers, ours beside haproxy's, in rounds that take turns.

use bench::{Bench, Case, Cpus, Failure, Interrupt, ProxyReport, absolute, pin};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// CPU microseconds per request of gslb-dns's LB virtual servers beside haproxy's, before the same services. The last lines are
/// `http R`, `http-new R`, `ssl R` and `tcp R`, ours over haproxy's.
#[derive(Parser)]
#[command(name = "proxy_vs_haproxy", max_term_width = 100)]
struct Args {
    /// How often the proxies take turns, for each kind of traffic.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds of load for each turn.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Clients at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=2000))]
    clients: u16,
    /// The program to measure.
    #[arg(long, value_name = "FILE", default_value = "target/release/gslb-dns")]
    gslb_dns: PathBuf,
    /// The program to compare with.
    #[arg(long, value_name = "FILE", default_value = "haproxy")]
    haproxy: PathBuf,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("proxy_vs_haproxy: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<ProxyReport, Failure> {
    let interrupt = Interrupt::watch()?;
    let cpus = Cpus::choose()?;
    pin(cpus.load)?;
    let folder = tempfile::tempdir().map_err(|e| Failure::System("a folder for files".to_owned(), e))?;
    let program = absolute(&args.gslb_dns)?;
    let mut bench = Bench::start(&program, &args.haproxy, folder.path(), cpus, &interrupt)?;
    let mut report = ProxyReport::default();
    println!("{} clients, {} rounds of {} s for each", args.clients, args.rounds, args.seconds);
    println!("{}", ProxyReport::HEAD);
    for _ in 0..args.rounds {
        for case in Case::ALL {
            let time = Duration::from_secs(args.seconds);
            let turns = bench.round(case, usize::from(args.clients), time, &interrupt)?;
            println!("{}", report.add(case, turns));
        }
    }
    Ok(report)
}
