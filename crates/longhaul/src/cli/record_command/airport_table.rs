//! Locations of cities: airports with an IATA code.
//!
//! The table is from the package airportsdata (MIT licence, see places/LICENSE). A city may be named with the code of its airport, as in `Chicago (ORD)`.

use geographiclib_rs::{Geodesic, InverseGeodesic};
use longhaul_analysis::claim_check::city_distance::{CityDistance, CityLocator};

const TABLE: &str = include_str!("../../../places/airports.csv");

/// An airport with its IATA code.
#[derive(Debug, Clone)]
pub struct AirportLocation {
    pub code: &'static str,
    pub latitude: f64,
    pub longitude: f64,
    pub city: &'static str,
}

pub struct AirportTable(Vec<AirportLocation>);

impl AirportTable {
    pub fn read() -> AirportTable {
        AirportTable(TABLE.lines().skip(1).filter_map(parse_airport).collect())
    }

    pub fn find_code(&self, code: &str) -> Option<&AirportLocation> {
        self.0.iter().find(|place| place.code == code)
    }

    /// Returns the airports of all cities of that name, or the one airport of `City (CODE)`.
    pub fn find_city(&self, city: &str) -> Vec<&AirportLocation> {
        let coded = city.trim().strip_suffix(')');
        if let Some((_, code)) = coded.and_then(|it| it.rsplit_once('(')) {
            return self.find_code(code.trim()).into_iter().collect();
        }
        let name = city.trim().to_lowercase();
        let places = self.0.iter();
        places.filter(|it| it.city.to_lowercase() == name).collect()
    }
}

/// Parses `code;latitude;longitude;country;city`.
fn parse_airport(line: &'static str) -> Option<AirportLocation> {
    let fields: Vec<&str> = line.splitn(5, ';').collect();
    Some(AirportLocation {
        code: fields.first()?,
        latitude: fields.get(1)?.parse().ok()?,
        longitude: fields.get(2)?.parse().ok()?,
        city: fields.get(4)?,
    })
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
        assert!(airports.0.len() > 7000);
        let over_the_ocean = airports.between("Chicago (ORD)", "Geneva");
        let metres = over_the_ocean.expect("both are known").metres;
        assert!((metres - 7_074e3).abs() < 1e3, "{metres}");
        let valid = |place: &AirportLocation| {
            place.latitude.abs() <= 90.0 && place.longitude.abs() <= 180.0
        };
        assert!(airports.0.iter().all(valid));
    }
}
