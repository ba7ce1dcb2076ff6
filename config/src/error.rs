//! What is wrong with a configuration: all of it at once, each with its place and what would be right.

use crate::text::Spot;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::{Path, PathBuf};

/// Errors beyond this many are counted, not kept: the file is then not what it was taken for.
const MAX_KEPT: usize = 500;
/// Characters of a source line that are shown.
const MAX_SHOWN: usize = 120;
/// Characters of a message that are kept: it may quote what somebody wrote.
const MAX_MESSAGE: usize = 400;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    file: PathBuf,
    place: Option<Place>,
    key: String,
    message: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    line: usize,
    column: usize,
    width: usize,
    text: String,
}

impl Error {
    pub(crate) fn at(spot: &Spot, key: &str, message: String) -> Self {
        let (line, column) = spot.line_and_column();
        let place = Place { line, column, width: spot.width(), text: spot.line_text().to_owned() };
        let (key, message) = (clipped(key.to_owned()), clipped(message));
        Error { file: spot.path().to_owned(), place: Some(place), key, message }
    }

    /// An error of a whole file, such as one that can't be read.
    pub(crate) fn of_file(path: &Path, message: String) -> Self {
        Error { file: path.to_owned(), place: None, key: String::new(), message }
    }

    /// The file it stands in.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The line, counted from 1; `None` if the file as a whole is meant.
    pub fn line(&self) -> Option<usize> {
        self.place.as_ref().map(|p| p.line)
    }

    /// The column in characters, counted from 1; `None` if the file as a whole is meant.
    pub fn column(&self) -> Option<usize> {
        self.place.as_ref().map(|p| p.column)
    }

    /// The setting, as in `vservers[2].method`; empty if the text is no TOML or is zone data of a file.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong, and what would be right.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Place, key and message in one line, for a log.
    pub fn headline(&self) -> String {
        let mut out = escaped(&self.file.display().to_string());
        if let Some(p) = &self.place {
            out += &format!(":{}:{}", p.line, p.column);
        }
        if !self.key.is_empty() {
            out += &format!(": {}", escaped(&self.key));
        }
        out + ": " + &escaped(&self.message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        let Some(place) = &self.place else { return Ok(()) };
        let (shown, offset) = window(&place.text, place.column - 1);
        let width = place.width.min(shown.chars().count().saturating_sub(offset)).max(1);
        let number = place.line.to_string();
        write!(f, "\n  {number} | {shown}")?;
        write!(f, "\n  {:1$} | {2:3$}{4}", "", number.len(), "", offset, "^".repeat(width))
    }
}

/// The part of a line around a column, with one character for each of the text's, and the column within that part.
fn window(text: &str, column: usize) -> (String, usize) {
    let skipped = if column < MAX_SHOWN * 2 / 3 { 0 } else { column - MAX_SHOWN / 3 };
    let shown: String = text.chars().skip(skipped).take(MAX_SHOWN).map(harmless).collect();
    (shown.trim_end().to_owned(), column - skipped)
}

/// A tab is a space here, so that the caret stands below its character; what a terminal would act on is shown as "?"
/// (threat T11).
fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        c if steers_a_terminal(c) => '\u{fffd}',
        c => c,
    }
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if steers_a_terminal(c) {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        out
    })
}

fn clipped(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_MESSAGE) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

fn steers_a_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Everything that is wrong, in the order of files and lines. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errors {
    errors: Vec<Error>,
    dropped: usize,
}

impl Errors {
    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one at least")]
    pub fn len(&self) -> usize {
        self.errors.len() + self.dropped
    }

    /// One after the other; of very many only the first.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.errors.iter()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        match self.dropped {
            0 => Ok(()),
            n => write!(f, "\n... and {n} more"),
        }
    }
}

impl std::error::Error for Errors {}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Errors { errors: vec![error], dropped: 0 }
    }
}

/// Where errors are gathered while reading goes on.
#[derive(Default)]
pub(crate) struct Log {
    errors: RefCell<Vec<Error>>,
    dropped: Cell<usize>,
}

impl Log {
    pub(crate) fn push(&self, error: Error) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() < MAX_KEPT {
            errors.push(error);
        } else {
            self.dropped.set(self.dropped.get() + 1);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    /// The errors by file, in the order the files were first complained about, and by place; `None` if there are none.
    pub(crate) fn into_errors(self) -> Option<Errors> {
        let mut errors = self.errors.into_inner();
        let mut files: Vec<PathBuf> = Vec::new();
        for e in &errors {
            if !files.contains(&e.file) {
                files.push(e.file.clone());
            }
        }
        let rank = |e: &Error| files.iter().position(|f| *f == e.file);
        errors.sort_by_key(|e| (rank(e), e.line(), e.column()));
        if errors.is_empty() { None } else { Some(Errors { errors, dropped: self.dropped.get() }) }
    }
}

/// The known word nearest to what was written, if it is near enough to be a slip.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|k| (strsim::osa_distance(&word.to_ascii_lowercase(), &k.to_ascii_lowercase()), k))
        .filter(|(distance, _)| *distance <= reach)
        .min()
        .map(|(_, k)| k)
}

/// What to say about a word that is not among the known ones.
pub(crate) fn instead(word: &str, known: &[&str]) -> String {
    match (nearest(word, known.iter().copied()), known) {
        (Some(near), _) => format!("did you mean '{near}'?"),
        (None, []) => "there are none".to_owned(),
        (None, known) => format!("there {}", listed(known)),
    }
}

/// "is a" or "are a, b and c"; of many only the first.
fn listed(known: &[&str]) -> String {
    const MANY: usize = 16;
    match known {
        [only] => format!("is '{only}'"),
        [first @ .., last] if first.len() < MANY => format!("are '{}' and '{last}'", first.join("', '")),
        _ => format!("are '{}' and {} more", known[..MANY].join("', '"), known.len() - MANY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Source;

    fn error(text: &str, span: std::ops::Range<usize>) -> String {
        let source = Source::new(Path::new("a.toml"), text.to_owned());
        Error::at(&Spot::new(&source, span), "x.y", "wrong".to_owned()).to_string()
    }

    #[test]
    fn the_caret_stands_below_what_is_meant() {
        assert_eq!(
            error("a = 1\n\tbc = 22\n", 12..14),
            "a.toml:2:7: x.y: wrong\n  2 |  bc = 22\n    |       ^^"
        );
        assert_eq!(error("", 0..0), "a.toml:1:1: x.y: wrong\n  1 | \n    | ^");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_caret_is_shown() {
        let text = format!("{}HERE{}", "a".repeat(1000), "b".repeat(1000));
        let shown = error(&text, 1000..1004);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].chars().count() < 140, "{shown}");
        assert_eq!(lines[1].find("HERE"), lines[2].find("^^^^"));
    }

    #[test]
    fn what_steers_a_terminal_is_not_passed_on() {
        let shown = error("a\u{1b}[31m\u{202e}", 0..1);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
        assert_eq!(escaped("\u{1b}\n"), "\\u{1b}\\n");
    }

    #[test]
    fn a_message_that_quotes_too_much_is_cut() {
        let source = Source::new(Path::new("a.toml"), String::new());
        let error = Error::at(&Spot::new(&source, 0..0), "k", "ä".repeat(1000));
        assert_eq!(error.message().chars().count(), MAX_MESSAGE + 3);
    }

    #[test]
    fn a_slip_has_a_nearest_word_and_nonsense_has_none() {
        assert_eq!(nearest("listn", ["listen", "tls"]), Some("listen"));
        assert_eq!(nearest("Listen", ["listen"]), Some("listen"));
        assert_eq!(nearest("xyzzy", ["listen", "tls"]), None);
        assert_eq!(instead("xyzzy", &["a", "bc", "d"]), "there are 'a', 'bc' and 'd'");
        assert_eq!(instead("x", &[]), "there are none");
    }

    #[test]
    fn errors_beyond_the_maximum_are_counted() {
        let log = Log::default();
        (0..MAX_KEPT + 7).for_each(|_| log.push(Error::of_file(Path::new("a"), "m".to_owned())));
        let errors = log.into_errors().unwrap();
        assert_eq!((errors.len(), errors.iter().count()), (MAX_KEPT + 7, MAX_KEPT));
        assert!(errors.to_string().ends_with("\n... and 7 more"));
    }
}
