//! Being connected to: whom to let begin, handshake, greeting.

use super::link::{Link, greet_back, peer_of};
use super::{code, plain, server, words};
use crate::carrier::Shared;
use crate::gate::{Ticket, Verdict};
use mep_core::carrier::CarrierEvent;
use quinn::{Connection, Incoming};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;

/// Decides about a first packet. What is let in becomes a task, for the caller to run.
pub(crate) fn admit(
    shared: &Arc<Shared>,
    incoming: Incoming,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    let address = incoming.remote_address();
    match shared.gate.judge(address.ip(), incoming.remote_address_validated()) {
        Verdict::Admit(ticket) => Some(accept(shared.clone(), incoming, ticket)),
        Verdict::Prove => {
            let _ = incoming.retry(); // fails only for a proven address, which is not asked again
            None
        }
        Verdict::Refuse => {
            tracing::trace!(%address, "too many unfinished handshakes");
            incoming.refuse();
            None
        }
    }
}

async fn accept(shared: Arc<Shared>, incoming: Incoming, ticket: Ticket) {
    let address = plain(incoming.remote_address());
    let accepted = tokio::select! {
        () = shared.stopping.cancelled() => return,
        accepted = welcome(&shared, incoming, address) => accepted,
    };
    drop(ticket);
    let refused = match accepted {
        Ok(link) => link.run(&shared).await,
        Err(reason) => Err(reason),
    };
    if let Err(reason) = refused
        && let Some(reason) = shared.refusals.report(Instant::now(), reason)
    {
        tracing::debug!(%address, reason, "turned away");
        let _ = shared.events.send(CarrierEvent::Refused { address, reason }).await; // nobody listens: stopping
    }
}

async fn welcome(shared: &Shared, incoming: Incoming, address: SocketAddr) -> Result<Link, String> {
    let limit = shared.limits.handshake;
    let deadline = tokio::time::Instant::now() + limit;
    let connection = match timeout_at(deadline, shake(shared, incoming)).await {
        Ok(shaken) => shaken?,
        Err(_) => return Err(format!("the handshake was not finished within {limit:?}")),
    };
    let subject = peer_of(&connection, shared.identity.group())
        .inspect_err(|reason| connection.close(code::REFUSED, reason.as_bytes()))?;
    match timeout_at(deadline, greet_back(&connection)).await {
        Ok(Ok((incoming, outgoing))) => {
            Ok(Link { connection, incoming, outgoing, subject, dialled: false, address })
        }
        Ok(Err(reason)) => Err(format!("{}: {reason}", subject.node)),
        Err(_) => {
            let reason = format!("{} did not greet within {limit:?}", subject.node);
            connection.close(code::PROTOCOL, reason.as_bytes());
            Err(reason)
        }
    }
}

/// Done when the other end's certificate has been checked, not before: in TLS 1.3 the client finishes last.
async fn shake(shared: &Shared, incoming: Incoming) -> Result<Connection, String> {
    let config = server(&shared.identity, &shared.transport).map_err(|error| error.to_string())?;
    let connecting = incoming.accept_with(Arc::new(config)).map_err(|error| words::handshake(&error))?;
    connecting.await.map_err(|error| words::handshake(&error))
}
