//! QUIC, TCP, TLS and HTTP/2 as a stranger, or a node that has gone wrong, would use them.

use crate::support::{PATIENCE, loopback};
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use mep_core::carrier::Over;
use mep_io::Pem;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, ServerConfig};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Whom strangers dial: `ams/1` of the test group.
const NAME: &str = "1.ams.test.mep.gslb.internal";

pub(crate) const METHOD: &str = "/gslb.mep.carrier.v1.Carrier/Exchange";

/// The protocol in TLS that a node awaits.
pub(crate) fn alpn(over: Over) -> &'static [u8] {
    match over {
        Over::Quic => b"gslb-mep/1",
        Over::Grpc => b"h2",
    }
}

fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    roots
}

fn pair(pem: &Pem) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_slice_iter(pem.certificate.as_bytes()).map(Result::unwrap).collect();
    (chain, PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).unwrap())
}

/// Trusts this CA and shows this certificate, or none.
fn tls_client(ca: &str, own: Option<&Pem>, alpn: &[u8]) -> rustls::ClientConfig {
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots(ca));
    let mut tls = match own {
        Some(own) => {
            let (chain, key) = pair(own);
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![alpn.to_vec()];
    tls
}

fn tls_server(ca: &str, own: &Pem, alpn: &[u8]) -> rustls::ServerConfig {
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)), provider.clone());
    let (chain, key) = pair(own);
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![alpn.to_vec()];
    tls
}

/// QUIC's configuration of it.
pub(crate) fn client(ca: &str, own: Option<&Pem>, alpn: &[u8]) -> ClientConfig {
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls_client(ca, own, alpn)).unwrap()))
}

pub(crate) fn endpoint() -> Endpoint {
    Endpoint::client(loopback()).unwrap()
}

pub(crate) async fn dial(
    endpoint: &Endpoint,
    config: ClientConfig,
    address: SocketAddr,
) -> Result<Connection, ConnectionError> {
    endpoint.connect_with(config, address, NAME).unwrap().await
}

/// TLS on TCP. That a certificate was refused shows only afterwards.
pub(crate) async fn connect(
    ca: &str,
    own: Option<&Pem>,
    alpn: &[u8],
    address: SocketAddr,
) -> io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    let connector = TlsConnector::from(Arc::new(tls_client(ca, own, alpn)));
    connector.connect(ServerName::try_from(NAME).unwrap(), tcp).await
}

/// A call over HTTP/2, with all that keeps it up.
pub(crate) struct Call {
    pub(crate) send: h2::SendStream<Bytes>,
    pub(crate) response: h2::client::ResponseFuture,
    pub(crate) requests: h2::client::SendRequest<Bytes>,
    _driver: JoinSet<()>,
}

pub(crate) fn request(method: &str) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = format!("https://ams{method}").parse().unwrap();
    request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    request
}

impl Call {
    pub(crate) async fn open(tls: TlsStream<TcpStream>, request: Request<()>) -> Result<Call, h2::Error> {
        let (requests, connection) = h2::client::handshake(tls).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        let mut requests = requests.ready().await?;
        let (response, send) = requests.send_request(request, false)?;
        Ok(Call { send, response, requests, _driver: driver })
    }

    /// The other end's last words: a status as trailers or in place of an answer, or an error.
    pub(crate) async fn told(self) -> String {
        let ended = async {
            let (head, mut body) = match self.response.await {
                Ok(response) => response.into_parts(),
                Err(error) => return error.to_string(),
            };
            if head.headers.contains_key("grpc-status") {
                return message(&head.headers);
            }
            while let Some(data) = body.data().await {
                match data {
                    Ok(data) => body.flow_control().release_capacity(data.len()).unwrap(),
                    Err(error) => return error.to_string(),
                }
            }
            match body.trailers().await {
                Ok(trailers) => message(&trailers.unwrap_or_default()),
                Err(error) => error.to_string(),
            }
        };
        timeout(PATIENCE, ended).await.expect("told nothing")
    }
}

fn message(headers: &HeaderMap) -> String {
    let status = headers.get("grpc-status").map_or("none", |code| code.to_str().unwrap());
    let message = headers.get("grpc-message").map_or("", |text| text.to_str().unwrap());
    format!("status {status}: {}", message.replace("%20", " "))
}

/// Dials as a stranger, and returns what the other end answers in the end.
pub(crate) async fn knock(over: Over, ca: &str, own: Option<&Pem>, address: SocketAddr) -> String {
    match over {
        Over::Quic => match dial(&endpoint(), client(ca, own, alpn(over)), address).await {
            Ok(connection) => timeout(PATIENCE, connection.closed()).await.unwrap().to_string(),
            Err(error) => error.to_string(),
        },
        Over::Grpc => match connect(ca, own, alpn(over), address).await {
            Ok(tls) => match Call::open(tls, request(METHOD)).await {
                Ok(call) => call.told().await,
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        },
    }
}

/// A listener that shows this certificate, for as long as it is held.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

pub(crate) async fn server(over: Over, ca: &str, own: &Pem) -> Server {
    let tls = tls_server(ca, own, alpn(over));
    let mut tasks = JoinSet::new();
    let address = match over {
        Over::Quic => {
            let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
            let endpoint = Endpoint::server(ServerConfig::with_crypto(crypto), loopback()).unwrap();
            let address = endpoint.local_addr().unwrap();
            tasks.spawn(async move {
                while let Some(incoming) = endpoint.accept().await {
                    let _ = incoming.await;
                }
            });
            address
        }
        Over::Grpc => {
            let listener = TcpListener::bind(loopback()).await.unwrap();
            let address = listener.local_addr().unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(tls));
            tasks.spawn(async move {
                while let Ok((tcp, _)) = listener.accept().await {
                    let _ = acceptor.accept(tcp).await;
                }
            });
            address
        }
    };
    Server { address, _tasks: tasks }
}
