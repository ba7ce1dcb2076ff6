//! Storms, one storm, a trace, a large group: from the command line.

use clap::{Parser, Subcommand};
use sim::storm::{self, Failure, Options, Survived};
use sim::trace::{self, Trace};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A GSLB group in virtual time.
#[derive(Parser)]
#[command(name = "sim", max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs many storms; the last line says how many broke an invariant
    Storms {
        /// How many
        #[arg(long, default_value_t = 1000)]
        count: u64,
        /// The first seed; the others follow it
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many nodes a group has
        #[arg(long, value_name = "MIN..MAX", default_value = "3..32", value_parser = range)]
        nodes: RangeInclusive<usize>,
        /// Storms at once; one for each core unless set
        #[arg(long)]
        threads: Option<usize>,
    },
    /// Runs the storm of a seed again
    Storm {
        /// The seed
        seed: u64,
        /// As it was with `storms`
        #[arg(long, value_name = "MIN..MAX", default_value = "3..32", value_parser = range)]
        nodes: RangeInclusive<usize>,
        /// Shows all that happened, and not the end only
        #[arg(long)]
        all: bool,
    },
    /// Lets a large group tell one another large tables, and prints time, bytes and memory
    Scale {
        /// LDNS in every table
        #[arg(long, default_value_t = 300_000)]
        rows: u32,
        /// Nodes, each in a site of its own
        #[arg(long, default_value_t = 32)]
        nodes: usize,
    },
    /// Fills the tables of two nodes of such a group and lets them talk: what a node takes of memory, without running them all
    Memory {
        /// LDNS in every table
        #[arg(long, default_value_t = 300_000)]
        rows: u32,
        /// Sites of the group: columns of the table
        #[arg(long, default_value_t = 32)]
        nodes: usize,
    },
    /// Replays a trace of RTTs and prints what came of it
    Trace {
        /// CSV with time_s, ldns, site, rtt_ms
        file: String,
        /// Settings of the group, as TABLE.KEY=VALUE
        settings: Vec<String>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Storms { count, seed, nodes, threads } => {
            let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
            storms(seed, count, &Options { nodes }, threads.unwrap_or(1))
        }
        Command::Storm { seed, nodes, all } => one_storm(seed, &Options { nodes }, all),
        Command::Scale { rows, nodes } => ended(scale(rows, nodes)),
        Command::Memory { rows, nodes } => ended(at_rest(rows, nodes)),
        Command::Trace { file, settings } => match figures(&file, &settings) {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{file}: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn ended(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What all storms together have come to.
#[derive(Default)]
struct Sum {
    survived: u64,
    nodes: usize,
    lasted: Duration,
    compared: usize,
    slowest_reunion: Duration,
    failed: Vec<Failure>,
}

impl Sum {
    fn add(&mut self, result: Result<Survived, Box<Failure>>) {
        match result {
            Ok(storm) => {
                self.survived += 1;
                self.nodes += storm.nodes;
                self.lasted += storm.lasted;
                self.compared += storm.compared;
                self.slowest_reunion = self.slowest_reunion.max(storm.reunion);
            }
            Err(failure) => {
                eprintln!("seed {}: {}", failure.seed, failure.violation);
                self.failed.push(*failure);
            }
        }
    }

    fn done(&self) -> u64 {
        self.survived + self.failed.len() as u64
    }
}

/// Seeds are handed out to threads as they come; a storm is one thread's from beginning to end, so it is the same whoever runs it.
fn storms(first: u64, count: u64, options: &Options, threads: usize) -> ExitCode {
    let began = Instant::now();
    let (next, told) = (AtomicU64::new(0), AtomicUsize::new(0));
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    let result = storm::run(first + n, options);
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.add(result);
                    progress(&sum, count, began, &told);
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary(&mut sum, began);
    println!("storms {count} broken {}", sum.failed.len());
    if sum.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A line every ten seconds.
fn progress(sum: &Sum, count: u64, began: Instant, told: &AtomicUsize) {
    let tens = began.elapsed().as_secs() as usize / 10;
    if told.swap(tens, Ordering::Relaxed) != tens {
        let rate = sum.done() as f64 / began.elapsed().as_secs_f64();
        eprintln!("{} of {count}, {rate:.1} a second, {} broken", sum.done(), sum.failed.len());
    }
}

fn summary(sum: &mut Sum, began: Instant) {
    const SHOWN: usize = 5;
    sum.failed.sort_by_key(|failure| failure.seed);
    for failure in sum.failed.iter().take(SHOWN) {
        eprintln!("\n{failure}");
    }
    let seconds = began.elapsed().as_secs_f64();
    eprintln!(
        "{} storms in {seconds:.1} s, {:.1} a second, {:.1} h of virtual time, {:.1} nodes on average; \
         {} LDNS compared {} s after a reunion, the slowest reunion took {:.1} s",
        sum.done(),
        sum.done() as f64 / seconds,
        sum.lasted.as_secs_f64() / 3600.0,
        sum.nodes as f64 / sum.survived.max(1) as f64,
        sum.compared,
        storm::SOON.as_secs(),
        sum.slowest_reunion.as_secs_f64(),
    );
}

fn one_storm(seed: u64, options: &Options, all: bool) -> ExitCode {
    let mut prepare = |world: &mut sim::World| {
        if all {
            world.log().keep_all();
        }
    };
    match storm::run_in(seed, options, &mut prepare) {
        Ok(survived) => {
            println!("{survived:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Everybody learns everything; then one node that starts with nothing does. What the host takes beside the nodes is small.
fn scale(rows: u32, nodes: usize) -> Result<(), Box<dyn std::error::Error>> {
    println!("{nodes} nodes, {rows} LDNS, {} RTTs in every table", u64::from(rows) * nodes as u64);
    let mut group = sim::scale::Scale::new(nodes, rows)?;
    let began = Instant::now();
    let empty = memory("VmRSS")?;
    let table = group.one_table();
    let one_table = memory("VmRSS")?.saturating_sub(empty);
    println!("table: {:.1} MB, {} bytes a row", one_table as f64 / 1e6, one_table / u64::from(rows.max(1)));
    // The first node takes the place of that table.
    drop(table);
    let told =
        |group: &sim::scale::Scale| eprintln!("{:.0} s: {}", began.elapsed().as_secs_f64(), group.stands());
    println!("all:   {}", group.sync_all(told)?);
    each("VmHWM", empty, nodes, one_table)?;
    each("VmRSS", empty, nodes, one_table)?;
    println!("one:   {}", group.sync_one(nodes / 2, told)?);
    each("VmHWM", empty, nodes, one_table)?;
    println!("{:.0} s, {:.0} s of them on a processor", began.elapsed().as_secs_f64(), processor()?);
    Ok(())
}

fn at_rest(rows: u32, nodes: usize) -> Result<(), Box<dyn std::error::Error>> {
    const STARTED: usize = 2;
    let mut group = sim::scale::Scale::new(nodes, rows)?;
    let empty = memory("VmRSS")?;
    let table = group.one_table();
    let one_table = memory("VmRSS")?.saturating_sub(empty);
    println!("table: {:.1} MB, {} bytes a row", one_table as f64 / 1e6, one_table / u64::from(rows.max(1)));
    drop(table);
    group.start_full(STARTED)?;
    each("VmHWM", empty, STARTED, one_table)?;
    each("VmRSS", empty, STARTED, one_table)
}

/// What each node takes of the memory of this process; frames on their way are counted along.
fn each(what: &str, empty: u64, nodes: usize, table: u64) -> Result<(), Box<dyn std::error::Error>> {
    let when = if what == "VmHWM" { "at most" } else { "afterwards" };
    let bytes = memory(what)?.saturating_sub(empty) / nodes as u64;
    let (megabytes, times) = (bytes as f64 / 1e6, bytes as f64 / table.max(1) as f64);
    println!("memory of each node {when}: {megabytes:.1} MB, {times:.2} times the table");
    Ok(())
}

/// How long this process has run on a processor, in seconds.
fn processor() -> Result<f64, Box<dyn std::error::Error>> {
    /// The kernel counts in hundredths of a second for everybody (USER_HZ).
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name stands in parentheses and may hold anything; user and system time are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS)
}

/// A line of what the kernel says of this process, in bytes.
fn memory(name: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()).ok_or(format!("no {name}"))?;
    Ok(kilobytes.parse::<u64>()? * 1024)
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

fn range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let number = |text: &str| text.parse::<usize>().map_err(|error| format!("'{text}': {error}"));
    let (least, most) = match text.split_once("..") {
        Some((least, most)) => (number(least)?, number(most)?),
        None => (number(text)?, number(text)?),
    };
    let (fewest, greatest) = (2, *Options::NODES.end());
    if least < fewest || most < least || most > greatest {
        return Err(format!("a group has {fewest} to {greatest} nodes, the smaller number first"));
    }
    Ok(least..=most)
}
