//! The legs file: where the data goes, city by city, as somebody wrote it down.

use super::airports::Airports;
use super::cities;
use crate::fail::{Fail, USAGE};
use longhaul_model::report::v1::record::{About, AskedStop, LegsFile, Stop};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A way around the world has a hundred stops, of some dozen letters.
const FILE_MOST: u64 = 256 << 10;
const STOPS: std::ops::RangeInclusive<usize> = 2..=500;
const TEXT_MOST: usize = 2000;

/// What the file says, with a point for every city.
#[derive(Debug, Clone, PartialEq)]
pub struct Legs {
    pub about: About,
    pub stops: Vec<Stop>,
}

pub fn read(file: &Path, airports: &Airports) -> Result<Legs, Fail> {
    let mut text = String::new();
    let opened = File::open(file);
    let read = opened.and_then(|it| it.take(FILE_MOST + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > FILE_MOST => Err("it is larger than 256 KiB".to_owned()),
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
    let file: LegsFile = toml::from_str(text).map_err(|e| e.to_string())?;
    if !STOPS.contains(&file.stops.len()) {
        let (least, most) = (STOPS.start(), STOPS.end());
        let count = file.stops.len();
        return Err(format!(
            "it has {count} stops; allowed are {least} to {most}"
        ));
    }
    let about = [
        &file.about.name,
        &file.about.team,
        &file.about.contact,
        &file.about.note,
    ];
    about.into_iter().flatten().try_for_each(|it| fit(it))?;
    let mut stops = Vec::new();
    for (asked, number) in file.stops.iter().zip(1..) {
        let stop = texts(asked)
            .into_iter()
            .try_for_each(fit)
            .and_then(|()| cities::asked(asked, airports));
        stops.push(stop.map_err(|why| format!("stop {number}: {why}"))?);
    }
    Ok(Legs {
        about: file.about,
        stops,
    })
}

fn texts(stop: &AskedStop) -> Vec<&str> {
    match stop {
        AskedStop::City(city) => vec![city],
        AskedStop::Place(placed) => {
            let more = placed.airport.iter().chain(&placed.point);
            more.chain([&placed.city]).map(String::as_str).collect()
        }
    }
}

/// Texts are shown on terminals and pages.
fn fit(text: &str) -> Result<(), String> {
    if text.contains(char::is_control) {
        return Err("a text in it has control characters".to_owned());
    }
    if text.trim().is_empty() || text.len() > TEXT_MOST {
        return Err(format!(
            "a text in it is empty or longer than {TEXT_MOST} bytes"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn what_is_wrong_is_named_with_its_place() {
        for (text, why) in [
            ("stops = [\"Geneva\"]", "1 stops"),
            (
                "stops = [\"Geneva\", \"Chicago\"]",
                "stop 2: several airports",
            ),
            ("stops = [\"Geneva\", \"\\u001b[2J\"]", "control characters"),
            ("stops = [\"Geneva\", 3]", "line 1"),
            ("stops = [\"Geneva\", \" \"]", "empty"),
            ("legs = 3", "line 1"),
            (
                "stops = [\"Geneva\", \"Lulea\"]\n[about]\nspeed = 3",
                "speed",
            ),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_legs_or_is_refused(text in "(stops = \\[)?[\\PC\\n\"\\[\\]=,{}]{0,200}") {
            if let Ok(legs) = parse(&text, &Airports::read()) {
                prop_assert!(STOPS.contains(&legs.stops.len()));
            }
        }
    }
}
