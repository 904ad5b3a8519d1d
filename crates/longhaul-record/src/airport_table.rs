//! Locations of cities: airports with an IATA code.
//!
//! The table is from the package airportsdata (MIT licence, see places/LICENSE). A city may be named
//! with the code of its airport, as in `Chicago (ORD)`.

use crate::record_conclusion::{GeoPoint, geodesic_metres};

const TABLE: &str = include_str!("../places/airports.csv");

/// An airport with its IATA code.
#[derive(Debug, Clone)]
pub struct AirportLocation {
    pub code: &'static str,
    pub point: GeoPoint,
    pub city: &'static str,
}

pub struct AirportTable(Vec<AirportLocation>);

/// The distance between the nearest two airports of two cities.
pub struct CityDistance {
    pub metres: f64,
    /// The airports, such as `LAX-SJC`.
    pub points: String,
}

impl AirportTable {
    pub fn read() -> AirportTable {
        AirportTable(TABLE.lines().skip(1).filter_map(parse_airport).collect())
    }

    pub fn find_code(&self, code: &str) -> Option<&AirportLocation> {
        self.0.iter().find(|place| place.code == code)
    }

    /// Returns the airports of all cities of that name, or the one airport of `City (CODE)`.
    pub fn find_city(&self, city: &str) -> Vec<&AirportLocation> {
        let (name, code) = split_code(city);
        if let Some(code) = code {
            return self.find_code(code).into_iter().collect();
        }
        let name = name.to_lowercase();
        let places = self.0.iter();
        places.filter(|it| it.city.to_lowercase() == name).collect()
    }

    /// Returns the distance between two cities; `None` if one of them is unknown.
    pub fn measure_cities(&self, from: &str, to: &str) -> Option<CityDistance> {
        let ends = self.find_city(to);
        let starts = self.find_city(from);
        let pairs = starts.iter().flat_map(|a| ends.iter().map(move |b| (a, b)));
        let lengths = pairs.map(|(a, b)| CityDistance {
            metres: geodesic_metres(a.point, b.point),
            points: format!("{}-{}", a.code, b.code),
        });
        lengths.min_by(|a, b| a.metres.total_cmp(&b.metres))
    }
}

/// Splits `City (CODE)`; the code may be absent.
pub fn split_code(city: &str) -> (&str, Option<&str>) {
    let coded = city.trim().strip_suffix(')').and_then(|it| it.rsplit_once('('));
    coded.map_or((city.trim(), None), |(name, code)| (name.trim(), Some(code.trim())))
}

/// Parses `code;latitude;longitude;country;city`.
fn parse_airport(line: &'static str) -> Option<AirportLocation> {
    let fields: Vec<&str> = line.splitn(5, ';').collect();
    Some(AirportLocation {
        code: fields.first()?,
        point: (fields.get(1)?.parse().ok()?, fields.get(2)?.parse().ok()?),
        city: fields.get(4)?,
    })
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
        let over_the_ocean = airports.measure_cities("Chicago (ORD)", "Geneva");
        let metres = over_the_ocean.expect("both are known").metres;
        assert!((metres - 7_074e3).abs() < 1e3, "{metres}");
        let valid =
            |place: &AirportLocation| place.point.0.abs() <= 90.0 && place.point.1.abs() <= 180.0;
        assert!(airports.0.iter().all(valid));
    }
}
