//! Connecting to a peer: TCP, TLS, HTTP/2, the call, greeting, and words for what went wrong.

use super::link::{Driver, Exchange, Incoming, Pinged, take_greeting};
use super::messages::{Messages, Sender};
use super::{ALPN, CONTENT_TYPE, METHOD, client, code, socket, status, words};
use crate::carrier::{Shared, plain};
use crate::identity::Current;
use crate::link::{Link, Why};
use crate::name::{Subject, peer_of};
use crate::words::fitting;
use gslb_types::NodeId;
use h2::{Reason, RecvStream};
use http::{HeaderValue, Method, Request, Response, header};
use mep_core::carrier::Over;
use rustls_pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::Status;

/// One dial and, if it comes to something, the life of the connection.
pub(crate) async fn dial(shared: Arc<Shared>, from: IpAddr, peer: NodeId, address: SocketAddr) {
    let connected = tokio::select! {
        () = shared.stopping.cancelled() => return,
        connected = connect(&shared, from, &peer, address) => connected,
    };
    let failed = match connected {
        Ok(link) => link.run(&shared).await,
        Err(reason) => Err(reason),
    };
    if let Err(reason) = failed {
        shared.dial_failed(peer, address, Over::Grpc, reason).await;
    }
}

async fn connect(
    shared: &Shared,
    from: IpAddr,
    peer: &NodeId,
    address: SocketAddr,
) -> Result<Link<Exchange>, String> {
    let limit = shared.limits.handshake;
    let deadline = Instant::now() + limit;
    let own = shared.identity.current();
    own.usable()?;
    let tcp = match timeout_at(deadline, socket::connect(from, address)).await {
        Ok(tcp) => tcp.map_err(|error| words::unconnected(address, &error))?,
        Err(_) => {
            return Err(format!(
                "connect timeout: no answer from {address} within {limit:?}: nobody listens there, or TCP is blocked on the way"
            ));
        }
    };
    let greeted = async {
        let tls = secure(shared, &own, peer, tcp).await?;
        let chain = tls.get_ref().1.peer_certificates();
        let subject = named(peer, peer_of(chain, shared.identity.group()));
        let wire = call(shared, tls, address, subject.as_ref().err()).await?;
        Ok(Link {
            wire,
            subject: subject?,
            dialled: true,
            address: plain(address),
            own_expires: own.subject().expires,
        })
    };
    match timeout_at(deadline, greeted).await {
        Ok(greeted) => greeted,
        Err(_) => Err(format!("{address} took the connection and did not greet within {limit:?}")),
    }
}

async fn secure(
    shared: &Shared,
    own: &Current,
    peer: &NodeId,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, String> {
    let dns = shared.identity.group().node_dns(peer);
    let name = ServerName::try_from(dns).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(own.client(ALPN)));
    connector.connect(name, tcp).await.map_err(|error| words::handshake(&error))
}

/// TLS has compared the DNS name; the URI must agree.
fn named(peer: &NodeId, found: Result<Subject, String>) -> Result<Subject, String> {
    let subject = found?;
    if subject.node != *peer {
        return Err(format!("certificate not valid for {peer}: it names {}", subject.node));
    }
    Ok(subject)
}

/// Opens the call and greets, or says why not.
async fn call(
    shared: &Shared,
    tls: TlsStream<TcpStream>,
    address: SocketAddr,
    refuses: Option<&String>,
) -> Result<Exchange, String> {
    let failed = |error| words::greeting(&error);
    let (requests, mut connection) = client().handshake(tls).await.map_err(failed)?;
    let pings = connection.ping_pong();
    let (ended, gone) = oneshot::channel::<()>();
    let guard = shared.tasks.spawn_guarded(async move {
        let _ended = ended;
        let _ = connection.await; // its streams say what went wrong
    });
    let mut requests = requests.ready().await.map_err(failed)?;
    let (response, stream) = requests.send_request(request(address), false).map_err(failed)?;
    drop(requests);
    let mut outgoing = Sender::new(stream);
    if let Some(reason) = refuses {
        let _ = outgoing.finish(&Status::new(code::of(Why::Refused), fitting(reason)));
        let _ = response.await; // by then the reason has arrived
        return Err(reason.clone());
    }
    outgoing.send(&[]).await.map_err(failed)?;
    let mut messages = Messages::new(accepted(response.await.map_err(failed)?)?);
    if let Err(reason) = take_greeting(&mut messages).await {
        outgoing.reset(Reason::PROTOCOL_ERROR);
        return Err(reason);
    }
    let idle = shared.limits.idle;
    Ok(Exchange {
        incoming: Incoming { messages, idle },
        outgoing,
        path: Pinged::new(pings, address, idle),
        driver: Driver { _guard: guard, gone },
    })
}

fn request(address: SocketAddr) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = http::Version::HTTP_2;
    let uri =
        http::Uri::builder().scheme("https").authority(address.to_string()).path_and_query(METHOD).build();
    *request.uri_mut() = uri.unwrap_or_else(|_| http::Uri::from_static(METHOD));
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    request
}

/// The stream of a call that was taken.
fn accepted(response: Response<RecvStream>) -> Result<RecvStream, String> {
    let (head, stream) = response.into_parts();
    match status(head.headers) {
        Some(last) => Err(words::refused(Some(&last))),
        None if head.status.is_success() => Ok(stream),
        None => Err(format!("it does not serve MEP: HTTP status {}", head.status.as_u16())),
    }
}
