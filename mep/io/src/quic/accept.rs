//! Being connected to: whom to let begin, handshake, greeting.

use super::link::{Stream, greet_back, peer_of};
use super::{code, server, words};
use crate::carrier::{Shared, plain};
use crate::gate::{Ticket, Verdict, is_crowded};
use crate::identity::Current;
use crate::link::{Link, Why};
use quinn::{Connection, Incoming};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Decides about a first packet, where the endpoint holds `open` connections. What is let in becomes a task, for the caller
/// to run.
pub(crate) fn admit(
    shared: &Arc<Shared>,
    open: usize,
    incoming: Incoming,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    let address = incoming.remote_address();
    if is_crowded(open, shared.admission.knows(address.ip())) {
        tracing::trace!(%address, open, "too many connections");
        incoming.refuse();
        return None;
    }
    match shared.judge(&shared.quic_gate, address.ip(), incoming.remote_address_validated()) {
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
    if let Err(reason) = refused {
        shared.refused(address, reason).await;
    }
}

async fn welcome(shared: &Shared, incoming: Incoming, address: SocketAddr) -> Result<Link<Stream>, String> {
    let limit = shared.limits.handshake;
    let deadline = Instant::now() + limit;
    let own = shared.identity.current();
    let connection = match timeout_at(deadline, shake(shared, &own, incoming)).await {
        Ok(shaken) => shaken?,
        Err(_) => return Err(format!("the handshake was not finished within {limit:?}")),
    };
    let subject = peer_of(&connection, shared.identity.group())
        .and_then(|subject| shared.admission.admit(subject, address.ip()))
        .inspect_err(|reason| connection.close(code::of(Why::Refused), reason.as_bytes()))?;
    match timeout_at(deadline, greet_back(&connection)).await {
        Ok(Ok((incoming, outgoing))) => {
            let wire = Stream { connection, incoming, outgoing };
            Ok(Link { wire, subject, dialled: false, address, own_expires: own.subject().expires })
        }
        Ok(Err(reason)) => Err(format!("{}: {reason}", subject.node)),
        Err(_) => {
            let reason = format!("{} did not greet within {limit:?}", subject.node);
            connection.close(code::of(Why::Protocol), reason.as_bytes());
            Err(reason)
        }
    }
}

/// Done when the other end's certificate has been checked, not before: in TLS 1.3 the client finishes last.
async fn shake(shared: &Shared, own: &Current, incoming: Incoming) -> Result<Connection, String> {
    let config = server(own, &shared.transport).map_err(|error| error.to_string())?;
    let connecting = incoming.accept_with(Arc::new(config)).map_err(|error| words::handshake(&error))?;
    connecting.await.map_err(|error| words::handshake(&error))
}
