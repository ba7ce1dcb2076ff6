//! One LB virtual server from the command line: what benches and tests with real programs put before their services.
//!
//! `front http|tcp|ssl:CERT:KEY LISTEN SERVICE...`; one worker thread, round robin, until it is killed.

use gslb_types::{LbMethod, LbVserverName, ServiceName, ServiceState, Weight};
use lb_core::{BalancerSettings, LocalPersistence, MemberSettings};
use lb_proxy::{CertificateFiles, Kind, Proxy, VserverSettings};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = kind(&arguments.next().ok_or("a kind is needed: http, tcp or ssl:CERT:KEY")?)?;
    let listen: SocketAddr = arguments.next().ok_or("an address to listen on is needed")?.parse()?;
    let services = arguments.map(|a| a.parse()).collect::<Result<Vec<SocketAddr>, _>>()?;
    let names = (1..=services.len()).map(|at| ServiceName::new(&format!("s{at}")));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let proxy = Proxy::start(vec![settings(kind, listen, &names, services)?], &CancellationToken::new())?;
    for name in &names {
        proxy.handle_health(name, ServiceState::Up, None);
    }
    println!("{}", proxy.views().iter().flat_map(|v| &v.listen).map(ToString::to_string).collect::<String>());
    std::future::pending().await
}

fn kind(text: &str) -> Result<Kind, Box<dyn Error>> {
    let mut words = text.split(':');
    match (words.next(), words.next(), words.next()) {
        (Some("http"), None, None) => Ok(Kind::Http),
        (Some("tcp"), None, None) => Ok(Kind::Tcp { proxy_protocol: false }),
        (Some("ssl"), Some(certificate), Some(key)) => {
            let files = CertificateFiles { certificate: certificate.into(), key: key.into() };
            Ok(Kind::Ssl { certificates: vec![files] })
        }
        _ => Err(format!("{text} is no kind: http, tcp or ssl:CERT:KEY").into()),
    }
}

fn settings(
    kind: Kind,
    listen: SocketAddr,
    names: &[ServiceName],
    services: Vec<SocketAddr>,
) -> Result<VserverSettings, Box<dyn Error>> {
    let member = |name: &ServiceName| MemberSettings {
        name: name.clone(),
        weight: Weight::ONE,
        max_clients: None,
        max_bandwidth: None,
        enabled: true,
    };
    let balancer = BalancerSettings {
        method: LbMethod::RoundRobin,
        startup_rr_factor: 0,
        slow_start: Duration::ZERO,
        persistence: LocalPersistence::None,
        members: names.iter().map(member).collect(),
    };
    let name = LbVserverName::new("front")?;
    let settings = VserverSettings::new(name, kind, balancer);
    Ok(VserverSettings { listen: vec![listen], addresses: services, ..settings })
}
