//! LB virtual servers beside HAProxy: CPU time per request, requests a second, and how long the slowest took.

mod case;
mod haproxy;
mod load;
mod ours;
mod report;
mod services;

pub use case::{Case, Turn};
pub use report::ProxyReport;

use crate::process::Process;
use crate::{Cpus, Failure, Interrupt, part, ports};
use load::Manner;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::CertificateDer;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Where haproxy listens.
const THEIRS: Ipv4Addr = Ipv4Addr::new(127, 61, 2, 1);

/// Where ours does.
const OURS: Ipv4Addr = Ipv4Addr::new(127, 61, 2, 2);

/// Addresses that a proxy listens at.
const PORTS: usize = 3;

/// Load before each measurement, so that connections and caches are as they will be.
const WARM_UP: Duration = Duration::from_millis(300);

/// Where the virtual servers of a proxy listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listeners {
    /// HTTP.
    pub(crate) http: SocketAddr,
    /// HTTP in TLS.
    pub(crate) ssl: SocketAddr,
    /// Bytes.
    pub(crate) tcp: SocketAddr,
}

impl Listeners {
    fn free(address: Ipv4Addr) -> Result<Self, Failure> {
        let port = || ports::free(&[address]).map_err(Failure::system("a free port"));
        let at = |port: u16| SocketAddr::from((address, port));
        Ok(Listeners { http: at(port()?), ssl: at(port()?), tcp: at(port()?) })
    }

    fn all(&self) -> [SocketAddr; PORTS] {
        [self.http, self.ssl, self.tcp]
    }

    /// Which of them does not listen yet.
    fn missing(&self) -> Option<String> {
        let silent = self.all().into_iter().find(|address| TcpStream::connect(address).is_err());
        silent.map(|address| format!("nobody listens at {address}"))
    }
}

/// Both proxies before the same services, and the clients.
pub struct Bench {
    runtime: Runtime,
    ours: (Process, Listeners),
    theirs: (Process, Listeners),
    tls: Arc<rustls::ClientConfig>,
}

impl Bench {
    /// Starts all of it with files in `folder`. Clients and services share this process and its CPU.
    pub fn start(
        gslb_dns: &Path,
        haproxy: &Path,
        folder: &Path,
        cpus: Cpus,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::system("a runtime"))?;
        let services = runtime.block_on(services::start())?;
        let own =
            |error: rcgen::Error| Failure::System("a certificate".to_owned(), std::io::Error::other(error));
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["www.example.com".to_owned()]).map_err(own)?;
        let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
        let pem = format!("{certificate}{key}");
        let theirs = haproxy::start(haproxy, &part(folder, "haproxy")?, &pem, services, cpus, interrupt)?;
        let ours =
            ours::start(gslb_dns, &part(folder, "ours")?, (&certificate, &key), services, cpus, interrupt)?;
        Ok(Bench { runtime, ours, theirs, tls: Arc::new(trusting(cert.der())?) })
    }

    /// A turn of each.
    pub fn round(
        &mut self,
        case: Case,
        clients: usize,
        time: Duration,
        interrupt: &Interrupt,
    ) -> Result<[Turn; 2], Failure> {
        let mut turns = [None, None];
        for (turn, (process, listeners)) in turns.iter_mut().zip([&mut self.ours, &mut self.theirs]) {
            interrupt.check()?;
            let (to, manner) = match case {
                Case::Http => (listeners.http, Manner::Keep),
                Case::HttpNew => (listeners.http, Manner::Renew),
                Case::Ssl => (listeners.ssl, Manner::Tls(self.tls.clone())),
                Case::Tcp => (listeners.tcp, Manner::Keep),
            };
            self.runtime.block_on(load::load(to, &manner, clients, WARM_UP))?;
            let before = process.cpu_time()?;
            let answers = self.runtime.block_on(load::load(to, &manner, clients, time))?;
            process.check()?;
            let cpu = process.cpu_time()?.saturating_sub(before);
            *turn = Some(Turn::new(process.name(), answers, cpu, time)?);
        }
        match turns {
            [Some(ours), Some(theirs)] => Ok([ours, theirs]),
            _ => Err(Failure::Silent("a proxy")),
        }
    }
}

fn trusting(certificate: &CertificateDer<'_>) -> Result<rustls::ClientConfig, Failure> {
    let own = |error: rustls::Error| Failure::System("TLS".to_owned(), std::io::Error::other(error));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone().into_owned()).map_err(own)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(own)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
