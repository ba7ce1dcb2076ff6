//! Class CH: what the server says of itself, and only if the configuration says so (faults I-19).

use super::rtype::{ANY, TXT};
use config::Dns;

/// The configured text behind a name of class CH, in lower case; `None` means REFUSED.
pub(super) fn text<'a>(name: &[u8], qtype: u16, config: &'a Dns) -> Option<&'a str> {
    if qtype != TXT && qtype != ANY {
        return None;
    }
    match name {
        b"\x07version\x04bind\0" | b"\x07version\x06server\0" => config.version.as_deref(),
        b"\x02id\x06server\0" | b"\x08hostname\x04bind\0" => config.identity.as_deref(),
        _ => None,
    }
}

/// The longest text that one character-string holds (RFC 1035 section 3.3).
const MAX_TEXT: usize = 255;

/// RDATA of a TXT record with this text, in a buffer that is large enough for one character-string; longer text is cut.
pub(super) fn rdata<'b>(text: &str, buffer: &'b mut [u8; 1 + MAX_TEXT]) -> &'b [u8] {
    let length = text.len().min(MAX_TEXT);
    buffer[0] = u8::try_from(length).unwrap_or(u8::MAX);
    for (place, byte) in buffer.iter_mut().skip(1).zip(text.bytes().take(length)) {
        *place = byte;
    }
    buffer.get(..1 + length).unwrap_or_default()
}
