//! DNS listeners: sockets, threads and framing around the one function `gslb_core::dns::answer`.

mod datagrams;
mod drops;
mod registry;
mod sightings;
mod tcp;
mod tls;
mod udp;

pub(crate) use sightings::{Noted, SightingFilter, SightingSender, sighting_channel};
pub(crate) use tls::TlsError;

use registry::Limits;

use crate::clock::Clock;
use crate::tasks::Tasks;
use config::{Dns, DnsTls};
use gslb_core::Shared;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// What every listener needs to answer.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Clock,
    pub(crate) sightings: SightingSender,
    pub(crate) stop: CancellationToken,
}

/// A listener that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({transport}): {source}")]
pub(crate) struct ListenError {
    address: SocketAddr,
    transport: &'static str,
    source: io::Error,
}

/// Sockets bound and not yet served: everything is bound before anything is answered, UDP and TCP or none.
pub(crate) struct Listeners {
    udp: Vec<udp::Bound>,
    tcp: Vec<std::net::TcpListener>,
    tls: Option<(Vec<std::net::TcpListener>, Arc<rustls::ServerConfig>)>,
    limits: Limits,
}

/// Why listening can't begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("DNS over TLS: {0}")]
    Tls(#[from] TlsError),
}

impl Listeners {
    /// Binds all addresses of the configuration.
    pub(crate) fn bind(dns: &Dns) -> Result<Self, BindError> {
        let tls = dns.tls.as_ref().map(bind_tls).transpose()?;
        let mut listeners = Listeners { udp: Vec::new(), tcp: Vec::new(), tls, limits: Limits::of(dns) };
        for &asked in &dns.listen {
            let error = |transport| move |source| ListenError { address: asked, transport, source };
            let tcp = tcp::bind(asked).map_err(error("TCP"))?;
            // With port 0 both transports must get the same port, as a client expects.
            let address = tcp.local_addr().map_err(error("TCP"))?;
            listeners
                .udp
                .extend(udp::bind(address, threads(dns), dns.udp_receive_buffer).map_err(error("UDP"))?);
            listeners.tcp.push(tcp);
        }
        Ok(listeners)
    }

    /// The addresses bound, in the order of the configuration.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.tcp.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Starts answering: UDP on threads of its own, TCP and TLS on the runtime. All end when `context.stop` is cancelled.
    pub(crate) fn serve(self, context: &Context, tasks: &mut Tasks) -> Result<(), io::Error> {
        let mut drops = drops::Drops::default();
        for bound in self.udp {
            drops.add(&bound)?;
            let context = context.clone();
            tasks.spawn_thread("a DNS thread (UDP)", move || udp::serve(bound, &context))?;
        }
        tasks.spawn("the counting of lost packets", drops.watch(context.clone()));
        let registry = registry::Registry::new(self.limits);
        let plain = self.tcp.into_iter().map(|listener| (listener, None));
        let (secure, config) = self.tls.unzip();
        let acceptor = config.map(TlsAcceptor::from);
        let secure = secure.into_iter().flatten().map(|listener| (listener, acceptor.clone()));
        for (listener, tls) in plain.chain(secure) {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let name = if tls.is_some() { "a DNS listener (TLS)" } else { "a DNS listener (TCP)" };
            tasks.spawn(name, tcp::serve(listener, tls, registry.clone(), context.clone()));
        }
        Ok(())
    }
}

/// Whether a certificate for DNS over TLS can be used.
pub(crate) fn check_tls(dns: &DnsTls) -> Result<(), BindError> {
    tls::server_config(dns)?;
    Ok(())
}

/// The TLS listeners with their certificate.
fn bind_tls(dns: &DnsTls) -> Result<(Vec<std::net::TcpListener>, Arc<rustls::ServerConfig>), BindError> {
    let config = tls::server_config(dns)?;
    let bind = |&address: &SocketAddr| {
        tcp::bind(address).map_err(|source| ListenError { address, transport: "TLS", source })
    };
    Ok((dns.listen.iter().map(bind).collect::<Result<_, _>>()?, config))
}

fn threads(dns: &Dns) -> usize {
    match dns.udp_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}
