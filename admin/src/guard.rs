//! What every request must pass before it is looked at: the right host, no body, and the right method.

use crate::refusal::{Refusal, quoted};
use crate::routes::is_act;
use crate::state::State;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State as FromState};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use std::net::IpAddr;
use std::time::Duration;

/// The largest request body that is put up with. No route reads one; clients that always send a little are no harm.
const BODY: u64 = 16 * 1024;

/// How much of a body that is too large is read and thrown away, and for how long: a client that writes all before it
/// reads would lose the answer to a reset otherwise.
const DRAINED: usize = 16 * 1024 * 1024;
const DRAINING: Duration = Duration::from_secs(2);

/// The port of http.
const HTTP: u16 = 80;

/// Lets a request through, or says why not.
pub(crate) async fn guard(FromState(state): FromState<State>, request: Request, next: Next) -> Response {
    let refused = check(&state, &request);
    let is_act = is_act(request.uri().path());
    let mut response = match refused {
        None => next.run(request).await,
        Some(refusal) => {
            if !request.headers().contains_key(header::EXPECT) {
                drain(request.into_body()).await;
            }
            refusal.into_response()
        }
    };
    if is_act && response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn check(state: &State, request: &Request) -> Option<Refusal> {
    check_host(state.bound_address(), request.uri(), request.headers())
        .and_then(|()| check_origin(state.bound_address(), request.headers()))
        .and_then(|()| check_body(request.body()))
        .and_then(|()| check_method(request.method(), is_act(request.uri().path())))
        .err()
}

/// The name the client believes to talk to must be ours: a web page whose name has been pointed at loopback (DNS
/// rebinding) still sends that name (threat T9).
fn check_host(bound: Option<IpAddr>, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::bad("exactly one Host field is needed"));
    };
    let host = host.to_str().map_err(|_| Refusal::bad("the Host field can't be read"))?;
    let named = host.parse::<Authority>().map_err(|_| Refusal::bad("the Host field can't be read"))?;
    // The target's own authority counts before the field (RFC 9112 section 3.2.2), so both must be right.
    for authority in [Some(&named), uri.authority()].into_iter().flatten() {
        if !is_ours(authority.host(), bound) {
            let host = quoted(authority.host());
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!(
                    "Host {host} is not this node: use localhost, a loopback address, or the address bound"
                ),
            ));
        }
    }
    Ok(())
}

/// A browser says which page a request comes from; none but our own has any business here. Another port of this host is another
/// origin: a page of some other program here may be anybody's.
fn check_origin(bound: Option<IpAddr>, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |field: &HeaderValue| field.to_str().ok().map(str::to_owned);
    let asked = headers.get(header::HOST).and_then(text).and_then(|host| host.parse::<Authority>().ok());
    let asked = asked.map(|host| host.port_u16().unwrap_or(HTTP));
    let is_ours = |origin: &HeaderValue| {
        let Some(uri) = text(origin).and_then(|origin| origin.parse::<Uri>().ok()) else { return false };
        let port = uri.port_u16().unwrap_or(HTTP);
        uri.scheme_str() == Some("http")
            && uri.host().is_some_and(|host| is_ours(host, bound))
            && Some(port) == asked
    };
    if headers.get_all(header::ORIGIN).iter().all(is_ours) {
        Ok(())
    } else {
        Err(Refusal::new(StatusCode::FORBIDDEN, "requests of other origins are not answered"))
    }
}

fn is_ours(host: &str, bound: Option<IpAddr>) -> bool {
    let literal = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    match literal.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback() || Some(address) == bound,
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

fn check_body(body: &Body) -> Result<(), Refusal> {
    match body.size_hint().upper() {
        Some(size) if size <= BODY => Ok(()),
        Some(_) => Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "no request here needs a body")),
        None => Err(Refusal::new(StatusCode::LENGTH_REQUIRED, "no request here needs a body")),
    }
}

fn check_method(method: &Method, is_act: bool) -> Result<(), Refusal> {
    match (is_act, method) {
        (false, &Method::GET) | (true, &Method::POST) => Ok(()),
        (false, _) => {
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "there is nothing to change here: GET only"))
        }
        (true, _) => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this changes something: POST only")),
    }
}

async fn drain(mut body: Body) {
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, |data| data.len());
            if read > DRAINED {
                break;
            }
        }
    };
    // What was not read in time is cut off with the connection.
    let _ = tokio::time::timeout(DRAINING, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(field: &str) -> Result<(), Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(field).unwrap());
        check_host(Some([192, 0, 2, 7].into()), &Uri::from_static("/v1/peers"), &headers)
    }

    #[test]
    fn loopback_names_and_the_bound_address_are_this_node() {
        for ours in [
            "localhost",
            "LOCALHOST:8053",
            "127.0.0.1",
            "127.9.9.9:1",
            "[::1]:8053",
            "[::ffff:127.0.0.1]",
            "192.0.2.7:8053",
        ] {
            assert_eq!(host(ours), Ok(()), "{ours}");
        }
    }

    #[test]
    fn another_host_is_forbidden_whatever_it_resolves_to() {
        for other in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "192.0.2.8",
            "0.0.0.0",
            "[::]",
            "x@y",
        ] {
            let refusal = host(other).unwrap_err().into_response();
            assert_eq!(refusal.status(), StatusCode::FORBIDDEN, "{other}");
        }
    }

    #[test]
    fn the_target_counts_as_well_as_the_host_field() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        let elsewhere = Uri::from_static("http://evil.example/v1/peers");
        assert!(check_host(None, &elsewhere, &headers).is_err());
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(check_host(None, &Uri::from_static("/"), &headers).is_err(), "two fields");
    }

    #[test]
    fn only_our_own_pages_may_ask() {
        let ask = |host: &'static str, origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            check_origin(None, &headers).is_ok()
        };
        assert!(ask("localhost:8053", "http://localhost:8053") && ask("[::1]:8053", "http://[::1]:8053"));
        assert!(ask("localhost", "http://localhost") && ask("localhost:80", "http://localhost"));
        for other in [
            "https://evil.example",
            "null",
            "http://localhost",
            "http://localhost:3000",
            "https://localhost:8053",
            "http://localhost:8053.evil.example",
        ] {
            assert!(!ask("localhost:8053", other), "{other}");
        }
        assert_eq!(check_origin(None, &HeaderMap::new()), Ok(()));
    }
}
