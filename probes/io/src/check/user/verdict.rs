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
    let mut rest = performance.trim_start();
    while !rest.is_empty() {
        let (name, value) = labelled(rest)?;
        let (value, after) = value.split_at(value.find(char::is_whitespace).unwrap_or(value.len()));
        if name == label {
            return time(value.split(';').next().unwrap_or_default());
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
}
