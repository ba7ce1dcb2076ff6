//! The TLS of DNS over TLS (RFC 7858): certificate, key, and the protocol's name. The streams are those of `tcp`.

use config::DnsTls;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
