//! Readings, converted to the type that a rule needs, or the reason why they are missing.
//!
//! Source: crates/longhaul-probe, which names the readings. Units: those of the reading.
//! Error: none. Wrong when: a driver reports wrong values.

use longhaul_model::report::v1::host::Observation;

/// A reading, or the reason why it is missing.
pub type Read<T> = Result<T, String>;

/// The maximum plausible value: no kernel setting exceeds it.
const MOST: u64 = 1 << 53;
/// The number of characters shown of an invalid reading.
const SHOWN: usize = 40;

#[derive(Clone, Copy)]
pub struct Readings<'a> {
    observation: &'a Observation,
}

impl<'a> Readings<'a> {
    pub fn new(observation: &'a Observation) -> Self {
        Readings { observation }
    }

    pub fn text(self, name: &str) -> Read<&'a str> {
        if let Some(text) = self.observation.readings.get(name) {
            return Ok(text.trim());
        }
        Err(match self.observation.unread.get(name) {
            Some(why) => format!("{name} cannot be read: {why}"),
            None => format!("this host has no {name}"),
        })
    }

    pub fn number(self, name: &str) -> Read<u64> {
        let text = self.text(name)?;
        number(text).ok_or_else(|| senseless(name, text, "a number"))
    }

    /// Returns the three values min, default and max, in ascending order.
    pub fn triple(self, name: &str) -> Read<[u64; 3]> {
        let text = self.text(name)?;
        let words: Vec<Option<u64>> = text.split_whitespace().map(number).collect();
        match words.as_slice() {
            &[Some(least), Some(usual), Some(most)] if least <= usual && usual <= most => {
                Ok([least, usual, most])
            }
            _ => Err(senseless(name, text, "three rising numbers")),
        }
    }

    /// Returns a non-negative number that may have decimals.
    pub fn decimal(self, name: &str) -> Read<f64> {
        let text = self.text(name)?;
        let value = text.parse::<f64>().ok();
        value
            .filter(|v| v.is_finite() && (0.0..=MOST as f64).contains(v))
            .ok_or_else(|| senseless(name, text, "a number"))
    }

    /// Returns whether a setting is on; sysctls use 1 and 0 for `on` and `off`.
    pub fn switch(self, name: &str) -> Read<bool> {
        match self.text(name)? {
            "on" | "1" => Ok(true),
            "off" | "0" => Ok(false),
            text => Err(senseless(name, text, "on or off")),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|value| *value <= MOST)
}

fn senseless(name: &str, text: &str, expected: &str) -> String {
    let shown: String = text.chars().take(SHOWN).collect();
    format!("{name} reads `{shown}`, which is not {expected}")
}
