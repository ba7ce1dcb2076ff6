//! Persistence by cookie: which service a client stays at.

use http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use lb_core::ServiceId;

/// What the client's cookies say, and the rest of them: the cookie is between client and proxy, so the service does not see it.
pub(super) fn take(headers: &mut HeaderMap, name: &str) -> Option<ServiceId> {
    let all: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    let mut found = None;
    let mut kept: Vec<&[u8]> = Vec::new();
    for pair in all.iter().flat_map(|line| line.as_bytes().split(|b| *b == b';')).map(<[u8]>::trim_ascii) {
        match value(pair, name) {
            Some(value) => found = found.or_else(|| std::str::from_utf8(value).ok()?.parse().ok()),
            None => kept.push(pair),
        }
    }
    if kept.is_empty() {
        headers.remove(COOKIE);
    } else if let Ok(rest) = HeaderValue::from_bytes(&kept.join(&b"; "[..])) {
        headers.insert(COOKIE, rest);
    }
    found
}

fn value<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Tells the client where to come back to. Without an age it lasts as long as the browser's session.
pub(super) fn set(headers: &mut HeaderMap, name: &str, service: ServiceId, is_tls: bool) {
    let secure = if is_tls { "; Secure" } else { "" };
    let text = format!("{name}={service}; Path=/; HttpOnly; SameSite=Lax{secure}");
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.append(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(lines: &[&'static str]) -> (Option<ServiceId>, Vec<String>) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(COOKIE, HeaderValue::from_static(line));
        }
        let found = take(&mut headers, "lb");
        (found, headers.get_all(COOKIE).iter().map(|v| v.to_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn the_cookie_is_found_and_kept_from_the_service() {
        let id: ServiceId = "00000000000000ff".parse().unwrap();
        assert_eq!(taken(&["a=1; lb=00000000000000ff; b=2"]), (Some(id), vec!["a=1; b=2".to_owned()]));
        assert_eq!(taken(&["lb=00000000000000ff"]), (Some(id), vec![]));
        assert_eq!(taken(&["a=1", "lb=00000000000000ff"]), (Some(id), vec!["a=1".to_owned()]));
    }

    #[test]
    fn what_is_no_service_is_no_wish_but_is_kept_from_the_service_too() {
        assert_eq!(taken(&["lb=../../etc; xlb=3; lbx=4"]), (None, vec!["xlb=3; lbx=4".to_owned()]));
        assert_eq!(taken(&[]), (None, vec![]));
    }

    #[test]
    fn a_cookie_over_tls_is_secure() {
        let id: ServiceId = "00000000000000ff".parse().unwrap();
        let mut headers = HeaderMap::new();
        set(&mut headers, "lb", id, false);
        set(&mut headers, "lb", id, true);
        let all: Vec<_> = headers.get_all(SET_COOKIE).iter().collect();
        assert_eq!(all[0], "lb=00000000000000ff; Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(all[1], "lb=00000000000000ff; Path=/; HttpOnly; SameSite=Lax; Secure");
    }
}
