//! `answer`: the one function behind every transport.

use crate::published::{Published, Shared};
use gslb_types::Timestamp;
use std::net::IpAddr;

/// What carries the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP: replies are limited by the client's EDNS size and ours.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Length of the reply in the buffer; 0 means no reply.
    pub len: usize,
    /// The asker, if the query was for a GSLB domain whose method wants RTTs: to be noted as a sighting.
    pub sighting: Option<IpAddr>,
}

/// Answers one request. `out` is where the reply is written: at least 65,535 bytes for stream transports, the UDP payload
/// size for UDP.
pub fn answer(
    shared: &Shared,
    published: &Published,
    request: &[u8],
    source: IpAddr,
    transport: Transport,
    now: Timestamp,
    out: &mut [u8],
) -> Answered {
    let _ = (shared, published, request, source, transport, now, out);
    Answered { len: 0, sighting: None }
}
