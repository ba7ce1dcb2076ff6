//! How a service learns who its client is.

use crate::settings::Forwarded;
use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};
use std::net::IpAddr;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// What is the same for all requests of one client connection.
pub(super) struct Origin {
    kind: Forwarded,
    /// The client's address as the header wants it.
    client: Option<HeaderValue>,
    proto: &'static str,
}

impl Origin {
    pub(super) fn new(kind: Forwarded, client: IpAddr, is_tls: bool) -> Self {
        let text = match (kind, client.to_canonical()) {
            (Forwarded::None, _) => None,
            (Forwarded::Rfc7239, IpAddr::V6(v6)) => Some(format!("\"[{v6}]\"")), // RFC 7239 section 6
            (Forwarded::Rfc7239 | Forwarded::XForwarded, address) => Some(address.to_string()),
        };
        let client = text.and_then(|text| HeaderValue::from_str(&text).ok());
        Origin { kind, client, proto: if is_tls { "https" } else { "http" } }
    }

    /// Adds who asks to what the client's side said before. A service that trusts the last element alone can't be deceived;
    /// protocol and host are this proxy's word, since the first of them would be the client's. What else could pass for such a
    /// word is taken out.
    pub(super) fn add(&self, headers: &mut HeaderMap) {
        let Some(client) = &self.client else { return };
        drop_others(headers, self.kind);
        match self.kind {
            Forwarded::XForwarded => self.add_x_forwarded(headers, client),
            Forwarded::Rfc7239 => self.add_forwarded(headers, client),
            Forwarded::None => (),
        }
    }

    fn add_x_forwarded(&self, headers: &mut HeaderMap, client: &HeaderValue) {
        append(headers, X_FORWARDED_FOR, client);
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(self.proto));
        if let Some(host) = headers.get(HOST).cloned() {
            headers.insert(X_FORWARDED_HOST, host);
        }
    }

    fn add_forwarded(&self, headers: &mut HeaderMap, client: &HeaderValue) {
        drop_open(headers);
        let mut element = Vec::with_capacity(64);
        element.extend_from_slice(b"for=");
        element.extend_from_slice(client.as_bytes());
        if let Some(host) = headers.get(HOST) {
            // Quoted, since a port's colon is no token character; a host holds no quote (`hop::check`).
            element.extend_from_slice(b";host=\"");
            element.extend(host.as_bytes().iter().filter(|b| !b"\"\\".contains(b)));
            element.push(b'"');
        }
        element.extend_from_slice(b";proto=");
        element.extend_from_slice(self.proto.as_bytes());
        if let Ok(element) = HeaderValue::from_bytes(&element) {
            append(headers, FORWARDED, &element);
        }
    }
}

/// Takes out what a service might take for this proxy's word though it is the client's: headers of the family that is not
/// spoken, those that say what this proxy does not, and the same names with underscores, which CGI and its heirs can't tell from
/// hyphens.
fn drop_others(headers: &mut HeaderMap, kind: Forwarded) {
    let speaks = |name: &str| match kind {
        Forwarded::XForwarded => matches!(name, "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host"),
        Forwarded::Rfc7239 => name == "forwarded",
        Forwarded::None => true,
    };
    let names = |name: &str| name == "forwarded" || name == "x-real-ip" || name.starts_with("x-forwarded-");
    let is_other = |name: &&HeaderName| {
        let text = name.as_str();
        !speaks(text) && (names(text) || text.contains('_') && names(&text.replace('_', "-")))
    };
    let others: Vec<HeaderName> = headers.keys().filter(is_other).cloned().collect();
    for name in others {
        headers.remove(name);
    }
}

/// Takes out lines of a list in which a quoted string does not end: they would swallow what is appended.
fn drop_open(headers: &mut HeaderMap) {
    if headers.get_all(FORWARDED).iter().all(|line| ends(line.as_bytes())) {
        return;
    }
    let kept: Vec<HeaderValue> =
        headers.get_all(FORWARDED).iter().filter(|line| ends(line.as_bytes())).cloned().collect();
    headers.remove(FORWARDED);
    for line in kept {
        headers.append(FORWARDED, line);
    }
}

/// Whether all quoted strings end, and nothing escapes what would come next (RFC 9110 section 5.6.4).
fn ends(line: &[u8]) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for byte in line {
        (is_quoted, is_escaped) = match byte {
            _ if is_escaped => (is_quoted, false),
            b'\\' => (is_quoted, true),
            b'"' => (!is_quoted, false),
            _ => (is_quoted, false),
        };
    }
    !is_quoted && !is_escaped
}

/// Appends an element to a list that may be spread over several headers of the name, and makes it one.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &HeaderValue) {
    if !headers.contains_key(&name) {
        headers.insert(name, element.clone());
        return;
    }
    let mut list: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
    list.push(element.as_bytes());
    if let Ok(joined) = HeaderValue::from_bytes(&list.join(&b", "[..])) {
        headers.insert(name, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut all = HeaderMap::new();
        for (name, value) in pairs {
            all.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        all
    }

    fn after(
        kind: Forwarded,
        client: &str,
        is_tls: bool,
        before: &[(&'static str, &'static str)],
    ) -> HeaderMap {
        let mut all = headers(before);
        Origin::new(kind, client.parse().unwrap(), is_tls).add(&mut all);
        all
    }

    #[test]
    fn the_clients_address_is_appended_and_protocol_and_host_are_replaced() {
        let before = [
            ("host", "www.test:81"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("x-forwarded-proto", "gopher"),
            ("x-forwarded-host", "evil.test"),
        ];
        let expected = [
            ("host", "www.test:81"),
            ("x-forwarded-for", "10.0.0.1, 10.0.0.2, 192.0.2.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "www.test:81"),
        ];
        assert_eq!(after(Forwarded::XForwarded, "192.0.2.7", true, &before), headers(&expected));
    }

    /// A service that is told in one family's words must not find the client's own in the other's, nor in the spelling that
    /// CGI and its heirs can't tell from it.
    #[test]
    fn words_of_the_other_family_and_underscored_ones_do_not_pass() {
        let before = [
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("x-forwarded-port", "1"),
            ("x-real-ip", "10.0.0.3"),
            ("x_forwarded_for", "10.0.0.4"),
            ("x_forwarded-proto", "https"),
            ("x_other", "stays"),
        ];
        let expected =
            [("x-forwarded-for", "10.0.0.2, 192.0.2.7"), ("x-forwarded-proto", "http"), ("x_other", "stays")];
        assert_eq!(after(Forwarded::XForwarded, "192.0.2.7", false, &before), headers(&expected));
        let expected = [("forwarded", "for=10.0.0.1, for=192.0.2.7;proto=http"), ("x_other", "stays")];
        assert_eq!(after(Forwarded::Rfc7239, "192.0.2.7", false, &before), headers(&expected));
    }

    /// An open quote would swallow the element that is appended.
    #[test]
    fn a_list_that_does_not_end_is_thrown_away() {
        for open in ["for=\"", "for=x;by=\"a\\\"", "for=\"a\";host=\"", "for=x\\"] {
            let before = [("forwarded", open), ("forwarded", "for=\"[::1]\"")];
            let expected = [("forwarded", "for=\"[::1]\", for=192.0.2.7;proto=http")];
            assert_eq!(after(Forwarded::Rfc7239, "192.0.2.7", false, &before), headers(&expected), "{open}");
        }
    }

    #[test]
    fn an_ipv4_client_of_a_dual_stack_listener_is_named_as_ipv4() {
        let all = after(Forwarded::XForwarded, "::ffff:192.0.2.7", false, &[]);
        assert_eq!(all, headers(&[("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "http")]));
    }

    #[test]
    fn rfc_7239_quotes_ipv6_and_the_host() {
        let all =
            after(Forwarded::Rfc7239, "2001:db8::7", false, &[("host", "w:81"), ("forwarded", "for=_x")]);
        let expected = "for=_x, for=\"[2001:db8::7]\";host=\"w:81\";proto=http";
        assert_eq!(all, headers(&[("host", "w:81"), ("forwarded", expected)]));
    }

    #[test]
    fn without_the_setting_nothing_is_added_or_taken() {
        let before = [("host", "w"), ("x-forwarded-for", "10.0.0.1")];
        assert_eq!(after(Forwarded::None, "192.0.2.7", false, &before), headers(&before));
    }
}
