//! A client, a router and an LDNS, each in a network namespace of its own. Needs root, `ip` and `nft`.

use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::future::Future;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Three namespaces in a row, gone when this is dropped.
///
/// ```text
/// client 10.77.1.2, .3            router               LDNS 10.77.2.53, .54, 10.77.3.0/24
///        fd77:1::2, ::3  ---  10.77.1.1  10.77.2.1  ---     fd77:2::53, ::54
/// ```
pub(crate) struct Lab {
    prefix: String,
}

const ROLES: [&str; 3] = ["c", "r", "l"];

impl Lab {
    /// Builds it, or says why that can't be.
    pub(crate) fn build() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !nix::unistd::geteuid().is_root() {
            super::skipped("network namespaces need root");
            return None;
        }
        for tool in ["ip", "nft"] {
            let version = if tool == "ip" { "-V" } else { "-v" };
            if Command::new(tool).arg(version).stdout(Stdio::null()).status().is_err() {
                super::skipped(&format!("no `{tool}` here"));
                return None;
            }
        }
        let prefix = format!("pio-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let lab = Lab { prefix };
        for role in ROLES {
            let name = lab.name(role);
            if !Command::new("ip").args(["netns", "add", &name]).status().unwrap().success() {
                super::skipped("network namespaces can't be made");
                return None;
            }
            lab.sysctl(role, "ipv6/conf/all/accept_dad", "0");
            lab.sysctl(role, "ipv6/conf/default/accept_dad", "0");
        }
        lab.wire();
        lab.warm_up();
        Some(lab)
    }

    fn wire(&self) {
        for (role, key, value) in [
            ("r", "ipv4/ip_forward", "1"),
            ("r", "ipv6/conf/all/forwarding", "1"),
            ("r", "ipv4/icmp_ratelimit", "0"),
            ("r", "ipv6/icmp/ratelimit", "0"),
            ("l", "ipv4/icmp_ratelimit", "0"),
            ("l", "ipv6/icmp/ratelimit", "0"),
        ] {
            self.sysctl(role, key, value);
        }
        // Since Linux 6.13 of a namespace; before, the host's limit of 1,000 a second holds for all.
        let unlimited = || {
            let _ = std::fs::write("/proc/sys/net/ipv4/icmp_msgs_per_sec", "1000000");
            let _ = std::fs::write("/proc/sys/net/ipv4/icmp_msgs_burst", "100000");
        };
        self.inside("r", unlimited).join().unwrap();
        let [client, router, ldns] = ROLES.map(|role| self.name(role));
        for (end, link) in [(&client, "tc"), (&ldns, "tl")] {
            let args =
                ["link", "add", "wan", "netns", end, "type", "veth", "peer", "name", link, "netns", &router];
            assert!(Command::new("ip").args(args).status().unwrap().success());
        }
        self.ip("c", "addr add 10.77.1.2/24 dev wan\naddr add 10.77.1.3/24 dev wan\naddr add fd77:1::2/64 dev wan nodad\naddr add fd77:1::3/64 dev wan nodad preferred_lft 0\nlink set wan up\nlink set lo up\nroute add default via 10.77.1.1\nroute add default via fd77:1::1");
        self.ip("l", "addr add 10.77.2.53/24 dev wan\naddr add 10.77.2.54/24 dev wan\naddr add fd77:2::53/64 dev wan nodad\naddr add fd77:2::54/64 dev wan nodad\nlink set wan up\nlink set lo up\nroute add local 10.77.3.0/24 dev lo\nroute add default via 10.77.2.1\nroute add default via fd77:2::1");
        self.ip("r", "addr add 10.77.1.1/24 dev tc\naddr add fd77:1::1/64 dev tc nodad\nlink set dev tc up\naddr add 10.77.2.1/24 dev tl\naddr add fd77:2::1/64 dev tl nodad\nlink set dev tl up\nroute add 10.77.3.0/24 via 10.77.2.53");
        self.nft("add table inet f; add chain inet f incoming { type filter hook prerouting priority 0; }; add chain inet f passing { type filter hook forward priority 0; }");
    }

    /// Waits until the hosts have found each other, which takes IPv6 a while after a link is up.
    fn warm_up(&self) {
        for (role, device) in [("c", "wan"), ("r", "tc"), ("r", "tl"), ("l", "wan")] {
            self.sysctl(role, &format!("ipv6/neigh/{device}/retrans_time_ms"), "20");
        }
        let reach = || {
            for ldns in ["10.77.2.53:9", "[fd77:2::53]:9"] {
                let wait = Duration::from_millis(500);
                while !TcpStream::connect_timeout(&ldns.parse().unwrap(), wait)
                    .is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
                {}
            }
        };
        self.inside("c", reach).join().unwrap();
    }

    /// Makes the router treat what it forwards by this one nft rule, and by no other.
    pub(crate) fn forwards_by(&self, rule: &str) {
        self.nft(&format!("flush table inet f; add rule inet f passing {rule}"));
    }

    /// Makes the router treat what comes in by this one nft rule, and by no other.
    pub(crate) fn takes_by(&self, rule: &str) {
        self.nft(&format!("flush table inet f; add rule inet f incoming {rule}"));
    }

    /// Makes the router forward everything.
    pub(crate) fn forwards_all(&self) {
        self.nft("flush table inet f");
    }

    /// Sets a key below /proc/sys/net in a namespace.
    pub(crate) fn sysctl(&self, role: &str, key: &str, value: &str) {
        let (path, value) = (format!("/proc/sys/net/{key}"), value.to_owned());
        self.inside(role, move || std::fs::write(path, value).unwrap()).join().unwrap();
    }

    /// Runs this on a thread of its own in a namespace.
    pub(crate) fn inside<T: Send + 'static>(
        &self,
        role: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.name(role));
        let enter = move || {
            setns(File::open(path).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
            run()
        };
        Builder::new().name(role.to_owned()).spawn(enter).unwrap()
    }

    /// Runs this as the client, in a runtime of its own, and returns what it returns.
    pub(crate) fn as_client<T: Send + 'static, F: Future<Output = T>>(
        &self,
        run: impl FnOnce() -> F + Send + 'static,
    ) -> T {
        let block = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { run().await })
        };
        self.inside("c", block).join().unwrap()
    }

    pub(crate) fn name(&self, role: &str) -> String {
        format!("{}-{role}", self.prefix)
    }

    fn ip(&self, role: &str, commands: &str) {
        let mut ip = Command::new("ip")
            .args(["-n", &self.name(role), "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        ip.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
        assert!(ip.wait().unwrap().success(), "{commands}");
    }

    fn nft(&self, commands: &str) {
        let router = self.name("r");
        let nft = Command::new("ip").args(["netns", "exec", &router, "nft", commands]).status();
        assert!(nft.unwrap().success(), "{commands}");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for role in ROLES {
            let _ =
                Command::new("ip").args(["netns", "del", &self.name(role)]).stderr(Stdio::null()).status();
        }
    }
}
