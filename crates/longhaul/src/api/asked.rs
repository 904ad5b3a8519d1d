//! Query parameters and their validation.
//!
//! Unknown, repeated and out-of-range parameters are rejected with the reason and the allowed
//! values; none is ignored.

use super::fault::Fault;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Pair;
use longhaul_store::watched::Range;
use longhaul_store::watched::limits::{ID_BYTES_MAX, NAME_BYTES_MAX, TIME_END_US};
use std::ops::RangeInclusive;
use utoipa::IntoParams;

/// The maximum number of parameters in a request.
const PARAMETERS_MAX: usize = 16;
/// The maximum number of characters of an invalid value in an error message.
const SHOWN: usize = 40;

/// A time range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Span {
    /// Start of the range, us since 1970-01-01T00:00:00Z; absent: no lower bound.
    #[param(minimum = 0, maximum = 7_258_118_400_000_000_i64)]
    pub begin_us: Option<i64>,
    /// End of the range, exclusive; absent: no upper bound.
    #[param(minimum = 0, maximum = 7_258_118_400_000_000_i64)]
    pub end_us: Option<i64>,
}

impl Span {
    pub fn range(self) -> Range {
        Range {
            begin_us: self.begin_us.unwrap_or(0),
            end_us: self.end_us.unwrap_or(TIME_END_US),
        }
    }
}

/// The parameters that have not been read yet.
#[derive(Debug, Default)]
pub struct Asked {
    left: Vec<(String, String)>,
}

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let read = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(left) = read.map_err(|_| {
            Fault::asked("the parameters cannot be read: they are not name=value, in UTF-8")
        })?;
        if left.len() > PARAMETERS_MAX {
            let text = format!("{} parameters; {PARAMETERS_MAX} at most", left.len());
            return Err(Fault::asked(text));
        }
        for (index, (name, _)) in left.iter().enumerate() {
            if left[..index].iter().any(|(earlier, _)| earlier == name) {
                let text = format!("parameter {} stands twice", shown(name));
                return Err(Fault::asked(text));
            }
        }
        Ok(Asked { left })
    }
}

impl Asked {
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.left.iter().position(|(it, _)| it == name)?;
        Some(self.left.remove(at).1)
    }

    /// Reads the name of a host or measurement.
    pub fn name(&mut self, name: &str) -> Result<Option<String>, Fault> {
        self.take(name)
            .map(|text| word(name, text, NAME_BYTES_MAX))
            .transpose()
    }

    /// Reads an integer.
    pub fn number(
        &mut self,
        name: &str,
        allowed: RangeInclusive<i64>,
    ) -> Result<Option<i64>, Fault> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        number.map(Some).ok_or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            Fault::asked(format!(
                "{name} = {}: a whole number from {least} to {most} is allowed",
                shown(&text)
            ))
        })
    }

    /// Reads the maximum number of rows.
    pub fn limit(&mut self, usual: u32, most: u32) -> Result<u32, Fault> {
        let number = self.number("limit", 1..=i64::from(most))?;
        Ok(number
            .and_then(|it| u32::try_from(it).ok())
            .unwrap_or(usual))
    }

    /// Reads one of several words.
    pub fn one_of<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Fault> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let words = words.join(", ");
            Fault::asked(format!("{name} = {}: one of {words}", shown(&text)))
        })
    }

    pub fn quantity(&mut self) -> Result<Quantity, Fault> {
        let words = Quantity::ALL.map(|quantity| (quantity.word(), quantity));
        let quantity = self.one_of("quantity", &words)?;
        quantity.ok_or_else(|| {
            let words = Quantity::ALL.map(Quantity::word).join(", ");
            Fault::asked(format!("quantity is missing: one of {words}"))
        })
    }

    /// Reads a pair. Returns `None` if both ends are absent.
    pub fn pair(&mut self) -> Result<Option<Pair>, Fault> {
        match (self.name("from")?, self.name("to")?) {
            (Some(from), Some(to)) => Ok(Some(Pair { from, to })),
            (None, None) => Ok(None),
            _ => Err(Fault::asked(
                "a pair has both from and to, the names of its hosts",
            )),
        }
    }

    pub fn must_pair(&mut self) -> Result<Pair, Fault> {
        let missing = || Fault::asked("from and to are missing: the names of the pair's hosts");
        self.pair()?.ok_or_else(missing)
    }

    pub fn range(&mut self) -> Result<Range, Fault> {
        let span = Span {
            begin_us: self.number("begin_us", 0..=TIME_END_US)?,
            end_us: self.number("end_us", 0..=TIME_END_US)?,
        };
        let range = span.range();
        if range.begin_us >= range.end_us {
            return Err(Fault::asked(format!(
                "the range is empty: begin_us = {} is not before end_us = {}",
                range.begin_us, range.end_us
            )));
        }
        Ok(range)
    }

    /// Rejects parameters that were not read.
    pub fn done(self) -> Result<(), Fault> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => Err(
                Fault::asked(format!("there is no parameter {}", shown(name)))
                    .hint("docs/api.md and /api/v1/openapi.json name them"),
            ),
        }
    }
}

/// Validates the id of a run or event from the path.
pub fn id(what: &str, text: String) -> Result<String, Fault> {
    word(what, text, ID_BYTES_MAX)
}

/// Validates a name: not empty, not too long, no control characters.
pub fn word(what: &str, text: String, bytes_max: usize) -> Result<String, Fault> {
    let why = if text.is_empty() {
        "it is empty"
    } else if text.len() > bytes_max {
        "it is too long"
    } else if text.chars().any(char::is_control) {
        "it has control characters"
    } else {
        return Ok(text);
    };
    let text = shown(&text);
    Err(Fault::asked(format!(
        "{what} = {text}: {why}; a name of 1 to {bytes_max} bytes without control characters is allowed"
    )))
}

/// Quotes the beginning of untrusted text and escapes its control characters.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start:?}")
}
