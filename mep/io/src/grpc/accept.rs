//! Being connected to: whom to let begin, TLS, HTTP/2, the call, greeting.

use super::link::{Driver, Exchange, Incoming, Pinged, take_greeting};
use super::messages::{Messages, Sender};
use super::{ALPN, CONTENT_TYPE, METHOD, code, server, trailers, words};
use crate::carrier::{Shared, plain};
use crate::gate::{Ticket, Verdict};
use crate::identity::Current;
use crate::link::{Link, Why};
use crate::name::peer_of;
use crate::words::fitting;
use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderValue, Method, Request, Response, header};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::Status;

type Http = Connection<TlsStream<TcpStream>, Bytes>;

/// Decides about a connection. What is let in becomes a task, for the caller to run.
pub(crate) fn admit(
    shared: &Arc<Shared>,
    tcp: TcpStream,
    address: SocketAddr,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    match shared.judge(&shared.grpc_gate, address.ip(), true) {
        Verdict::Admit(ticket) => Some(accept(shared.clone(), tcp, plain(address), ticket)),
        Verdict::Prove | Verdict::Refuse => {
            tracing::trace!(%address, "too many unfinished handshakes");
            None
        }
    }
}

async fn accept(shared: Arc<Shared>, tcp: TcpStream, address: SocketAddr, ticket: Ticket) {
    let limit = shared.limits.handshake;
    let accepted = tokio::select! {
        () = shared.stopping.cancelled() => return,
        accepted = timeout_at(Instant::now() + limit, welcome(&shared, tcp, address)) => accepted,
    };
    drop(ticket);
    let refused = match accepted {
        Ok(Ok(link)) => link.run(&shared).await,
        Ok(Err(reason)) => Err(reason),
        Err(_) => Err(format!("the handshake was not finished within {limit:?}")),
    };
    if let Err(reason) = refused {
        shared.refused(address, reason).await;
    }
}

async fn welcome(shared: &Shared, tcp: TcpStream, address: SocketAddr) -> Result<Link<Exchange>, String> {
    let own = shared.identity.current();
    let tls = secure(&own, tcp).await?;
    let found = peer_of(tls.get_ref().1.peer_certificates(), shared.identity.group())
        .and_then(|subject| shared.admission.admit(subject, address.ip()));
    let mut http = server().handshake(tls).await.map_err(|error| words::greeting(&error))?;
    let (request, mut respond) = first_call(&mut http).await?;
    let subject = match (found, wrong(&request)) {
        (Ok(subject), None) => subject,
        (Err(reason), _) => return Err(turn_away(http, respond, Why::Refused, reason).await),
        (Ok(subject), Some(reason)) => {
            return Err(turn_away(http, respond, Why::Protocol, format!("{}: {reason}", subject.node)).await);
        }
    };
    let pings = http.ping_pong();
    let driver = drive(shared, http);
    let stream = respond.send_response(head(), false).map_err(|error| words::greeting(&error))?;
    let (mut messages, mut outgoing) = (Messages::new(request.into_body()), Sender::new(stream));
    let greeted = take_greeting(&mut messages).await;
    if let Err(reason) = greeted {
        outgoing.reset(Reason::PROTOCOL_ERROR);
        return Err(format!("{}: {reason}", subject.node));
    }
    outgoing.send(&[]).await.map_err(|error| format!("{}: {}", subject.node, words::greeting(&error)))?;
    let idle = shared.limits.idle;
    let wire = Exchange {
        incoming: Incoming { messages, idle },
        outgoing,
        path: Pinged::new(pings, address, idle),
        driver,
    };
    Ok(Link { wire, subject, dialled: false, address, own_expires: own.subject().expires })
}

/// Done when the other end's certificate has been checked.
async fn secure(own: &Current, tcp: TcpStream) -> Result<TlsStream<TcpStream>, String> {
    tcp.set_nodelay(true).map_err(|error| words::handshake(&error))?;
    let acceptor = TlsAcceptor::from(Arc::new(own.server(ALPN)));
    acceptor.accept(tcp).await.map_err(|error| words::handshake(&error))
}

async fn first_call(http: &mut Http) -> Result<(Request<RecvStream>, SendResponse<Bytes>), String> {
    match http.accept().await {
        Some(Ok(call)) => Ok(call),
        Some(Err(error)) => Err(words::greeting(&error)),
        None => Err("it hung up without a call".to_owned()),
    }
}

/// What is wrong with a call, if it is not the one that is served.
fn wrong(request: &Request<RecvStream>) -> Option<&'static str> {
    let content = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if request.method() != Method::POST || !content.starts_with(CONTENT_TYPE.as_bytes()) {
        Some("it does not speak gRPC")
    } else if request.uri().path() != METHOD {
        Some("it calls for another service than the carrying of MEP")
    } else {
        None
    }
}

fn head() -> Response<()> {
    let mut head = Response::new(());
    head.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    head
}

/// Answers a call with nothing but a status, and waits until the other end has read it and hung up. The reason is returned.
async fn turn_away(mut http: Http, mut respond: SendResponse<Bytes>, why: Why, reason: String) -> String {
    let mut head = head();
    head.headers_mut().extend(trailers(&Status::new(code::of(why), fitting(&reason))));
    if respond.send_response(head, true).is_ok() {
        http.graceful_shutdown();
        while let Some(Ok(_)) = http.accept().await {}
    }
    reason
}

/// Keeps the connection going. A second call on it is refused.
fn drive(shared: &Shared, mut http: Http) -> Driver {
    let (ended, gone) = oneshot::channel::<()>();
    let guard = shared.tasks.spawn_guarded(async move {
        let _ended = ended;
        while let Some(Ok((_, mut respond))) = http.accept().await {
            respond.send_reset(Reason::REFUSED_STREAM);
        }
    });
    Driver { _guard: guard, gone }
}
