//! Lists and ranges of settings: `auto,64K-4M`, `1,2,4-32`, `4-32/4`.
//!
//! A range doubles from its first value and ends with its last one; `/STEP` adds instead. Values
//! are sorted, without duplicates.

use super::{check_range, parse_size};
use longhaul_probe::plan_limits;

/// The maximum number of cells of a grid: a scan of them takes hours, a prediction seconds.
const MAX_CELLS: usize = 4096;
/// The maximum queue of a prediction.
const MAX_QUEUE_BYTES: u64 = 1 << 40;
/// The maximum loss ratio; no transfer works beyond it.
const MAX_LOSS_RATIO: f64 = 0.5;

/// A list of windows; `None` is `auto`: the kernel sizes the window. A name of its own, because
/// clap takes a `Vec` for an option that may be repeated.
pub type WindowList = Vec<Option<u64>>;
/// A list of stream counts.
pub type StreamCounts = Vec<u32>;
/// A list of sizes in bytes.
pub type SizeList = Vec<u64>;
/// A list of probabilities.
pub type LossRatios = Vec<f64>;

/// Parses `auto`, sizes, and ranges of sizes.
pub fn parse_windows(text: &str) -> Result<WindowList, String> {
    let (auto, sized): (Vec<&str>, Vec<&str>) = text.split(',').partition(|part| *part == "auto");
    let sizes = if sized.is_empty() {
        Vec::new()
    } else {
        parse_list(&sized.join(","), |t| parse_size(t, 1, plan_limits::MAX_BUFFER_BYTES))?
    };
    let first = (!auto.is_empty()).then_some(None);
    let all = first.into_iter().chain(sizes.into_iter().map(Some));
    Ok(all.collect())
}

/// Parses numbers of streams, and ranges of them.
pub fn parse_stream_counts(text: &str) -> Result<StreamCounts, String> {
    let values = parse_list(text, |t| super::parse_streams(t).map(u64::from))?;
    Ok(values.into_iter().map(|n| n as u32).collect())
}

/// Parses queue sizes of a link; 0 is no queue.
pub fn parse_queue_sizes(text: &str) -> Result<SizeList, String> {
    parse_list(text, |t| parse_size(t, 0, MAX_QUEUE_BYTES))
}

/// Parses loss probabilities: `0,1e-6,0.0001`.
pub fn parse_loss_ratios(text: &str) -> Result<LossRatios, String> {
    let one = |part: &str| {
        let wrong = || "expected probabilities such as 0,1e-6,0.001".to_owned();
        let value: f64 = part.trim().parse().map_err(|_| wrong())?;
        if !value.is_finite() {
            return Err(wrong());
        }
        check_range(value, 0.0, MAX_LOSS_RATIO, f64::to_string)
    };
    let mut values = text.split(',').map(one).collect::<Result<Vec<f64>, String>>()?;
    values.sort_by(f64::total_cmp);
    values.dedup();
    check_cell_count(values.len() as u64)?;
    Ok(values)
}

/// Returns a parser of round-trip times, from 10 µs to 60 s (beyond the Moon).
pub fn accept_round_trip() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    super::accept_micros(10..=60_000_000)
}

/// Fails if the product of the list lengths exceeds the maximum number of cells.
pub fn check_grid_size(lengths: &[usize]) -> Result<usize, String> {
    let cells = lengths.iter().fold(1usize, |all, n| all.saturating_mul(*n));
    check_cell_count(cells as u64).map(|()| cells)
}

fn check_cell_count(values: u64) -> Result<(), String> {
    if values > MAX_CELLS as u64 {
        return Err(format!("{values} cells; at most {MAX_CELLS} are allowed"));
    }
    Ok(())
}

fn parse_list(text: &str, one: impl Fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, String> {
    let mut values = Vec::new();
    for part in text.split(',') {
        parse_range(part.trim(), &one, &mut values)?;
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

fn parse_range(
    text: &str,
    one: &impl Fn(&str) -> Result<u64, String>,
    values: &mut Vec<u64>,
) -> Result<(), String> {
    let (ends, step) = match text.split_once('/') {
        Some((ends, step)) => (ends, Some(one(step)?)),
        None => (text, None),
    };
    let Some((first, last)) = ends.split_once('-') else {
        if step.is_some() {
            return Err(format!("{text}: a step needs a range such as 4-32/4"));
        }
        values.push(one(text)?);
        return Ok(());
    };
    let (first, last) = (one(first)?, one(last)?);
    if first > last {
        return Err(format!("{text}: the range is backwards"));
    }
    if first == 0 || step == Some(0) {
        return Err(format!("{text}: a range from 0 or with steps of 0 does not grow"));
    }
    if let Some(step) = step {
        check_cell_count((last - first) / step + 1 + values.len() as u64)?;
    }
    let grown = |n: &u64| match step {
        Some(step) => n.checked_add(step),
        None => n.checked_mul(2),
    };
    values.extend(std::iter::successors(Some(first), grown).take_while(|n| *n < last));
    values.push(last);
    check_cell_count(values.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_double_or_step_and_end_where_they_say() {
        for (text, want) in [
            ("1,2,4-32", vec![1, 2, 4, 8, 16, 32]),
            ("4-32/4", vec![4, 8, 12, 16, 20, 24, 28, 32]),
            ("1-20", vec![1, 2, 4, 8, 16, 20]),
            ("8,1-4,2", vec![1, 2, 4, 8]),
            ("7-7", vec![7]),
            ("128", vec![128]),
        ] {
            assert_eq!(parse_stream_counts(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn windows_are_sizes_ranges_and_auto() {
        let kib = |n: u64| Some(n << 10);
        assert_eq!(
            parse_windows("64K-512K,auto,4M"),
            Ok(vec![None, kib(64), kib(128), kib(256), kib(512), kib(4096)])
        );
        assert_eq!(parse_windows("auto"), Ok(vec![None]));
        assert_eq!(parse_windows("64K").unwrap(), parse_windows("64KiB,64K").unwrap());
    }

    #[test]
    fn impossible_lists_are_refused_with_the_reason() {
        for (text, part) in [
            ("", "not a whole number"),
            ("1,,2", "not a whole number"),
            ("32-4", "backwards"),
            ("0-4", "must be 1"),
            ("1-4/0", "must be 1"),
            ("0", "must be 1"),
            ("1-200", "must be 1 to 128"),
            ("4/2", "needs a range"),
            ("-", "not a whole number"),
            ("1-2-3", "not a whole number"),
            ("auto", "not a whole number"),
        ] {
            let told = parse_stream_counts(text).unwrap_err();
            assert!(told.contains(part), "{text:?}: {told}");
        }
        for (text, part) in [
            ("", "a size"),
            ("auto,", "a size"),
            ("4M-64K", "backwards"),
            ("0", "must be 1 B"),
            ("64K-2G", "must be 1 B to 1 GiB"),
            ("1-1G/1", "at most 4096"),
            ("auto-4M", "a size"),
        ] {
            let told = parse_windows(text).unwrap_err();
            assert!(told.contains(part), "{text:?}: {told}");
        }
    }

    #[test]
    fn many_short_ranges_are_counted_together() {
        let text = ["1-1000K/1K"; 5].join(",");
        assert!(parse_windows(&text).unwrap_err().contains("at most 4096"));
        assert_eq!(check_grid_size(&[64, 64]), Ok(4096));
        for lengths in [&[64usize, 65][..], &[usize::MAX, 2]] {
            assert!(check_grid_size(lengths).unwrap_err().contains("at most 4096"));
        }
    }

    #[test]
    fn losses_are_probabilities_that_a_transfer_survives() {
        assert_eq!(parse_loss_ratios("0.001,0,1e-6,0"), Ok(vec![0.0, 1e-6, 0.001]));
        for text in ["", "x", "nan", "inf", "-1", "0.6", "1%"] {
            assert!(parse_loss_ratios(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_queue_may_be_none() {
        assert_eq!(parse_queue_sizes("0,64K"), Ok(vec![0, 65_536]));
        assert!(parse_queue_sizes("0-64K").unwrap_err().contains("from 0"));
    }
}
