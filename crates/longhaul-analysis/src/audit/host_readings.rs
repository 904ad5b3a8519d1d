//! Readings, converted to the type that a rule needs, or the reason why they are missing.
//!
//! Source: crates/longhaul-probe, which names the readings. Units: those of the reading.
//! Error: none. Wrong when: a driver reports wrong values.

use longhaul_model::report::v1::host::AuditObservation;

/// A reading, or the reason why it is missing.
pub type ReadingResult<T> = Result<T, String>;

/// The maximum plausible value: no kernel setting exceeds it.
const MAX_READING: u64 = 1 << 53;
/// The number of characters shown of an invalid reading.
const MAX_SHOWN_CHARS: usize = 40;

#[derive(Clone, Copy)]
pub struct HostReadings<'a> {
    observation: &'a AuditObservation,
}

impl<'a> HostReadings<'a> {
    pub fn new(observation: &'a AuditObservation) -> Self {
        HostReadings { observation }
    }

    pub fn text(self, name: &str) -> ReadingResult<&'a str> {
        if let Some(text) = self.observation.readings.get(name) {
            return Ok(text.trim());
        }
        Err(match self.observation.unread.get(name) {
            Some(why) => format!("cannot read {name}: {why}"),
            None => format!("this host has no {name}"),
        })
    }

    pub fn number(self, name: &str) -> ReadingResult<u64> {
        let text = self.text(name)?;
        parse_number(text).ok_or_else(|| describe_invalid_reading(name, text, "a number"))
    }

    /// Returns the three values min, default and max, in ascending order.
    pub fn triple(self, name: &str) -> ReadingResult<[u64; 3]> {
        let text = self.text(name)?;
        let words: Vec<Option<u64>> = text.split_whitespace().map(parse_number).collect();
        match words.as_slice() {
            &[Some(least), Some(usual), Some(most)] if least <= usual && usual <= most => {
                Ok([least, usual, most])
            }
            _ => Err(describe_invalid_reading(name, text, "three ascending numbers")),
        }
    }

    /// Returns a non-negative number that may have decimals.
    pub fn decimal(self, name: &str) -> ReadingResult<f64> {
        let text = self.text(name)?;
        let value = text.parse::<f64>().ok();
        value
            .filter(|v| v.is_finite() && (0.0..=MAX_READING as f64).contains(v))
            .ok_or_else(|| describe_invalid_reading(name, text, "a number"))
    }

    /// Returns a reading that the host may lack.
    pub fn optional<T>(
        self,
        name: &str,
        read: fn(Self, &str) -> ReadingResult<T>,
    ) -> ReadingResult<Option<T>> {
        self.text(name).ok().map(|_| read(self, name)).transpose()
    }

    /// Returns whether a setting is on; sysctls use 1 and 0 for `on` and `off`.
    pub fn switch(self, name: &str) -> ReadingResult<bool> {
        match self.text(name)? {
            "on" | "1" => Ok(true),
            "off" | "0" => Ok(false),
            text => Err(describe_invalid_reading(name, text, "on or off")),
        }
    }
}

fn parse_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|value| *value <= MAX_READING)
}

fn describe_invalid_reading(name: &str, text: &str, expected: &str) -> String {
    let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    format!("{name} reads `{shown}`, which is not {expected}")
}
