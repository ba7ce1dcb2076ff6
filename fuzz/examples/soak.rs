//! The targets without libFuzzer: random changes of the seeds for so many seconds, the same each time. And what writes the
//! seeds for libFuzzer.
//!
//! ```text
//! cargo run --release --no-default-features --example soak -- 60          all targets, a minute each
//! cargo run --release --no-default-features --example soak -- 60 dns mep  these
//! cargo run --no-default-features --example soak -- seeds                 writes corpus/TARGET/
//! ```

use gslb_fuzz::{TARGETS, Target};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fs;
use std::io;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What one input may take (bar R2), on a busy machine and in a debug build.
const HANG: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    let named: Vec<String> = arguments.collect();
    let chosen = TARGETS.iter().filter(|t| named.is_empty() || named.iter().any(|name| name == t.name));
    let done = match first.parse() {
        Ok(seconds) => chosen.map(|target| soak(target, Duration::from_secs(seconds))).all(|fine| fine),
        Err(_) if first == "seeds" => chosen.map(write_seeds).all(|written| written.is_ok()),
        Err(_) => {
            eprintln!("soak SECONDS [TARGET...] | soak seeds");
            false
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a target until the time is over or something does not hold; says which.
fn soak(target: &Target, time: Duration) -> bool {
    let seeds = (target.seeds)();
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let (begun, mut runs, mut longest) = (Instant::now(), 0_u64, Duration::ZERO);
    while begun.elapsed() < time {
        let input = mutated(&seeds, &mut rng);
        let start = Instant::now();
        let fine = catch_unwind(|| (target.run)(&input)).is_ok();
        let took = start.elapsed();
        if !fine || took > HANG {
            let file = format!("soak-{}-{runs}", target.name);
            let kept = fs::write(&file, &input);
            eprintln!(
                "{}: run {runs} {}; {file}: {kept:?}",
                target.name,
                if fine { "hangs" } else { "panics" }
            );
            return false;
        }
        longest = longest.max(took);
        runs += 1;
    }
    println!("{}: {runs} runs, the longest {longest:?}", target.name);
    true
}

/// A seed, or two joined, with some changes.
fn mutated(seeds: &[Vec<u8>], rng: &mut Pcg64Mcg) -> Vec<u8> {
    let below = |rng: &mut Pcg64Mcg, bound: usize| (rng.next_u64() % bound.max(1) as u64) as usize;
    let seed = |rng: &mut Pcg64Mcg| &seeds[below(rng, seeds.len())];
    let mut input = seed(rng).clone();
    for _ in 0..below(rng, 12) {
        let at = below(rng, input.len() + 1);
        let end = input.len().min(at + 1 + below(rng, 16));
        match below(rng, 8) {
            0 | 1 if at < input.len() => input[at] ^= 1 << below(rng, 8),
            2 if at < input.len() => input[at] = rng.next_u32() as u8,
            3 => drop(input.drain(at..end)),
            4 => drop(input.splice(at..at, (0..below(rng, 9)).map(|n| n as u8))),
            5 => input.extend_from_within(at..end),
            6 => {
                let other = seed(rng);
                let from = below(rng, other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
            _ => {
                let other = seed(rng);
                let from = below(rng, other.len() + 1);
                let to = other.len().min(from + below(rng, 60));
                drop(input.splice(at..at, other[from..to].iter().copied()));
            }
        }
    }
    input
}

fn write_seeds(target: &Target) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    fs::create_dir_all(&folder)?;
    for (n, seed) in (target.seeds)().iter().enumerate() {
        fs::write(folder.join(format!("seed-{n}")), seed)?;
    }
    Ok(())
}
