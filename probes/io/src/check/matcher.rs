//! Patterns, compiled once, and when a match of them is one that stays.

use super::{Fault, MOST};
use gslb_types::Pattern;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind, Look};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Bytes of a compiled pattern; the configuration refuses larger ones.
const COMPILED: usize = 1 << 20;

/// Compiled patterns that are kept. A configuration has some dozens.
const KEPT: usize = 1024;

/// Bytes of the longest character: what follows a match is judged by one.
const CHARACTER: usize = 4;

/// Patterns, compiled once.
#[derive(Default)]
pub(crate) struct Matchers(Mutex<HashMap<Pattern, Matcher>>);

impl Matchers {
    pub(super) fn of(&self, pattern: &Pattern) -> Result<Matcher, Fault> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matcher) = kept.get(pattern) {
            return Ok(matcher.clone());
        }
        let matcher = Matcher::of(pattern)
            .map_err(|_| Fault::Ours(format!("the pattern {pattern} is no regular expression")))?;
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(pattern.clone(), matcher.clone());
        Ok(matcher)
    }
}

/// A compiled pattern.
#[derive(Clone)]
pub(super) struct Matcher {
    regex: Regex,
    /// Whether what follows a match can undo it: `$` and `\b` look at it.
    looks_ahead: bool,
}

impl Matcher {
    fn of(pattern: &Pattern) -> Result<Self, regex::Error> {
        match pattern {
            Pattern::Regex(text) => {
                let regex = RegexBuilder::new(text).size_limit(COMPILED).build()?;
                Ok(Matcher { regex, looks_ahead: looks_ahead(text) })
            }
            Pattern::Bytes(bytes) => {
                let mut text = String::with_capacity(bytes.len() * 4);
                for byte in bytes {
                    // Writing to a string does not fail.
                    let _ = write!(text, "\\x{byte:02x}");
                }
                let regex = RegexBuilder::new(&text).unicode(false).size_limit(COMPILED).build()?;
                Ok(Matcher { regex, looks_ahead: false })
            }
        }
    }

    /// Where the first match ends, in bytes that are all there is, or the first of more. In the latter case a match counts
    /// only if nothing that may follow undoes it: of "OK, but", which begins with "OK", `OK$` has no match.
    pub(super) fn end_in(&self, bytes: &[u8], is_whole: bool) -> Option<usize> {
        let end = self.regex.find(bytes.get(..MOST).unwrap_or(bytes))?.end();
        if self.looks_ahead && end == MOST && bytes.len() > MOST {
            return None; // What it took for the end is where looking stops.
        }
        let is_followed = || match bytes.get(end) {
            Some(next) if next.is_ascii() => true,
            Some(_) => bytes.len() >= end + CHARACTER,
            None => false,
        };
        (is_whole || !self.looks_ahead || is_followed()).then_some(end)
    }

    pub(super) fn is_in(&self, whole: &[u8]) -> bool {
        self.end_in(whole, true).is_some()
    }
}

/// Whether it holds an assertion about what follows. One that can't be read is taken for such.
fn looks_ahead(text: &str) -> bool {
    let parsed = ParserBuilder::new().utf8(false).build().parse(text);
    parsed.map_or(true, |hir| match hir.kind() {
        // What its head asks of the byte after it is answered by the match itself, which begins there, unless it is empty.
        HirKind::Concat(parts) => {
            let head = parts.iter().take_while(|part| matches!(part.kind(), HirKind::Look(_))).count();
            let first_has_bytes =
                parts.get(head).is_some_and(|part| part.properties().minimum_len() > Some(0));
            parts.iter().skip(if first_has_bytes { head } else { 0 }).any(asks_what_follows)
        }
        _ => asks_what_follows(&hir),
    })
}

fn asks_what_follows(part: &Hir) -> bool {
    let behind = [Look::Start, Look::StartLF];
    part.properties().look_set().iter().any(|look| !behind.contains(&look))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &[u8]) -> Pattern {
        Pattern::Bytes(text.to_vec())
    }

    fn regex(text: &str) -> Matcher {
        Matcher::of(&Pattern::Regex(text.to_owned())).unwrap()
    }

    #[test]
    fn bytes_are_looked_for_as_they_are() {
        let matchers = Matchers::default();
        let all: Vec<u8> = (0..=255).collect();
        for pattern in [&all[..], b".*", b"\xff\x00", "grüß".as_bytes(), b"(?i)a", b"a$"] {
            let matcher = matchers.of(&bytes(pattern)).unwrap();
            let text = [b"x\ny", pattern].concat();
            assert_eq!(matcher.end_in(&text, false), Some(3 + pattern.len()));
            assert!(!matcher.is_in(b"xyz A \xfe"), "{pattern:?}");
        }
        assert!(matches!(matchers.of(&Pattern::Regex("(".into())), Err(Fault::Ours(_))));
    }

    #[test]
    fn a_pattern_is_compiled_once_and_a_bounded_number_kept() {
        let matchers = Matchers::default();
        for n in 0..KEPT + 10 {
            matchers.of(&bytes(n.to_string().as_bytes())).unwrap();
        }
        assert_eq!(matchers.0.lock().unwrap().len(), 10);
    }

    #[test]
    fn an_end_counts_only_where_the_answer_ends() {
        // What came, and the end of the match in it if it goes on, and if it is whole.
        for (pattern, came, goes_on, whole) in [
            ("^OK$", "OK", None, Some(2)),
            (r"^OK\z", "OK", None, Some(2)),
            ("^OK$", "OK, but", None, None),
            (r"OK\b", "OK", None, Some(2)),
            (r"OK\b", "OK,", Some(2), Some(2)),
            (r"OK\b", "OKAY", None, None),
            ("(?m)^OK$", "OK", None, Some(2)),
            ("(?m)^OK$", "OK\n", Some(2), Some(2)),
            (r"(?m)^OK\r?$", "OK\r\n", Some(3), Some(3)),
            // Half of a letter is none yet.
            (r"\w+\b", "gr\u{fc}n", None, Some(5)),
            ("^OK", "OK", Some(2), Some(2)),
            (r"\bOK", "OK", Some(2), Some(2)),
            (r"\bOK\b", "OK", None, Some(2)),
            (r"\b.*", "OK", None, Some(2)),
            ("OK|KO", "xKO", Some(3), Some(3)),
        ] {
            let ends = [false, true].map(|is_whole| regex(pattern).end_in(came.as_bytes(), is_whole));
            assert_eq!(ends, [goes_on, whole], "{pattern} in {came:?}");
        }
        let long = [vec![b'a'; MOST], b"!".to_vec()].concat();
        assert_eq!(regex(r"\A[^!]*\z").end_in(&long, false), None, "the end of what is looked at is none");
        assert_eq!(regex(r"\A[^!]*\z").end_in(&long[..MOST], true), Some(MOST));
        assert_eq!(regex(r"gr\b").end_in(b"gr\xc3", false), None, "a letter may become of it");
        assert_eq!(regex(r"gr\b").end_in(b"gr\xc3\xbcn.", false), None);
    }
}
