//! `bench/mep_exchange`: what the metric exchange costs between two nodes, over real sockets with real certificates.
//!
//! Two nodes of two sites, each a thread of its own with the session machine and the carrier of the product. One has a table
//! and changes it, the other takes what it is told. Bytes are the kernel's count of the loopback they run on, which must be
//! theirs alone: `bench/mep_exchange` gives them a network namespace.

mod end;
mod measure;
mod table;
mod wire;

use clap::Parser;
use measure::{Measurement, Plan};
use mep_core::carrier::Over;
use std::process::ExitCode;
use std::time::Duration;

/// Bytes on the wire and CPU microseconds per RTT update, and seconds to a full sync, over QUIC and over gRPC. The last line
/// is `ratio R`: bytes per update over gRPC for each byte over QUIC, at the second rate of change.
#[derive(Parser)]
#[command(name = "mep_exchange", max_term_width = 100)]
struct Args {
    /// LDNS in the table that changes.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    rows: u32,
    /// LDNS in the table that is synced whole.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    sync_rows: u32,
    /// Seconds from one batch of changes to the next: the product's `rtt_interval`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Batches that are measured at each rate of change.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    batches: u32,
}

/// Parts of the table that change in an interval, in percent.
const RATES: [u32; 2] = [1, 10];

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = Plan { interval: Duration::from_secs(args.interval), batches: args.batches };
    println!("carrier  rows     change   bytes/update   sender us/update   receiver us/update");
    let mut bytes = Vec::new();
    for over in [Over::Quic, Over::Grpc] {
        match measure::changes(over, args.rows, &RATES, plan) {
            Ok(measured) => {
                for (rate, m) in RATES.iter().zip(&measured) {
                    print_changes(over, args.rows, *rate, m);
                }
                bytes.extend(measured.last().map(Measurement::bytes_per_update));
            }
            Err(why) => return failed(&why),
        }
    }
    println!("carrier  rows     full sync: seconds   bytes/row   sender s   receiver s");
    for over in [Over::Quic, Over::Grpc] {
        match measure::sync(over, args.sync_rows) {
            Ok(m) => print_sync(over, args.sync_rows, &m),
            Err(why) => return failed(&why),
        }
    }
    if let [quic, grpc] = bytes[..] {
        println!("ratio {:.2}", grpc / quic);
    }
    ExitCode::SUCCESS
}

fn print_changes(over: Over, rows: u32, rate: u32, m: &Measurement) {
    println!(
        "{:<8} {rows:<8} {:>5}%  {:>12.2} {:>18.2} {:>20.2}",
        over.as_str(),
        rate,
        m.bytes_per_update(),
        m.micros_per_update(m.sender),
        m.micros_per_update(m.receiver),
    );
}

fn print_sync(over: Over, rows: u32, m: &Measurement) {
    println!(
        "{:<8} {rows:<8} {:>18.2} {:>11.2} {:>10.2} {:>12.2}",
        over.as_str(),
        m.took.as_secs_f64(),
        m.bytes_per_update(),
        m.sender.as_secs_f64(),
        m.receiver.as_secs_f64(),
    );
}

fn failed(why: &str) -> ExitCode {
    eprintln!("mep_exchange: {why}");
    ExitCode::FAILURE
}
