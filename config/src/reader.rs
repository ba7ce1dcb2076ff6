//! Typed reading of tables that goes on after an error, so that all errors of a file are found at once.
//!
//! A reader never fails: what is wrong goes to the [`Log`], and a harmless value takes its place. Nobody sees such a
//! value, since [`load`](crate::load()) gives no configuration while the log holds an error.

use crate::dname;
use crate::error::{Error, Log, instead, nearest};
use crate::schema::{ALL, Presence, Schema, TOP};
use crate::text::{Source, Spot};
use crate::units;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table of a file, read by the keys its schema lists.
pub(crate) struct Table<'a> {
    schema: &'static Schema,
    /// `None` if the file does not have the table: then all is at its default.
    entries: Option<&'a DeTable<'a>>,
    path: String,
    spot: Spot,
    log: &'a Log,
}

impl<'a> Table<'a> {
    /// Takes the table, and complains of every key that is none of its schema's.
    fn new(
        schema: &'static Schema,
        entries: Option<&'a DeTable<'a>>,
        path: String,
        spot: Spot,
        log: &'a Log,
    ) -> Self {
        let table = Table { schema, entries, path, spot, log };
        for key in entries.into_iter().flat_map(DeTable::keys).filter(|k| schema.key(k.get_ref()).is_none()) {
            table.unknown(key.get_ref(), key.span());
        }
        table
    }

    /// The top of a file.
    pub(crate) fn top(entries: &'a DeTable<'a>, start: Spot, log: &'a Log) -> Self {
        Table::new(&TOP, Some(entries), String::new(), start, log)
    }

    /// A table that no file has: all of it is at its default.
    pub(crate) fn absent(schema: &'static Schema, start: Spot, log: &'a Log) -> Self {
        Table::new(schema, None, schema.name.to_owned(), start, log)
    }

    fn unknown(&self, key: &str, span: Range<usize>) {
        let spot = Spot::new(self.spot.source(), span);
        let known = self.schema.key_names();
        let elsewhere = ALL.iter().find(|s| !s.name.is_empty() && s.key(key).is_some());
        let advice = match (nearest(key, known.iter().copied()), elsewhere) {
            (None, Some(other)) => format!("it belongs to [{}]", other.name),
            _ => instead(key, &known),
        };
        self.log.push(Error::at(&spot, &self.path_of(key), format!("unknown key, {advice}")));
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether the file gives this key.
    pub(crate) fn gives(&self, key: &str) -> bool {
        self.given(key).is_some()
    }

    fn given(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.entries?.get(key)
    }

    /// The value of a key: given, or the default. `None` if there is neither; an error if it is required.
    pub(crate) fn item(&self, key: &str) -> Option<Item<'a>> {
        let path = self.path_of(key);
        if let Some(value) = self.given(key) {
            return Some(Item::of(value, self.spot.source(), path, self.log));
        }
        if self.schema.key(key).is_some_and(|k| k.presence == Presence::Required) {
            self.log.push(Error::at(&self.spot, &path, "missing".to_owned()));
        }
        self.default_item(key)
    }

    /// The default of a key: what stands in for a value that is wrong, so that it causes no other errors.
    fn default_item(&self, key: &str) -> Option<Item<'a>> {
        match self.schema.key(key)?.presence {
            Presence::Default(text) => {
                let value = Value::Default(DeValue::parse(text).ok()?.into_inner());
                Some(Item { value, path: self.path_of(key), spot: self.spot.clone(), log: self.log })
            }
            Presence::Required | Presence::Optional => None,
        }
    }

    /// Complains about a key, at its value if it is given and at the table if not.
    pub(crate) fn refuse(&self, key: &str, message: impl Into<String>) {
        let spot = match self.given(key) {
            Some(value) => Spot::new(self.spot.source(), value.span()),
            None => self.spot.clone(),
        };
        self.log.push(Error::at(&spot, &self.path_of(key), message.into()));
    }

    /// Complains about a part of a key's value.
    pub(crate) fn refuse_at(&self, spot: &Spot, path: &str, message: &str) {
        self.log.push(Error::at(spot, path, message.to_owned()));
    }

    /// The header of the table, or the start of the file that lacks it.
    pub(crate) fn spot(&self) -> &Spot {
        &self.spot
    }

    pub(crate) fn duration(&self, key: &str, range: RangeInclusive<Duration>) -> Duration {
        let least = *range.start();
        let given = self.item(key).and_then(|i| i.duration(range.clone()));
        given.or_else(|| self.default_item(key)?.duration(range)).unwrap_or(least)
    }

    /// Whole seconds, written with a unit.
    pub(crate) fn ttl(&self, key: &str) -> u32 {
        self.item(key).and_then(|i| i.timed(dname::ttl)).unwrap_or_default()
    }

    pub(crate) fn number<T: Number>(&self, key: &str, range: RangeInclusive<T>) -> T {
        let least = *range.start();
        let given = self.item(key).and_then(|i| i.number(range.clone()));
        given.or_else(|| self.default_item(key)?.number(range)).unwrap_or(least)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.item(key).and_then(|i| i.flag()).unwrap_or_default()
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.item(key)?.text().map(str::to_owned)
    }

    /// The text of a key, where what is wrong with it has been said already.
    pub(crate) fn quiet_text(&self, key: &str) -> Option<&'a str> {
        self.given(key)?.get_ref().as_str()
    }

    /// The value that a word stands for.
    pub(crate) fn word<T: Copy + Default>(&self, key: &str, words: &[(&str, T)]) -> T {
        self.item(key).and_then(|i| i.word(words)).unwrap_or_default()
    }

    /// A text that `parse` makes something of, or says why not.
    pub(crate) fn parsed<T, E: Display>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.item(key)?.parsed(parse)
    }

    /// The members of a list that may hold none twice.
    pub(crate) fn distinct<T: PartialEq>(&self, key: &str, read: impl Fn(&Item<'_>) -> Option<T>) -> Vec<T> {
        let mut members: Vec<T> = Vec::new();
        for item in self.item(key).and_then(Item::into_list).unwrap_or_default() {
            match read(&item) {
                Some(member) if members.contains(&member) => item.refuse("is given twice"),
                Some(member) => members.push(member),
                None => {}
            }
        }
        members
    }

    /// Whether the file gives a list without members.
    pub(crate) fn gives_empty_list(&self, key: &str) -> bool {
        self.given(key).and_then(|v| v.get_ref().as_array()).is_some_and(|a| a.is_empty())
    }

    /// Complains unless one duration is less than another. Silent if either can't be read: that has been said.
    pub(crate) fn must_be_less(&self, key: &str, than: &str) {
        let quiet = |key| self.item(key).and_then(|i| units::parse(i.as_str()?).ok());
        if let (Some(a), Some(b)) = (quiet(key), quiet(than))
            && a >= b
        {
            let (a, b) = (units::show(a), units::show(b));
            let blamed = if self.gives(key) { key } else { than };
            self.refuse(blamed, format!("{key} ({a}) must be less than {than} ({b})"));
        }
    }
}

enum Value<'a> {
    Given(&'a DeValue<'a>),
    Default(DeValue<'static>),
}

/// A value with its place.
pub(crate) struct Item<'a> {
    value: Value<'a>,
    path: String,
    spot: Spot,
    log: &'a Log,
}

impl<'a> Item<'a> {
    pub(crate) fn of(
        value: &'a Spanned<DeValue<'a>>,
        source: &Rc<Source>,
        path: String,
        log: &'a Log,
    ) -> Self {
        let spot = Spot::new(source, value.span());
        Item { value: Value::Given(value.get_ref()), path, spot, log }
    }

    fn value(&self) -> &DeValue<'_> {
        match &self.value {
            Value::Given(value) => value,
            Value::Default(value) => value,
        }
    }

    pub(crate) fn spot(&self) -> &Spot {
        &self.spot
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn refuse(&self, message: impl Into<String>) {
        self.log.push(Error::at(&self.spot, &self.path, message.into()));
    }

    fn expected<T>(&self, what: &str) -> Option<T> {
        self.refuse(format!("expected {what}, found {}", article(self.value().type_str())));
        None
    }

    fn as_str(&self) -> Option<&str> {
        self.value().as_str()
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.value().as_str().or_else(|| self.expected("a string"))
    }

    pub(crate) fn is_text(&self) -> bool {
        self.value().is_str()
    }

    pub(crate) fn is_table(&self) -> bool {
        self.value().is_table()
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        self.value().as_bool().or_else(|| self.expected("true or false"))
    }

    pub(crate) fn duration(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        let duration = self.timed(units::parse)?;
        if !range.contains(&duration) {
            let (least, most) = (units::show(*range.start()), units::show(*range.end()));
            self.refuse(format!("{} is out of range, {least} to {most} is allowed", units::show(duration)));
            return None;
        }
        Some(duration)
    }

    /// A text with a unit of time, which people like to forget.
    fn timed<T>(&self, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        if let DeValue::Integer(n) = self.value() {
            self.refuse(format!("needs a unit, write \"{n}s\" for seconds or \"{n}ms\" for milliseconds"));
            return None;
        }
        let text = self.as_str().or_else(|| self.expected("a duration, as in \"5s\""))?;
        parse(text).map_err(|e| self.refuse(e)).ok()
    }

    pub(crate) fn number<T: Number>(&self, range: RangeInclusive<T>) -> Option<T> {
        let Some(integer) = self.value().as_integer() else {
            return self.expected("a whole number");
        };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.and_then(|n| T::try_from(n).ok()).filter(|n| range.contains(n));
        if number.is_none() {
            self.refuse(format!(
                "{integer} is out of range, {} to {} is allowed",
                range.start(),
                range.end()
            ));
        }
        number
    }

    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.refuse(format!("'{text}' is not known here, {}", instead(text, &known)));
        }
        found
    }

    pub(crate) fn parsed<T, E: Display>(&self, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        parse(self.text()?).map_err(|e| self.refuse(e.to_string())).ok()
    }

    /// The members of a list. Those of a default stand in no file: their place is that of the table.
    pub(crate) fn into_list(self) -> Option<Vec<Item<'a>>> {
        if !self.value().is_array() {
            return self.expected("a list");
        }
        let Item { value, path, spot, log } = self;
        let path = |i| format!("{path}[{i}]");
        match value {
            Value::Given(value) => {
                let members = value.as_array()?.iter().enumerate();
                Some(members.map(|(i, v)| Item::of(v, spot.source(), path(i), log)).collect())
            }
            Value::Default(DeValue::Array(members)) => {
                let members = members.into_iter().map(Spanned::into_inner).enumerate();
                let member =
                    |(i, v)| Item { value: Value::Default(v), path: path(i), spot: spot.clone(), log };
                Some(members.map(member).collect())
            }
            Value::Default(_) => None,
        }
    }

    /// The same value under another key.
    pub(crate) fn named(self, path: String) -> Item<'a> {
        Item { path, ..self }
    }

    /// The table, which stands in a file: no table has a default.
    pub(crate) fn into_table(self, schema: &'static Schema) -> Option<Table<'a>> {
        match self.value {
            Value::Given(DeValue::Table(entries)) => {
                Some(Table::new(schema, Some(entries), self.path, self.spot, self.log))
            }
            Value::Given(_) | Value::Default(_) => self.expected("a table"),
        }
    }
}

/// A whole number a setting can be.
pub(crate) trait Number: Copy + PartialOrd + Display + TryFrom<i128> {}
impl<T: Copy + PartialOrd + Display + TryFrom<i128>> Number for T {}

fn article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {noun}")
}
