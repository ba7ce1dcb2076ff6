//! The product's own binary, as it stands in the source tree.

use crate::error::LabError;
use crate::namespace::run;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// A binary to test in place of the one that is built here.
const GIVEN: &str = "GSLB_DNS_BIN";

/// The path of `gslb-dns`: what `GSLB_DNS_BIN` says, or the binary of the profile that the test itself was built with.
///
/// Cargo builds binaries for tests of their own package alone, so it is built here if it is missing or older than the
/// sources.
pub fn gslb_dns() -> Result<PathBuf, LabError> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let found = match env::var_os(GIVEN) {
        Some(given) => PathBuf::from(given),
        None => built()?,
    };
    Ok(FOUND.get_or_init(|| found).clone())
}

fn built() -> Result<PathBuf, LabError> {
    let test = env::current_exe().map_err(LabError::system("this test program"))?;
    // target/PROFILE/deps/TEST
    let profile = test.ancestors().nth(2).unwrap_or(Path::new(""));
    let binary = profile.join("gslb-dns");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if modified(&binary).is_none_or(|built| built < newest_source(&workspace)) {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.current_dir(&workspace).args(["build", "--quiet", "--package", "gslb-dns", "--target-dir"]);
        cargo.arg(profile.parent().unwrap_or(profile));
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        run(&mut cargo, "")?;
    }
    Ok(binary)
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|meta| meta.modified()).ok()
}

/// When a source of the product last changed. Tests and benches are none.
fn newest_source(folder: &Path) -> SystemTime {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let times = entries.filter_map(|entry| {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            let skipped =
                name.starts_with('.') || ["target", "tests", "bench", "docs", "fuzz"].contains(&&*name);
            return (!skipped).then(|| newest_source(&path));
        }
        (name.ends_with(".rs") || name == "Cargo.toml" || name == "Cargo.lock")
            .then(|| modified(&path))
            .flatten()
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_deep_in_a_source_folder_is_seen_and_one_in_tests_is_not() {
        let tree = tempfile::tempdir().expect("folder");
        let write = |path: &str, seconds| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            let file = fs::File::create(&path).expect("file");
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.set_modified(time).expect("time");
            time
        };
        write("Cargo.toml", 10);
        let newest = write("gslb-core/src/dns/answer.rs", 20);
        write("gslb-core/src/dns/notes.txt", 30);
        write("target/debug/build/out.rs", 40);
        write("tests/lab/src/lib.rs", 50);
        assert_eq!(newest_source(tree.path()), newest);
    }
}
