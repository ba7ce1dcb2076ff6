//! Texts of monitors: what may stand in each, and the bytes it means.

use std::fmt::Write;

/// The bytes that a text means: itself, with `\r`, `\n`, `\t`, `\\`, `\"` and `\xNN` for what one can't type.
pub(super) fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match rest.next() {
            Some('r') => b'\r',
            Some('n') => b'\n',
            Some('t') => b'\t',
            Some(c @ ('\\' | '"')) => c as u8,
            Some('x') => hex(rest.next(), rest.next())?,
            Some(c) => return Err(format!("'\\{c}' means nothing here: \\r, \\n, \\t, \\xNN and \\\\ do")),
            None => return Err("ends within an escape; a backslash itself is written \\\\".to_owned()),
        });
    }
    Ok(bytes)
}

fn hex(high: Option<char>, low: Option<char>) -> Result<u8, String> {
    let digit = |c: Option<char>| c.and_then(|c| c.to_digit(16)).and_then(|d| u8::try_from(d).ok());
    match (digit(high), digit(low)) {
        (Some(high), Some(low)) => Ok(high << 4 | low),
        _ => Err("'\\x' is followed by two hexadecimal digits, as in \\x0d".to_owned()),
    }
}

/// A regular expression that compiles, and not to something huge.
pub(super) fn regex(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("must not be empty: every answer holds nothing".to_owned());
    }
    match regex::bytes::RegexBuilder::new(text).size_limit(REGEX_SIZE).build() {
        Ok(regex) if regex.is_match(b"") => Err("fits nothing at all, and so every answer".to_owned()),
        Ok(_) => Ok(text.to_owned()),
        Err(regex::Error::CompiledTooBig(_)) => Err("is too large when compiled".to_owned()),
        Err(e) => {
            let reason = e.to_string();
            let last = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Err(format!("is no regular expression: {last}"))
        }
    }
}

/// Bytes of a compiled expression; the same limit holds where it is used.
const REGEX_SIZE: usize = 1 << 20;

/// An origin-form target (RFC 9112 section 3.2.1): nothing in it may end the request line.
pub(super) fn path(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("'{text}' does not begin with '/'"));
    }
    match text.chars().find(|c| !c.is_ascii_graphic() || *c == '#') {
        Some(c) => Err(format!("{c:?} can't stand in a path, write it in %-notation")),
        None => Ok(text.to_owned()),
    }
}

pub(super) fn host(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
    if text.chars().all(fits) { Ok(text.to_owned()) } else { Err(format!("'{text}' is no host name")) }
}

/// The host of a Host field, if that is a name.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.contains(':') => name,
        _ => host,
    }
}

/// A name that SNI can carry (RFC 6066 section 3), or an address that a certificate can hold.
pub(super) fn server_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_name = !text.is_empty() && text.len() <= 253 && text.chars().all(fits);
    if is_name || text.parse::<std::net::IpAddr>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is no host name"))
    }
}

/// A method (RFC 9110 section 9.1); those that make no sense in a check are left out.
pub(super) fn method(text: &str) -> Result<String, String> {
    match text {
        "GET" | "HEAD" | "OPTIONS" | "POST" | "PUT" => Ok(text.to_owned()),
        _ => Err(format!("'{text}' is no method of a check: GET, HEAD, OPTIONS, POST and PUT are")),
    }
}

/// `Name: value` (RFC 9110 section 5).
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once(':') else {
        return Err(format!("'{text}' is no header, write 'Name: value'"));
    };
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(format!("'{name}' is no name of a header"));
    }
    if ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("'{name}' is set by the body"));
    }
    let value = value.trim();
    match value.chars().find(|c| !(' '..='~').contains(c)) {
        Some(c) => Err(format!("{c:?} can't stand in a header")),
        None => Ok((name.to_owned(), value.to_owned())),
    }
}

/// A text of one line that is not empty.
pub(super) fn line(text: &str) -> Result<String, String> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("{c:?} can't stand here")),
        None if text.is_empty() => Err("must not be empty".to_owned()),
        None => Ok(text.to_owned()),
    }
}

/// The same without showing anything of it.
pub(super) fn secret(text: &str) -> Result<String, String> {
    line(text).map_err(|_| "must be one line of text that is not empty".to_owned())
}

pub(super) fn argument(text: &str) -> Result<String, String> {
    let known = text.replace("{address}", "").replace("{port}", "");
    if text.contains('\0') {
        return Err("an argument can't hold a NUL".to_owned());
    }
    match known.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        Some((name, _)) if !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
            let mut why = format!("'{{{name}}}' stands for nothing here: ");
            let _ = write!(why, "{{address}} and {{port}} stand for those of the service");
            Err(why)
        }
        Some(_) | None => Ok(text.to_owned()),
    }
}

/// A name as useradd has them.
pub(super) fn user_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '$');
    if !text.is_empty() && text.len() <= 32 && text.chars().all(fits) && !text.starts_with('-') {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is no name of a user"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(unescaped(r#"PING\r\n\x00\xfF\t\\\""#).unwrap(), b"PING\r\n\x00\xff\t\\\"");
        assert_eq!(unescaped("grüß\r\n").unwrap(), "grüß\r\n".as_bytes());
        for bad in [r"\", r"\q", r"\x", r"\x1", r"\xgg", r"\u0041"] {
            assert!(unescaped(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_regular_expression_compiles_or_says_why_not() {
        assert_eq!(regex(r"^\+PONG\r\n").as_deref(), Ok(r"^\+PONG\r\n"));
        assert_eq!(regex("(a").unwrap_err(), "is no regular expression: unclosed group");
        assert_eq!(regex("(?:x{1000}){1000}").unwrap_err(), "is too large when compiled");
        assert!(regex("").is_err());
    }

    #[test]
    fn a_header_can_neither_end_itself_nor_reframe_the_request() {
        assert_eq!(header("X-Check: gslb"), Ok(("X-Check".to_owned(), "gslb".to_owned())));
        assert_eq!(header("X-Empty:"), Ok(("X-Empty".to_owned(), String::new())));
        for bad in
            ["no colon", ": x", "a b: x", "X: a\r\nY: b", "Content-Length: 5", "transfer-encoding: chunked"]
        {
            assert!(header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_a_port_is_taken_off_a_host() {
        assert_eq!(["a.b:80", "a.b", "2001:db8::1"].map(without_port), ["a.b", "a.b", "2001:db8::1"]);
    }

    #[test]
    fn braces_of_other_languages_may_stand_in_arguments() {
        for good in ["{address}", "x{port}y", "{\"a\": 1}", "${X}", "a{1,2}"] {
            assert_eq!(argument(good).as_deref(), Ok(good));
        }
        assert!(argument("{adress}").is_err() && argument("a\0b").is_err());
    }
}
