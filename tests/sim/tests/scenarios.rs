//! The scripts of `tests/scenarios`, each with several seeds: what they claim does not hang on luck.

use sim::scenario::{parse, run};
use std::fs;
use std::path::Path;

const SEEDS: [u64; 3] = [1, 2, 3];

#[test]
fn every_script_comes_out_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "scn")).collect();
    scripts.sort();
    assert!(scripts.len() > 20, "{}", scripts.len());
    let mut failed = Vec::new();
    for path in &scripts {
        let name = path.file_name().unwrap().to_string_lossy();
        match parse(&fs::read_to_string(path).unwrap()) {
            Ok(scenario) => {
                let failures = SEEDS.iter().filter_map(|seed| run(&scenario, *seed).err().map(|f| (seed, f)));
                failed.extend(failures.map(|(seed, f)| format!("{name}:{f} [seed {seed}]")));
            }
            Err(error) => failed.push(format!("{name}:{error}")),
        }
    }
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n"));
}
