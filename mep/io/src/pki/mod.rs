//! Certificates of a group: one CA, one certificate per node (`gslb-dns pki`).
//!
//! A group that has a PKI of its own does without this: any CA will do whose node certificates carry the two names of
//! [`crate::GroupName`], for use by TLS clients and servers.

mod files;

pub use files::{CaFiles, Overwrite, init, issue};

use crate::name::{GroupName, group_of_ca};
use crate::pem::{Pem, PemError, Source};
use gslb_types::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use std::io;
use std::path::PathBuf;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How long a CA certificate is valid: longer than anybody wants to redo it, and renewable by a second one beside it.
const CA_DAYS: i64 = 3653;

/// How long a node certificate is valid unless told otherwise.
const NODE_DAYS: i64 = 365;

/// Certificates begin to be valid this long before they are made, since the clocks of two machines differ.
const BACKDATED: Duration = Duration::HOUR;

/// Why a certificate was not made. Files that were there before are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The CA's files can't be read.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// A file that must not be lost is already there.
    #[error("{0}: already there; not overwritten")]
    Exists(PathBuf),
    /// The file is there, and belongs to another node whose names, joined by a hyphen, read the same.
    #[error("{0}: already there, and not a certificate of {1}")]
    Occupied(PathBuf, NodeId),
    /// A file can't be written.
    #[error("{0}: {1}")]
    Write(PathBuf, io::Error),
    /// The CA certificate was not made by `pki init`, so it does not say for which group it is.
    #[error("{0}: not the CA certificate of a group")]
    NotACa(String),
    /// The CA's key belongs to another certificate.
    #[error("{key}: the key does not belong to the certificate in {certificate}")]
    Mismatch {
        /// Where the certificate stands.
        certificate: String,
        /// Where the key stands.
        key: String,
    },
    /// The requested validity is no span of time a certificate can state.
    #[error("a certificate can't be valid from {0} to {1} (seconds since the Unix epoch)")]
    BadValidity(i64, i64),
    /// The cryptographic library refused.
    #[error("the certificate could not be made: {0}")]
    Rcgen(#[from] rcgen::Error),
}

/// From when until when a certificate counts, in seconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// First second.
    pub from: i64,
    /// Last second.
    pub until: i64,
}

impl Validity {
    /// Valid for so many days from today, backdated against clocks that are behind.
    pub fn days(days: u32) -> Self {
        Validity::span(i64::from(days))
    }

    fn span(days: i64) -> Self {
        let now = OffsetDateTime::now_utc();
        let from = (now - BACKDATED).unix_timestamp();
        Validity { from, until: now.unix_timestamp().saturating_add(days.saturating_mul(86_400)) }
    }

    fn apply(self, params: &mut CertificateParams) -> Result<(), PkiError> {
        let bad = || PkiError::BadValidity(self.from, self.until);
        if self.until < self.from {
            return Err(bad());
        }
        params.not_before = OffsetDateTime::from_unix_timestamp(self.from).map_err(|_| bad())?;
        params.not_after = OffsetDateTime::from_unix_timestamp(self.until).map_err(|_| bad())?;
        Ok(())
    }
}

impl Default for Validity {
    fn default() -> Self {
        Validity::span(NODE_DAYS)
    }
}

/// The CA of a group: whoever holds its key can make nodes.
pub struct Authority {
    group: GroupName,
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// A new CA with a new key.
    pub fn new(group: &GroupName) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        Validity::span(CA_DAYS).apply(&mut params)?;
        params.distinguished_name = common_name(ca_name(group, &params.key_identifier(&key)));
        params.subject_alt_names = vec![SanType::URI(group.uri().try_into()?)];
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { group: group.clone(), issuer: Issuer::new(params, key), certificate })
    }

    /// The CA whose certificate and key are these.
    fn read(certificate: &Source, key: &Source) -> Result<Self, PkiError> {
        let not_a_ca = || PkiError::NotACa(certificate.name.clone());
        let der = certificate.certificates()?.into_iter().next().ok_or_else(not_a_ca)?;
        let group = group_of_ca(&der).ok_or_else(not_a_ca)?;
        key.key()?; // its errors name the file; rcgen's would not
        let pair = KeyPair::from_pem(key.text()?)?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|_| not_a_ca())?;
        if parsed.public_key().raw != pair.subject_public_key_info() {
            let (certificate, key) = (certificate.name.clone(), key.name.clone());
            return Err(PkiError::Mismatch { certificate, key });
        }
        let issuer = Issuer::from_ca_cert_der(&der, pair)?;
        Ok(Authority { group, issuer, certificate: certificate.text()?.to_owned() })
    }

    /// The group it was made for.
    pub fn group(&self) -> &GroupName {
        &self.group
    }

    /// Its certificate as PEM, which every node of the group holds.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A new key and certificate for a node, valid as long as usual.
    pub fn issue(&self, node: &NodeId) -> Result<Pem, PkiError> {
        self.issue_for(node, Validity::default())
    }

    /// A new key and certificate for a node, valid for this time.
    pub fn issue_for(&self, node: &NodeId, validity: Validity) -> Result<Pem, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        validity.apply(&mut params)?;
        params.distinguished_name = common_name(node.to_string());
        params.subject_alt_names = vec![
            SanType::DnsName(self.group.node_dns(node).try_into()?),
            SanType::URI(self.group.node_uri(node).try_into()?),
        ];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Pem { ca: self.certificate.clone(), certificate, key: key.serialize_pem() })
    }

    fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }
}

/// Tells a group's old CA from its new one, for people, and for TLS, which looks a CA up by its name.
fn ca_name(group: &GroupName, key_identifier: &[u8]) -> String {
    let short: String = key_identifier.iter().take(4).map(|octet| format!("{octet:02x}")).collect();
    format!("gslb-dns group {group} CA {short}")
}

fn common_name(name: String) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}
