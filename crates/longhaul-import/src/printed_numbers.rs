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

/// Parses `GBytes`, `KB`, `Bytes`: powers of 1024, as in iperf.
pub(crate) fn parse_size_unit(word: &str) -> Option<f64> {
    let letter = word.strip_suffix("Bytes").or(word.strip_suffix("Byte"))?;
    parse_unit_prefix(letter, 1024.0)
}

/// Parses `Gbits/sec`, and `MBytes/sec` of runs that report bytes.
pub(crate) fn parse_rate_unit(word: &str) -> Option<f64> {
    let head = word.strip_suffix("/sec")?;
    if let Some(letter) = head.strip_suffix("bits") {
        return parse_unit_prefix(letter, 1000.0);
    }
    parse_size_unit(head).map(|bytes| bytes * 8.0)
}

fn parse_unit_prefix(letter: &str, base: f64) -> Option<f64> {
    let exponent = ["", "K", "M", "G", "T"]
        .iter()
        .position(|known| known.eq_ignore_ascii_case(letter))?;
    Some(base.powi(exponent as i32))
}

/// Returns the text between two other texts of a line.
pub(crate) fn text_between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    Some(rest.split_once(after)?.0)
}
