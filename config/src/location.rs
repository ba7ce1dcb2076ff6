//! Where prefixes and sites are: `[[locations]]`, `[proximity]`, and the places of `[[sites]]`.

use crate::group::Overrides;
use crate::reader::{Item, Table};
use crate::settings;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How many qualifiers a place has at most: continent, country, region and city.
pub const QUALIFIERS: usize = 4;

/// Where something is, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Continent, country, region and city, from the widest down; `None` stands for any.
    pub qualifiers: Vec<Option<String>>,
    /// Latitude and longitude.
    pub coordinates: Option<Coordinates>,
    /// Autonomous systems: of a prefix the one it belongs to, of a site those whose clients are its own.
    pub asns: Vec<u32>,
}

impl Place {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.qualifiers.is_empty() && self.coordinates.is_none() && self.asns.is_empty()
    }
}

/// A point on the earth, to a ten-thousandth of a degree: 11 m.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coordinates {
    latitude: i32,
    longitude: i32,
}

/// Parts of a degree that are told apart.
const STEPS: f64 = 10_000.0;

/// Mean radius of the earth (IUGG).
const EARTH_KM: f64 = 6371.0;

impl Coordinates {
    /// The point at these degrees: latitude -90 to 90, north positive; longitude -180 to 180, east positive.
    pub fn new(latitude: f64, longitude: f64) -> Option<Self> {
        let within = (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude);
        within.then(|| Coordinates { latitude: steps(latitude), longitude: steps(longitude) })
    }

    /// Degrees north.
    pub fn latitude(self) -> f64 {
        f64::from(self.latitude) / STEPS
    }

    /// Degrees east.
    pub fn longitude(self) -> f64 {
        f64::from(self.longitude) / STEPS
    }

    /// The way along the great circle, in whole kilometres (haversine: exact for near points, too).
    pub fn kilometres_to(self, other: Coordinates) -> u32 {
        let (a, b) = (self.latitude().to_radians(), other.latitude().to_radians());
        let half_sine = |angle: f64| (angle / 2.0).sin().powi(2);
        let east = (other.longitude() - self.longitude()).to_radians();
        let chord = half_sine(b - a) + a.cos() * b.cos() * half_sine(east);
        // Half the circumference at most: 20,015 km.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 20,015")]
        let kilometres = (2.0 * EARTH_KM * chord.clamp(0.0, 1.0).sqrt().asin()).round() as u32;
        kilometres
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most 1,800,000")]
fn steps(degrees: f64) -> i32 {
    (degrees * STEPS).round() as i32
}

/// Prefixes of which the configuration says where they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// Which: truncated, none of them given twice in the whole configuration.
    pub prefixes: Vec<IpNet>,
    /// Where.
    pub place: Place,
}

/// The databases in MaxMind's format, in the order of their precedence.
pub(crate) fn databases(table: &Table<'_>, own: &Overrides) -> Vec<PathBuf> {
    table.distinct("databases", |item| own.path(item))
}

pub(crate) fn locations(tables: &[Table<'_>]) -> Vec<Location> {
    let mut given: BTreeMap<IpNet, String> = BTreeMap::new();
    let mut locations = Vec::new();
    for t in tables {
        let mut prefixes = Vec::new();
        for item in t.item("prefixes").and_then(Item::into_list).unwrap_or_default() {
            let Some(prefix) = item.parsed(settings::prefix) else { continue };
            match given.get(&prefix) {
                Some(place) => item.refuse(format!("'{prefix}' stands at {place} already")),
                None => prefixes.push(prefix),
            }
            given.entry(prefix).or_insert_with(|| item.spot().file_and_line());
        }
        if t.gives_empty_list("prefixes") {
            t.refuse("prefixes", "must name one prefix at least");
        }
        let place = place(t);
        if place.is_empty() {
            t.refuse("location", "says nothing: give `location`, `coordinates` or `asns`");
        }
        if place.asns.len() > 1 {
            t.refuse("asns", "a prefix belongs to one autonomous system");
        }
        locations.push(Location { prefixes, place });
    }
    locations
}

/// The keys `location`, `coordinates` and `asns`, which prefixes and sites have alike.
pub(crate) fn place(t: &Table<'_>) -> Place {
    let items = t.item("location").and_then(Item::into_list).unwrap_or_default();
    if let Some(beyond) = items.get(QUALIFIERS) {
        beyond.refuse("is one too many: continent, country, region and city");
    }
    let qualifiers: Vec<Option<String>> = items.iter().filter_map(|item| item.parsed(qualifier)).collect();
    if qualifiers.last().is_some_and(Option::is_none) {
        t.refuse("location", "ends with \"*\": leave it out");
    }
    let coordinates = t.item("coordinates").and_then(|item| item.parsed(coordinates));
    let asns = t.distinct("asns", |item| item.number(1..=u32::MAX));
    Place { qualifiers, coordinates, asns }
}

fn qualifier(text: &str) -> Result<Option<String>, &'static str> {
    match text.trim() {
        "" => Err("is empty; \"*\" stands for any"),
        "*" => Ok(None),
        word => Ok(Some(word.to_owned())),
    }
}

fn coordinates(text: &str) -> Result<Coordinates, &'static str> {
    let degrees = |text: &str| text.trim().parse::<f64>().ok();
    let point =
        text.split_once(',').and_then(|(north, east)| Coordinates::new(degrees(north)?, degrees(east)?));
    point.ok_or("is no point on the earth; write degrees north and east, as in \"50.11, 8.68\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_great_circle() {
        let at = |text| coordinates(text).unwrap();
        let frankfurt = at("50.1109, 8.6821");
        assert_eq!(frankfurt.kilometres_to(at("52.3676, 4.9041")), 363, "Amsterdam");
        assert_eq!(frankfurt.kilometres_to(at("1.3521, 103.8198")), 10_258, "Singapore");
        assert_eq!(at("0, 179.5").kilometres_to(at("0,-179.5")), 111, "over the date line");
        assert_eq!(at("90, 0").kilometres_to(at("-90, 0")), 20_015);
        assert_eq!(frankfurt.kilometres_to(frankfurt), 0);
    }

    #[test]
    fn a_point_lies_on_the_earth() {
        for bad in ["", "50.1", "91, 0", "0, 181", "NaN, 0", "50.1; 8.7", "a, b"] {
            assert!(coordinates(bad).is_err(), "{bad}");
        }
    }
}
