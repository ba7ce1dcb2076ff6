//! Whether a laboratory can stand here.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Set to `required` where tests must fail rather than be skipped: in continuous integration.
const MODE: &str = "GSLB_LAB";

/// Where programs stand that are for root, and that a user's PATH may lack.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// What is missing for a laboratory, and for these programs beside it; `None` if nothing is.
pub fn missing(programs: &[&str]) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root (network namespaces)".to_owned());
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        return Some(format!("needs /dev/net/tun ({error})"));
    }
    let program = ["ip"].iter().chain(programs).find(|program| find(program).is_none())?;
    Some(format!("needs the program `{program}` ({})", package_of(program)))
}

/// Whether a test that needs a laboratory and these programs can run; if not, says so on standard error, past the test
/// runner's capture.
///
/// # Panics
/// If something is missing and the environment says `GSLB_LAB=required`.
pub fn can_run(programs: &[&str]) -> bool {
    let Some(what) = missing(programs) else { return true };
    assert!(env::var(MODE).as_deref() != Ok("required"), "{MODE}=required, but the lab {what}");
    // Nothing can be done about a closed standard error.
    let _ = writeln!(io::stderr(), "skipped: {what}");
    false
}

/// The library that shows a process another time of day, if it is there; if not, says so as [`can_run`] does.
///
/// # Panics
/// As [`can_run`].
pub fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut files = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    let found = files.find(|file| file.is_file());
    if found.is_none() {
        let what = "needs libfaketime.so.1 (Debian: libfaketime)";
        assert!(env::var(MODE).as_deref() != Ok("required"), "{MODE}=required, but the lab {what}");
        let _ = writeln!(io::stderr(), "skipped: {what}");
    }
    found
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| Path::is_file(file))
}

fn package_of(program: &str) -> String {
    let package = match program {
        "ip" => "iproute2",
        "nft" => "nftables",
        "dig" => "bind9-dnsutils",
        other => other,
    };
    format!("Debian: {package}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        assert!(find("no-such-program").is_none());
        assert!(find("sh").is_some());
        assert_eq!(package_of("dig"), "Debian: bind9-dnsutils");
    }
}
