//! The server that the tests ask.

use crate::client::{Tcp, Udp};
use crate::fixture::Setup;
use crate::node::Node;
use crate::packet::Packet;
use crate::reply::Reply;
use std::env;
use std::fmt::Debug;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::LazyLock;

/// Names a server to ask in place of gslb-dns: ADDRESS:PORT.
const GIVEN: &str = "SUBJECT";

static SUBJECT: LazyLock<Subject> = LazyLock::new(|| match given() {
    Some(address) => Subject { address, node: None },
    None => {
        let node = Setup::default().start();
        Subject { address: node.address(), node: Some(node) }
    }
});

fn given() -> Option<SocketAddr> {
    let given = env::var(GIVEN).ok()?;
    Some(given.parse().unwrap_or_else(|error| panic!("{GIVEN}={given}: {error}")))
}

/// The server under test: one for all tests of a process.
pub struct Subject {
    address: SocketAddr,
    node: Option<Node>,
}

impl Subject {
    /// It.
    pub fn get() -> &'static Subject {
        &SUBJECT
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A UDP socket connected to it.
    pub fn udp(&self) -> Udp {
        Udp::to(self.address)
    }

    /// A TCP connection to it.
    pub fn tcp(&self) -> Tcp {
        Tcp::to(self.address)
    }

    /// Asks over UDP.
    #[track_caller]
    pub fn ask(&self, packet: &Packet) -> Reply {
        self.udp().ask(packet)
    }

    /// What is expected of gslb-dns, or what other servers may do as well: used only where the oracles differ among
    /// themselves.
    #[track_caller]
    pub fn expect<T: PartialEq + Debug>(&self, seen: T, ours: T, others: &[T]) {
        if self.is_ours() {
            assert_eq!(seen, ours);
        } else {
            assert!(
                seen == ours || others.contains(&seen),
                "{seen:?} is neither {ours:?} nor one of {others:?}"
            );
        }
    }

    /// Whether it is gslb-dns, of which more is expected than of others.
    pub fn is_ours(&self) -> bool {
        self.node.is_some()
    }

    /// The node, if the subject is ours.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }
}

/// Whether the subject is gslb-dns; if not, says on standard error that a test of what only it does was skipped.
pub fn ours() -> bool {
    let ours = given().is_none();
    if !ours {
        // Nothing can be done about a closed standard error.
        let _ = writeln!(io::stderr(), "skipped: not for other servers");
    }
    ours
}
