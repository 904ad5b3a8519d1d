//! The legs file: the cities that the data passes, as written by the user.

use super::airport_table::AirportTable;
use super::city_points;
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_import::legs_text::{self, MAX_LEGS_BYTES};
use longhaul_model::report::v1::record::{RecordAbout, RecordStop};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The content of the file, with a point for every city.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordLegs {
    pub about: RecordAbout,
    pub stops: Vec<RecordStop>,
}

pub fn read_legs_file(file: &Path, airports: &AirportTable) -> Result<RecordLegs, CommandFailure> {
    let mut text = String::new();
    let opened = File::open(file);
    let read = opened.and_then(|it| it.take(MAX_LEGS_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > MAX_LEGS_BYTES => Err("larger than 256 KiB".to_owned()),
        Ok(_) => resolve_legs(&text, airports),
        Err(error) => Err(error.to_string()),
    }
    .map_err(|why| legs_file_failure(file, &why))
}

fn legs_file_failure(file: &Path, why: &str) -> CommandFailure {
    let mut fail = CommandFailure::new(
        USAGE,
        format!("cannot read the legs file {}", file.display()),
    );
    let lines = why.lines().map(str::trim_end);
    fail.causes
        .extend(lines.filter(|it| !it.is_empty()).map(str::to_owned));
    fail.hint(Some(
        "see docs/record.md; for example: stops = [\"San Jose (SJC)\", \"Lulea\"]",
    ))
}

pub fn resolve_legs(text: &str, airports: &AirportTable) -> Result<RecordLegs, String> {
    let file = legs_text::parse_legs(text)?;
    let mut stops = Vec::new();
    for (asked, number) in file.stops.iter().zip(1..) {
        let stop = city_points::resolve_stop(asked, airports);
        stops.push(stop.map_err(|why| format!("stop {number}: {why}"))?);
    }
    Ok(RecordLegs {
        about: file.about,
        stops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<RecordLegs, String> {
        resolve_legs(text, &AirportTable::read())
    }

    #[test]
    fn stops_are_texts_or_tables() {
        let legs = parsed(
            "stops = [\n\"San Jose (SJC)\",\n{ city = \"New York\", airport = \"JFK\" },\n\
             { city = \"Lulea\", latitude = 65.6, longitude = 22.1, point = \"the campus\" },\n]\n\
             [about]\nteam = \"SUNET\"\n",
        )
        .expect("legs");
        let points: Vec<&str> = legs.stops.iter().map(|it| it.point.as_str()).collect();
        assert_eq!(points, ["airport SJC", "airport JFK", "the campus"]);
        assert_eq!(legs.about.team.as_deref(), Some("SUNET"));
    }

    #[test]
    fn a_city_that_is_not_known_is_named_with_its_place() {
        let error = parsed("stops = [\"Geneva\", \"Chicago\"]").expect_err("two airports");
        assert!(error.contains("stop 2: several airports"), "{error}");
    }
}
