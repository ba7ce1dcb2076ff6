//! Zones: static records in master-file format, from files or the configuration itself.

mod check;
mod lexer;
mod location;
mod master;
mod rdata;
mod size;

pub(crate) use check::LoadedZone;

use crate::dname::{self, Wire};
use crate::error::{Error, Log};
use crate::files::{Files, beside};
use crate::reader::{Item, Table};
use crate::text::{Source, Spot};
use hickory_proto::rr::Name;
use master::Master;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

pub(crate) fn zones(tables: &[Table<'_>], files: &mut Files<'_>, log: &Log) -> Vec<LoadedZone> {
    let mut zones = Vec::new();
    let mut given: BTreeMap<Name, String> = BTreeMap::new();
    for t in tables {
        let ttl = t.ttl("ttl");
        let name = t.parsed("name", |text| dname::wire(text, None));
        let origin = name.and_then(|wire| Some((dname::to_hickory(&wire).ok()?.to_lowercase(), wire)));
        let Some((origin, wire)) = origin else { continue };
        if let Some(place) = given.insert(origin.clone(), t.spot().file_and_line()) {
            t.refuse("name", format!("there is a zone '{origin}' already, at {place}"));
        }
        let Some(text) = zone_text(t, files) else { continue };
        let mut master = Master::new(files, log, &wire, ttl, text.key.clone());
        master.read(&text);
        let (records, whole) = master.finished();
        let complain = |spot: &Spot, message| log.push(Error::at(spot, &text.key, message));
        zones.push(LoadedZone::checked(origin, records, whole, &text.start(), &complain));
    }
    zones
}

/// The zone's data, from wherever its table says.
fn zone_text(t: &Table<'_>, files: &mut Files<'_>) -> Option<Text> {
    match (t.item("file"), t.item("records")) {
        (Some(file), None) => {
            let path = beside(file.spot().path(), file.text()?);
            let source = files.open_zone(&path, file.spot(), file.path())?;
            Some(Text::of_file(source, file.path()))
        }
        (None, Some(records)) => Some(Text::inline(records.text()?, &records)),
        (Some(_), Some(_)) => {
            t.refuse("records", "a zone has a file or records, not both");
            None
        }
        (None, None) => {
            t.refuse("file", "missing, name the file of the zone's records, or write them as 'records'");
            None
        }
    }
}

/// Zone data with the place it has in a file.
struct Text {
    text: String,
    source: Rc<Source>,
    place: Place,
    /// The setting it belongs to.
    key: String,
}

/// How offsets of zone data become offsets of the file.
enum Place {
    /// It stands there as it is, from this offset on.
    AsIs(usize),
    /// Each line of it is a line there, though escapes may shift columns: the offsets lines start at, here and there.
    ByLine(Vec<(usize, usize)>),
    /// It is somewhere within.
    Within(Range<usize>),
}

impl Text {
    fn of_file(source: Rc<Source>, key: &str) -> Self {
        Text { text: source.text().to_owned(), source, place: Place::AsIs(0), key: key.to_owned() }
    }

    fn inline(text: &str, item: &Item<'_>) -> Self {
        let (source, span) = (Rc::clone(item.spot().source()), item.spot().span());
        let literal = source.text().get(span.clone()).unwrap_or("");
        let place = match literal.find(text) {
            Some(offset) => Place::AsIs(span.start + offset),
            None => by_line(text, literal, span.start).map_or(Place::Within(span), Place::ByLine),
        };
        Text { text: text.to_owned(), source, place, key: item.path().to_owned() }
    }

    fn spot(&self, span: Range<usize>) -> Spot {
        let span = match &self.place {
            Place::AsIs(offset) => span.start + offset..span.end + offset,
            Place::ByLine(lines) => {
                let line = lines.partition_point(|(here, _)| *here <= span.start).saturating_sub(1);
                let (here, there) = lines.get(line).copied().unwrap_or_default();
                span.start - here + there..span.end - here + there
            }
            Place::Within(whole) => whole.clone(),
        };
        Spot::new(&self.source, span)
    }

    fn start(&self) -> Spot {
        self.spot(0..0)
    }
}

/// Pairs the lines of a text with those of the TOML literal it was written as, if there are as many.
fn by_line(text: &str, literal: &str, offset: usize) -> Option<Vec<(usize, usize)>> {
    let starts =
        |t: &str| std::iter::once(0).chain(t.match_indices('\n').map(|(i, _)| i + 1)).collect::<Vec<_>>();
    // A line end right after the opening quotes is not part of the text.
    let opening = if literal.starts_with("\"\"\"\n") { 4 } else { 3 };
    let (here, there) = (starts(text), starts(literal.get(opening..)?));
    if here.len() != there.len() {
        return None;
    }
    Some(here.into_iter().zip(there).map(|(h, t)| (h, t + opening + offset)).collect())
}

/// A record as it was found.
struct Found {
    owner: Name,
    rtype: u16,
    ttl: u32,
    data: rdata::Data,
    spot: Spot,
}

/// Where reading stands: what the next record takes over from those before.
#[derive(Clone)]
struct State {
    origin: Wire,
    owner: Option<Wire>,
    /// From $TTL (RFC 2308 section 4).
    stated_ttl: Option<u32>,
    /// Of the last record that had one (RFC 1035 section 5.1).
    last_ttl: Option<u32>,
}
