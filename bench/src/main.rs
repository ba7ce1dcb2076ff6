//! `bench/udp_vs_gdnsd`: CPU time per UDP answer, ours beside gdnsd's, in rounds that take turns.

use bench::{
    Cpus, Failure, Gdnsd, Gslb, Interrupt, Load, NAME, Query, Report, Round, absolute, part, pin, query,
};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// CPU microseconds per UDP answer of gslb-dns beside gdnsd's. The last line is `ratio R (min..max)`, ours over gdnsd's:
/// the median of the rounds' ratios, and their range.
#[derive(Parser)]
#[command(name = "udp_vs_gdnsd", max_term_width = 100)]
struct Args {
    /// How often the servers take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds of load for each turn.
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Ask with EDNS and the DO flag, as resolvers do.
    #[arg(long)]
    edns: bool,
    /// Queries under way at once.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    window: u16,
    /// Fail with exit code 3 if the ratio is above this.
    #[arg(long, value_name = "RATIO")]
    at_most: Option<f64>,
    /// The program to measure.
    #[arg(long, value_name = "FILE", default_value = "target/release/gslb-dns")]
    gslb_dns: PathBuf,
    /// The program to compare with.
    #[arg(long, value_name = "FILE", default_value = "gdnsd")]
    gdnsd: PathBuf,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("0.1 to 600".to_owned()),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let report = match run(&args) {
        Ok(report) => report,
        Err(failure) => {
            eprintln!("udp_vs_gdnsd: {failure}");
            return ExitCode::FAILURE;
        }
    };
    println!("{report}");
    match args.at_most {
        Some(limit) if report.ratio() > limit => {
            eprintln!("udp_vs_gdnsd: the ratio is above {limit}");
            ExitCode::from(3)
        }
        Some(_) | None => ExitCode::SUCCESS,
    }
}

fn run(args: &Args) -> Result<Report, Failure> {
    let interrupt = Interrupt::watch()?;
    let cpus = Cpus::choose()?;
    pin(cpus.load)?;
    let folder = tempfile::tempdir().map_err(|e| Failure::System("a folder for files".to_owned(), e))?;
    let mut theirs = Gdnsd::start(&args.gdnsd, &part(folder.path(), "gdnsd")?, cpus, &interrupt)?;
    let program = absolute(&args.gslb_dns)?;
    let mut ours = Gslb::start(&program, &part(folder.path(), "gslb-dns")?, cpus, &interrupt)?;

    let kind = if args.edns { Query::Edns } else { Query::Plain };
    let load = Load { query: query(NAME, kind), window: usize::from(args.window) };
    let mut report = Report::default();
    println!("{NAME} A{}, window {}, {} rounds of {} s", edns(kind), args.window, args.rounds, args.seconds);
    println!("{}", Report::HEAD);
    for _ in 0..args.rounds {
        let time = Duration::from_secs_f64(args.seconds);
        println!("{}", report.add(Round::measure(&mut ours, &mut theirs, &load, time, &interrupt)?));
    }
    Ok(report)
}

fn edns(kind: Query) -> &'static str {
    match kind {
        Query::Plain => "",
        Query::Edns => " with EDNS",
    }
}
