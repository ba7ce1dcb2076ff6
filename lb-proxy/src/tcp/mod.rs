//! TCP virtual servers: a connection of a client, carried to one of a service.

mod proxy_protocol;

use crate::client::Wire;
use crate::dial::Unreachable;
use crate::listen::Place;
use crate::pump::{Pump, pump};
use crate::service::{Meter, ServiceStream};
use crate::settings::Kind;
use crate::transaction::Transaction;
use bytes::Bytes;
use lb_core::NoService;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Carries one connection. A client that no service takes gets a reset.
pub(crate) async fn carry(client: TcpStream, peer: SocketAddr, local: SocketAddr, place: Place) {
    place.vserver.counters.requests.add();
    let client = Wire::Plain(client);
    let reached = tokio::select! {
        reached = reach(peer, &place) => reached,
        () = place.kill.cancelled() => None,
    };
    let Some((mut transaction, socket)) = reached else {
        client.reset_on_close();
        return;
    };
    let meter = Arc::new(Meter::default());
    transaction.watch(&meter);
    transaction.counts(&meter, Instant::now());
    let from_client = match place.settings.kind {
        Kind::Tcp { proxy_protocol: true } => proxy_protocol::header(peer, local),
        Kind::Tcp { .. } | Kind::Http | Kind::Ssl { .. } => Bytes::new(),
    };
    let service = ServiceStream::new(socket, meter.clone());
    let from_service = Bytes::new();
    pump(Pump { client, from_client, service, from_service, meter, transaction, place }).await;
}

/// A connection to a service: the one chosen, or another if that can't be reached.
async fn reach(peer: SocketAddr, place: &Place) -> Option<(Transaction, TcpStream)> {
    let (address, settings) = (peer.ip().to_canonical(), &place.settings);
    let (mut tried, counters) = (Vec::new(), &place.vserver.counters);
    loop {
        let mut transaction = match place.vserver.pick(address, None, &tried) {
            Ok(transaction) => transaction,
            Err(NoService::AllTried) => {
                counters.failed.add();
                return None;
            }
            Err(_) => {
                counters.no_service.add();
                return None;
            }
        };
        match transaction.dial(settings.timeouts.connect).await {
            Ok(socket) => {
                transaction.reached();
                return Some((transaction, socket));
            }
            Err(why) => give_back(transaction, &why, &mut tried),
        }
        if tried.len() > settings.retries {
            counters.failed.add();
            return None;
        }
        counters.retried.add();
    }
}

fn give_back(transaction: Transaction, why: &Unreachable, tried: &mut Vec<lb_core::MemberId>) {
    tracing::debug!(service = %transaction.service.name, reason = %why, "service not reached");
    tried.push(transaction.member());
}
