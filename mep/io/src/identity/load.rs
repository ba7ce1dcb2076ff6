//! From files to all that TLS needs, checked as a peer would.

use super::{Date, IdentityError, unix_now};
use crate::name::{GroupName, Subject};
use crate::pem::{Files, Pem, PemError, Source};
use gslb_types::NodeId;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;
use std::time::Duration;

/// What to do with a certificate whose time is over or has not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outdated {
    /// Not to take it: what is in force is better.
    Refuse,
    /// To take it, since there is nothing else.
    Accept,
}

/// What one load yields.
pub(crate) struct Current {
    own: Subject,
    server: rustls::ServerConfig,
    client: rustls::ClientConfig,
}

impl Current {
    /// What the certificate says.
    pub(crate) fn subject(&self) -> &Subject {
        &self.own
    }

    /// Peers refuse a certificate whose time is over, and say so in fewer words than can be said here.
    pub(crate) fn usable(&self) -> Result<(), String> {
        let own = &self.own;
        let now = unix_now();
        if own.expires < now {
            Err(format!("this node's own certificate expired on {}", Date::of(own.expires)))
        } else if own.valid_from > now {
            let from = Date::of(own.valid_from);
            Err(format!("this node's own certificate is valid only from {from} on: check the clock"))
        } else {
            Ok(())
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

    pub(super) fn load(
        files: &Files,
        group: &GroupName,
        me: &NodeId,
        outdated: Outdated,
    ) -> Result<Self, IdentityError> {
        let ca = Source::file(&files.ca)?;
        let certificate = Source::file(&files.certificate)?;
        let key = Source::secret_file(&files.key)?;
        Current::build(&ca, &certificate, &key, group, me, outdated)
    }

    pub(super) fn from_pem(
        pem: &Pem,
        group: &GroupName,
        me: &NodeId,
        outdated: Outdated,
    ) -> Result<Self, IdentityError> {
        let ca = Source::memory("the CA in memory", &pem.ca);
        let certificate = Source::memory("the certificate in memory", &pem.certificate);
        let key = Source::memory("the key in memory", &pem.key);
        Current::build(&ca, &certificate, &key, group, me, outdated)
    }

    fn build(
        ca: &Source,
        certificate: &Source,
        key: &Source,
        group: &GroupName,
        me: &NodeId,
        outdated: Outdated,
    ) -> Result<Self, IdentityError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificate.certificates()?;
        let own = own_subject(&chain, certificate, group, me)?;
        let at = match outdated {
            Outdated::Refuse => in_time(&own, certificate, unix_now())?,
            Outdated::Accept => unix_now().clamp(own.valid_from, own.expires.max(own.valid_from)),
        };
        let pair = pair(chain.clone(), certificate, key, &provider)?;
        let verifiers = Verifiers::new(ca, &provider)?;
        verifiers.accept(&chain, &group.node_dns(me), at).map_err(|error| match error {
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

fn own_subject(
    chain: &[CertificateDer<'_>],
    source: &Source,
    group: &GroupName,
    me: &NodeId,
) -> Result<Subject, IdentityError> {
    let file = || source.name.clone();
    let leaf = chain.first().ok_or_else(|| PemError::Missing(file(), "certificate"))?;
    let own = Subject::read(leaf, group).map_err(|error| IdentityError::Subject(file(), error))?;
    if own.node == *me {
        Ok(own)
    } else {
        Err(IdentityError::OtherNode { file: file(), found: own.node, me: me.clone() })
    }
}

fn in_time(own: &Subject, source: &Source, now: i64) -> Result<i64, IdentityError> {
    if own.expires < now {
        Err(IdentityError::Expired(source.name.clone(), Date::of(own.expires)))
    } else if own.valid_from > now {
        Err(IdentityError::NotYetValid(source.name.clone(), Date::of(own.valid_from)))
    } else {
        Ok(now)
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
    fn accept(&self, chain: &[CertificateDer<'_>], dns: &str, second: i64) -> Result<(), rustls::Error> {
        let Some((leaf, rest)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let name = ServerName::try_from(dns).map_err(|e| rustls::Error::General(e.to_string()))?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(second.try_into().unwrap_or(0)));
        self.clients.verify_client_cert(leaf, rest, at)?;
        self.servers.verify_server_cert(leaf, rest, &name, &[], at)?;
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
