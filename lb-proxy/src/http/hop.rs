//! Headers that concern one hop alone, and what must be true of a request before it may take the next.

use super::reply::Refusal;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, Entry, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{PathAndQuery, Uri};
use http::{Method, Request, StatusCode, Version};
use http_body::Body;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// What RFC 9110 section 7.6.1 names, and what older software sends in its place.
const HOP_BY_HOP: [HeaderName; 6] =
    [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TRANSFER_ENCODING, TE, PROXY_AUTHENTICATE];

/// Whether a request may be passed on at all. hyper has refused what is no HTTP; this refuses what is, and yet dangerous.
pub(super) fn check<B>(request: &Request<B>, has_flaw: bool) -> Result<(), Refusal> {
    if request.method() == Method::CONNECT {
        return Err(Refusal::Method);
    }
    if has_flaw {
        return Err(Refusal::Framing);
    }
    let headers = request.headers();
    if let Some(coding) = headers.get(TRANSFER_ENCODING) {
        // hyper reads the last coding alone; what came before it would be lost with the header.
        let is_plain = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        if !is_plain || headers.get_all(TRANSFER_ENCODING).iter().nth(1).is_some() {
            return Err(Refusal::TransferCoding);
        }
        if headers.contains_key(CONTENT_LENGTH) {
            return Err(Refusal::Framing);
        }
    }
    check_host(request)
}

/// RFC 9112 section 3.2: exactly one Host, if only HTTP/1.1 is spoken. In HTTP/2 `:authority` stands for it.
fn check_host<B>(request: &Request<B>) -> Result<(), Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let has_one = match request.version() {
        Version::HTTP_2 => request.uri().authority().is_some() || first.is_some(),
        Version::HTTP_11 => first.is_some(),
        _ => true,
    };
    let is_proper = first.is_none_or(|host| !host.as_bytes().iter().any(|b| b" ,/@\\".contains(b)));
    if has_one && second.is_none() && is_proper { Ok(()) } else { Err(Refusal::Host) }
}

/// The protocol that a client wants to change to, if it may. HTTP/2 in the middle of HTTP/1.1 (`h2c`) may not: the service
/// would speak it past the proxy (RFC 9113 section 3.1 has given it up).
pub(super) fn upgrade(headers: &HeaderMap, version: Version) -> Option<HeaderValue> {
    let wanted = headers.get(UPGRADE)?;
    let is_h2c = wanted.as_bytes().to_ascii_lowercase().windows(2).any(|w| w == b"h2");
    let named = headers
        .get_all(CONNECTION)
        .iter()
        .any(|value| names(value).any(|n| n.eq_ignore_ascii_case("upgrade")));
    (version == Version::HTTP_11 && named && !is_h2c).then(|| wanted.clone())
}

/// Takes out what concerns this hop alone: in requests and in responses.
pub(super) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        strip_named(headers);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    if headers.remove(UPGRADE).is_some() {
        headers.remove(HTTP2_SETTINGS);
    }
}

/// What `Connection` names. Not Host and the length, which a client has no business to take from the service.
fn strip_named(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(names)
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .filter(|name| *name != HOST && *name != CONTENT_LENGTH)
        .collect();
    for name in named {
        headers.remove(name);
    }
}

/// The elements of a comma-separated value.
fn names(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or("").split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Takes the hop's own headers out of a request, and makes it one of HTTP/1.1 whatever it came in.
pub(super) fn request(
    parts: &mut http::request::Parts,
    local: &HeaderValue,
    upgrade: Option<HeaderValue>,
) -> Result<(), Refusal> {
    let takes_trailers = te_is_trailers(&parts.headers);
    strip(&mut parts.headers);
    parts.headers.remove(PROXY_AUTHORIZATION);
    if takes_trailers {
        parts.headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = upgrade {
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(UPGRADE, protocol);
    }
    if parts.version == Version::HTTP_2 {
        join_cookies(&mut parts.headers);
    }
    if parts.uri.authority().is_some() {
        to_origin_form(parts)?;
    }
    if let Entry::Vacant(vacant) = parts.headers.entry(HOST) {
        vacant.insert(local.clone());
    }
    if parts.version == Version::HTTP_10 {
        parts.headers.remove(EXPECT);
    }
    parts.version = Version::HTTP_11;
    Ok(())
}

/// A body of unknown length goes on in chunks, whatever the method: hyper would leave it out for those that seldom have one, and
/// the service would take the request for another.
pub(super) fn frame(headers: &mut HeaderMap, body: &impl Body) {
    if !body.is_end_stream() && !headers.contains_key(CONTENT_LENGTH) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Takes the hop's own headers out of a response.
///
/// A length beside a transfer coding is wrong (RFC 9112 section 6.3), and must not be what the client goes by. A 426 says what
/// to change to (RFC 9110 section 15.5.22).
pub(super) fn response(parts: &mut http::response::Parts) {
    if parts.headers.contains_key(TRANSFER_ENCODING) {
        parts.headers.remove(CONTENT_LENGTH);
    }
    let upgrade =
        parts.headers.get(UPGRADE).filter(|_| parts.status == StatusCode::UPGRADE_REQUIRED).cloned();
    strip(&mut parts.headers);
    if let Some(upgrade) = upgrade {
        parts.headers.insert(UPGRADE, upgrade);
    }
    parts.version = Version::HTTP_11;
}

fn te_is_trailers(headers: &HeaderMap) -> bool {
    headers.get_all(TE).iter().any(|value| names(value).any(|n| n.eq_ignore_ascii_case("trailers")))
}

/// The authority of an absolute target, or of HTTP/2, is the host (RFC 9112 section 3.2.2, RFC 9113 section 8.3.1).
fn to_origin_form(parts: &mut http::request::Parts) -> Result<(), Refusal> {
    let uri = std::mem::take(&mut parts.uri).into_parts();
    let is_asterisk =
        parts.method == Method::OPTIONS && uri.path_and_query.as_ref().is_none_or(|p| p.as_str().is_empty());
    if let Some(authority) = uri.authority {
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        parts.headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| Refusal::Host)?);
    }
    let root = if is_asterisk { PathAndQuery::from_static("*") } else { PathAndQuery::from_static("/") };
    let path = uri.path_and_query.filter(|p| !p.as_str().is_empty()).unwrap_or(root);
    parts.uri = Uri::from(path);
    Ok(())
}

/// HTTP/2 may send cookies in pieces; HTTP/1.1 knows one header alone (RFC 9113 section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let pieces: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&pieces.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

/// Whether the client waits for a word before it sends the body.
pub(super) fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}
