//! Who this node is towards its peers: certificate, key and the CA that peers are checked against.
//!
//! Everything TLS needs is built anew at each load and swapped in whole, so a renewed certificate, another key and another
//! CA all take effect with the next handshake, and sessions that stand are not touched (faults I-48). Carriers ask for the
//! TLS configuration of each handshake; no carrier keeps one.

use crate::name::{GroupName, Subject, SubjectError};
use crate::pem::{Files, Pem, PemError, Source};
use arc_swap::ArcSwap;
use gslb_types::NodeId;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::fmt;
use std::sync::Arc;
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

/// A day in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Date(i64);

impl Date {
    /// The day of this second since the Unix epoch.
    pub(crate) fn of(second: i64) -> Self {
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

/// This node's certificate, key and CA, replaceable while the node runs.
pub struct Identity {
    group: GroupName,
    me: NodeId,
    current: ArcSwap<Current>,
}

/// What one load yields.
pub(crate) struct Current {
    own: Subject,
    server: rustls::ServerConfig,
    client: rustls::ClientConfig,
}

impl Identity {
    /// Reads the files and checks them as a peer would.
    pub fn load(files: &Files, group: &GroupName, me: &NodeId) -> Result<Self, IdentityError> {
        Identity::new(Current::load(files, group, me)?, group, me)
    }

    /// The same from memory, for tests and the demonstration.
    pub fn from_pem(pem: &Pem, group: &GroupName, me: &NodeId) -> Result<Self, IdentityError> {
        Identity::new(Current::from_pem(pem, group, me)?, group, me)
    }

    fn new(current: Current, group: &GroupName, me: &NodeId) -> Result<Self, IdentityError> {
        Ok(Identity { group: group.clone(), me: me.clone(), current: ArcSwap::from_pointee(current) })
    }

    /// Reads the files again. From the next handshake on they are used; if anything is wrong with them, what was loaded
    /// before stays in force.
    pub fn reload(&self, files: &Files) -> Result<(), IdentityError> {
        self.current.store(Arc::new(Current::load(files, &self.group, &self.me)?));
        Ok(())
    }

    /// The same from memory.
    pub fn reload_pem(&self, pem: &Pem) -> Result<(), IdentityError> {
        self.current.store(Arc::new(Current::from_pem(pem, &self.group, &self.me)?));
        Ok(())
    }

    /// The group this node belongs to.
    pub fn group(&self) -> &GroupName {
        &self.group
    }

    /// Site and node.
    pub fn me(&self) -> &NodeId {
        &self.me
    }

    /// What the certificate in force says: expiry and serial number.
    pub fn subject(&self) -> Subject {
        self.current.load().own.clone()
    }

    /// What is in force now, for one handshake.
    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("me", &self.me)
            .field("subject", &self.subject())
            .finish_non_exhaustive()
    }
}

impl Current {
    /// What the certificate says.
    pub(crate) fn subject(&self) -> &Subject {
        &self.own
    }

    /// Peers refuse a certificate whose time is over, and say so in fewer words than can be said here.
    pub(crate) fn usable(&self) -> Result<(), String> {
        match untimely(&self.own, unix_now()) {
            Some(why) => Err(format!("this node's own {why}")),
            None => Ok(()),
        }
    }

    /// TLS for a handshake that a peer begins, speaking this application protocol.
    pub(crate) fn server(&self, alpn: &[u8]) -> rustls::ServerConfig {
        let mut tls = self.server.clone();
        tls.alpn_protocols = vec![alpn.to_vec()];
        tls
    }

    /// TLS for a handshake that this node begins, speaking this application protocol.
    pub(crate) fn client(&self, alpn: &[u8]) -> rustls::ClientConfig {
        let mut tls = self.client.clone();
        tls.alpn_protocols = vec![alpn.to_vec()];
        tls
    }

    fn load(files: &Files, group: &GroupName, me: &NodeId) -> Result<Self, IdentityError> {
        let ca = Source::file(&files.ca)?;
        let certificate = Source::file(&files.certificate)?;
        let key = Source::secret_file(&files.key)?;
        Current::build(&ca, &certificate, &key, group, me)
    }

    fn from_pem(pem: &Pem, group: &GroupName, me: &NodeId) -> Result<Self, IdentityError> {
        let ca = Source::memory("the CA in memory", &pem.ca);
        let certificate = Source::memory("the certificate in memory", &pem.certificate);
        let key = Source::memory("the key in memory", &pem.key);
        Current::build(&ca, &certificate, &key, group, me)
    }

    fn build(
        ca: &Source,
        certificate: &Source,
        key: &Source,
        group: &GroupName,
        me: &NodeId,
    ) -> Result<Self, IdentityError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificate.certificates()?;
        let own = own_subject(&chain, certificate, group, me)?;
        let pair = pair(chain.clone(), certificate, key, &provider)?;
        let verifiers = Verifiers::new(ca, &provider)?;
        verifiers.accept(&chain, &group.node_dns(me)).map_err(|error| match error {
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => IdentityError::NotOurs { certificate: certificate.name.clone(), ca: ca.name.clone() },
            other => IdentityError::Unfit(certificate.name.clone(), other),
        })?;
        let unfit = |error| IdentityError::Unfit(certificate.name.clone(), error);
        Ok(Current {
            own,
            server: server_config(&provider, &verifiers, &pair).map_err(unfit)?,
            client: client_config(&provider, &verifiers, &pair).map_err(unfit)?,
        })
    }
}

/// The second of the wall clock. Nothing but certificates is judged by it.
pub(crate) fn unix_now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

/// Why this certificate does not count now, if so.
fn untimely(own: &Subject, now: i64) -> Option<String> {
    if own.expires < now {
        Some(format!("certificate expired on {}", Date(own.expires)))
    } else if own.valid_from > now {
        Some(format!("certificate is valid only from {} on: check the clock", Date(own.valid_from)))
    } else {
        None
    }
}

fn own_subject(
    chain: &[CertificateDer<'_>],
    source: &Source,
    group: &GroupName,
    me: &NodeId,
) -> Result<Subject, IdentityError> {
    let file = || source.name.clone();
    let leaf = chain.first().ok_or_else(|| PemError::Missing(file(), "certificate"))?;
    let own = Subject::read(leaf, group).map_err(|error| IdentityError::Subject(file(), error))?;
    let now = OffsetDateTime::now_utc().unix_timestamp();
    if own.node != *me {
        Err(IdentityError::OtherNode { file: file(), found: own.node, me: me.clone() })
    } else if own.expires < now {
        Err(IdentityError::Expired(file(), Date(own.expires)))
    } else if own.valid_from > now {
        Err(IdentityError::NotYetValid(file(), Date(own.valid_from)))
    } else {
        Ok(own)
    }
}

fn pair(
    chain: Vec<CertificateDer<'static>>,
    certificate: &Source,
    key: &Source,
    provider: &CryptoProvider,
) -> Result<Arc<SingleCertAndKey>, IdentityError> {
    match CertifiedKey::from_der(chain, key.key()?, provider) {
        Ok(pair) => Ok(Arc::new(pair.into())),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(IdentityError::Mismatch { certificate: certificate.name.clone(), key: key.name.clone() })
        }
        Err(error) => Err(IdentityError::BadKey(key.name.clone(), error)),
    }
}

/// Both directions of "signed by the group's CA, in time, for this purpose".
struct Verifiers {
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
}

impl Verifiers {
    fn new(ca: &Source, provider: &Arc<CryptoProvider>) -> Result<Self, IdentityError> {
        let mut roots = RootCertStore::empty();
        for certificate in ca.certificates()? {
            roots.add(certificate).map_err(|e| IdentityError::BadCa(ca.name.clone(), e.to_string()))?;
        }
        let roots = Arc::new(roots);
        let bad =
            |e: rustls::server::VerifierBuilderError| IdentityError::BadCa(ca.name.clone(), e.to_string());
        Ok(Verifiers {
            clients: WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
                .build()
                .map_err(bad)?,
            servers: WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                .build()
                .map_err(bad)?,
        })
    }

    /// Judges our own certificate as peers will: it dials and is dialled.
    fn accept(&self, chain: &[CertificateDer<'_>], dns: &str) -> Result<(), rustls::Error> {
        let Some((leaf, rest)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let name = ServerName::try_from(dns).map_err(|e| rustls::Error::General(e.to_string()))?;
        self.clients.verify_client_cert(leaf, rest, UnixTime::now())?;
        self.servers.verify_server_cert(leaf, rest, &name, &[], UnixTime::now())?;
        Ok(())
    }
}

/// Neither tickets nor early data: every connection shows its certificate afresh, so an expired or replaced one can't live
/// on in a resumed session, and nothing can be replayed (threat T7).
fn server_config(
    provider: &Arc<CryptoProvider>,
    verifiers: &Verifiers,
    pair: &Arc<SingleCertAndKey>,
) -> Result<rustls::ServerConfig, rustls::Error> {
    let mut tls = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifiers.clients.clone())
        .with_cert_resolver(pair.clone());
    tls.send_tls13_tickets = 0;
    tls.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    tls.max_early_data_size = 0;
    Ok(tls)
}

fn client_config(
    provider: &Arc<CryptoProvider>,
    verifiers: &Verifiers,
    pair: &Arc<SingleCertAndKey>,
) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_webpki_verifier(verifiers.servers.clone())
        .with_client_cert_resolver(pair.clone());
    tls.resumption = rustls::client::Resumption::disabled();
    tls.enable_early_data = false;
    tls.enable_sni = false; // the only thing TLS would say in clear text; a node has one certificate to choose from
    Ok(tls)
}
