//! Where prefixes and sites are.

use super::faults::refused;
use super::{and, folder, with};
use crate::{Config, Coordinates, Place};
use std::path::PathBuf;

fn load(text: &str) -> Config {
    folder(text).load(None).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_place_has_names_a_point_and_networks() {
    let config = load(&with(
        "name = \"fra\"\n",
        "name = \"fra\"\nlocation = [\"EU\", \"DE\", \"*\", \"Frankfurt\"]\ncoordinates = \"50.11, 8.68\"\nasns = [64500, 64501]\n",
    ));
    let words = [Some("EU"), Some("DE"), None, Some("Frankfurt")].map(|q| q.map(str::to_owned));
    let place = Place {
        qualifiers: words.to_vec(),
        coordinates: Coordinates::new(50.11, 8.68),
        asns: vec![64500, 64501],
    };
    assert_eq!(config.sites[0].place, place);
    assert!(load(super::SMALL).sites[0].place.is_empty());
}

#[test]
fn prefixes_and_databases_stand_in_their_order() {
    let config = load(&and(
        "[proximity]\ndatabases = [\"geo/{site}.mmdb\", \"asn.mmdb\"]\n[[locations]]\nprefixes = [\"192.0.2.0/24\", \"2001:db8::\"]\nlocation = [\"EU\"]\n",
    ));
    assert_eq!(config.databases, [PathBuf::from("geo/fra.mmdb"), PathBuf::from("asn.mmdb")]);
    let prefixes: Vec<String> = config.locations[0].prefixes.iter().map(ToString::to_string).collect();
    assert_eq!(prefixes, ["192.0.2.0/24", "2001:db8::/128"]);
}

#[test]
fn what_says_nothing_or_the_same_twice_is_refused() {
    refused(
        &and("[[locations]]\nprefixes = [\"192.0.2.0/24\", \"192.0.2.0/24\"]\nlocation = [\"*\"]\n"),
        &[
            "33:29: locations[0].prefixes[1]: '192.0.2.0/24' stands at gslb.toml:33 already",
            "34:12: locations[0].location: ends with \"*\": leave it out",
        ],
    );
    refused(
        &and("[[locations]]\nprefixes = []\n"),
        &[
            "32:1: locations[0].location: says nothing: give `location`, `coordinates` or `asns`",
            "33:12: locations[0].prefixes: must name one prefix at least",
        ],
    );
    refused(
        &and(
            "[[locations]]\nprefixes = [\"192.0.2.1/24\"]\nlocation = [\"a\", \"b\", \"c\", \"d\", \"e\"]\ncoordinates = \"91, 0\"\nasns = [1, 2]\n",
        ),
        &[
            "33:13: locations[0].prefixes[0]: '192.0.2.1/24' has bits beyond its length, write '192.0.2.0/24'",
            "34:33: locations[0].location[4]: is one too many: continent, country, region and city",
            "35:15: locations[0].coordinates: is no point on the earth; write degrees north and east, as in \"50.11, 8.68\"",
            "36:8: locations[0].asns: a prefix belongs to one autonomous system",
        ],
    );
}

#[test]
fn places_must_match_where_they_are_given() {
    let plain = load(super::SMALL).group;
    assert!(plain.must_match.iter().all(|(name, _)| name != "locations"));
    let hash = |text: &str| load(text).group.must_match;
    let site = hash(&with("name = \"fra\"\n", "name = \"fra\"\nlocation = [\"EU\"]\n"));
    let differs: Vec<&str> =
        plain.must_match.iter().zip(&site).filter(|(a, b)| a != b).map(|(a, _)| a.0.as_str()).collect();
    assert_eq!(differs, ["sites"]);
    let located = hash(&and("[[locations]]\nprefixes = [\"192.0.2.0/24\"]\nlocation = [\"EU\"]\n"));
    assert_eq!(located.last().map(|(name, _)| name.as_str()), Some("locations"));
}
