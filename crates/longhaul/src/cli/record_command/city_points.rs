//! Finds the point that stands for a city of the legs file.
//!
//! It is the airport of the given code, the only airport of the city, or given coordinates.

use super::airport_table::{AirportLocation, AirportTable};
use longhaul_model::report::v1::record::{LegsFileStop, RecordStop, StopLocation};

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
}
