//! Claims about places: who has the word, which site is closest, and how far an answer reaches.

use super::{Closeness, Database, Found, Locations, Origin};
use config::{Config, Coordinates, Place};
use gslb_types::SiteIndex;
use ipnet::{IpNet, Ipv4Net};
use mmdb_writer::Writer;
use proptest::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Frankfurt and Amsterdam with qualifiers and coordinates; Singapore is where the databases put its service.
const TEXT: &str = r#"
version = 1
node = "fra/1"

[[locations]]
prefixes = ["10.0.0.0/8", "2001:db8::/32"]
location = ["EU", "NL"]

[[locations]]
prefixes = ["10.1.0.0/16"]
location = ["EU", "DE", "*", "Aachen"]
coordinates = "50.78, 6.08"

[[locations]]
prefixes = ["10.2.0.0/16"]
asns = [64501]

[[sites]]
name = "fra"
location = ["EU", "DE", "HE", "Frankfurt am Main"]
coordinates = "50.11, 8.68"

[[sites]]
name = "ams"
location = ["EU", "nl", "*", "Amsterdam"]
coordinates = "52.37, 4.90"
asns = [64501]

[[sites]]
name = "sin"

[[nodes]]
name = "fra/1"
mep = "127.0.0.1:4353"

[[services]]
name = "web-sin"
site = "sin"
address = "203.0.113.80"
port = 80
"#;

fn config() -> Config {
    let read = |_: &Path| Ok(TEXT.as_bytes().to_vec());
    config::load(Path::new("gslb.toml"), &mut { read }, None).unwrap_or_else(|e| panic!("{e}"))
}

#[derive(Serialize)]
struct Record {
    continent: BTreeMap<&'static str, &'static str>,
    country: BTreeMap<&'static str, &'static str>,
    subdivisions: Vec<BTreeMap<&'static str, &'static str>>,
    city: BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>,
    location: BTreeMap<&'static str, f64>,
}

fn record(codes: [&'static str; 4], latitude: f64, longitude: f64) -> Record {
    let [continent, country, region, city] = codes;
    Record {
        continent: BTreeMap::from([("code", continent)]),
        country: BTreeMap::from([("iso_code", country)]),
        subdivisions: vec![BTreeMap::from([("iso_code", region)]), BTreeMap::from([("iso_code", "X9")])],
        city: BTreeMap::from([("names", BTreeMap::from([("de", "anders"), ("en", city)]))]),
        location: BTreeMap::from([("latitude", latitude), ("longitude", longitude)]),
    }
}

fn cities() -> Database {
    let mut writer = Writer::new("GeoLite2-City");
    let singapore = record(["AS", "SG", "01", "Singapore"], 1.35, 103.82);
    writer.insert("203.0.113.0/24".parse::<IpNet>().unwrap(), &singapore).unwrap();
    let paris = record(["EU", "FR", "75C", "Paris"], 48.86, 2.35);
    writer.insert("198.51.100.0/24".parse::<IpNet>().unwrap(), &paris).unwrap();
    writer.insert("2001:db8:f::/48".parse::<IpNet>().unwrap(), &paris).unwrap();
    writer.insert("2a00::/12".parse::<IpNet>().unwrap(), &paris).unwrap();
    Database::new("city.mmdb", writer.to_bytes().unwrap()).unwrap()
}

fn systems() -> Database {
    let mut writer = Writer::new("GeoLite2-ASN");
    let system = BTreeMap::from([("autonomous_system_number", 64501_u32)]);
    writer.insert("198.51.100.128/25".parse::<IpNet>().unwrap(), &system).unwrap();
    Database::new("asn.mmdb", writer.to_bytes().unwrap()).unwrap()
}

fn locations() -> Locations {
    Locations::new(&config(), vec![cities(), systems()])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The sites closest to an address, and why.
fn closest(locations: &Locations, address: &str) -> Option<(Vec<usize>, Closeness)> {
    let sites = (0..3).filter_map(SiteIndex::new);
    let closest = locations.closest(sites, &locations.find(ip(address)))?;
    Some((closest.sites.iter().map(|site| site.get()).collect(), closest.by))
}

#[test]
fn configuration_outranks_the_databases_and_the_longest_prefix_the_others() {
    let locations = locations();
    let aachen = locations.find(ip("10.1.2.3"));
    assert_eq!(aachen.qualifiers, [Some("EU"), Some("DE"), None, Some("Aachen")]);
    assert_eq!((aachen.coordinates, aachen.origin), (Coordinates::new(50.78, 6.08), Origin::Configured));
    assert_eq!(locations.find(ip("10.3.0.0")).qualifiers, [Some("EU"), Some("NL"), None, None]);
    assert_eq!(locations.find(ip("2001:db8:f::1")).qualifiers[1], Some("NL"), "not the database's France");
}

#[test]
fn each_database_adds_what_those_before_it_do_not_know() {
    let locations = locations();
    let found = locations.find(ip("198.51.100.200"));
    let qualifiers = [Some("EU"), Some("FR"), Some("75C"), Some("Paris")];
    let coordinates = Coordinates::new(48.86, 2.35);
    let whole = Found { qualifiers, coordinates, asn: Some(64501), covers: 25, origin: Origin::Database };
    assert_eq!(found, whole);
    assert_eq!(locations.find(ip("198.51.100.7")), Found { asn: None, ..whole });
    assert_eq!(locations.find(ip("192.0.2.1")).origin, Origin::Unknown);
}

#[test]
fn a_site_without_a_place_of_its_own_is_where_its_services_are() {
    let locations = locations();
    let singapore = Place {
        qualifiers: ["AS", "SG", "01", "Singapore"].map(|q| Some(q.to_owned())).to_vec(),
        coordinates: Coordinates::new(1.35, 103.82),
        asns: Vec::new(),
    };
    assert_eq!(locations.sites()[2], singapore);
    assert!(Locations::new(&config(), Vec::new()).sites()[2].is_empty());
}

#[test]
fn the_network_goes_before_distance_and_distance_before_names() {
    let locations = locations();
    assert_eq!(closest(&locations, "10.2.0.1"), Some((vec![1], Closeness::Asn(64501))));
    assert_eq!(closest(&locations, "198.51.100.200"), Some((vec![1], Closeness::Asn(64501))));
    // Aachen is nearer to Amsterdam, though it lies in Germany.
    assert_eq!(closest(&locations, "10.1.0.1"), Some((vec![1], Closeness::Distance(195))));
    assert_eq!(closest(&locations, "198.51.100.7"), Some((vec![1], Closeness::Distance(430))), "Paris");
    // No coordinates of the client: names, whatever their case, and what a site leaves open fits only a known region.
    assert_eq!(closest(&locations, "10.3.0.1"), Some((vec![1], Closeness::Qualifiers(2))));
    assert_eq!(closest(&locations, "192.0.2.1"), None, "nothing is known");
}

#[test]
fn where_one_site_has_no_coordinates_names_decide() {
    let locations = Locations::new(&config(), Vec::new());
    assert_eq!(closest(&locations, "10.1.0.1"), Some((vec![0], Closeness::Qualifiers(2))), "Germany");
    let found = Found { qualifiers: [Some("EU"), Some("FR"), None, None], ..Found::default() };
    let sites = (0..3).filter_map(SiteIndex::new);
    let both = locations.closest(sites.clone(), &found).unwrap();
    assert_eq!((both.sites.len(), both.by), (2, Closeness::Qualifiers(1)), "Europe");
    let elsewhere = Found { qualifiers: [Some("OC"), None, None, None], ..Found::default() };
    assert_eq!(locations.closest(sites, &elsewhere), None, "nobody shares the continent");
}

#[test]
fn an_answer_reaches_as_far_as_the_same_is_known_and_no_farther() {
    let locations = locations();
    let covers = |address| locations.find(ip(address)).covers;
    assert_eq!(covers("10.1.2.3"), 16);
    // 10/8 without 10.1/16 and 10.2/16: 10.3.x lies beside 10.2/16, the upper half is free.
    assert_eq!(covers("10.3.0.1"), 16);
    assert_eq!(covers("10.200.0.1"), 9);
    assert_eq!(covers("198.51.100.7"), 25, "the other half belongs to an AS that a database knows");
    // Within 2000::/11 nothing is known of this address, but 2a00::/12 lies close.
    assert_eq!(covers("2a10::1"), 12);
    let asked = locations.find_prefix("10.0.0.0/7".parse().unwrap());
    assert_eq!(asked.covers, 7, "whoever asks for more gets no less");
}

#[test]
fn what_is_no_database_is_refused_by_its_name() {
    let whole = {
        let mut writer = Writer::new("GeoLite2-City");
        let record = record(["EU", "DE", "HE", "Fulda"], 50.55, 9.68);
        writer.insert("198.51.100.0/24".parse::<IpNet>().unwrap(), &record).unwrap();
        writer.to_bytes().unwrap()
    };
    let error = Database::new("geo/city.mmdb", b"something else".to_vec()).unwrap_err().to_string();
    assert!(error.starts_with("geo/city.mmdb is no database in MaxMind's format"), "{error}");
    assert!(Database::new("half", whole[whole.len() / 2..whole.len() - 40].to_vec()).is_err());
}

proptest! {
    /// Whatever a broken file holds, looking into it ends, and ends well.
    #[test]
    fn broken_databases_know_less_and_harm_nobody(at in 0_usize..400, byte: u8, address: u32) {
        let mut bytes = {
            let mut writer = Writer::new("GeoLite2-City");
            let record = record(["EU", "DE", "HE", "Fulda"], 50.55, 9.68);
            writer.insert("0.0.0.0/1".parse::<IpNet>().unwrap(), &record).unwrap();
            writer.to_bytes().unwrap()
        };
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(database) = Database::new("broken", bytes) {
            let mut found = Found::default();
            let covers = database.add_to(&mut found, IpAddr::V4(Ipv4Addr::from(address)));
            prop_assert!(covers <= 128);
        }
    }

    /// Every address within what an answer is said to cover has the same place.
    #[test]
    fn what_is_covered_is_the_same(
        prefixes in proptest::collection::vec((any::<u32>(), 1_u8..=8), 0..12),
        address: u32,
        other: u32,
    ) {
        let mut map = super::Prefixes::default();
        for (index, (address, len)) in prefixes.iter().enumerate() {
            let prefix = Ipv4Net::new(Ipv4Addr::from(*address), *len).unwrap();
            map.insert(IpNet::V4(prefix), index);
        }
        let (found, covers) = map.find(IpAddr::V4(Ipv4Addr::from(address)));
        let covered = Ipv4Net::new(Ipv4Addr::from(address), covers).unwrap().trunc();
        let within = u32::from(covered.network()) | (other & u32::from(covered.hostmask()));
        prop_assert_eq!(map.find(IpAddr::V4(Ipv4Addr::from(within))), (found, covers));
    }
}
