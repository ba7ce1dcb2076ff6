//! TLS towards clients: certificates from files, chosen by server name, read again when they change.

mod certificates;
mod resolver;

pub use certificates::CertificateError;

use crate::settings::CertificateFiles;
use resolver::Resolver;
use rustls::ServerConfig;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The TLS side of one LB virtual server.
#[derive(Debug)]
pub(crate) struct Tls {
    files: Vec<CertificateFiles>,
    resolver: Arc<Resolver>,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the certificates.
    pub(crate) fn load(files: &[CertificateFiles]) -> Result<Self, CertificateError> {
        let resolver = Arc::new(Resolver::new(certificates::load_all(files)?));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Tls)?
            .with_no_client_auth()
            .with_cert_resolver(resolver.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Returning clients skip the costly half of the handshake, without memory on this side.
        config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(CertificateError::Tls)?;
        Ok(Tls { files: files.to_vec(), resolver, config: Arc::new(config) })
    }

    pub(crate) fn files(&self) -> &[CertificateFiles] {
        &self.files
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Reads the certificates again. Whether others are served from here on; those before stay if the new ones are no good.
    pub(crate) fn reload(&self) -> Result<bool, CertificateError> {
        let table = certificates::load_all(&self.files)?;
        Ok(self.resolver.replace(table))
    }
}
