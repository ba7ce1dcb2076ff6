//! DNS over TLS (RFC 7858): hickory-server carries the streams, `answer` answers.
//!
//! hickory-server takes no finished bytes from a handler, so a reply is decoded once and encoded again by it: a microsecond,
//! beside TLS.

use super::Context;
use config::DnsTls;
use gslb_core::dns::{Transport, answer};
use hickory_net::runtime::Time;
use hickory_proto::op::{Header, HeaderCounts, Message, MessageType, Metadata, OpCode};
use hickory_proto::rr::Record;
use hickory_server::Server;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Why DNS over TLS can't be switched on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A PEM file can't be used.
    #[error("{path}: {reason}", path = path.display())]
    File { path: PathBuf, reason: String },
    /// Certificate and key don't fit together, or are of a kind rustls doesn't take.
    #[error("certificate {certificate} and key {key}: {source}", certificate = certificate.display(), key = key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

/// The TLS side of the configuration's certificate.
pub(crate) fn server_config(tls: &DnsTls) -> Result<Arc<ServerConfig>, TlsError> {
    let file = |path: &Path, reason: String| TlsError::File { path: path.to_owned(), reason };
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|error| file(&tls.certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(file(&tls.certificate, "holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| file(&tls.key, error.to_string()))?;
    let pair = |source| TlsError::Pair { certificate: tls.certificate.clone(), key: tls.key.clone(), source };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"dot".to_vec()];
    Ok(Arc::new(config))
}

/// Serves these listeners until `context.stop` is cancelled.
pub(crate) async fn serve(
    listeners: Vec<tokio::net::TcpListener>,
    config: Arc<ServerConfig>,
    context: Context,
) {
    let stop = context.stop.clone();
    let mut server = Server::new(Handler { context });
    for listener in listeners {
        if let Err(error) = server.register_tls_listener_with_tls_config(listener, HANDSHAKE, config.clone())
        {
            tracing::error!(%error, "DNS over TLS listener could not be started");
        }
    }
    tokio::select! {
        () = stop.cancelled() => {}
        ended = server.block_until_done() => {
            tracing::error!(?ended, "DNS over TLS listener ended");
        }
    }
    let _ = server.shutdown_gracefully().await;
}

struct Handler {
    context: Context,
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut handle: R,
    ) -> ResponseInfo {
        let Some(reply) = self.answer(request) else { return silence(request.metadata.id) };
        let mut builder = MessageResponseBuilder::new(&request.queries, None);
        if let Some(edns) = &reply.edns {
            builder.edns(edns);
        }
        let none: [&Record; 0] = [];
        let response = builder.build(
            reply.metadata,
            reply.answers.iter(),
            reply.authorities.iter(),
            none,
            reply.additionals.iter(),
        );
        handle.send_response(response).await.unwrap_or_else(|_| silence(request.metadata.id))
    }
}

impl Handler {
    fn answer(&self, request: &Request) -> Option<Message> {
        let context = &self.context;
        let now = context.clock.now();
        let mut buffer = vec![0; usize::from(u16::MAX)];
        let published = context.shared.published.load();
        let source = request.src().ip().to_canonical();
        let bytes = request.as_slice();
        let answered = answer(&context.shared, &published, bytes, source, Transport::Tls, now, &mut buffer);
        if let Some(ldns) = answered.sighting {
            context.sightings.send(ldns);
        }
        buffer.truncate(answered.len);
        Message::from_vec(&buffer).ok()
    }
}

/// What the trait wants to hear when nothing was sent.
fn silence(id: u16) -> ResponseInfo {
    let metadata = Metadata::new(id, MessageType::Response, OpCode::Query);
    ResponseInfo::from(Header { metadata, counts: HeaderCounts::default() })
}
