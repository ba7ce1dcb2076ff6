//! Connecting to a peer: handshake, greeting, and words for what went wrong.

use super::link::{Stream, greet_first, peer_of};
use super::{client, code, words};
use crate::carrier::{Shared, plain};
use crate::identity::Current;
use crate::link::{Link, Why};
use crate::name::Subject;
use gslb_types::NodeId;
use mep_core::carrier::Over;
use quinn::{Connection, Endpoint};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// One dial and, if it comes to something, the life of the connection.
pub(crate) async fn dial(shared: Arc<Shared>, endpoint: Endpoint, peer: NodeId, address: SocketAddr) {
    let connected = tokio::select! {
        () = shared.stopping.cancelled() => return,
        connected = connect(&shared, &endpoint, &peer, address) => connected,
    };
    let failed = match connected {
        Ok(link) => link.run(&shared).await,
        Err(reason) => Err(reason),
    };
    if let Err(reason) = failed {
        shared.dial_failed(peer, address, Over::Quic, reason).await;
    }
}

async fn connect(
    shared: &Shared,
    endpoint: &Endpoint,
    peer: &NodeId,
    address: SocketAddr,
) -> Result<Link<Stream>, String> {
    let limit = shared.limits.handshake;
    let deadline = Instant::now() + limit;
    let own = shared.identity.current();
    own.usable()?;
    let connection = match timeout_at(deadline, shake(shared, &own, endpoint, peer, address)).await {
        Ok(shaken) => shaken?,
        Err(_) => {
            return Err(format!(
                "connect timeout: no answer from {address} within {limit:?}: nobody listens there, or UDP is blocked on the way"
            ));
        }
    };
    let subject = named(shared, &connection, peer).inspect_err(|reason| refuse(&connection, reason))?;
    match timeout_at(deadline, greet_first(&connection)).await {
        Ok(Ok((incoming, outgoing))) => {
            let wire = Stream { connection, incoming, outgoing };
            let own_expires = own.subject().expires;
            Ok(Link { wire, subject, dialled: true, address: plain(address), own_expires })
        }
        Ok(Err(reason)) => Err(reason),
        Err(_) => {
            let reason = format!("{address} shook hands and did not greet within {limit:?}");
            connection.close(code::of(Why::Protocol), reason.as_bytes());
            Err(reason)
        }
    }
}

async fn shake(
    shared: &Shared,
    own: &Current,
    endpoint: &Endpoint,
    peer: &NodeId,
    address: SocketAddr,
) -> Result<Connection, String> {
    let config = client(own, &shared.transport).map_err(|error| error.to_string())?;
    let name = shared.identity.group().node_dns(peer);
    let connecting = endpoint
        .connect_with(config, address, &name)
        .map_err(|error| format!("{address} can't be dialled from here: {error}"))?;
    connecting.await.map_err(|error| words::handshake(&error))
}

/// TLS has compared the DNS name; the URI must agree.
fn named(shared: &Shared, connection: &Connection, peer: &NodeId) -> Result<Subject, String> {
    let subject = peer_of(connection, shared.identity.group())?;
    if subject.node != *peer {
        return Err(format!("certificate not valid for {peer}: it names {}", subject.node));
    }
    Ok(subject)
}

fn refuse(connection: &Connection, reason: &str) {
    connection.close(code::of(Why::Refused), reason.as_bytes());
}
