//! Reads the legs file: the cities that the data passes, in order, and the points that stand for
//! them.
//!
//! A point is the airport of the given code, the only airport of the city, or given coordinates.

use crate::airport_table::{AirportLocation, AirportTable, split_code};
use crate::speed_record::{LegsFile, LegsFileStop, RecordAbout, RecordStop, StopLocation};
use crate::{RecordError, read_limited_text};
use std::path::Path;

/// The maximum size in bytes: a route around the world has a hundred stops of a few dozen bytes
/// each.
const MAX_LEGS_BYTES: u64 = 256 << 10;
const STOP_COUNTS: std::ops::RangeInclusive<usize> = 2..=500;
const MAX_TEXT_BYTES: usize = 2000;

/// The content of the file, with a point for every city.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordLegs {
    pub about: RecordAbout,
    pub stops: Vec<RecordStop>,
}

pub fn read_legs_file(file: &Path) -> Result<RecordLegs, RecordError> {
    let text = read_limited_text(file, MAX_LEGS_BYTES);
    text.and_then(|text| resolve_legs(&text)).map_err(|why| {
        let message = format!("cannot read the legs file {}", file.display());
        let hint = "see docs/record.md; for example: stops = [\"San Jose (SJC)\", \"Lulea\"]";
        RecordError::input(message).cause(why).hint(hint)
    })
}

/// Parses a legs file and finds the points of its stops.
pub fn resolve_legs(text: &str) -> Result<RecordLegs, String> {
    let file: LegsFile = toml::from_str(text).map_err(|e| e.to_string())?;
    if !STOP_COUNTS.contains(&file.stops.len()) {
        let (least, most) = (STOP_COUNTS.start(), STOP_COUNTS.end());
        let count = file.stops.len();
        return Err(format!("{count} stops; allowed: {least} to {most}"));
    }
    let about = &file.about;
    for text in [&about.name, &about.team, &about.contact, &about.note] {
        text.as_deref().map_or(Ok(()), check_text)?;
    }
    let airports = AirportTable::read();
    let stops = file.stops.into_iter().zip(1..).map(|(stop, number)| {
        resolve_stop(stop, &airports).map_err(|why| format!("stop {number}: {why}"))
    });
    Ok(RecordLegs { stops: stops.collect::<Result<_, _>>()?, about: file.about })
}

/// Refuses texts that are empty, too long or have control characters: they are shown to users.
fn check_text(text: &str) -> Result<(), String> {
    if text.contains(char::is_control) {
        return Err("a text contains control characters".to_owned());
    }
    if text.trim().is_empty() || text.len() > MAX_TEXT_BYTES {
        return Err(format!("a text is empty or longer than {MAX_TEXT_BYTES} bytes"));
    }
    Ok(())
}

fn resolve_stop(stop: LegsFileStop, airports: &AirportTable) -> Result<RecordStop, String> {
    let placed = match stop {
        LegsFileStop::City(city) => StopLocation { city, ..StopLocation::default() },
        LegsFileStop::Place(placed) => placed,
    };
    for text in [Some(&placed.city), placed.airport.as_ref(), placed.point.as_ref()] {
        text.map_or(Ok(()), |text| check_text(text))?;
    }
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
        (None, None, None) => resolve_city(city, airports),
        _ => Err(format!("{city}: give either `airport`, or `latitude` and `longitude`")),
    }
}

/// Resolves `Chicago (ORD)`, or the name of a city with one airport.
fn resolve_city(city: &str, airports: &AirportTable) -> Result<RecordStop, String> {
    if let (city, Some(code)) = split_code(city) {
        return resolve_airport_code(city, code, airports);
    }
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
    let place = airports.find_code(&code);
    let place = place.ok_or_else(|| format!("unknown airport code {code}"))?;
    Ok(stop_at_airport(city, place))
}

fn stop_at_airport(city: &str, place: &AirportLocation) -> RecordStop {
    RecordStop {
        city: city.to_owned(),
        latitude: place.point.0,
        longitude: place.point.1,
        point: format!("airport {}", place.code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stops_are_texts_or_tables() {
        let legs = resolve_legs(
            "stops = [\n\"San Jose (sjc)\",\n{ city = \"New York\", airport = \"JFK\" },\n\
             { city = \"Lulea\", latitude = 65.6, longitude = 22.1, point = \"the campus\" },\n\
             \"Geneva\"]\n[about]\nteam = \"SUNET\"\n",
        )
        .expect("legs");
        let points: Vec<&str> = legs.stops.iter().map(|it| it.point.as_str()).collect();
        let expected = ["airport SJC", "airport JFK", "the campus", "airport GVA"];
        assert_eq!(points, expected);
        assert_eq!(legs.about.team.as_deref(), Some("SUNET"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, why) in [
            ("stops = [\"Geneva\"]", "1 stops"),
            ("stops = [\"Geneva\", \"\\u001b[2J\"]", "stop 2: a text contains control characters"),
            ("stops = [\"Geneva\", 3]", "line 1"),
            ("stops = [\"Geneva\", \" \"]", "empty"),
            ("legs = 3", "line 1"),
            ("stops = [\"Geneva\", \"Lulea\"]\n[about]\nspeed = 3", "speed"),
            ("stops = [\"Geneva\", \"Chicago\"]", "stop 2: several airports in Chicago: MDW, ORD"),
            ("stops = [\"Atlantis\", \"Geneva\"]", "latitude"),
            ("stops = [\"X (???)\", \"Geneva\"]", "code"),
        ] {
            let error = resolve_legs(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
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
            resolve_stop(LegsFileStop::Place(placed), &airports)
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

    proptest! {
        #[test]
        fn any_text_is_legs_or_is_refused(text in "(stops = \\[)?[\\PC\n\"\\[\\]=,{}]{0,200}") {
            if let Ok(legs) = resolve_legs(&text) {
                prop_assert!(STOP_COUNTS.contains(&legs.stops.len()));
            }
        }
    }
}
