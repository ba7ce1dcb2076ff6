//! What the kernel threw away because nobody took it in time: packets lost where no program counts them (faults I-26).
//!
//! /proc/net/udp tells it of each socket, up to the moment of reading. SO_RXQ_OVFL would tell it with every packet and only
//! then: after a burst, what was lost behind the last packet that fitted comes to light with the next query, if there is one.

use super::Context;
use nix::sys::stat::fstat;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two looks: losses show in the next scrape, and the tables of a machine with many sockets cost little.
const PAUSE: Duration = Duration::from_secs(1);

const TABLES: [&str; 2] = ["/proc/net/udp", "/proc/net/udp6"];

/// The sockets looked after.
#[derive(Default)]
pub(super) struct Drops {
    /// What the kernel has counted for each, by inode. It counts in 32 bits and begins again at 0.
    seen: BTreeMap<u64, u32>,
}

impl Drops {
    /// Takes a socket under care.
    pub(super) fn add(&mut self, socket: impl AsFd) -> io::Result<()> {
        self.seen.insert(fstat(socket)?.st_ino, 0);
        Ok(())
    }

    /// Counts what is lost until `context.stop` is cancelled.
    pub(super) async fn watch(mut self, context: Context) {
        loop {
            let looked = tokio::task::spawn_blocking(move || (self.look(), self)).await;
            // It panics on nothing; without it the numbers would stand still, which is for the supervisor to see.
            let Ok((lost, back)) = looked else { return };
            self = back;
            context.shared.dns.udp_receive_drops.fetch_add(lost, Ordering::Relaxed);
            tokio::select! {
                () = context.stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// How many were lost since the last look. A table that can't be read tells nothing: without IPv6 there is none for it.
    fn look(&mut self) -> u64 {
        let tables = TABLES.iter().filter_map(|table| std::fs::read_to_string(table).ok());
        tables.map(|table| self.take(&table)).sum()
    }

    fn take(&mut self, table: &str) -> u64 {
        let mut lost = 0;
        for (inode, drops) in table.lines().filter_map(entry) {
            if let Some(seen) = self.seen.get_mut(&inode) {
                lost += u64::from(drops.wrapping_sub(*seen));
                *seen = drops;
            }
        }
        lost
    }
}

/// Inode and drops of a line.
fn entry(line: &str) -> Option<(u64, u32)> {
    let mut words = line.split_ascii_whitespace().skip(9);
    Some((words.next()?.parse().ok()?, words.nth(2)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{setsockopt, sockopt};
    use std::net::UdpSocket;

    /// A socket with room for a few packets, and one that sends to it.
    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let (small, sender) = (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
        setsockopt(&small, sockopt::RcvBuf, &1).unwrap();
        sender.connect(small.local_addr().unwrap()).unwrap();
        (small, sender)
    }

    /// Sends so many, and returns how many there were to be received.
    fn overflow((small, sender): &(UdpSocket, UdpSocket), packets: u64) -> u64 {
        for _ in 0..packets {
            sender.send(&[0; 100]).unwrap();
        }
        small.set_nonblocking(true).unwrap();
        (0..).take_while(|_| small.recv(&mut [0; 100]).is_ok()).count() as u64
    }

    #[test]
    fn what_did_not_fit_into_the_receive_buffer_is_counted_to_the_packet() {
        let mut pairs = vec![pair("127.0.0.1:0")];
        pairs.extend(UdpSocket::bind("[::1]:0").is_ok().then(|| pair("[::1]:0")));
        let not_ours = pair("127.0.0.1:0");
        let mut drops = Drops::default();
        for (small, _) in &pairs {
            drops.add(small).unwrap();
        }
        assert_eq!(drops.look(), 0);
        for packets in [50, 1000] {
            let mut lost = 0;
            for pair in &pairs {
                let came = overflow(pair, packets);
                assert!(came > 0 && came < 50, "{came}");
                lost += packets - came;
            }
            overflow(&not_ours, packets);
            assert_eq!(drops.look(), lost);
            assert_eq!(drops.look(), 0, "counted twice");
        }
    }

    #[test]
    fn the_kernels_counter_may_begin_again() {
        let line = |drops: u32| {
            format!(
                " 1234: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 \
                 0000000000000000 {drops}\n"
            )
        };
        let mut drops = Drops { seen: BTreeMap::from([(4711, u32::MAX - 2)]) };
        assert_eq!(drops.take(&format!("   sl  local_address rem_address   st\n{}", line(1))), 4);
        assert_eq!((drops.take(&line(2)), drops.take("nonsense\n\n"), drops.take(&line(2))), (1, 0, 0));
    }
}
