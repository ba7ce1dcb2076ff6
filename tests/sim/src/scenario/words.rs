//! The words of one line, taken one after the other, and what is wrong with them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What, and what would be right.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// What is left of a line.
#[derive(Clone)]
pub(super) struct Words<'a> {
    line: usize,
    words: Vec<(usize, &'a str)>,
    next: usize,
    end: usize,
}

impl<'a> Words<'a> {
    /// The words of a line, without its comment. Text in double quotes or brackets is one word with them.
    pub(super) fn of(line: usize, text: &'a str) -> Self {
        let mut words = Vec::new();
        let mut start = None;
        let (mut quoted, mut depth) = (false, 0_u32);
        let mut end = text.len();
        for (at, c) in text.char_indices() {
            if c == '#' && !quoted {
                end = at;
                break;
            }
            quoted ^= c == '"';
            depth = match c {
                '[' | '{' if !quoted => depth + 1,
                ']' | '}' if !quoted => depth.saturating_sub(1),
                _ => depth,
            };
            match start {
                None if !c.is_whitespace() => start = Some(at),
                Some(from) if c.is_whitespace() && !quoted && depth == 0 => {
                    words.push((from, text.get(from..at).unwrap_or_default()));
                    start = None;
                }
                None | Some(_) => {}
            }
        }
        words.extend(start.map(|from| (from, text.get(from..end).unwrap_or_default().trim_end())));
        let columns =
            words.into_iter().map(|(at, word)| (text.get(..at).map_or(0, |t| t.chars().count()) + 1, word));
        Words { line, words: columns.collect(), next: 0, end: text.chars().count() + 1 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.words.len()
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(|(_, word)| *word)
    }

    /// Takes the next word if it is this one.
    pub(super) fn takes(&mut self, word: &str) -> bool {
        let is_it = self.peek() == Some(word);
        self.next += usize::from(is_it);
        is_it
    }

    /// Takes the next word, which must be there.
    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, ParseError> {
        let word = self.peek().ok_or_else(|| self.here(format!("expected {what}")))?;
        self.next += 1;
        Ok(word)
    }

    /// Takes the next word, which must be this one.
    pub(super) fn expect(&mut self, word: &str) -> Result<(), ParseError> {
        if self.takes(word) { Ok(()) } else { Err(self.here(format!("expected '{word}'{}", self.found()))) }
    }

    /// Takes the next word, which must be one of these, and gives what stands for it.
    pub(super) fn one_of<T: Clone>(&mut self, what: &str, table: &[(&str, T)]) -> Result<T, ParseError> {
        let word = self.peek();
        match table.iter().find(|(name, _)| Some(*name) == word) {
            Some((_, value)) => {
                self.next += 1;
                Ok(value.clone())
            }
            None => {
                let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
                Err(self.here(format!("expected {what}: {}{}", names.join(", "), self.found())))
            }
        }
    }

    pub(super) fn address(&mut self) -> Result<IpAddr, ParseError> {
        self.parsed("an address", |word| word.parse().ok())
    }

    pub(super) fn number(&mut self) -> Result<u64, ParseError> {
        self.parsed("a number", |word| word.parse().ok())
    }

    pub(super) fn time(&mut self) -> Result<Duration, ParseError> {
        self.parsed("a time such as 5s, 200ms, 2m or 1h", time)
    }

    fn parsed<T>(&mut self, what: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, ParseError> {
        match self.peek().and_then(parse) {
            Some(value) => {
                self.next += 1;
                Ok(value)
            }
            None => Err(self.here(format!("expected {what}{}", self.found()))),
        }
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), ParseError> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(self.here(format!("'{word}' is too much"))),
        }
    }

    /// An error at the next word.
    pub(super) fn here(&self, message: String) -> ParseError {
        let column = self.words.get(self.next).map_or(self.end, |(column, _)| *column);
        ParseError { line: self.line, column, message }
    }

    /// An error at the word taken last.
    pub(super) fn before(&self, message: String) -> ParseError {
        let column = self.words.get(self.next.saturating_sub(1)).map_or(self.end, |(column, _)| *column);
        ParseError { line: self.line, column, message }
    }

    fn found(&self) -> String {
        self.peek().map_or(", found the end of the line".to_owned(), |word| format!(", found '{word}'"))
    }
}

/// A time as it is written.
pub(super) fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let micros = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return None,
    };
    number.checked_mul(micros).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let mut words = Words::of(1, text);
        std::iter::from_fn(|| words.word("").ok()).collect()
    }

    #[test]
    fn a_comment_ends_a_line_and_quotes_and_brackets_hold_words_together() {
        assert_eq!(words("at 5s  query # why"), ["at", "5s", "query"]);
        assert_eq!(words("set a.b \"x y # z\" at fra"), ["set", "a.b", "\"x y # z\"", "at", "fra"]);
        assert_eq!(
            words("set probe.order [\"ping\", \"dns-udp\"]"),
            ["set", "probe.order", "[\"ping\", \"dns-udp\"]"]
        );
        assert_eq!(words("  # only"), [""; 0]);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(time("2m"), Some(Duration::from_secs(120)));
        for bad in ["5", "s", "5 s", "-1s", "5sec", "99999999999999h"] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_error_names_line_column_and_what_would_be_right() {
        let mut words = Words::of(7, "heal fra rome");
        words.expect("heal").unwrap();
        let error = words.one_of("a site", &[("iad", 1), ("sin", 2)]).unwrap_err();
        assert_eq!(error.to_string(), "7:6: expected a site: iad, sin, found 'fra'");
        words.word("").unwrap();
        words.word("").unwrap();
        assert_eq!(
            words.time().unwrap_err().to_string(),
            "7:14: expected a time such as 5s, 200ms, 2m or 1h, found the end of the line"
        );
    }
}
