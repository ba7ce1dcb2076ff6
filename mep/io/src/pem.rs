//! PEM text in memory and in files, and errors that say which file and what is wrong with it.

use rustls_pki_types::pem::{self, PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A certificate with its key and the CA it is checked against, as PEM text in memory.
#[derive(Clone)]
pub struct Pem {
    /// The group's CA certificate, or several while one CA replaces another.
    pub ca: String,
    /// The node's certificate, followed by intermediate ones if there are any.
    pub certificate: String,
    /// The node's private key.
    pub key: String,
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pem")
            .field("ca", &self.ca)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Where a node's identity stands on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// The group's CA certificate(s).
    pub ca: PathBuf,
    /// The node's certificate chain.
    pub certificate: PathBuf,
    /// Its private key. Nobody but its owner may be able to read it (threat T10).
    pub key: PathBuf,
}

/// Why a PEM text could not be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// The file can't be read.
    #[error("{0}: {1}")]
    Unreadable(String, io::Error),
    /// Others than the owner may read the key.
    #[error(
        "{0}: others than its owner may use this private key (mode {1:04o}); chmod 600 it, and replace the key if it may have leaked"
    )]
    Exposed(String, u32),
    /// Holds no PEM block at all.
    #[error("{0}: not PEM: no -----BEGIN line")]
    NotPem(String),
    /// A PEM block is broken.
    #[error("{0}: damaged PEM: {1}")]
    Damaged(String, pem::Error),
    /// PEM, but not what was looked for.
    #[error("{0}: holds no {1}")]
    Missing(String, &'static str),
}

/// PEM bytes and the name errors call them by.
pub(crate) struct Source {
    pub(crate) name: String,
    bytes: Vec<u8>,
}

impl Source {
    pub(crate) fn memory(name: &str, text: &str) -> Self {
        Source { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
    }

    pub(crate) fn file(path: &Path) -> Result<Self, PemError> {
        let (_, source) = open(path)?;
        Ok(source)
    }

    /// A file that only its owner may read. The mode is asked of the opened file, so nobody can swap it in between.
    pub(crate) fn secret_file(path: &Path) -> Result<Self, PemError> {
        let (file, source) = open(path)?;
        let mode = file.metadata().map_err(|e| PemError::Unreadable(source.name.clone(), e))?.mode();
        if mode & 0o077 != 0 {
            return Err(PemError::Exposed(source.name, mode & 0o7777));
        }
        Ok(source)
    }

    pub(crate) fn text(&self) -> Result<&str, PemError> {
        std::str::from_utf8(&self.bytes).map_err(|_| PemError::NotPem(self.name.clone()))
    }

    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, PemError> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        let found = found.map_err(|e| PemError::Damaged(self.name.clone(), e))?;
        if found.is_empty() { Err(self.lacks("certificate")) } else { Ok(found) }
    }

    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, PemError> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|e| match e {
            pem::Error::NoItemsFound => self.lacks("private key"),
            other => PemError::Damaged(self.name.clone(), other),
        })
    }

    fn lacks(&self, what: &'static str) -> PemError {
        let blocks = <(SectionKind, Vec<u8>)>::pem_slice_iter(&self.bytes).count();
        if blocks == 0 {
            PemError::NotPem(self.name.clone())
        } else {
            PemError::Missing(self.name.clone(), what)
        }
    }
}

fn open(path: &Path) -> Result<(File, Source), PemError> {
    let name = path.display().to_string();
    let read = || {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok((file, bytes))
    };
    match read() {
        Ok((file, bytes)) => Ok((file, Source { name, bytes })),
        Err(error) => Err(PemError::Unreadable(name, error)),
    }
}
