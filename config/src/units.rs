//! Durations and rates as people write them: a whole number and a unit.

use std::time::Duration;

/// Longest unit first: how a duration is written for people.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// The duration, or what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if unit.is_empty() && !number.is_empty() {
        return Err(format!(
            "'{text}' has no unit, write '{text}s' for seconds or '{text}ms' for milliseconds"
        ));
    }
    let Some((_, micros)) = UNITS.iter().find(|(name, _)| *name == unit).filter(|_| !number.is_empty())
    else {
        return Err(format!(
            "'{text}' is no duration, write a whole number and a unit: us, ms, s, m, h or d, as in '5s'"
        ));
    };
    let total = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*micros));
    total.map(Duration::from_micros).ok_or_else(|| format!("'{text}' is too long"))
}

/// The duration in the largest unit that leaves a whole number.
pub(crate) fn show(duration: Duration) -> String {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let fitting =
        UNITS.iter().find(|(name, unit)| if micros == 0 { *name == "s" } else { micros % unit == 0 });
    let (name, unit) = fitting.unwrap_or(&("us", 1));
    format!("{}{name}", micros / unit)
}

const RATES: [(&str, u64); 4] = [("bps", 1), ("kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000)];

/// The rate in bits a second, or what would be right.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = RATES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let (Some(factor), false) = (factor, number.is_empty()) else {
        return Err(format!(
            "'{text}' is no rate, write a whole number and a unit: bps, kbps, Mbps or Gbps, as in '100Mbps'"
        ));
    };
    let rate = number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    rate.filter(|rate| *rate > 0)
        .ok_or_else(|| format!("'{text}' is out of range, 1bps to 18446744073Gbps is allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_whole_number_of_bits_with_a_unit() {
        for (text, bits) in
            [("1bps", 1), ("64kbps", 64_000), ("100Mbps", 100_000_000), ("10Gbps", 10_000_000_000)]
        {
            assert_eq!(rate(text), Ok(bits), "{text}");
        }
        for text in
            ["", "100", "Mbps", "0Mbps", "-1Mbps", "1.5Mbps", "1 Mbps", "100mbps", "100MB", "99999999999Gbps"]
        {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_is_a_whole_number_with_a_unit() {
        for (text, micros) in [
            ("5s", 5_000_000),
            ("200ms", 200_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
            ("7us", 7),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "1.5s",
            "5 s",
            "5S",
            "5sec",
            "1h30m",
            "99999999999999999999s",
            "9999999999999d",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for text in ["5s", "200ms", "2m", "1h", "3d", "0s", "1500ms", "7us"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }
}
