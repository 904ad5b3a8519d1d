//! Parses the legs file: the cities that the data passes, in order. The caller knows their
//! coordinates.

use longhaul_model::report::v1::record::{LegsFile, LegsFileStop};

/// The maximum size in bytes: a route around the world has a hundred stops of a few dozen bytes
/// each.
pub const MAX_LEGS_BYTES: u64 = 256 << 10;
const STOP_COUNTS: std::ops::RangeInclusive<usize> = 2..=500;
const MAX_TEXT_BYTES: usize = 2000;

/// Parses the stops of a text, none of them empty, or returns the reason why it has none.
pub fn parse_legs(text: &str) -> Result<LegsFile, String> {
    let file: LegsFile = toml::from_str(text).map_err(|e| e.to_string())?;
    if !STOP_COUNTS.contains(&file.stops.len()) {
        let (least, most) = (STOP_COUNTS.start(), STOP_COUNTS.end());
        let count = file.stops.len();
        return Err(format!("{count} stops; allowed: {least} to {most}"));
    }
    let about = [
        &file.about.name,
        &file.about.team,
        &file.about.contact,
        &file.about.note,
    ];
    about
        .into_iter()
        .flatten()
        .try_for_each(|it| check_text(it))?;
    for (stop, number) in file.stops.iter().zip(1..) {
        let mut texts = list_stop_texts(stop).into_iter();
        texts
            .try_for_each(check_text)
            .map_err(|why| format!("stop {number}: {why}"))?;
    }
    Ok(file)
}

fn list_stop_texts(stop: &LegsFileStop) -> Vec<&str> {
    match stop {
        LegsFileStop::City(city) => vec![city],
        LegsFileStop::Place(placed) => {
            let more = placed.airport.iter().chain(&placed.point);
            more.chain([&placed.city]).map(String::as_str).collect()
        }
    }
}

/// Refuses texts that are empty, too long or have control characters: they are shown to users.
fn check_text(text: &str) -> Result<(), String> {
    if text.contains(char::is_control) {
        return Err("a text contains control characters".to_owned());
    }
    if text.trim().is_empty() || text.len() > MAX_TEXT_BYTES {
        return Err(format!(
            "a text is empty or longer than {MAX_TEXT_BYTES} bytes"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, why) in [
            ("stops = [\"Geneva\"]", "1 stops"),
            (
                "stops = [\"Geneva\", \"\\u001b[2J\"]",
                "stop 2: a text contains control characters",
            ),
            ("stops = [\"Geneva\", 3]", "line 1"),
            ("stops = [\"Geneva\", \" \"]", "empty"),
            ("legs = 3", "line 1"),
            (
                "stops = [\"Geneva\", \"Lulea\"]\n[about]\nspeed = 3",
                "speed",
            ),
        ] {
            let error = parse_legs(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_legs_or_is_refused(text in "(stops = \\[)?[\\PC\n\"\\[\\]=,{}]{0,200}") {
            if let Ok(legs) = parse_legs(&text) {
                prop_assert!(STOP_COUNTS.contains(&legs.stops.len()));
            }
        }
    }
}
