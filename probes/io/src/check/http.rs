//! One request over HTTP/1.1, plain or within TLS.

use super::answer::{Pieces, look_for};
use super::stream::Times;
use super::{Fault, Run, failed, unasked, words};
use bytes::Bytes;
use gslb_types::{HttpCheck, Rtt};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};

impl Run<'_> {
    /// Connects, and asks. The time is from the request to the head of the response, or to the part of its body that holds
    /// what is looked for (behaviour 5). A body that is not looked into is not waited for.
    pub(super) async fn http(self, check: &HttpCheck) -> Result<Rtt, Fault> {
        let request = request(check, self.target)?;
        let stream = self.stream().await?;
        let times = stream.times();
        match &check.tls {
            None => {
                unasked(&stream.waiting())?;
                self.exchange(check, request, stream, &times).await
            }
            Some(tls) => {
                let stream = self.handshake(tls, stream).await?;
                self.exchange(check, request, stream, &times).await
            }
        }
    }

    async fn exchange<S>(
        self,
        check: &HttpCheck,
        request: Request<Full<Bytes>>,
        stream: S,
        times: &Times,
    ) -> Result<Rtt, Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let asked = async {
            times.begin();
            let response = sender.send_request(request).await.map_err(broken)?;
            if times.is_early() {
                return failed("the response came before the request");
            }
            let took = times.span();
            if !passes(check, response.status()) {
                return failed(wrong(check, response.status()));
            }
            Ok((response, took))
        };
        let work = async {
            let (response, took) = self.limit.hold("no answer", asked).await??;
            match check.receive {
                None => Ok(took),
                Some(_) => self.body(check, response, times).await,
            }
        };
        let (mut work, mut connection) = (pin!(work), pin!(connection));
        tokio::select! {
            biased;
            done = &mut work => done,
            // The connection has ended: with it comes the rest of the response, or the reason there is none.
            _ = &mut connection => work.await,
        }
    }

    async fn body(
        self,
        check: &HttpCheck,
        response: Response<Incoming>,
        times: &Times,
    ) -> Result<Rtt, Fault> {
        let Some(receive) = &check.receive else { return Ok(times.span()) };
        let matcher = self.tools.matchers.of(&receive.pattern)?;
        let body = Body { body: response.into_body(), times: times.clone() };
        look_for(receive, &matcher, times, self.limit, body).await
    }
}

/// An answer in a response's body.
struct Body {
    body: Incoming,
    times: Times,
}

impl Pieces for Body {
    const SAYS_ITS_END: bool = true;

    async fn next(&mut self, answer: &mut Vec<u8>) -> Result<Option<Instant>, Fault> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(broken)?;
            if let Some(data) = frame.data_ref().filter(|data| !data.is_empty()) {
                answer.extend_from_slice(data);
                return Ok(Some(self.times.came()));
            }
        }
        Ok(None)
    }
}

fn request(check: &HttpCheck, target: SocketAddr) -> Result<Request<Full<Bytes>>, Fault> {
    let port = if check.tls.is_some() { 443 } else { 80 };
    let host = match check.host.as_str() {
        "" if target.port() != port => target.to_string(),
        "" if target.is_ipv4() => target.ip().to_string(),
        "" => format!("[{}]", target.ip()),
        host => host.to_owned(),
    };
    let unfit = |e: &dyn Error| Fault::Ours(format!("the check's request can't be sent: {e}"));
    let mut request = Request::builder()
        .method(check.method.as_str())
        .uri(&check.path)
        .header(HOST, host)
        .header(USER_AGENT, concat!("gslb-dns/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Full::from(check.body.clone()))
        .map_err(|e| unfit(&e))?;
    for (name, value) in &check.headers {
        let name = HeaderName::try_from(name).map_err(|e| unfit(&e))?;
        let value = HeaderValue::try_from(value).map_err(|e| unfit(&e))?;
        match [HOST, USER_AGENT, CONNECTION].contains(&name) {
            true => drop(request.headers_mut().insert(name, value)),
            false => drop(request.headers_mut().append(name, value)),
        }
    }
    Ok(request)
}

fn passes(check: &HttpCheck, status: StatusCode) -> bool {
    if check.expect.is_empty() { status.is_success() } else { check.expect.contains(&status.as_u16()) }
}

fn wrong(check: &HttpCheck, status: StatusCode) -> String {
    let expected = match check.expect.as_slice() {
        [] => "2xx".to_owned(),
        codes => codes.iter().map(u16::to_string).collect::<Vec<_>>().join(" or "),
    };
    format!("status {}, expected {expected}", status.as_u16())
}

fn broken(error: hyper::Error) -> Fault {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    Fault::Failed(match io {
        Some(io) if io.kind() == io::ErrorKind::UnexpectedEof => CUT.into(),
        Some(io) => super::tls::words_of(io).unwrap_or_else(|| words(io)),
        None if error.is_parse() => "not HTTP".into(),
        None if error.is_incomplete_message() => CUT.into(),
        None => error.to_string(),
    })
}

const CUT: &str = "connection closed before the response was complete";
