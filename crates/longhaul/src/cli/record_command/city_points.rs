//! Finds the point that stands for a city, from user input or an imported set.
//!
//! User input must name one point: an airport by its code, a city with one airport, or coordinates.
//! If an imported set names a city with several airports, their centre is used, as long as they are
//! near each other.

use super::airport_table::{AirportLocation, AirportTable};
use longhaul_analysis::record::record_distance::compute_sphere_distance;
use longhaul_model::report::v1::record::{LegsFileStop, RecordStop, StopLocation};

/// The maximum distance between airports of one city.
const ONE_CITY_METRES: f64 = 120e3;

/// Codes of cities with several airports, used in router names (IATA metropolitan areas).
const METROPOLITAN: &[(&str, &str, &str)] = &[
    ("BJS", "Beijing", "CN"),
    ("CHI", "Chicago", "US"),
    ("LON", "London", "GB"),
    ("MIL", "Milan", "IT"),
    ("MOW", "Moscow", "RU"),
    ("NYC", "New York", "US"),
    ("OSA", "Osaka", "JP"),
    ("PAR", "Paris", "FR"),
    ("SAO", "Sao Paulo", "BR"),
    ("SEL", "Seoul", "KR"),
    ("STO", "Stockholm", "SE"),
    ("TYO", "Tokyo", "JP"),
    ("WAS", "Washington", "US"),
];
/// In New York, JFK and LGA are listed among airports of other towns of that name in the state.
const KNOWN_AIRPORTS: &[(&str, &[&str])] = &[
    ("NYC", &["JFK", "LGA"]),
    ("MOW", &["SVO", "DME", "VKO"]),
    ("WAS", &["IAD", "DCA"]),
];

/// Resolves a stop of the legs file.
pub fn resolve_stop(stop: &LegsFileStop, airports: &AirportTable) -> Result<RecordStop, String> {
    match stop {
        LegsFileStop::City(text) => resolve_city_text(text, airports),
        LegsFileStop::Place(placed) => resolve_placed_stop(placed, airports),
    }
}

/// Resolves `Chicago (ORD)`, or the name of a city with one airport.
fn resolve_city_text(text: &str, airports: &AirportTable) -> Result<RecordStop, String> {
    let coded = text.trim().strip_suffix(')');
    if let Some((city, code)) = coded.and_then(|it| it.rsplit_once('(')) {
        return resolve_airport_code(city.trim(), code.trim(), airports);
    }
    let city = text.trim();
    match airports.find_city(city).as_slice() {
        [one] => Ok(stop_at_airport(city, one)),
        [] => Err(format!(
            "no airport in {city}; name one nearby, as in `{city} (CDG)`, or give latitude \
             and longitude"
        )),
        several => {
            let codes: Vec<&str> = several.iter().map(|place| place.code).collect();
            Err(format!(
                "several airports in {city}: {}; name one, as in `{city} ({})`",
                codes.join(", "),
                codes[0]
            ))
        }
    }
}

fn resolve_airport_code(
    city: &str,
    code: &str,
    airports: &AirportTable,
) -> Result<RecordStop, String> {
    let code = code.to_uppercase();
    match airports.find_code(&code) {
        Some(place) => Ok(stop_at_airport(city, place)),
        None => Err(format!("unknown airport code {code}")),
    }
}

fn stop_at_airport(city: &str, place: &AirportLocation) -> RecordStop {
    RecordStop {
        city: city.to_owned(),
        latitude: place.latitude,
        longitude: place.longitude,
        point: format!("airport {}", place.code),
    }
}

fn resolve_placed_stop(
    placed: &StopLocation,
    airports: &AirportTable,
) -> Result<RecordStop, String> {
    let city = placed.city.trim();
    match (&placed.airport, placed.latitude, placed.longitude) {
        (Some(code), None, None) => resolve_airport_code(city, code, airports),
        (None, Some(latitude), Some(longitude)) => {
            if !(-90.0..=90.0).contains(&latitude) || !(-180.0..=180.0).contains(&longitude) {
                let why = "latitude must be -90 to 90, longitude -180 to 180";
                return Err(format!("{city}: {why}"));
            }
            let point = placed.point.clone();
            Ok(RecordStop {
                city: city.to_owned(),
                latitude,
                longitude,
                point: point.unwrap_or_else(|| "coordinates as given".to_owned()),
            })
        }
        (None, None, None) => resolve_city_text(city, airports),
        _ => Err(format!(
            "{city}: give either `airport`, or `latitude` and `longitude`"
        )),
    }
}

/// Resolves `City, CC` from an imported set. Returns `None` if the city is ambiguous.
pub fn resolve_imported_city(place: &str, airports: &AirportTable) -> Option<RecordStop> {
    let (city, country) = place.rsplit_once(", ")?;
    let there = airports.find_city(city);
    let there: Vec<&AirportLocation> = there
        .into_iter()
        .filter(|it| it.country.eq_ignore_ascii_case(country))
        .collect();
    find_airports_centre(city, &there)
}

/// Resolves a code in a router name: of an airport, or of a city with several.
pub fn resolve_router_code(code: &str, airports: &AirportTable) -> Option<RecordStop> {
    let code = code.to_uppercase();
    let city = METROPOLITAN.iter().find(|(metro, _, _)| *metro == code);
    let Some((_, city, country)) = city else {
        let place = airports.find_code(&code)?;
        let city = if place.city.is_empty() {
            place.code
        } else {
            place.city
        };
        return Some(stop_at_airport(city, place));
    };
    let known = KNOWN_AIRPORTS.iter().find(|(metro, _)| *metro == code);
    let there: Vec<&AirportLocation> = if let Some((_, codes)) = known {
        codes
            .iter()
            .filter_map(|it| airports.find_code(it))
            .collect()
    } else {
        let all = airports.find_city(city).into_iter();
        all.filter(|it| it.country == *country).collect()
    };
    find_airports_centre(city, &there)
}

/// Returns the centre of airports that are near each other.
fn find_airports_centre(city: &str, there: &[&AirportLocation]) -> Option<RecordStop> {
    let first = there.first()?;
    let at = |place: &AirportLocation| (place.latitude, place.longitude);
    let near =
        |place: &&AirportLocation| compute_sphere_distance(at(first), at(place)) <= ONE_CITY_METRES;
    if !there.iter().all(near) {
        return None;
    }
    let count = there.len() as f64;
    let mut codes: Vec<&str> = there.iter().map(|place| place.code).collect();
    codes.sort_unstable();
    let point = match codes.as_slice() {
        [code] => format!("airport {code}"),
        several => format!("centre of airports {}", several.join(", ")),
    };
    // None of the airports lies on the 180th meridian.
    Some(RecordStop {
        city: city.to_owned(),
        latitude: there.iter().map(|it| it.latitude).sum::<f64>() / count,
        longitude: there.iter().map(|it| it.longitude).sum::<f64>() / count,
        point,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<RecordStop, String> {
        resolve_stop(&LegsFileStop::City(text.to_owned()), &AirportTable::read())
    }

    #[test]
    fn a_person_must_name_one_point() {
        let chicago = text("Chicago (ord)").expect("a code");
        assert_eq!(chicago.point, "airport ORD");
        assert_eq!(chicago.city, "Chicago");
        assert_eq!(text("Geneva").expect("one airport").point, "airport GVA");
        let several = text("Chicago").expect_err("which one?");
        assert!(several.contains("MDW, ORD"), "{several}");
        assert!(text("Atlantis").expect_err("none").contains("latitude"));
        assert!(text("X (???)").expect_err("none").contains("code"));
    }

    #[test]
    fn tables_have_an_airport_or_coordinates() {
        let airports = AirportTable::read();
        let table = |airport: Option<&str>, latitude, longitude| {
            let placed = StopLocation {
                city: "Lulea".to_owned(),
                airport: airport.map(str::to_owned),
                latitude,
                longitude,
                point: None,
            };
            resolve_stop(&LegsFileStop::Place(placed), &airports)
        };
        let given = table(None, Some(65.6), Some(22.1)).expect("coordinates");
        assert_eq!(given.point, "coordinates as given");
        let airport = table(Some("LLA"), None, None).expect("an airport");
        assert!((airport.latitude - 65.54).abs() < 0.01);
        assert_eq!(table(None, None, None), Ok(airport));
        for (latitude, longitude) in [(91.0, 0.0), (0.0, f64::NAN), (0.0, 180.5)] {
            assert!(table(None, Some(latitude), Some(longitude)).is_err());
        }
        assert!(table(None, Some(1.0), None).is_err());
        assert!(table(Some("LLA"), Some(1.0), Some(1.0)).is_err());
    }

    #[test]
    fn a_set_means_the_centre_of_the_airports_of_a_city_in_its_country() {
        let airports = AirportTable::read();
        let chicago = resolve_imported_city("Chicago, US", &airports).expect("near each other");
        assert_eq!(chicago.point, "centre of airports MDW, ORD");
        assert!(resolve_imported_city("Paris, FR", &airports).is_some());
        // Two cities of one country that are far apart.
        assert_eq!(resolve_imported_city("Portland, US", &airports), None);
        assert_eq!(resolve_imported_city("Lulea", &airports), None);
        for (code, city, country) in METROPOLITAN {
            let stop =
                resolve_router_code(code, &airports).unwrap_or_else(|| panic!("{city}, {country}"));
            assert_eq!(stop.city, *city);
        }
        assert_eq!(
            resolve_router_code("sjc", &airports).expect("one").city,
            "San Jose"
        );
        assert_eq!(resolve_router_code("qqq", &airports), None);
    }
}
