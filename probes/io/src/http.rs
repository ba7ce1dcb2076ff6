//! The exchange of an http check: one GET over HTTP/1.1.

use crate::check::{Fault, words};
use crate::stamp::rtt;
use bytes::Bytes;
use gslb_types::Rtt;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Instant;
use tokio::net::TcpStream;

/// What is asked for, and what is a good answer.
pub(crate) struct Get {
    /// Origin-form target.
    pub(crate) path: String,
    /// The Host field; the target's address if empty.
    pub(crate) host: String,
    /// Status codes that pass; any 2xx if empty.
    pub(crate) expect: Vec<u16>,
}

impl Get {
    /// Sends the request over the connection, and reads the response's head; its body is not waited for. The time is from
    /// the request to the head (behaviour 5). Then the connection is closed.
    pub(crate) async fn exchange(self, stream: TcpStream, target: SocketAddr) -> Result<Rtt, Fault> {
        let request = self.request(target)?;
        // Not to hold back a request that fits one segment.
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let mut connection = pin!(connection);
        let sent = Instant::now();
        let mut head = pin!(sender.send_request(request));
        let response = tokio::select! {
            response = &mut head => response,
            // The connection has ended: with it comes the response or the reason there is none.
            _ = &mut connection => head.await,
        };
        let status = response.map_err(failed)?.status();
        let took = rtt(sent, Instant::now());
        if self.passes(status) { Ok(took) } else { Err(Fault::Failed(self.wrong(status))) }
    }

    fn request(&self, target: SocketAddr) -> Result<Request<Empty<Bytes>>, Fault> {
        let host = match (self.host.as_str(), target.port()) {
            ("", 80) if target.is_ipv4() => target.ip().to_string(),
            ("", 80) => format!("[{}]", target.ip()),
            ("", _) => target.to_string(),
            (host, _) => host.to_owned(),
        };
        Request::get(&self.path)
            .header(HOST, host)
            .header(USER_AGENT, concat!("gslb-dns/", env!("CARGO_PKG_VERSION")))
            .header(CONNECTION, "close")
            .body(Empty::new())
            .map_err(|e| Fault::Failed(format!("the check's path or host can't be sent: {e}")))
    }

    fn passes(&self, status: StatusCode) -> bool {
        if self.expect.is_empty() { status.is_success() } else { self.expect.contains(&status.as_u16()) }
    }

    fn wrong(&self, status: StatusCode) -> String {
        let expected = match self.expect.as_slice() {
            [] => "2xx".to_owned(),
            codes => codes.iter().map(u16::to_string).collect::<Vec<_>>().join(" or "),
        };
        format!("status {}, expected {expected}", status.as_u16())
    }
}

fn failed(error: hyper::Error) -> Fault {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    Fault::Failed(match io {
        Some(io) => words(io),
        None if error.is_parse() => "not HTTP".into(),
        None if error.is_incomplete_message() => "connection closed before the response was complete".into(),
        None => error.to_string(),
    })
}
