//! Measurements of memory: each in a process of its own, since memory that one gives back would hide what the next one takes.
//!
//! Services, proxy and clients share that process, so its peak bounds the proxy's.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// One measurement at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test alone in a process of its own: this program again, asked for the test of this name.
pub fn alone<T: Future<Output = ()>>(name: &str, test: impl FnOnce() -> T) {
    const CHILD: &str = "GSLB_MEMORY_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(test());
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    for line in told.lines().filter(|line| line.contains("KiB") || line.contains("bytes each")) {
        println!("{line}");
    }
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Bytes of this process in memory; from here on [`peak`] tells the most there were.
pub fn resident() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap(); // VmHWM begins anew, proc(5)
    status("VmRSS:")
}

/// The most bytes of this process in memory since [`resident`], by the kernel's own count.
pub fn peak() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}
