//! Certificates of every kind of trouble, and servers that show them.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

/// A CA, its certificate in a file.
pub(crate) struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Ca {
    pub(crate) fn new() -> Self {
        Ca::named("a CA")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.crt"), issuer.pem()).unwrap();
        Ca { issuer, folder }
    }

    /// The file of its certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// A certificate for these names, valid from so many days from now to so many. And its key.
    pub(crate) fn issue(&self, names: &[&str], from: i64, to: i64) -> (rcgen::Certificate, KeyPair) {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let now = OffsetDateTime::now_utc();
        params.not_before = now + Duration::days(from) - Duration::hours(1);
        params.not_after = now + Duration::days(to) + Duration::hours(1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A server that shows such a certificate.
    pub(crate) fn server(&self, names: &[&str], from: i64, to: i64) -> Arc<ServerConfig> {
        self.server_of(names, from, to, rustls::ALL_VERSIONS)
    }

    pub(crate) fn server_of(
        &self,
        names: &[&str],
        from: i64,
        to: i64,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let (certificate, key) = self.issue(names, from, to);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config)
    }
}
