//! One database in MaxMind's format: city, country or ASN.

use super::Found;
use config::Coordinates;
use maxminddb::{MaxMindDbError, Reader};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

/// A database, read whole.
pub struct Database {
    /// What it is called in errors and in the API: its path.
    name: String,
    reader: Reader<Vec<u8>>,
}

/// A file is no database of this kind, or a broken one.
#[derive(Debug, thiserror::Error)]
#[error("{name} is no database in MaxMind's format that can be read: {cause}")]
pub struct DatabaseError {
    name: String,
    cause: MaxMindDbError,
}

impl Database {
    /// The database in these bytes.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, DatabaseError> {
        let name = name.into();
        match Reader::from_source(bytes) {
            Ok(reader) => Ok(Database { name, reader }),
            Err(cause) => Err(DatabaseError { name, cause }),
        }
    }

    /// Its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says it is, as in `GeoLite2-City`.
    pub fn kind(&self) -> &str {
        &self.reader.metadata().database_type
    }

    /// When it was made, in seconds since 1970.
    pub fn built(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// Adds what it knows of the address and `found` does not. The result is the length of the prefix of which it is true.
    ///
    /// A record that can't be read is as none: the node answers by what else it knows.
    pub(super) fn add_to<'a>(&'a self, found: &mut Found<'a>, address: IpAddr) -> u8 {
        let Ok(result) = self.reader.lookup(address) else { return 0 };
        if let Ok(Some(record)) = result.decode::<Record<'a>>() {
            let region = record.subdivisions.and_then(|first| first.0);
            let country = record.country.and_then(|c| c.iso_code);
            let known = [
                record.continent.and_then(|c| c.code),
                country.or(record.registered_country.and_then(|c| c.iso_code)),
                region.and_then(|r| r.iso_code),
                record.city.and_then(|c| c.names).and_then(|n| n.en),
            ];
            // All or nothing: the region of one database within the country of another is nowhere.
            if found.qualifiers.iter().all(Option::is_none) {
                found.qualifiers = known;
            }
            let position = record.location.and_then(|l| Coordinates::new(l.latitude?, l.longitude?));
            found.coordinates = found.coordinates.or(position);
            found.asn = found.asn.or(record.autonomous_system_number);
        }
        match result.network() {
            Ok(network) if network.is_ipv4() == address.is_ipv4() => network.prefix(),
            // The whole family has no branch of its own.
            Ok(_) | Err(_) => 0,
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.name).field("kind", &self.kind()).finish()
    }
}

/// What is read of a record; everything else is skipped. Nothing is copied out of the database.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    continent: Option<Continent<'a>>,
    #[serde(borrow)]
    country: Option<Coded<'a>>,
    #[serde(borrow)]
    registered_country: Option<Coded<'a>>,
    #[serde(borrow)]
    subdivisions: Option<First<Coded<'a>>>,
    #[serde(borrow)]
    city: Option<City<'a>>,
    location: Option<Position>,
    autonomous_system_number: Option<u32>,
}

#[derive(Deserialize)]
struct Continent<'a> {
    code: Option<&'a str>,
}

#[derive(Clone, Copy, Deserialize)]
struct Coded<'a> {
    iso_code: Option<&'a str>,
}

#[derive(Deserialize)]
struct City<'a> {
    #[serde(borrow)]
    names: Option<Names<'a>>,
}

#[derive(Deserialize)]
struct Names<'a> {
    en: Option<&'a str>,
}

#[derive(Deserialize)]
struct Position {
    latitude: Option<f64>,
    longitude: Option<f64>,
}

/// The first member of a list: of a place's subdivisions the largest.
struct First<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FirstOf(PhantomData))
    }
}

struct FirstOf<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FirstOf<T> {
    type Value = First<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let first = list.next_element()?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(First(first))
    }
}
