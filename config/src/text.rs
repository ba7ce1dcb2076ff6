//! Places in texts: which file, line and column something was written at.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A text with its lines found.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
    /// The offset each line starts at.
    starts: Vec<usize>,
}

impl Source {
    pub(crate) fn new(path: &Path, text: String) -> Rc<Self> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Rc::new(Source { path: path.to_owned(), text, starts })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The line of an offset, counted from 0.
    fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// A line without its end.
    fn line(&self, index: usize) -> &str {
        let start = self.starts.get(index).copied().unwrap_or(0);
        let rest = self.text.get(start..).unwrap_or("");
        rest.split('\n').next().unwrap_or("").trim_end_matches('\r')
    }
}

/// A stretch of a text.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    source: Rc<Source>,
    start: usize,
    end: usize,
}

impl Spot {
    pub(crate) fn new(source: &Rc<Source>, span: Range<usize>) -> Self {
        Spot { source: Rc::clone(source), start: span.start, end: span.end.max(span.start) }
    }

    pub(crate) fn source(&self) -> &Rc<Source> {
        &self.source
    }

    pub(crate) fn span(&self) -> Range<usize> {
        self.start..self.end
    }

    pub(crate) fn path(&self) -> &Path {
        self.source.path()
    }

    /// Line and column in characters, counted from 1.
    pub(crate) fn line_and_column(&self) -> (usize, usize) {
        let line = self.source.line_of(self.start);
        let start = self.source.starts.get(line).copied().unwrap_or(0);
        let before = self.source.text.as_bytes().get(start..self.start).unwrap_or_default();
        // Every byte that does not go on with a character begins one.
        let characters = before.iter().filter(|b| **b & 0xc0 != 0x80).count();
        (line + 1, characters + 1)
    }

    /// The line the stretch begins in.
    pub(crate) fn line_text(&self) -> &str {
        self.source.line(self.source.line_of(self.start))
    }

    /// How many characters of that line it covers; at least one.
    pub(crate) fn width(&self) -> usize {
        let covered = self.source.text.get(self.start..self.end).unwrap_or("");
        covered.lines().next().map_or(0, |line| line.chars().count()).max(1)
    }

    /// "group.toml:12", for a place named in passing.
    pub(crate) fn file_and_line(&self) -> String {
        format!("{}:{}", self.path().display(), self.line_and_column().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, offset: usize) -> (usize, usize) {
        let source = Source::new(Path::new("x"), text.to_owned());
        Spot::new(&source, offset..offset).line_and_column()
    }

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        assert_eq!(place("", 0), (1, 1));
        assert_eq!(place("ab\ncd", 1), (1, 2));
        assert_eq!(place("ab\ncd", 3), (2, 1));
        assert_eq!(place("äö=1", 4), (1, 3));
    }

    #[test]
    fn a_place_past_the_end_is_still_a_place() {
        assert_eq!(place("ab\n", 99), (2, 1));
        let source = Source::new(Path::new("x"), "ab\n".to_owned());
        let spot = Spot::new(&source, 99..120);
        assert_eq!((spot.line_text(), spot.width()), ("", 1));
    }
}
