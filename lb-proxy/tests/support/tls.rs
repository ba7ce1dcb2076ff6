//! Certificates of the tests' own, and clients that trust them.

use super::{Running, within};
use lb_proxy::CertificateFiles;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A self-signed certificate for these names, written as `name.pem` and `name.key`.
pub fn write_pair(folder: &Path, file: &str, names: &[&str]) -> CertificateFiles {
    let pair =
        rcgen::generate_simple_self_signed(names.iter().map(|n| n.to_string()).collect::<Vec<_>>()).unwrap();
    let files = CertificateFiles {
        certificate: folder.join(format!("{file}.pem")),
        key: folder.join(format!("{file}.key")),
    };
    std::fs::write(&files.certificate, pair.cert.pem()).unwrap();
    std::fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
    files
}

/// Clients that trust the certificate in this file, and speak these protocols.
pub struct Tls(TlsConnector);

impl Tls {
    pub fn trusting(trusts: &Path, alpn: &[&[u8]]) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(trusts).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
        Tls(TlsConnector::from(Arc::new(config)))
    }

    /// A client that asks for this name.
    pub async fn connect(&self, running: &Running, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        within(self.0.connect(name, running.connect().await)).await
    }
}

/// One such client.
pub async fn tls(
    running: &Running,
    trusts: &Path,
    alpn: &[&[u8]],
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    Tls::trusting(trusts, alpn).connect(running, name).await
}
