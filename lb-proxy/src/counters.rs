//! What an LB virtual server counts beside its balancer.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one LB virtual server, since its start.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        /// What was counted since the start.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(crate) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Client connections accepted.
    connections,
    /// Times a client had to wait because `max_connections` were open.
    full,
    /// Connections that could not be accepted, for want of descriptors.
    accept_failed,
    /// TLS handshakes that failed or took too long.
    handshake_failed,
    /// Requests, or connections of a tcp virtual server.
    requests,
    /// Of those, answered by the proxy itself because they were malformed or not allowed.
    refused,
    /// Answered 503, or reset, because no service could take them.
    no_service,
    /// Tries that did not reach a service and went on to another one, or to a new connection.
    retried,
    /// Answered 502 or 504 because of the service.
    failed,
    /// Client connections closed, and bodies of HTTP/2 given up, because nothing moved for too long.
    timed_out,
    /// Persistence cookies set.
    cookies,
    /// WebSockets and other tunnels.
    tunnels,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
