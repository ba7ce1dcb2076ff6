//! Certificates and keys in files.

use crate::settings::CertificateFiles;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why certificates can't be used. Those served before stay in use.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// None is configured.
    #[error("an ssl virtual server needs a certificate")]
    None,
    /// A file is not there, or holds no PEM.
    #[error("{0}: {1}")]
    Unreadable(PathBuf, pem::Error),
    /// PEM, but without what was looked for.
    #[error("{0}: holds no {1}")]
    Missing(PathBuf, &'static str),
    /// A certificate that can't be read.
    #[error("{0}: not a certificate: {1}")]
    Damaged(PathBuf, String),
    /// The key is of a kind that TLS can't use, or another certificate's.
    #[error("{0}: does not fit the certificate: {1}")]
    Key(PathBuf, rustls::Error),
    /// Random numbers or protocol versions are not to be had.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
}

/// A certificate, its key, and the names it is for.
#[derive(Debug)]
pub(super) struct Certificate {
    /// Lower case; `*.` stands for one label.
    pub(super) names: Vec<String>,
    pub(super) key: Arc<CertifiedKey>,
}

pub(super) fn load_all(files: &[CertificateFiles]) -> Result<Vec<Certificate>, CertificateError> {
    if files.is_empty() {
        return Err(CertificateError::None);
    }
    files.iter().map(load).collect()
}

fn load(files: &CertificateFiles) -> Result<Certificate, CertificateError> {
    let chain = chain(&files.certificate)?;
    let first = chain.first().ok_or(CertificateError::Missing(files.certificate.clone(), "certificate"))?;
    let names = names(first).map_err(|why| CertificateError::Damaged(files.certificate.clone(), why))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        pem::Error::NoItemsFound => CertificateError::Missing(files.key.clone(), "private key"),
        error => CertificateError::Unreadable(files.key.clone(), error),
    })?;
    let unfit = |error| CertificateError::Key(files.key.clone(), error);
    let key = CertifiedKey::new(chain, any_supported_type(&key).map_err(unfit)?);
    key.keys_match().map_err(unfit)?;
    Ok(Certificate { names, key: Arc::new(key) })
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let unreadable = |error| CertificateError::Unreadable(path.to_owned(), error);
    CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
}

fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, String> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let alternative = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
    let names = alternative.iter().flat_map(|san| &san.value.general_names);
    let dns = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    Ok(dns.collect())
}
