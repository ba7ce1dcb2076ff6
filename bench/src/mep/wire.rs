//! What the kernel has counted: bytes on the loopback, and the CPU time of a thread.

use nix::unistd::Pid;
use std::fs;
use std::time::Duration;

/// Bytes sent over the loopback of this network namespace, headers of IP and a link header of 14 bytes a packet included.
pub(crate) fn loopback_bytes() -> Result<u64, String> {
    let text = read("/proc/net/dev")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:"));
    // Received bytes come first; on a loopback they are the sent ones.
    let field = line.and_then(|fields| fields.split_whitespace().next());
    field.and_then(|number| number.parse().ok()).ok_or_else(|| "/proc/net/dev has no loopback".to_owned())
}

/// Whether anything else uses the loopback of this network namespace: then its bytes are not ours.
pub(crate) fn is_ours_alone() -> Result<bool, String> {
    let before = loopback_bytes()?;
    std::thread::sleep(Duration::from_secs(1));
    Ok(loopback_bytes()? == before)
}

/// Time a thread of this process has spent on a CPU.
pub(crate) fn cpu_time(thread: Pid) -> Result<Duration, String> {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let nanos = read(&path)?.split_whitespace().next().and_then(|number| number.parse().ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| format!("{path} has no number"))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn a_thread_that_works_uses_cpu_time_and_one_that_sleeps_does_not() {
        let used = || cpu_time(nix::unistd::gettid()).unwrap();
        let before = used();
        std::thread::sleep(Duration::from_millis(50));
        let slept = used();
        assert!(slept - before < Duration::from_millis(25));
        while used() - slept < Duration::from_millis(20) {
            black_box((0..100_000u64).sum::<u64>());
        }
    }

    #[test]
    fn what_is_sent_over_the_loopback_is_counted() {
        let before = loopback_bytes().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 1000], socket.local_addr().unwrap()).unwrap();
        assert!(loopback_bytes().unwrap() >= before + 1000);
    }
}
