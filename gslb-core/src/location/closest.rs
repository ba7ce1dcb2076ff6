//! Which of some sites is closest to a place.

use super::{Found, Locations};
use arrayvec::ArrayVec;
use config::Place;
use gslb_types::{MAX_SITES, SiteIndex};

/// The sites closest to a place, in the order they were given: more than one if they are equally close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closest {
    /// Which.
    pub sites: ArrayVec<SiteIndex, MAX_SITES>,
    /// How close.
    pub by: Closeness,
}

/// How close a site is to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closeness {
    /// The site lists the autonomous system of the place.
    Asn(u32),
    /// So many kilometres.
    Distance(u32),
    /// So many qualifiers in a row are the same, from the continent down.
    Qualifiers(u8),
}

impl Locations {
    /// Which of `sites` are closest to what was found of an address: those that list its autonomous system; else, if the
    /// coordinates of the place and of all the sites are known, the nearest to the kilometre; else those that share the most
    /// qualifiers with it, of which one at least. `None` if none of this says anything.
    pub fn closest(
        &self,
        sites: impl Iterator<Item = SiteIndex> + Clone,
        found: &Found<'_>,
    ) -> Option<Closest> {
        let places = sites.map(|site| (site, self.sites.get(site.get())));
        if let Some(asn) = found.asn {
            let lists = |place: Option<&Place>| place.is_some_and(|p| p.asns.contains(&asn));
            let listing: ArrayVec<SiteIndex, MAX_SITES> = places
                .clone()
                .filter(|(_, place)| lists(*place))
                .map(|(site, _)| site)
                .take(MAX_SITES)
                .collect();
            if !listing.is_empty() {
                return Some(Closest { sites: listing, by: Closeness::Asn(asn) });
            }
        }
        if let Some(here) = found.coordinates {
            let distances =
                places.clone().map(|(site, place)| Some((site, place?.coordinates?.kilometres_to(here))));
            let distances: Option<ArrayVec<(SiteIndex, u32), MAX_SITES>> =
                distances.take(MAX_SITES).collect();
            if let Some(distances) = distances
                && let Some(least) = distances.iter().map(|(_, distance)| *distance).min()
            {
                let nearest = distances.iter().filter(|(_, distance)| *distance == least);
                let sites = nearest.map(|(site, _)| *site).collect();
                return Some(Closest { sites, by: Closeness::Distance(least) });
            }
        }
        let shared = places.map(|(site, place)| (site, place.map_or(0, |place| shared(place, found))));
        let most = shared.clone().map(|(_, shared)| shared).max().filter(|most| *most > 0)?;
        let sites =
            shared.filter(|(_, shared)| *shared == most).map(|(site, _)| site).take(MAX_SITES).collect();
        Some(Closest { sites, by: Closeness::Qualifiers(most) })
    }
}

/// How many qualifiers in a row, from the continent down, are the same. One that the site leaves open counts as the same.
fn shared(site: &Place, found: &Found<'_>) -> u8 {
    let pairs = site.qualifiers.iter().zip(&found.qualifiers);
    let same = pairs.take_while(|(here, there)| match (here, there) {
        (None, there) => there.is_some(),
        (Some(here), Some(there)) => here.eq_ignore_ascii_case(there),
        (Some(_), None) => false,
    });
    // No more than there are qualifiers.
    u8::try_from(same.count()).unwrap_or(u8::MAX)
}
