//! The legs file: the cities that the data passes, as written by the user.

use super::airports::Airports;
use super::cities;
use crate::fail::{Fail, USAGE};
use longhaul_import::legs::{self, MOST_BYTES};
use longhaul_model::report::v1::record::{About, Stop};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The content of the file, with a point for every city.
#[derive(Debug, Clone, PartialEq)]
pub struct Legs {
    pub about: About,
    pub stops: Vec<Stop>,
}

pub fn read(file: &Path, airports: &Airports) -> Result<Legs, Fail> {
    let mut text = String::new();
    let opened = File::open(file);
    let read = opened.and_then(|it| it.take(MOST_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > MOST_BYTES => Err("it is larger than 256 KiB".to_owned()),
        Ok(_) => parse(&text, airports),
        Err(error) => Err(error.to_string()),
    }
    .map_err(|why| refused(file, &why))
}

fn refused(file: &Path, why: &str) -> Fail {
    let mut fail = Fail::new(USAGE, format!("cannot use the legs of {}", file.display()));
    let lines = why.lines().map(str::trim_end);
    fail.causes
        .extend(lines.filter(|it| !it.is_empty()).map(str::to_owned));
    fail.hint(Some(
        "docs/record.md has an example: stops = [\"San Jose (SJC)\", \"Lulea\"]",
    ))
}

pub fn parse(text: &str, airports: &Airports) -> Result<Legs, String> {
    let file = legs::parse(text)?;
    let mut stops = Vec::new();
    for (asked, number) in file.stops.iter().zip(1..) {
        let stop = cities::asked(asked, airports);
        stops.push(stop.map_err(|why| format!("stop {number}: {why}"))?);
    }
    Ok(Legs {
        about: file.about,
        stops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Legs, String> {
        parse(text, &Airports::read())
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
