//! Record data: from its words to wire form.

use super::location;
use super::master::{Refusal, Words};
use crate::dname::{self, Wire};
use domain::base::iana::Rtype;
use domain::base::name::{ParsedName, ToName};
use domain::base::rdata::{ComposeRecordData, ParseRecordData};
use domain::base::scan::Symbols;
use domain::rdata::ZoneRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use hickory_proto::rr::{RData, RecordType};
use hickory_proto::serialize::binary::{BinDecoder, Restrict};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// RDATA in wire form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Data {
    /// Names uncompressed, in the case of the text.
    pub(super) wire: Vec<u8>,
    /// The same with names in lower case: what tells records of an RRset apart.
    pub(super) canonical: Vec<u8>,
}

impl Data {
    fn plain(wire: Vec<u8>) -> Self {
        Data { canonical: wire.clone(), wire }
    }
}

/// The data that stands from word `first` on. Whatever comes out, hickory-proto can decode it, but for NAPTR with flags that
/// RFC 3403 does not allow.
pub(super) fn read(rtype: Rtype, words: &Words<'_>, first: usize, origin: &Wire) -> Result<Data, Refusal> {
    let Some(word) = words.get(first) else {
        return Err((words.span(first), format!("{rtype} has no data")));
    };
    let at_first = |message| (words.span(first), message);
    let generic = word == "\\#";
    let data = match rtype {
        _ if generic => from_domain(rtype, rtype, words, first, origin)?,
        Rtype::A => {
            let address: Ipv4Addr =
                word.parse().map_err(|_| at_first(format!("'{word}' is no IPv4 address")))?;
            words.none_after(first + 1)?;
            Data::plain(address.octets().to_vec())
        }
        Rtype::AAAA => {
            let address: Ipv6Addr =
                word.parse().map_err(|_| at_first(format!("'{word}' is no IPv6 address")))?;
            words.none_after(first + 1)?;
            Data::plain(address.octets().to_vec())
        }
        Rtype::LOC => Data::plain(location::read(words, first)?),
        Rtype::URI => Data::plain(uri(words, first)?),
        Rtype::EUI48 => Data::plain(eui(words, first, 6)?),
        Rtype::EUI64 => Data::plain(eui(words, first, 8)?),
        _ => from_domain(rtype, written_like(rtype), words, first, origin)?,
    };
    if data.wire.len() > usize::from(u16::MAX) {
        return Err(at_first(format!("{} bytes are more than a record can hold", data.wire.len())));
    }
    decodable(rtype, &data.wire)
        .map_err(|e| at_first(format!("no valid data of {rtype}, decoders refuse it: {e}")))?;
    Ok(data)
}

/// The type whose data is written, and encoded, the same way, for types the reader of `domain` does not know by themselves.
fn written_like(rtype: Rtype) -> Rtype {
    match rtype {
        Rtype::SPF | Rtype::NINFO => Rtype::TXT,
        Rtype::AFSDB | Rtype::RT | Rtype::KX | Rtype::LP => Rtype::MX,
        Rtype::SMIMEA => Rtype::TLSA,
        Rtype::DLV => Rtype::DS,
        Rtype::KEY => Rtype::DNSKEY,
        Rtype::DHCID => Rtype::OPENPGPKEY,
        other => other,
    }
}

/// Lets the reader of `domain` have the words, each on a line of its own, so that the line of its error names the word.
fn from_domain(
    rtype: Rtype,
    read_as: Rtype,
    words: &Words<'_>,
    first: usize,
    origin: &Wire,
) -> Result<Data, Refusal> {
    let (text, lines) = laid_out(read_as, words, first, origin)?;
    let mut reader = Zonefile::from(text.as_str());
    reader.set_origin(origin.to_name());
    let record = match reader.next_entry() {
        Ok(Some(Entry::Record(record))) => record,
        Ok(Some(Entry::Include { .. }) | None) => {
            return Err((words.span(first), format!("{rtype} has no data")));
        }
        Err(error) => return Err(located(&error.to_string(), rtype, words, &lines)),
    };
    match record.data() {
        ZoneRecordData::Unknown(unknown) => {
            known_after_all(rtype, unknown.data()).map_err(|e| (words.span(first), e))
        }
        data => sound(read_as, composed(data)).map_err(|e| blamed(&e, words, first)),
    }
}

/// The data, if it reads back whole: the reader of `domain` lets an empty label within a name pass.
fn sound(rtype: Rtype, data: Data) -> Result<Data, String> {
    known_after_all(rtype, &data.wire).map(|_| data)
}

fn blamed(error: &str, words: &Words<'_>, first: usize) -> Refusal {
    let empty_label = |i: &usize| words.get(*i).is_some_and(|w| w.contains(".."));
    match (first..words.tokens.len()).find(empty_label) {
        Some(i) => (words.span(i), format!("'{}' has an empty label", words.get(i).unwrap_or(""))),
        None => (words.span(first), error.to_owned()),
    }
}

/// The mailbox of an SOA record is a domain name: its first dot stands for the "@" (RFC 1035 section 3.3.13).
fn is_no_mail_address(word: &str) -> Result<(), String> {
    match word.split_once('@') {
        Some((user, host)) if !user.is_empty() && !word.contains(['\\', '"']) => {
            let (user, host) = (user.replace('.', "\\."), host.trim_end_matches('.'));
            Err(format!("'{word}' is a mail address, write '{user}.{host}.'"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The entry as text, and which word stands in each line after the first.
fn laid_out(
    rtype: Rtype,
    words: &Words<'_>,
    first: usize,
    origin: &Wire,
) -> Result<(String, Vec<usize>), Refusal> {
    let mut text = format!(". 0 IN {rtype} (");
    let mut lines = Vec::new();
    let mut end = None;
    for index in first..words.tokens.len() {
        let (word, span) = (words.get(index).unwrap_or(""), words.span(index));
        // A quoted word goes on the one before if no space parts them, as in alpn="h2".
        if end != Some(span.start) {
            text.push('\n');
            lines.push(index);
        }
        end = Some(span.end);
        if rtype == Rtype::SOA && index == first + 1 {
            is_no_mail_address(word).map_err(|e| (words.span(index), e))?;
        }
        if rtype == Rtype::SOA && index >= first + 3 {
            let bad = || format!("'{word}' is no time, as in '300' or '1h30m'");
            let seconds = dname::master_seconds(word).ok_or_else(|| (span, bad()))?;
            let _ = write!(text, "{seconds}");
        } else if word == "@" && can_be_name(rtype, index - first) {
            let _ = write!(text, "{}", origin.fmt_with_dot());
        } else if word.starts_with('"') {
            quoted_as_ascii(word, &mut text);
        } else {
            text.push_str(word);
        }
    }
    text.push_str("\n)\n");
    Ok((text, lines))
}

/// Whether the word at this place of the data may be a domain name: there "@" is the origin, which the reader of `domain`
/// knows for owners only.
fn can_be_name(rtype: Rtype, index: usize) -> bool {
    match rtype {
        Rtype::TXT | Rtype::HINFO | Rtype::CAA => false,
        Rtype::NAPTR => index == 5,
        _ => true,
    }
}

/// Bytes beyond ASCII in \DDD notation: master files hold any bytes, the reader of `domain` wants ASCII.
fn quoted_as_ascii(word: &str, out: &mut String) {
    for byte in word.bytes() {
        if byte.is_ascii() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "\\{byte:03}");
        }
    }
}

/// Names the word an error of `domain` is about. Its errors print as `line:column: message`.
fn located(error: &str, rtype: Rtype, words: &Words<'_>, lines: &[usize]) -> Refusal {
    let mut parts = error.splitn(3, ':');
    let mut number = || parts.next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
    let (line, column) = (number(), number());
    let message = parts.next().unwrap_or(error).trim();
    // What is wrong with a word as a whole is noticed at the start of the next one.
    let noticed_late = column <= 1 && message != "trailing tokens";
    let index = line.saturating_sub(if noticed_late { 3 } else { 2 }).min(lines.len().saturating_sub(1));
    let word = lines.get(index).copied().unwrap_or(0);
    let message = match message {
        "trailing tokens" => format!("'{}' is too much here", words.get(word).unwrap_or("")),
        "unexpected end of entry" => format!("{rtype} needs more data than this"),
        "bad charstr" => "a character string has 255 bytes at most; write it as several".to_owned(),
        "unknown record type with concrete data" => {
            format!("{rtype} is read only in the notation for unknown types, \\# LENGTH HEX (RFC 3597)")
        }
        message => format!("'{}' does not fit {rtype}: {message}", words.get(word).unwrap_or("")),
    };
    (words.span(word), message)
}

/// Data in the notation of unknown types (RFC 3597 section 5), which may stand for a known one: then it must be valid, and
/// names in it must not point elsewhere.
fn known_after_all(rtype: Rtype, bytes: &[u8]) -> Result<Data, String> {
    let mut parser = domain::dep::octseq::Parser::from_ref(bytes);
    let parsed = ZoneRecordData::<_, ParsedName<&[u8]>>::parse_rdata(rtype, &mut parser);
    match parsed.map_err(|e| format!("no data of {rtype}: {e}"))? {
        Some(_) if parser.remaining() > 0 => Err(format!("no data of {rtype}: there is too much")),
        Some(data) => Ok(composed(&data)),
        None => Ok(Data::plain(bytes.to_vec())),
    }
}

fn composed(data: &impl ComposeRecordData) -> Data {
    let (mut wire, mut canonical) = (Vec::new(), Vec::new());
    // Appending to a vector can't fail.
    let _ = data.compose_rdata(&mut wire);
    let _ = data.compose_canonical_rdata(&mut canonical);
    Data { wire, canonical }
}

/// What is served must be what others can decode.
fn decodable(rtype: Rtype, wire: &[u8]) -> Result<(), String> {
    // hickory-proto refuses flags of NAPTR that are no letters or digits; NSD, Knot, PowerDNS and gdnsd serve them. The reader
    // of `domain` has seen that the data is whole.
    if wire.is_empty() || rtype == Rtype::NAPTR {
        return Ok(());
    }
    let length = u16::try_from(wire.len()).map_err(|e| e.to_string())?;
    let mut decoder = BinDecoder::new(wire);
    match RData::read(&mut decoder, RecordType::from(rtype.to_int()), Restrict::new(length)) {
        Ok(_) => Ok(()),
        Err(e) => Err(e.to_string()),
    }
}

/// URI (RFC 7553): priority, weight, and a target that takes the rest of the data.
fn uri(words: &Words<'_>, first: usize) -> Result<Vec<u8>, Refusal> {
    let mut wire = Vec::new();
    for index in [first, first + 1] {
        let word = words.get(index).unwrap_or("");
        let number: u16 =
            word.parse().map_err(|_| (words.span(index), format!("'{word}' is not 0 to 65535")))?;
        wire.extend(number.to_be_bytes());
    }
    if words.get(first + 2).is_none_or(|w| !w.starts_with('"')) {
        return Err((words.span(first + 2), "URI needs a target in double quotes".to_owned()));
    }
    words.none_after(first + 3)?;
    for symbol in Symbols::new(words.bare(first + 2).chars()) {
        let octet = symbol.into_octet().map_err(|e| (words.span(first + 2), e.to_string()))?;
        wire.push(octet);
    }
    if wire.len() == 4 {
        return Err((words.span(first + 2), "the target must not be empty".to_owned()));
    }
    Ok(wire)
}

/// EUI48 and EUI64 (RFC 7043): hexadecimal pairs with hyphens.
fn eui(words: &Words<'_>, first: usize, length: usize) -> Result<Vec<u8>, Refusal> {
    let word = words.get(first).unwrap_or("");
    words.none_after(first + 1)?;
    let pair = |p: &str| if p.len() == 2 { u8::from_str_radix(p, 16).ok() } else { None };
    let wire: Option<Vec<u8>> = word.split('-').map(pair).collect();
    wire.filter(|w| w.len() == length).ok_or_else(|| {
        (words.span(first), format!("'{word}' is not {length} hexadecimal pairs with hyphens"))
    })
}
