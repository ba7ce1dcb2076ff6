//! What the DNS side counts: plain atomics here, Prometheus names in `admin`.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[$sdoc:meta])* $atomic:ident, $(#[$pdoc:meta])* $plain:ident { $($(#[$doc:meta])* $name:ident),* $(,)? }) => {
        $(#[$sdoc])*
        #[derive(Default, Debug)]
        pub struct $atomic { $($(#[$doc])* pub $name: AtomicU64),* }

        $(#[$pdoc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug, serde::Serialize)]
        pub struct $plain { $($(#[$doc])* pub $name: u64),* }

        impl $atomic {
            /// The numbers at this moment.
            pub fn read(&self) -> $plain {
                $plain { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }

        impl $plain {
            /// Name and number of each, for metrics.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// What the DNS side counts, shared by all threads.
    DnsCounters,
    /// The numbers at one moment.
    DnsCounts {
        /// Requests over UDP.
        udp_requests,
        /// Requests over TCP.
        tcp_requests,
        /// Requests over TLS.
        tls_requests,
        /// Replies with rcode NOERROR.
        noerror,
        /// Replies with rcode NXDOMAIN.
        nxdomain,
        /// Replies with rcode FORMERR.
        formerr,
        /// Replies with rcode NOTIMP.
        notimp,
        /// Replies with rcode REFUSED.
        refused,
        /// Replies with extended rcode BADVERS.
        badvers,
        /// Replies with rcode SERVFAIL.
        servfail,
        /// Replies with rcode YXDOMAIN: a DNAME made a name too long.
        yxdomain,
        /// Replies with rcode NOTAUTH: signed requests.
        notauth,
        /// Replies cut short with TC.
        truncated,
        /// Packets left without a reply: shorter than a header, or replies themselves.
        dropped,
        /// Queries with EDNS.
        edns,
        /// Queries with a client subnet option.
        ecs,
        /// Answers chosen by RTT.
        by_rtt,
        /// Answers chosen by the backup method.
        by_backup,
        /// Answers given while every service was down.
        all_down,
        /// Queries dropped because no RTT was known (`drop_ldns_requests`).
        ldns_dropped,
        /// Sightings that did not fit into the queue to the node task.
        sightings_lost,
        /// UDP packets and TCP connections whose answering failed with a panic: a fault of ours. They got no reply.
        panics,
        /// UDP replies the kernel did not take.
        send_errors,
        /// TCP connections accepted, with and without TLS.
        connections,
        /// TCP connections closed to make room for others.
        connections_evicted,
        /// TCP connections open now, without those with TLS.
        tcp_open,
        /// TLS connections open now.
        tls_open,
        /// UDP packets the kernel threw away because a receive buffer was full.
        udp_receive_drops,
    }
}
