//! One GET over plain HTTP/1.1.

use super::{LARGEST, too_large};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::pin::pin;
use tokio::net::TcpStream;

/// The body of a response with status 200. The connection leaves from wherever the system wants: a load balancer beside the
/// node is asked over the loopback, where the source of probes has no business.
pub(super) async fn get(address: SocketAddr, target: &str) -> Result<Vec<u8>, String> {
    let stream = TcpStream::connect(address).await.map_err(|e| format!("can't connect to {address}: {e}"))?;
    let request = Request::get(target)
        .header(HOST, address.to_string())
        .header(USER_AGENT, concat!("gslb-dns/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "*/*")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|e| format!("the request can't be sent: {e}"))?;
    let broken = |e: hyper::Error| format!("{address} sends no whole page: {e}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let page = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => {
                return Err(format!("{address} wants a password (status 401): allow this node without one"));
            }
            status => return Err(format!("{address} answers with status {}", status.as_u16())),
        }
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|e| match e.downcast::<LengthLimitError>() {
            Ok(_) => too_large(),
            Err(e) => format!("{address} sends no whole page: {e}"),
        })?;
        Ok(body.to_bytes().into())
    };
    let (mut page, mut connection) = (pin!(page), pin!(connection));
    tokio::select! {
        biased;
        page = &mut page => page,
        // The connection has ended: with it comes the rest of the page, or the reason there is none.
        _ = &mut connection => page.await,
    }
}
