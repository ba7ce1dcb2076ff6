//! Reading master files: directives, and what records take over from those before them.

use super::lexer::{Entries, Entry, Token};
use super::rdata;
use super::{Found, State, Text};
use crate::dname::{self, Wire};
use crate::error::{Error, Log, instead};
use crate::files::{Files, below};
use domain::base::iana::Rtype;
use std::ops::Range;

/// How deep files may include each other, and how many may be read for one zone: a file that includes itself ends there.
const MAX_DEPTH: usize = 8;
const MAX_INCLUDES: usize = 256;

/// Why an entry is refused: where, and what about it.
pub(super) type Refusal = (Range<usize>, String);

/// Reads the records of one zone.
pub(super) struct Master<'a, 'f> {
    files: &'a mut Files<'f>,
    log: &'a Log,
    /// The setting named in errors.
    key: String,
    default_ttl: u32,
    state: State,
    depth: usize,
    includes: usize,
    records: Vec<Found>,
    /// Whether every entry could be read.
    whole: bool,
}

impl<'a, 'f> Master<'a, 'f> {
    pub(super) fn new(files: &'a mut Files<'f>, log: &'a Log, origin: &Wire, ttl: u32, key: String) -> Self {
        let state = State { origin: origin.clone(), owner: None, stated_ttl: None, last_ttl: None };
        let records = Vec::new();
        Master { files, log, key, default_ttl: ttl, state, depth: 0, includes: 0, records, whole: true }
    }

    /// The records, and whether they are all there were.
    pub(super) fn finished(self) -> (Vec<Found>, bool) {
        (self.records, self.whole)
    }

    pub(super) fn read(&mut self, text: &Text) {
        for entry in Entries::new(&text.text) {
            let outcome = match entry {
                Ok(entry) => self.entry(text, &entry),
                Err(malformed) => Err((malformed.span, malformed.message.to_owned())),
            };
            if let Err((span, message)) = outcome {
                self.whole = false;
                self.log.push(Error::at(&text.spot(span), &self.key, message));
            }
        }
    }

    fn entry(&mut self, text: &Text, entry: &Entry) -> Result<(), Refusal> {
        let words = Words { text: &text.text, tokens: &entry.tokens };
        match words.get(0) {
            Some(first) if !entry.indented && first.starts_with('$') => self.directive(text, &words, first),
            Some(_) | None => self.record(text, &words, entry.indented),
        }
    }

    fn directive(&mut self, text: &Text, words: &Words<'_>, name: &str) -> Result<(), Refusal> {
        let most = if name.eq_ignore_ascii_case("$INCLUDE") { 3 } else { 2 };
        let first = words.span(0);
        let argument = || words.get(1).ok_or_else(|| (first.clone(), format!("{name} needs a value")));
        match name.to_ascii_uppercase().as_str() {
            "$ORIGIN" => self.state.origin = self.name(argument()?, words.span(1))?,
            "$TTL" => {
                let ttl = dname::master_ttl(argument()?).map_err(|e| (words.span(1), e))?;
                self.state.stated_ttl = Some(ttl);
            }
            "$INCLUDE" => {
                argument()?;
                self.include(text, words)?;
            }
            "$GENERATE" => {
                return Err((first, "$GENERATE is not read here, write its records out".to_owned()));
            }
            _ => {
                let known = ["$TTL", "$ORIGIN", "$INCLUDE"];
                return Err((first, format!("unknown directive '{name}', {}", instead(name, &known))));
            }
        }
        words.none_after(most)
    }

    fn include(&mut self, text: &Text, words: &Words<'_>) -> Result<(), Refusal> {
        let (name, span) = (words.bare(1), words.span(1));
        let refused = |message: String| Err((span.clone(), message));
        let Some(path) = below(text.source.path(), name) else {
            return refused(format!("'{name}' does not lie below the folder of this file"));
        };
        if self.depth == MAX_DEPTH || self.includes == MAX_INCLUDES {
            return refused(format!(
                "'{name}' is not read: files include each other {MAX_DEPTH} deep and {MAX_INCLUDES} in all at most"
            ));
        }
        // Owner and origin of the including file are the same after as before (RFC 1035 section 5.1).
        let before = self.state.clone();
        if let Some(origin) = words.get(2) {
            self.state.origin = self.name(origin, words.span(2))?;
        }
        self.includes += 1;
        match self.files.open_zone(&path, &text.spot(span), &self.key) {
            Some(source) => {
                self.depth += 1;
                let key = text.key.clone();
                self.read(&Text::of_file(source, &key));
                self.depth -= 1;
            }
            None => self.whole = false,
        }
        self.state = before;
        Ok(())
    }

    fn record(&mut self, text: &Text, words: &Words<'_>, indented: bool) -> Result<(), Refusal> {
        let owner = self.owner(words, indented)?;
        let head = Head::read(words, usize::from(!indented))?;
        let ttl = self.ttl(head.ttl);
        let data = rdata::read(head.rtype, words, head.data, &self.state.origin)?;
        let name = dname::to_hickory(&owner).map_err(|e| (words.span(0), e))?;
        let spot = text.spot(words.span(0));
        self.records.push(Found { owner: name, rtype: head.rtype.to_int(), ttl, data, spot });
        Ok(())
    }

    /// The owner, which the next records have as well if they state none.
    fn owner(&mut self, words: &Words<'_>, indented: bool) -> Result<Wire, Refusal> {
        if !indented {
            let owner = self.name(words.get(0).unwrap_or(""), words.span(0))?;
            self.state.owner = Some(owner);
        }
        let missing = "begins with white space, so it has the owner of the record before, but there is none";
        self.state.owner.clone().ok_or_else(|| (words.span(0), missing.to_owned()))
    }

    /// Stated, or from $TTL, or as the last record had it, or the zone's default.
    fn ttl(&mut self, stated: Option<u32>) -> u32 {
        if stated.is_some() {
            self.state.last_ttl = stated;
        }
        stated.or(self.state.stated_ttl).or(self.state.last_ttl).unwrap_or(self.default_ttl)
    }

    fn name(&self, text: &str, span: Range<usize>) -> Result<Wire, Refusal> {
        if text == "@" {
            return Ok(self.state.origin.clone());
        }
        dname::wire(text, Some(&self.state.origin)).map_err(|e| (span, e))
    }
}

/// The words of an entry.
pub(super) struct Words<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
}

impl<'a> Words<'a> {
    pub(super) fn get(&self, index: usize) -> Option<&'a str> {
        self.text.get(self.tokens.get(index)?.span.clone())
    }

    /// Without its quotes, escapes as they are.
    pub(super) fn bare(&self, index: usize) -> &'a str {
        let word = self.get(index).unwrap_or("");
        word.strip_prefix('"').and_then(|w| w.strip_suffix('"')).unwrap_or(word)
    }

    /// Where a word stands; the last one if there are not as many.
    pub(super) fn span(&self, index: usize) -> Range<usize> {
        self.tokens.get(index).or(self.tokens.last()).map_or(0..0, |t| t.span.clone())
    }

    pub(super) fn none_after(&self, count: usize) -> Result<(), Refusal> {
        match self.get(count) {
            Some(word) => Err((self.span(count), format!("'{word}' is too much here"))),
            None => Ok(()),
        }
    }
}

/// What stands between owner and data.
struct Head {
    ttl: Option<u32>,
    rtype: Rtype,
    /// The index of the first word of the data.
    data: usize,
}

impl Head {
    /// `[TTL] [class] type` or `[class] [TTL] type` (RFC 1035 section 5.1).
    fn read(words: &Words<'_>, start: usize) -> Result<Self, Refusal> {
        let (mut ttl, mut class) = (None, false);
        let mut at = start;
        loop {
            let span = words.span(at);
            let Some(word) = words.get(at) else { return Err((span, "the type is missing".to_owned())) };
            if ttl.is_none() && word.starts_with(|c: char| c.is_ascii_digit()) {
                ttl = Some(dname::master_ttl(word).map_err(|e| (span, e))?);
            } else if !class && is_class(word, &span)? {
                class = true;
            } else {
                return Ok(Head { ttl, rtype: record_type(word, span)?, data: at + 1 });
            }
            at += 1;
        }
    }
}

/// Whether a word is the class IN. Other classes are refused.
fn is_class(word: &str, span: &Range<usize>) -> Result<bool, Refusal> {
    let word = word.to_ascii_uppercase();
    match word.as_str() {
        "IN" | "CLASS1" => Ok(true),
        "CH" | "HS" | "CS" => Err((span.clone(), format!("class {word} is not served, only IN is"))),
        w if w.starts_with("CLASS") => Err((span.clone(), format!("{word} is not served, only IN is"))),
        _ => Ok(false),
    }
}

fn record_type(word: &str, span: Range<usize>) -> Result<Rtype, Refusal> {
    let Ok(rtype) = word.parse::<Rtype>() else {
        let upper = word.to_ascii_uppercase();
        let advice = match crate::error::nearest(&upper, COMMON_TYPES) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "unknown ones are written TYPE123 (RFC 3597)".to_owned(),
        };
        return Err((span, format!("'{word}' is no record type, {advice}")));
    };
    // 0 and 128 to 255 are for questions and messages, OPT (41) too (RFC 6895 section 3.1).
    match rtype.to_int() {
        0 | 41 | 128..=255 => Err((span, format!("{rtype} is no type that a zone can hold"))),
        _ => Ok(rtype),
    }
}

const COMMON_TYPES: [&str; 21] = [
    "A", "AAAA", "CAA", "CNAME", "DNAME", "DNSKEY", "DS", "HTTPS", "LOC", "MX", "NAPTR", "NS", "NSEC", "PTR",
    "RRSIG", "SOA", "SRV", "SSHFP", "SVCB", "TLSA", "TXT",
];
