//! TLS handshakes, with the certificate verified or not.

use super::stream::Stamped;
use super::{Fault, Run, failed, words};
use gslb_types::{Rtt, TlsCheck};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WantsClientCert};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long CA certificates are used before their file is read again: a new one counts within a minute.
const FRESH: Duration = Duration::from_secs(60);

impl Run<'_> {
    /// From the SYN to the last bytes of the handshake, less the time that passed here between SYN-ACK and ClientHello.
    pub(super) async fn ssl(self, check: &TlsCheck) -> Result<Rtt, Fault> {
        let (stream, began) = self.connected().await?;
        let stream = Stamped::new(stream);
        let times = stream.times();
        let stream = self.handshake(check, stream).await?;
        let took = began.took.as_duration() + times.span().as_duration();
        drop(stream);
        Ok(Rtt::from_duration(took))
    }

    /// Does the handshake.
    pub(super) async fn handshake(
        self,
        check: &TlsCheck,
        stream: Stamped,
    ) -> Result<TlsStream<Stamped>, Fault> {
        let config = self.tools.tls.of(check.verify.as_deref()).await?;
        let name = match check.server_name.as_str() {
            // An address is not sent, and is what the certificate must hold.
            "" => ServerName::from(self.target.ip()),
            name => ServerName::try_from(name.to_owned())
                .map_err(|_| Fault::Ours(format!("'{name}' is no name of a server")))?,
        };
        let handshake = TlsConnector::from(config).connect(name, stream);
        match self.limit.hold("no TLS handshake", handshake).await? {
            Ok(stream) => Ok(stream),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                failed("connection closed before the TLS handshake was complete")
            }
            Err(e) => failed(words_of(&e).unwrap_or_else(|| words(&e))),
        }
    }
}

/// What an error that TLS has caused means, if it is one.
pub(super) fn words_of(error: &io::Error) -> Option<String> {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible};
    Some(match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        InvalidCertificate(why) => certificate_words(why),
        AlertReceived(alert) => format!("TLS alert {alert:?} from the server"),
        InvalidMessage(_) => "not TLS".to_owned(),
        PeerIncompatible(_) => "no version or cipher of TLS in common".to_owned(),
        other => format!("TLS: {other}"),
    })
}

fn certificate_words(why: &CertificateError) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, Revoked, UnknownIssuer,
    };
    match why {
        ExpiredContext { time, not_after } => {
            format!("the certificate expired {} ago", apart(not_after.as_secs(), time.as_secs()))
        }
        Expired => "the certificate has expired".to_owned(),
        NotValidYetContext { time, not_before } => {
            format!("the certificate is valid only in {}", apart(time.as_secs(), not_before.as_secs()))
        }
        NotValidYet => "the certificate is not valid yet".to_owned(),
        NotValidForNameContext { expected, presented } => format!(
            "the certificate is not for {}, but for {}",
            expected.to_str(),
            if presented.is_empty() { "nobody".to_owned() } else { names(presented) }
        ),
        NotValidForName => "the certificate is for another name".to_owned(),
        BadSignature => "the certificate is not signed by the CA that it names".to_owned(),
        UnknownIssuer => "the certificate descends from none of the CA certificates".to_owned(),
        Revoked => "the certificate was revoked".to_owned(),
        other => format!("the certificate is not valid: {other}"),
    }
}

/// The names that a certificate holds, which rustls gives as `DnsName("www.example")`.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| match name.split('"').nth(1) {
        Some(name) => name.to_owned(),
        None => name.clone(),
    };
    presented.iter().take(8).map(plain).collect::<Vec<_>>().join(", ")
}

/// A span in the largest unit that fits.
fn apart(from: u64, to: u64) -> String {
    let seconds = to.saturating_sub(from);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Configurations by the file of CA certificates.
#[derive(Default)]
pub(crate) struct TlsConfigs(Mutex<HashMap<Option<PathBuf>, Made>>);

struct Made {
    at: Instant,
    config: Arc<ClientConfig>,
}

impl TlsConfigs {
    async fn of(&self, verify: Option<&Path>) -> Result<Arc<ClientConfig>, Fault> {
        let key = verify.map(Path::to_owned);
        let fresh = |made: &&Made| verify.is_none() || made.at.elapsed() < FRESH;
        let known = self.lock().get(&key).filter(fresh).map(|made| Arc::clone(&made.config));
        if let Some(config) = known {
            return Ok(config);
        }
        let config = Arc::new(match verify {
            None => unverified()?,
            Some(path) => verified(path).await?,
        });
        self.lock().insert(key, Made { at: Instant::now(), config: Arc::clone(&config) });
        Ok(config)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Option<PathBuf>, Made>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn builder() -> Result<ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Fault> {
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|e| Fault::Ours(format!("TLS can't be had: {e}")))
}

fn finished(builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig {
    let mut config = builder.with_no_client_auth();
    // A resumed session shows no certificate: one that expires would not be noticed.
    config.resumption = Resumption::disabled();
    config
}

fn unverified() -> Result<ClientConfig, Fault> {
    let any = Arc::new(AnyCertificate(provider()));
    Ok(finished(builder()?.dangerous().with_custom_certificate_verifier(any)))
}

async fn verified(path: &Path) -> Result<ClientConfig, Fault> {
    let unfit = |why: &dyn std::fmt::Display| Fault::Ours(format!("{}: {why}", path.display()));
    let file = path.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read(file)).await.map_err(|e| unfit(&e))?;
    let pem = read.map_err(|e| unfit(&words(&e)))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    if roots.is_empty() {
        return Err(unfit(&"holds no CA certificate"));
    }
    Ok(finished(builder()?.with_root_certificates(roots)))
}

/// Takes any certificate: the check is of the service, not of who it is.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_the_unit_that_fits() {
        let told = [0, 119, 120, 7_200, 172_800].map(|seconds| apart(1_000, 1_000 + seconds));
        assert_eq!(told, ["0 s", "119 s", "2 min", "2 h", "2 days"]);
        assert_eq!(apart(5, 3), "0 s");
    }
}
