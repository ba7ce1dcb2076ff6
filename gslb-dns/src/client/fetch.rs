//! GETs, from a node's admin API.

use super::events::Events;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a connection may take: the API is on the same machine, or at the end of a tunnel.
const CONNECT: Duration = Duration::from_secs(3);

/// How long a whole answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// The largest answer, in bytes: more than a page of a thousand LDNS of 32 sites.
const LARGEST: usize = 64 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// Nobody is there.
    #[error("cannot reach the node's admin API at {address}: {reason} (does it run? --admin says where)")]
    Unreachable { address: SocketAddr, reason: String },
    /// Somebody is there, and does not answer.
    #[error("the node's admin API at {address} does not answer within {ANSWER:?}")]
    TimedOut { address: SocketAddr },
    /// The node says why not.
    #[error("the node at {address} says: {reason} (status {status})")]
    Refused { address: SocketAddr, status: u16, reason: String },
    /// What came is no answer, or not all of it.
    #[error("the answer of {address} can't be read: {reason}")]
    Broken { address: SocketAddr, reason: String },
}

/// A node's admin API.
pub(super) struct Node {
    address: SocketAddr,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Node {
    pub(super) fn at(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        Node { address, client: Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// The body of a path's answer.
    pub(super) async fn get(&self, path: &str) -> Result<Bytes, FetchError> {
        let answer = tokio::time::timeout(ANSWER, self.exchange(path)).await;
        answer.unwrap_or(Err(FetchError::TimedOut { address: self.address }))
    }

    /// The changes of peers' states as they happen, those after the event of this id if it is given.
    pub(super) async fn events(&self, last: Option<&str>) -> Result<Events, FetchError> {
        let opened = tokio::time::timeout(ANSWER, async {
            let response = self.ask("/v1/peers/stream", last).await?;
            if response.status().is_success() {
                return Ok(Events::of(self.address, response.into_body()));
            }
            Err(self.refusal(response).await?)
        });
        opened.await.unwrap_or(Err(FetchError::TimedOut { address: self.address }))
    }

    async fn exchange(&self, path: &str) -> Result<Bytes, FetchError> {
        let response = self.ask(path, None).await?;
        if response.status().is_success() {
            self.body(response).await
        } else {
            Err(self.refusal(response).await?)
        }
    }

    async fn ask(&self, path: &str, last_event: Option<&str>) -> Result<Response<Incoming>, FetchError> {
        let address = self.address;
        let mut request = Request::get(format!("http://{address}{path}"));
        if let Some(id) = last_event {
            request = request.header("Last-Event-ID", id);
        }
        let request = request.body(Empty::new()).map_err(|e| self.broken(format!("{path}: {e}")))?;
        self.client.request(request).await.map_err(|error| {
            let reason = innermost(&error);
            if error.is_connect() { FetchError::Unreachable { address, reason } } else { self.broken(reason) }
        })
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, FetchError> {
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        Ok(body.map_err(|error| self.broken(innermost(&*error)))?.to_bytes())
    }

    async fn refusal(&self, response: Response<Incoming>) -> Result<FetchError, FetchError> {
        let (address, status) = (self.address, response.status().as_u16());
        let body = self.body(response).await?;
        let reason = serde_json::from_slice(&body).map(|Refusal { reason }| reason).unwrap_or_default();
        Ok(FetchError::Refused { address, status, reason: super::table::clean(&reason) })
    }

    fn broken(&self, reason: String) -> FetchError {
        FetchError::Broken { address: self.address, reason }
    }
}

/// How the API refuses.
#[derive(Deserialize)]
struct Refusal {
    reason: String,
}

/// What it comes down to: "Connection refused" rather than "client error".
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Text as it may stand in a query string (RFC 3986 section 2.3).
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte))
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}
