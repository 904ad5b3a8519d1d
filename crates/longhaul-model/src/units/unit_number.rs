//! Parsing of the number before a unit, and the error that all unit parsers share.

use std::fmt;

/// The rejected text, and a description of what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseUnitError {
    pub text: String,
    pub expected: &'static str,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl std::error::Error for ParseUnitError {}

/// Splits `"2.5 Gbit/s"` into `(2.5, "Gbit/s")`; `None` unless a finite, non-negative number leads.
pub(super) fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let value: f64 = text[..end].replace('_', "").parse().ok()?;
    value.is_finite().then(|| (value, text[end..].trim()))
}

/// Returns `value × factor`, rounded; `None` if it does not fit in 64 bits.
pub(super) fn scale_to_u64(value: f64, factor: f64) -> Option<u64> {
    let scaled = (value * factor).round();
    (0.0..18_446_744_073_709_551_616.0).contains(&scaled).then_some(scaled as u64)
}

/// Formats a number with at least three significant digits and no trailing zeros: `6.25`, `941`,
/// `0.5`.
pub(super) fn format_significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 1,
        v if v >= 9.995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
