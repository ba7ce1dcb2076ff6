//! What a command says, by the guidelines of the Monitoring Plugins.

use super::super::words::plain;
use gslb_types::Rtt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// What a command says of the service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// OK and WARNING do: a warning asks a person to look, and takes nothing out of service.
    pub(super) passes: bool,
    /// Its first line, up to the performance data, or what stands in for it.
    pub(super) words: String,
    /// What stood behind the `|`.
    pub(super) performance: String,
}

/// The verdict, from how it ended and what it wrote.
///
/// UNKNOWN fails as CRITICAL does: a check that can't find out whether the service works has not found that it does.
pub(super) fn of(status: ExitStatus, output: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().next().unwrap_or_default();
    let (words, performance) = line.split_once('|').unwrap_or((line, ""));
    let (passes, says) = match (status.code(), status.signal()) {
        (Some(0), _) => (true, "OK".to_owned()),
        (Some(1), _) => (true, "WARNING".to_owned()),
        (Some(2), _) => (false, "CRITICAL".to_owned()),
        (Some(3), _) => (false, "UNKNOWN".to_owned()),
        (Some(code), _) => (false, format!("exit code {code}")),
        (None, signal) => (false, format!("killed by signal {}", signal.unwrap_or_default())),
    };
    let words = plain(words);
    let words = match words.as_str() {
        "" => says,
        words if words.contains(&says) => words.to_owned(),
        words => format!("{says}: {words}"),
    };
    Verdict { passes, words, performance: performance.trim().to_owned() }
}

/// The value of a label, `'label'=value[unit][;warn[;crit[;min[;max]]]]`, if its unit is one of time.
pub(super) fn time_of(performance: &str, label: &str) -> Option<Rtt> {
    value_of(performance, label).and_then(time)
}

/// The value with this label, in thousandths, whatever its unit; `None` if it is no number, or a negative one.
pub(super) fn load_of(performance: &str, label: &str) -> Option<u64> {
    value_of(performance, label).and_then(thousandths)
}

/// The value with this label and its unit, without what may follow: limits, minimum, maximum.
fn value_of<'a>(performance: &'a str, label: &str) -> Option<&'a str> {
    let mut rest = performance.trim_start();
    while !rest.is_empty() {
        let (name, value) = labelled(rest)?;
        let (value, after) = value.split_at(value.find(char::is_whitespace).unwrap_or(value.len()));
        if name == label {
            return value.split(';').next();
        }
        rest = after.trim_start();
    }
    None
}

/// A label, which may stand in quotes, two of which within it mean one; and what follows its "=".
fn labelled(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('\'') else {
        let (name, rest) = text.split_once('=')?;
        return Some((name.to_owned(), rest));
    };
    let (mut name, mut rest) = (String::new(), quoted);
    loop {
        let (part, after) = rest.split_once('\'')?;
        name.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                name.push('\'');
                rest = more;
            }
            None => return Some((name, after.strip_prefix('=')?)),
        }
    }
}

fn time(value: &str) -> Option<Rtt> {
    let digits = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let micros = match unit {
        "s" => 1e6,
        "ms" => 1e3,
        "us" => 1.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * micros / 1e6;
    Duration::try_from_secs_f64(seconds).ok().map(Rtt::from_duration)
}

/// Three decimals; what is too large to count is as much as can be counted.
fn thousandths(value: &str) -> Option<u64> {
    let digits = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let is_exponent = unit
        .strip_prefix(['e', 'E'])
        .is_some_and(|power| power.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit()));
    if is_exponent || unit.starts_with(['-', '+', ',']) {
        return None;
    }
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.contains('.') {
        return None;
    }
    let scale =
        |text: &str| text.bytes().fold(0u64, |n, c| n.saturating_mul(10).saturating_add(u64::from(c - b'0')));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    Some(scale(whole).saturating_mul(1000).saturating_add(scale(&part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn ok_and_warning_pass_and_all_else_fails() {
        let passes: Vec<bool> =
            (0..6).chain([126, 127, 255]).map(|code| of(exited(code), b"").passes).collect();
        assert_eq!(passes, [true, true, false, false, false, false, false, false, false]);
        assert!(!of(ExitStatus::from_raw(9), b"OK").passes, "killed");
    }

    #[test]
    fn the_words_are_the_first_line_without_performance_data() {
        let verdict = of(exited(0), b"HTTP OK: 200 - 12 bytes |time=0.003s;;;0 size=12B\nmore\n");
        assert_eq!(verdict.words, "HTTP OK: 200 - 12 bytes");
        assert_eq!(verdict.performance, "time=0.003s;;;0 size=12B");
        assert_eq!(of(exited(2), b"disk full\n").words, "CRITICAL: disk full");
        assert_eq!(of(exited(1), b"").words, "WARNING");
        assert_eq!(of(exited(127), b"\n").words, "exit code 127");
        assert_eq!(of(ExitStatus::from_raw(9), b"half a li").words, "killed by signal 9: half a li");
    }

    #[test]
    fn a_labelled_time_is_read_in_each_unit() {
        let micros = |text: &str, label: &str| time_of(text, label).map(Rtt::as_micros);
        assert_eq!(micros("time=0.003s;1;2;0;10 size=12B", "time"), Some(3_000));
        assert_eq!(micros("size=12B  rta=1.5ms;;;", "rta"), Some(1_500));
        assert_eq!(micros("'it''s a time'=7us", "it's a time"), Some(7));
        for (text, label) in [
            ("time=0.003s", "tim"),
            ("size=12B", "size"),
            ("time=12", "time"),
            ("time=U", "time"),
            ("time=-3ms", "time"),
            ("time=1.2.3s", "time"),
            ("time", "time"),
            ("'time=3s", "time"),
            ("", "time"),
        ] {
            assert_eq!(micros(text, label), None, "{text}");
        }
    }

    #[test]
    fn a_load_is_read_in_any_unit_to_three_decimals() {
        for (text, load) in [
            ("load=1.5;;;0 time=3ms", Some(1_500)),
            ("time=3ms load=42%;80;90;0;100", Some(42_000)),
            ("load=0", Some(0)),
            ("load=.25", Some(250)),
            ("load=7.", Some(7_000)),
            ("load=1.23456c", Some(1_234)),
            ("load=18446744073709551615", Some(u64::MAX)),
            ("load=99999999999999999999999.5", Some(u64::MAX)),
            ("load=-1", None),
            ("load=1-2", None),
            ("load=1,5", None),
            ("load=1e5", None),
            ("load=1.5E-1", None),
            ("load=3events", Some(3_000)),
            ("load=U", None),
            ("load=", None),
            ("load=.", None),
            ("load=1.2.3", None),
            ("load", None),
            ("loads=1", None),
            ("", None),
        ] {
            assert_eq!(load_of(text, "load"), load, "{text}");
        }
        assert_eq!(load_of("'queue length'=3 x=1", "queue length"), Some(3_000));
    }
}
