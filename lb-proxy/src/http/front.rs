//! Requests of one client connection: checked, given to a service, answered.

use super::download::Download;
use super::exchange::{Attempts, Exchange};
use super::forwarded::Origin;
use super::reply::{Refusal, Reply};
use super::upload::{Gate, Upload};
use super::{cookie, hop, tunnel};
use crate::client::Activity;
use crate::listen::Place;
use http::header::HeaderValue;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use lb_core::{LocalPersistence, ServiceId};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What all requests of one client connection share.
pub(crate) struct Front {
    pub(crate) place: Place,
    client: IpAddr,
    is_tls: bool,
    origin: Origin,
    /// Host, for clients of HTTP/1.0 that send none.
    local: HeaderValue,
    pub(crate) activity: Arc<Activity>,
}

/// What is kept of a request while the service works on it.
struct Asked {
    cookie: Option<ServiceId>,
    upgrade: Option<OnUpgrade>,
    /// What keeps the body back until the service wants it.
    gate: Option<Arc<Gate>>,
}

impl Front {
    pub(crate) fn new(
        place: Place,
        client: IpAddr,
        local: SocketAddr,
        is_tls: bool,
        activity: Arc<Activity>,
    ) -> Self {
        Front {
            origin: Origin::new(place.settings.forwarded, client, is_tls),
            place,
            client: client.to_canonical(),
            is_tls,
            local: HeaderValue::try_from(local.to_string()).unwrap_or(HeaderValue::from_static("localhost")),
            activity,
        }
    }

    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        let (running, has_flaw) = self.activity.begin();
        let counters = &self.place.vserver.counters;
        counters.requests.add();
        if let Err(refusal) = hop::check(&request, has_flaw) {
            counters.refused.add();
            self.activity.cut_short();
            return refusal.response();
        }
        match self.pass_on(request).await {
            Ok(response) => response.map(|body| body.while_running(running)),
            Err(refusal) => {
                self.count(refusal);
                refusal.response()
            }
        }
    }

    fn count(&self, refusal: Refusal) {
        let counters = &self.place.vserver.counters;
        match refusal {
            Refusal::NoService(_) => counters.no_service.add(),
            Refusal::ConnectFailed
            | Refusal::ConnectTimeout
            | Refusal::BadResponse
            | Refusal::ResponseTimeout
            | Refusal::Cut => counters.failed.add(),
            Refusal::RequestTimeout
            | Refusal::Body
            | Refusal::Method
            | Refusal::Host
            | Refusal::Framing
            | Refusal::TransferCoding => counters.refused.add(),
        }
    }

    /// Gives the request to a service, and its response back.
    async fn pass_on(&self, request: Request<Incoming>) -> Result<Response<Reply>, Refusal> {
        let (request, asked) = self.prepare(request)?;
        let mut attempts = Attempts {
            vserver: &self.place.vserver,
            client: self.client,
            cookie: asked.cookie,
            timeouts: &self.place.settings.timeouts,
            retries: self.place.settings.retries,
            tried: Vec::new(),
        };
        let (response, exchange) = attempts.exchange(request, asked.gate.as_ref()).await?;
        self.give_back(response, exchange, asked)
    }

    /// The request as the service gets it.
    fn prepare(&self, request: Request<Incoming>) -> Result<(Request<Upload>, Asked), Refusal> {
        let (mut parts, body) = request.into_parts();
        let protocol = hop::upgrade(&parts.headers, parts.version);
        let upgrade = parts.extensions.remove::<OnUpgrade>().filter(|_| protocol.is_some());
        hop::request(&mut parts, &self.local, protocol)?;
        let cookie =
            self.persists().then(|| cookie::take(&mut parts.headers, &self.place.settings.cookie)).flatten();
        self.origin.add(&mut parts.headers);
        hop::frame(&mut parts.headers, &body);
        let gate = hop::expects_continue(&parts.headers).then(Arc::<Gate>::default);
        let mut request = Request::from_parts(parts, Upload::new(body, gate.clone(), &self.activity));
        if let Some(gate) = gate.clone() {
            hyper::ext::on_informational(&mut request, move |response| {
                if response.status() == StatusCode::CONTINUE {
                    gate.open();
                }
            });
        }
        Ok((request, Asked { cookie, upgrade, gate }))
    }

    /// The response as the client gets it.
    fn give_back(
        &self,
        response: Response<Incoming>,
        exchange: Exchange,
        asked: Asked,
    ) -> Result<Response<Reply>, Refusal> {
        let (mut parts, body) = response.into_parts();
        let service = exchange.transaction.service.id;
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            let client = asked.upgrade.ok_or(Refusal::BadResponse)?; // or nobody asked for another protocol
            return Ok(self.tunnel(parts, client, exchange));
        }
        hop::response(&mut parts);
        if self.persists() && asked.cookie != Some(service) {
            self.place.vserver.counters.cookies.add();
            cookie::set(&mut parts.headers, &self.place.settings.cookie, service, self.is_tls);
        }
        let body = Download::new(body, exchange, asked.gate.as_deref(), &self.place, &self.activity);
        Ok(Response::from_parts(parts, Reply::of_service(body)))
    }

    fn tunnel(
        &self,
        mut parts: http::response::Parts,
        client: OnUpgrade,
        exchange: Exchange,
    ) -> Response<Reply> {
        let protocol = parts.headers.remove(http::header::UPGRADE);
        hop::strip(&mut parts.headers);
        if let Some(protocol) = protocol {
            parts.headers.insert(http::header::CONNECTION, HeaderValue::from_static("upgrade"));
            parts.headers.insert(http::header::UPGRADE, protocol);
        }
        parts.version = Version::HTTP_11;
        self.place.vserver.counters.tunnels.add();
        self.place.tasks.spawn(tunnel::run(client, exchange, self.place.clone()));
        Response::from_parts(parts, Reply::of_service(None))
    }

    fn persists(&self) -> bool {
        self.place.settings.balancer.persistence == LocalPersistence::Cookie
    }
}
