//! Parses numbers, units and words of printed lines.

/// The largest value at which a float still represents whole numbers.
const MOST: f64 = 9e15;

/// Parses a printed decimal and multiplies it by `scale`. Returns `None` for other texts and
/// impossible numbers.
pub(crate) fn scaled(text: &str, scale: f64) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !text.is_empty();
    let value: f64 = plain.then(|| text.parse().ok())??;
    let scaled = (value * scale).round();
    (scaled < MOST).then_some(scaled as u64)
}

/// Returns half a unit of the last printed digit.
pub(crate) fn rounding(text: &str, scale: f64) -> u64 {
    let decimals = text.split_once('.').map_or(0, |(_, after)| after.len());
    let half = scale / 10_f64.powi(decimals.min(20) as i32) / 2.0;
    half.min(MOST) as u64
}

pub(crate) fn whole(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// Parses `GBytes`, `KB`, `Bytes`: powers of 1024, as in iperf.
pub(crate) fn size_unit(word: &str) -> Option<f64> {
    let letter = word.strip_suffix("Bytes").or(word.strip_suffix("Byte"))?;
    power(letter, 1024.0)
}

/// Parses `Gbits/sec`, and `MBytes/sec` of runs that report bytes.
pub(crate) fn rate_unit(word: &str) -> Option<f64> {
    let head = word.strip_suffix("/sec")?;
    if let Some(letter) = head.strip_suffix("bits") {
        return power(letter, 1000.0);
    }
    size_unit(head).map(|bytes| bytes * 8.0)
}

fn power(letter: &str, base: f64) -> Option<f64> {
    let exponent = ["", "K", "M", "G", "T"]
        .iter()
        .position(|known| known.eq_ignore_ascii_case(letter))?;
    Some(base.powi(exponent as i32))
}

/// Returns the text between two other texts of a line.
pub(crate) fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    Some(rest.split_once(after)?.0)
}
