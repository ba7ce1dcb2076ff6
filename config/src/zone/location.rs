//! LOC records (RFC 1876): `51 56 0.123 N 5 54 0.000 E 4.00m 1.00m 10000.00m 10.00m`.

use super::master::{Refusal, Words};

/// Thousandths of an arc second that the equator and the prime meridian are coded as.
const MIDDLE: i64 = 1 << 31;
/// Centimetres below the ellipsoid that altitudes count from.
const DEPTH: i64 = 100_000 * 100;

/// The data in wire form (RFC 1876 section 2).
pub(super) fn read(words: &Words<'_>, first: usize) -> Result<Vec<u8>, Refusal> {
    let mut at = first;
    let latitude = angle(words, &mut at, ["N", "S"], 90)?;
    let longitude = angle(words, &mut at, ["E", "W"], 180)?;
    let altitude = metres(words, at)?.ok_or_else(|| missing(words, at, "an altitude"))? + DEPTH;
    let altitude = u32::try_from(altitude).map_err(|_| wrong(words, at, "is no altitude"))?;
    at += 1;
    // Size 1 m, precision 10,000 m and 10 m unless given (RFC 1876 section 3).
    let mut sizes = [0x12, 0x16, 0x13];
    for size in &mut sizes {
        if let Some(centimetres) = metres(words, at)? {
            *size = exponential(centimetres).ok_or_else(|| wrong(words, at, "is out of range"))?;
            at += 1;
        }
    }
    words.none_after(at)?;
    let [size, horizontal, vertical] = sizes;
    let mut wire = vec![0, size, horizontal, vertical];
    for number in [latitude, longitude, altitude] {
        wire.extend(number.to_be_bytes());
    }
    Ok(wire)
}

/// Degrees, minutes and seconds, the last two optional, and the side.
fn angle(words: &Words<'_>, at: &mut usize, sides: [&str; 2], most: i64) -> Result<u32, Refusal> {
    let units = [(most, 3_600_000), (59, 60_000)];
    let mut total = 0;
    for index in 0..4 {
        let Some(word) = words.get(*at) else { break };
        let side = sides.iter().position(|s| word.eq_ignore_ascii_case(s));
        if let Some(side) = side.filter(|_| index > 0) {
            *at += 1;
            let signed = if side == 0 { total } else { -total };
            return u32::try_from(MIDDLE + signed).map_err(|e| (words.span(*at), e.to_string()));
        }
        let part = match units.get(index) {
            Some((most, unit)) => decimal(word, 0).filter(|n| (0..=*most).contains(n)).map(|n| n * unit),
            None => decimal(word, 3).filter(|n| index == 2 && (0..60_000).contains(n)),
        };
        total += part.ok_or_else(|| wrong(words, *at, "is no degree, minute or second here"))?;
        if total > most * 3_600_000 {
            return Err(wrong(words, *at, "is out of range"));
        }
        *at += 1;
    }
    Err(missing(words, *at, &format!("'{}' or '{}'", sides[0], sides[1])))
}

/// Centimetres of a length in metres, with or without "m".
fn metres(words: &Words<'_>, at: usize) -> Result<Option<i64>, Refusal> {
    let Some(word) = words.get(at) else { return Ok(None) };
    let number = word.strip_suffix(['m', 'M']).unwrap_or(word);
    decimal(number, 2).map(Some).ok_or_else(|| wrong(words, at, "is no length in metres"))
}

/// A decimal number in units of its last allowed place.
fn decimal(text: &str, places: usize) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    // Ten digits are more than any of these numbers has, and fit.
    if whole.is_empty()
        || whole.len() > 10
        || fraction.len() > places
        || !all_digits(whole)
        || !all_digits(fraction)
    {
        return None;
    }
    let number: i64 = format!("{whole}{fraction:0<places$}").parse().ok()?;
    Some(if negative { -number } else { number })
}

/// Centimetres as a digit and a power of ten, a nibble each (RFC 1876 section 2).
fn exponential(centimetres: i64) -> Option<u8> {
    let (mut digit, mut power) = (centimetres, 0);
    while digit > 9 {
        digit /= 10;
        power += 1;
    }
    let digit = u8::try_from(digit).ok()?;
    if power > 9 { None } else { Some(digit << 4 | power) }
}

fn wrong(words: &Words<'_>, at: usize, what: &str) -> Refusal {
    (words.span(at), format!("'{}' {what}", words.get(at).unwrap_or("")))
}

fn missing(words: &Words<'_>, at: usize, what: &str) -> Refusal {
    (words.span(at), format!("LOC needs {what} after this"))
}
