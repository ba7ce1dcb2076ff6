//! What can be wrong with an identity, in words that name the file.

use crate::name::SubjectError;
use crate::pem::PemError;
use gslb_types::NodeId;
use std::fmt;
use time::OffsetDateTime;

/// Why certificate, key and CA can't be this node's identity. What was loaded before stays in force.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A text could not be read.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The certificate names no node of this group.
    #[error("{0}: {1}")]
    Subject(String, SubjectError),
    /// The certificate names another node.
    #[error("{file}: the certificate is for node {found}, but this node is {me}")]
    OtherNode {
        /// Where it stands.
        file: String,
        /// Whom it names.
        found: NodeId,
        /// Who this is.
        me: NodeId,
    },
    /// The certificate's time is over.
    #[error("{0}: the certificate expired on {1}")]
    Expired(String, Date),
    /// The certificate's time has not come: the clock of this machine, or of the one that made it, is wrong.
    #[error("{0}: the certificate is valid only from {1} on: check the clock")]
    NotYetValid(String, Date),
    /// Certificate and key are not a pair.
    #[error("{key}: the key does not belong to the certificate in {certificate}")]
    Mismatch {
        /// Where the certificate stands.
        certificate: String,
        /// Where the key stands.
        key: String,
    },
    /// The key is of a kind that TLS does not use.
    #[error("{0}: the key can't be used: {1}")]
    BadKey(String, rustls::Error),
    /// Peers that trust this CA would not trust this certificate.
    #[error("{certificate}: the certificate is not signed by the CA in {ca}")]
    NotOurs {
        /// Where the certificate stands.
        certificate: String,
        /// Where the CA stands.
        ca: String,
    },
    /// Peers would refuse the certificate for another reason: not for TLS clients and servers, or without its DNS name.
    #[error("{0}: {1}")]
    Unfit(String, rustls::Error),
    /// The CA certificate can't be used to check others.
    #[error("{0}: not usable as a CA: {1}")]
    BadCa(String, String),
}

/// A second in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Date(i64);

impl Date {
    /// This second since the Unix epoch.
    pub fn of(second: i64) -> Self {
        Date(second)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match OffsetDateTime::from_unix_timestamp(self.0) {
            Ok(at) => {
                write!(f, "{} {:02}:{:02}:{:02} UTC", at.date(), at.hour(), at.minute(), at.second())
            }
            Err(_) => write!(f, "second {} of the Unix epoch", self.0),
        }
    }
}
