//! Locations of cities: airports with an IATA code.
//!
//! `cargo xtask airports` makes the table from the package airportsdata (MIT licence, see
//! places/LICENSE). A city may be named with the code of its airport, as in `Chicago (ORD)`.

use geographiclib_rs::{Geodesic, InverseGeodesic};
use longhaul_analysis::claim_check::city_distance::{CityDistance, CityLocator};
use std::collections::HashMap;

const TABLE: &str = include_str!("../../../places/airports.csv");

/// An airport with its IATA code.
#[derive(Debug, Clone)]
pub struct AirportLocation {
    pub code: &'static str,
    pub latitude: f64,
    pub longitude: f64,
    /// The ISO 3166 country code.
    pub country: &'static str,
    pub city: &'static str,
}

pub struct AirportTable {
    by_code: HashMap<&'static str, AirportLocation>,
    codes_of: HashMap<String, Vec<&'static str>>,
}

impl AirportTable {
    pub fn read() -> AirportTable {
        let mut airports = AirportTable {
            by_code: HashMap::new(),
            codes_of: HashMap::new(),
        };
        for line in TABLE.lines().skip(1) {
            if let Some(place) = parse_airport(line) {
                let codes = airports.codes_of.entry(place.city.to_lowercase());
                codes.or_default().push(place.code);
                airports.by_code.insert(place.code, place);
            }
        }
        airports
    }
}

/// Parses `code;latitude;longitude;country;city`.
fn parse_airport(line: &'static str) -> Option<AirportLocation> {
    let mut fields = line.splitn(5, ';');
    let code = fields.next()?;
    let latitude = fields.next()?.parse().ok()?;
    let longitude = fields.next()?.parse().ok()?;
    Some(AirportLocation {
        code,
        latitude,
        longitude,
        country: fields.next()?,
        city: fields.next()?,
    })
}

impl AirportTable {
    pub fn find_code(&self, code: &str) -> Option<&AirportLocation> {
        self.by_code.get(code)
    }

    /// Returns the airports of a city, in any order, including all cities of that name.
    pub fn find_city(&self, city: &str) -> Vec<&AirportLocation> {
        let coded = city.trim().strip_suffix(')');
        let (name, code) = match coded.and_then(|it| it.rsplit_once('(')) {
            Some((name, code)) => (name.trim(), Some(code.trim())),
            None => (city.trim(), None),
        };
        let codes = match code {
            Some(code) => vec![code],
            None => self
                .codes_of
                .get(&name.to_lowercase())
                .cloned()
                .unwrap_or_default(),
        };
        let places = codes.into_iter();
        places.filter_map(|code| self.by_code.get(code)).collect()
    }
}

/// Distances on WGS84 (Karney 2013), between the nearest two airports of two cities.
impl CityLocator for AirportTable {
    fn between(&self, from: &str, to: &str) -> Option<CityDistance> {
        let wgs84 = Geodesic::wgs84();
        let ends = self.find_city(to);
        let all = self.find_city(from).into_iter().flat_map(|a| {
            let ends = ends.clone();
            ends.into_iter().map(move |b| (a, b))
        });
        let lengths = all.map(|(a, b)| CityDistance {
            metres: wgs84.inverse(a.latitude, a.longitude, b.latitude, b.longitude),
            points: format!("{}-{}", a.code, b.code),
        });
        lengths.min_by(|a, b| a.metres.total_cmp(&b.metres))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cities_are_found_by_name_and_by_code() {
        let airports = AirportTable::read();
        let codes = |city: &str| {
            let mut codes: Vec<&str> = airports.find_city(city).iter().map(|it| it.code).collect();
            codes.sort_unstable();
            codes
        };
        assert_eq!(codes("geneva"), ["GVA"]);
        assert!(codes("Chicago").contains(&"MDW"));
        assert_eq!(codes("Chicago (ORD)"), ["ORD"]);
        assert!(codes("Atlantis").is_empty() && codes("X (???)").is_empty());
        assert!(airports.by_code.len() > 7000);
        let over_the_ocean = airports.between("Chicago (ORD)", "Geneva");
        let metres = over_the_ocean.expect("both are known").metres;
        assert!((metres - 7_074e3).abs() < 1e3, "{metres}");
        let valid = |place: &AirportLocation| {
            place.latitude.abs() <= 90.0 && place.longitude.abs() <= 180.0
        };
        assert!(airports.by_code.values().all(valid));
    }
}
