//! Domain names and TTLs as text.

use domain::base::name::{Name as WireName, UncertainName};
use hickory_proto::rr::Name;
use hickory_proto::serialize::binary::BinDecodable;

/// The largest TTL (RFC 2181 section 8).
pub(crate) const MAX_TTL: u32 = (1 << 31) - 1;

/// A domain name in wire form, of the crate that reads zone data.
pub(crate) type Wire = WireName<Vec<u8>>;

/// The name, absolute with or without a final dot.
pub(crate) fn parse(text: &str) -> Result<Name, String> {
    wire(text, None).map(|name| to_hickory(&name))?
}

/// The name, completed by the origin if it does not end with a dot, or by the root if there is no origin.
pub(crate) fn wire(text: &str, origin: Option<&Wire>) -> Result<Wire, String> {
    if text.is_empty() {
        return Err("a domain name must not be empty; the root is written '.'".to_owned());
    }
    if text == "." {
        return Ok(Wire::root_vec());
    }
    if let Some(c) = text.chars().find(|c| !c.is_ascii() || c.is_ascii_control() || *c == ' ') {
        let advice = if c.is_ascii() { "write it in \\DDD notation" } else { "write it in its xn-- form" };
        return Err(format!("'{text}' holds {c:?}, {advice}"));
    }
    let bad = |e: &dyn std::fmt::Display| format!("'{text}' is no domain name: {e}");
    match text.parse::<UncertainName<Vec<u8>>>().map_err(|e| bad(&e))? {
        UncertainName::Absolute(name) => Ok(name),
        UncertainName::Relative(name) => {
            let root = Wire::root_vec();
            let full = name.chain(origin.unwrap_or(&root)).map_err(|e| bad(&e))?;
            Ok(domain::base::name::ToName::to_vec(&full))
        }
    }
}

pub(crate) fn to_hickory(name: &Wire) -> Result<Name, String> {
    Name::from_bytes(name.as_slice()).map_err(|e| format!("'{name}' is no domain name: {e}"))
}

/// Seconds of a TTL as the TOML file writes it, as in "5s" or "1h".
pub(crate) fn ttl(text: &str) -> Result<u32, String> {
    let duration = crate::units::parse(text)?;
    if duration.subsec_nanos() != 0 {
        return Err(format!("'{text}' is no TTL: those are whole seconds"));
    }
    let seconds = u32::try_from(duration.as_secs()).ok().filter(|s| *s <= MAX_TTL);
    seconds.ok_or_else(|| format!("'{text}' is longer than a TTL can be, 2147483647s (RFC 2181 section 8)"))
}

/// Seconds of a TTL as master files write it: `300`, or with units, as in `1h30m`.
pub(crate) fn master_ttl(text: &str) -> Result<u32, String> {
    let seconds =
        master_seconds(text).ok_or_else(|| format!("'{text}' is no TTL, as in '300' or '1h30m'"))?;
    if seconds > u64::from(MAX_TTL) {
        return Err(format!("TTL {seconds} is more than 2147483647 (RFC 2181 section 8)"));
    }
    u32::try_from(seconds).map_err(|e| e.to_string())
}

/// Seconds in BIND's notation: numbers with units that add up. `None` if the text is none or too large.
pub(crate) fn master_seconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        let unit = match rest.as_bytes().get(digits).map(u8::to_ascii_lowercase) {
            None if total == 0 && digits == text.len() => 1,
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3600,
            Some(b'd') => 86_400,
            Some(b'w') => 604_800,
            Some(_) | None => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = rest.get(digits + 1..).unwrap_or("");
    }
    if text.is_empty() { None } else { Some(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_absolute_with_or_without_its_final_dot() {
        for text in ["www.gslb.test", "www.gslb.test."] {
            assert_eq!(parse(text).unwrap().to_string(), "www.gslb.test.");
        }
        assert!(parse(".").unwrap().is_root());
        for text in ["", "a..b", ".a", "ü.test", "a b", &"a".repeat(64), &"a.".repeat(128), "\\300.test"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_ttl_ends_at_two_to_the_31_minus_one() {
        assert_eq!(ttl("2147483647s"), Ok(MAX_TTL));
        assert!(ttl("2147483648s").is_err());
        assert!(ttl("500ms").is_err());
        assert_eq!(master_ttl("2147483647"), Ok(MAX_TTL));
        assert!(master_ttl("2147483648").is_err());
    }

    #[test]
    fn master_files_add_units_up() {
        for (text, seconds) in
            [("300", 300), ("1h", 3600), ("1h30m", 5400), ("1W2D", 777_600), ("0", 0), ("7s", 7)]
        {
            assert_eq!(master_seconds(text), Some(seconds), "{text}");
        }
        for text in ["", "h", "1h30", "1x", "-1", "99999999999999999999", "9999999999999999999w"] {
            assert_eq!(master_seconds(text), None, "{text}");
        }
    }
}
