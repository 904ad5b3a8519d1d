//! Parses numbers, units and words of printed lines.

/// The largest value at which a float still represents whole numbers.
const MAX_EXACT_FLOAT: f64 = 9e15;

/// Parses a printed decimal and multiplies it by `scale`. Returns `None` for other texts and
/// impossible numbers.
pub(crate) fn parse_scaled(text: &str, scale: f64) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !text.is_empty();
    let value: f64 = plain.then(|| text.parse().ok())??;
    let scaled = (value * scale).round();
    (scaled < MAX_EXACT_FLOAT).then_some(scaled as u64)
}

/// Returns half a unit of the last printed digit.
pub(crate) fn half_unit_of_last_digit(text: &str, scale: f64) -> u64 {
    let decimals = text.split_once('.').map_or(0, |(_, after)| after.len());
    let half = scale / 10_f64.powi(decimals.min(20) as i32) / 2.0;
    half.min(MAX_EXACT_FLOAT) as u64
}

pub(crate) fn parse_whole(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// Returns the text between two other texts of a line.
pub(crate) fn text_between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    Some(rest.split_once(after)?.0)
}
