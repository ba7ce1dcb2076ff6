//! Master-file text cut into entries and tokens (RFC 1035 section 5.1).
//!
//! The record reader of the `domain` crate stops for good at its first error. Cutting the text first lets every entry
//! be read by itself, so that all errors of a zone are found, and lets TTLs have units.

use std::ops::Range;

/// A word of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    /// Where it stands, with its quotes.
    pub(super) span: Range<usize>,
    pub(super) quoted: bool,
}

/// A record or a directive: a line, or more of them within parentheses.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Whether it begins with white space: then it has the owner of the one before.
    pub(super) indented: bool,
    /// Never empty.
    pub(super) tokens: Vec<Token>,
}

/// Why a stretch of text is no entry.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Malformed {
    pub(super) span: Range<usize>,
    pub(super) message: &'static str,
}

/// The entries of a text, one after the other. After a malformed one it goes on at the next line.
pub(super) struct Entries<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Entries { text: text.as_bytes(), at: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|b| b != b'\n') {
            self.at += 1;
        }
    }

    /// Up to the closing quote.
    fn quoted(&mut self) -> Result<Token, Malformed> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None | Some(b'\n') => {
                    return Err(Malformed { span: start..self.at, message: "the closing quote is missing" });
                }
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Token { span: start..self.at, quoted: true });
                }
                Some(b'\\') => self.escaped(),
                Some(_) => self.at += 1,
            }
        }
    }

    fn unquoted(&mut self) -> Token {
        let start = self.at;
        while let Some(b) = self.peek() {
            match b {
                b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' | b';' | b'"' => break,
                b'\\' => self.escaped(),
                _ => self.at += 1,
            }
        }
        Token { span: start..self.at, quoted: false }
    }

    /// A backslash and the character it takes the meaning from, which is never the end of the line.
    fn escaped(&mut self) {
        self.at += 1;
        if self.peek().is_some_and(|b| b != b'\n') {
            self.at += 1;
        }
    }

    fn entry(&mut self) -> Result<Option<Entry>, Malformed> {
        let mut entry = Entry { indented: matches!(self.peek(), Some(b' ' | b'\t')), tokens: Vec::new() };
        let mut open: Vec<usize> = Vec::new();
        loop {
            match self.peek() {
                None => match open.first() {
                    Some(at) => {
                        return Err(Malformed {
                            span: *at..*at + 1,
                            message: "the parenthesis is never closed",
                        });
                    }
                    None => return Ok(Some(entry).filter(|e| !e.tokens.is_empty())),
                },
                Some(b'\n') => {
                    self.at += 1;
                    if open.is_empty() && !entry.tokens.is_empty() {
                        return Ok(Some(entry));
                    }
                    if open.is_empty() {
                        entry.indented = matches!(self.peek(), Some(b' ' | b'\t'));
                    }
                }
                Some(b' ' | b'\t' | b'\r') => self.at += 1,
                Some(b';') => self.skip_line(),
                Some(b'(') => {
                    open.push(self.at);
                    self.at += 1;
                }
                Some(b')') => {
                    let span = self.at..self.at + 1;
                    self.at += 1;
                    if open.pop().is_none() {
                        return Err(Malformed {
                            span,
                            message: "nothing is open that this parenthesis could close",
                        });
                    }
                }
                Some(b'"') => entry.tokens.push(self.quoted()?),
                Some(_) => entry.tokens.push(self.unquoted()),
            }
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entry();
        if entry.is_err() {
            self.skip_line();
        }
        entry.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Result<(bool, Vec<&str>), &'static str>> {
        Entries::new(text)
            .map(|entry| match entry {
                Ok(e) => Ok((e.indented, e.tokens.iter().map(|t| &text[t.span.clone()]).collect())),
                Err(m) => Err(m.message),
            })
            .collect()
    }

    #[test]
    fn an_entry_is_a_line_or_more_within_parentheses() {
        let text = "\n; comment\na A 1 ; c\n  ( B\n 2 ; d)\n)\n\nc\t\"x ; (y\" k=\"v\"";
        assert_eq!(
            words(text),
            [
                Ok((false, vec!["a", "A", "1"])),
                Ok((true, vec!["B", "2"])),
                Ok((false, vec!["c", "\"x ; (y\"", "k=", "\"v\""])),
            ]
        );
    }

    #[test]
    fn a_backslash_takes_the_meaning_from_what_follows() {
        assert_eq!(words("a\\;b\\ c \"\\\"\" \\"), [Ok((false, vec!["a\\;b\\ c", "\"\\\"\"", "\\"]))]);
    }

    #[test]
    fn after_a_malformed_entry_the_next_line_is_read() {
        let end = || Ok((false, vec!["b"]));
        assert_eq!(words("a \"x\nb"), [Err("the closing quote is missing"), end()]);
        assert_eq!(words("a ) x\nb"), [Err("nothing is open that this parenthesis could close"), end()]);
        assert_eq!(words("a ( x\nb"), [Err("the parenthesis is never closed")]);
    }

    #[test]
    fn the_end_of_a_line_can_not_be_escaped_away() {
        assert_eq!(words("a\\\nb"), [Ok((false, vec!["a\\"])), Ok((false, vec!["b"]))]);
    }
}
