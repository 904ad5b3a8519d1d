//! Query parameters and their validation.
//!
//! Unknown, repeated and out-of-range parameters are rejected with the reason and the allowed
//! values; none is ignored.

use super::api_error::ApiError;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use longhaul_model::report::v1::HostPair;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::history_store::{
    MAX_ID_BYTES, MAX_NAME_BYTES, TIME_END_US, TimeRange, find_name_fault,
};
use std::ops::RangeInclusive;
use utoipa::IntoParams;

/// The maximum number of parameters in a request.
const MAX_PARAMETERS: usize = 16;
/// The maximum number of characters of an invalid value in an error message.
const MAX_QUOTED_CHARS: usize = 40;

/// A time range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct QueryRange {
    /// Start of the range, us since 1970-01-01T00:00:00Z; absent: no lower bound.
    #[param(minimum = 0, maximum = 7_258_118_400_000_000_i64)]
    pub begin_us: Option<i64>,
    /// End of the range, exclusive; absent: no upper bound.
    #[param(minimum = 0, maximum = 7_258_118_400_000_000_i64)]
    pub end_us: Option<i64>,
}

impl QueryRange {
    pub fn range(self) -> TimeRange {
        TimeRange {
            begin_us: self.begin_us.unwrap_or(0),
            end_us: self.end_us.unwrap_or(TIME_END_US),
        }
    }
}

/// The parameters that have not been read yet.
#[derive(Debug, Default)]
pub struct QueryParams {
    unread: Vec<(String, String)>,
}

impl<S: Sync> FromRequestParts<S> for QueryParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let read = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(left) = read.map_err(|_| {
            ApiError::bad_request("cannot read the parameters: they are not name=value in UTF-8")
        })?;
        if left.len() > MAX_PARAMETERS {
            let text = format!("{} parameters; at most {MAX_PARAMETERS} are allowed", left.len());
            return Err(ApiError::bad_request(text));
        }
        for (index, (name, _)) in left.iter().enumerate() {
            if left[..index].iter().any(|(earlier, _)| earlier == name) {
                let text = format!("parameter {} is repeated", quote_input(name));
                return Err(ApiError::bad_request(text));
            }
        }
        Ok(QueryParams { unread: left })
    }
}

impl QueryParams {
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.unread.iter().position(|(it, _)| it == name)?;
        Some(self.unread.remove(at).1)
    }

    /// Reads the name of a host or measurement.
    pub fn name(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.take(name).map(|text| validate_name(name, text, MAX_NAME_BYTES)).transpose()
    }

    /// Reads the id, or the start of the id, of a run.
    pub fn id(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.take(name).map(|text| validate_id(name, text)).transpose()
    }

    /// Reads an integer.
    pub fn number(
        &mut self,
        name: &str,
        allowed: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        number.map(Some).ok_or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            ApiError::bad_request(format!(
                "{name} = {}: must be a whole number from {least} to {most}",
                quote_input(&text)
            ))
        })
    }

    /// Reads the maximum number of rows.
    pub fn limit(&mut self, usual: u32, most: u32) -> Result<u32, ApiError> {
        let number = self.number("limit", 1..=i64::from(most))?;
        Ok(number.and_then(|it| u32::try_from(it).ok()).unwrap_or(usual))
    }

    /// Reads one of several words.
    pub fn one_of<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let words = words.join(", ");
            ApiError::bad_request(format!(
                "{name} = {}: must be one of {words}",
                quote_input(&text)
            ))
        })
    }

    pub fn quantity(&mut self) -> Result<PathQuantity, ApiError> {
        let words = PathQuantity::ALL.map(|quantity| (quantity.word(), quantity));
        let quantity = self.one_of("quantity", &words)?;
        quantity.ok_or_else(|| {
            let words = PathQuantity::ALL.map(PathQuantity::word).join(", ");
            ApiError::bad_request(format!("quantity is missing: must be one of {words}"))
        })
    }

    /// Reads a pair. Returns `None` if both ends are absent.
    pub fn pair(&mut self) -> Result<Option<HostPair>, ApiError> {
        match (self.name("from")?, self.name("to")?) {
            (Some(from), Some(to)) => Ok(Some(HostPair { from, to })),
            (None, None) => Ok(None),
            _ => {
                Err(ApiError::bad_request("a pair needs both from and to, the names of its hosts"))
            }
        }
    }

    pub fn require_pair(&mut self) -> Result<HostPair, ApiError> {
        let missing =
            || ApiError::bad_request("from and to are missing: the names of the pair's hosts");
        self.pair()?.ok_or_else(missing)
    }

    pub fn range(&mut self) -> Result<TimeRange, ApiError> {
        let span = QueryRange {
            begin_us: self.number("begin_us", 0..=TIME_END_US)?,
            end_us: self.number("end_us", 0..=TIME_END_US)?,
        };
        let range = span.range();
        if range.begin_us >= range.end_us {
            return Err(ApiError::bad_request(format!(
                "the range is empty: begin_us = {} is not before end_us = {}",
                range.begin_us, range.end_us
            )));
        }
        Ok(range)
    }

    /// Rejects parameters that were not read.
    pub fn reject_rest(self) -> Result<(), ApiError> {
        match self.unread.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(ApiError::bad_request(format!("unknown parameter {}", quote_input(name)))
                    .hint("see docs/api.md or /api/v1/openapi.json for the parameters"))
            }
        }
    }
}

/// Validates the id of a run or event from the path.
pub fn validate_id(what: &str, text: String) -> Result<String, ApiError> {
    validate_name(what, text, MAX_ID_BYTES)
}

/// Validates a name: not empty, not too long, no control characters.
pub fn validate_name(what: &str, text: String, bytes_max: usize) -> Result<String, ApiError> {
    let Some(why) = find_name_fault(&text, bytes_max) else {
        return Ok(text);
    };
    let text = quote_input(&text);
    Err(ApiError::bad_request(format!(
        "{what} = {text}: {why}; must be a name of 1 to {bytes_max} bytes without control characters"
    )))
}

/// Quotes the beginning of untrusted text and escapes its control characters.
fn quote_input(text: &str) -> String {
    let start: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    format!("{start:?}")
}
