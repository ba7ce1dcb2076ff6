//! Where addresses are, and which site is closest to one by that: for static proximity (behaviour 6).
//!
//! What the configuration says of a prefix outranks the databases, and of those the first that knows a field has the word.
//! Nothing here is measured and nothing is exchanged: nodes with equal files find equal places.

mod closest;
mod database;
mod prefixes;

pub use closest::{Closeness, Closest};
use config::{Config, Coordinates, Place, QUALIFIERS};
pub use database::{Database, DatabaseError};
use ipnet::IpNet;
use prefixes::Prefixes;
use std::net::IpAddr;

/// What is known of where addresses and sites are.
#[derive(Debug, Default)]
pub struct Locations {
    configured: Prefixes,
    places: Vec<Place>,
    databases: Vec<Database>,
    /// By site index.
    sites: Vec<Place>,
}

/// Where an address is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found<'a> {
    /// Continent, country, region and city, as far as known.
    pub qualifiers: [Option<&'a str>; QUALIFIERS],
    /// Latitude and longitude.
    pub coordinates: Option<Coordinates>,
    /// The autonomous system it is announced by.
    pub asn: Option<u32>,
    /// The length of the widest prefix around the address of which all of this is true: the scope of an answer that goes by it
    /// (RFC 7871 section 7.2.1).
    pub covers: u8,
    /// Who says so.
    pub origin: Origin,
}

/// Who knows where an address is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody.
    #[default]
    Unknown,
    /// `[[locations]]` of the configuration.
    Configured,
    /// One or more databases.
    Database,
}

impl Locations {
    /// What `config` says, completed by the databases in the order of their precedence.
    ///
    /// A site without a `location` or `coordinates` of its own is where the databases put the first of its services that they
    /// know.
    pub fn new(config: &Config, databases: Vec<Database>) -> Self {
        let mut locations = Locations { databases, ..Locations::default() };
        for location in &config.locations {
            for prefix in &location.prefixes {
                locations.configured.insert(*prefix, locations.places.len());
            }
            locations.places.push(location.place.clone());
        }
        locations.sites = (0..config.sites.len()).map(|site| locations.place_of(config, site)).collect();
        locations
    }

    fn place_of(&self, config: &Config, site: usize) -> Place {
        let configured = config.sites.get(site).map(|site| &site.place);
        if let Some(place) = configured.filter(|place| !place.is_empty()) {
            return place.clone();
        }
        let here = config.services.iter().filter(|service| service.site.get() == site);
        let found = here.map(|service| self.find(service.address)).find(|found| !found.is_nowhere());
        found.map(Found::into_place).unwrap_or_default()
    }

    /// Where the sites are, by index.
    pub fn sites(&self) -> &[Place] {
        &self.sites
    }

    /// The databases, in the order of their precedence.
    pub fn databases(&self) -> &[Database] {
        &self.databases
    }

    /// Where `address` is.
    pub fn find(&self, address: IpAddr) -> Found<'_> {
        let (place, mut covers) = self.configured.find(address);
        if let Some(place) = place.and_then(|index| self.places.get(index)) {
            return Found { covers, ..Found::of_place(place) };
        }
        let mut found = Found::default();
        for database in &self.databases {
            covers = covers.max(database.add_to(&mut found, address));
        }
        let origin = if found.is_nowhere() { Origin::Unknown } else { Origin::Database };
        Found { covers, origin, ..found }
    }

    /// Where the addresses of a prefix are: of one that is wider than what is known of its first address, `covers` is the
    /// length of the prefix itself, since nobody can say more narrowly whom the answer reaches (RFC 7871 section 7.1.2).
    pub fn find_prefix(&self, prefix: IpNet) -> Found<'_> {
        let found = self.find(prefix.network());
        Found { covers: found.covers.min(prefix.prefix_len()), ..found }
    }
}

impl<'a> Found<'a> {
    /// What the configuration says, of every address of its prefix.
    fn of_place(place: &'a Place) -> Self {
        let mut qualifiers = [None; QUALIFIERS];
        for (slot, qualifier) in qualifiers.iter_mut().zip(&place.qualifiers) {
            *slot = qualifier.as_deref();
        }
        let asn = place.asns.first().copied();
        Found { qualifiers, coordinates: place.coordinates, asn, covers: 0, origin: Origin::Configured }
    }

    fn into_place(self) -> Place {
        let known = self.qualifiers.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let qualifiers = self.qualifiers.iter().take(known).map(|q| q.map(str::to_owned)).collect();
        Place { qualifiers, coordinates: self.coordinates, asns: self.asn.into_iter().collect() }
    }

    /// Whether nothing is known of the place.
    pub fn is_nowhere(&self) -> bool {
        self.qualifiers.iter().all(Option::is_none) && self.coordinates.is_none() && self.asn.is_none()
    }
}

#[cfg(test)]
mod tests;
