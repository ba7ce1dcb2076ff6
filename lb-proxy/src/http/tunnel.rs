//! WebSockets and whatever else a service agrees to change to: bytes both ways, until either side ends it.

use super::exchange::Exchange;
use crate::client::ClientStream;
use crate::listen::Place;
use crate::pump::{Pump, pump};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Carries a tunnel. The transaction, and the client's place among the connections, last as long as it.
pub(super) async fn run(client: OnUpgrade, exchange: Exchange, place: Place) {
    let Exchange { transaction, mut connection, .. } = exchange;
    let meter = connection.meter.clone();
    let kill = place.kill.clone();
    let (mut client, mut killed) = (pin!(client), pin!(kill.cancelled()));
    let handed_over = poll_fn(|cx| {
        connection.drive(cx);
        if connection.meter.is_cut() || killed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        if connection.is_closed() { client.as_mut().poll(cx).map(Result::ok) } else { Poll::Pending }
    });
    let handed_over = tokio::time::timeout(place.settings.timeouts.connect, handed_over).await;
    let Ok(Some(client)) = handed_over else { return };
    let Ok(client) = client.downcast::<TokioIo<ClientStream>>() else { return };
    let (service, from_service) = connection.into_tunnel();
    let wire = client.io.into_inner().into_wire();
    pump(Pump {
        client: wire,
        from_client: client.read_buf,
        service,
        from_service,
        meter,
        transaction,
        place,
    })
    .await;
}
