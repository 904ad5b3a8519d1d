//! Lists and ranges of settings: `auto,64K-4M`, `1,2,4-32`, `4-32/4`.
//!
//! A range doubles from its first value and ends with its last one; `/STEP` adds instead. Values
//! are sorted, without duplicates.

use super::{size, within};
use longhaul_probe::limits;

/// The maximum number of cells of a grid: a scan of them takes hours, a prediction seconds.
pub const MOST_CELLS: usize = 4096;
/// The maximum queue of a prediction.
const MOST_QUEUE: u64 = 1 << 40;
/// The maximum loss ratio; no transfer works beyond it.
const MOST_LOSS: f64 = 0.5;

/// A list of windows; `None` is `auto`: the kernel sizes the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows(pub Vec<Option<u64>>);

/// A list of stream counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts(pub Vec<u32>);

/// A list of sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

/// A list of probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios(pub Vec<f64>);

/// Parses `auto`, sizes, and ranges of sizes.
pub fn windows(text: &str) -> Result<Windows, String> {
    let (auto, sized): (Vec<&str>, Vec<&str>) = text.split(',').partition(|part| *part == "auto");
    let sizes = if sized.is_empty() {
        Vec::new()
    } else {
        list(&sized.join(","), |t| size(t, 1, limits::MOST_BUFFER_BYTES))?
    };
    let first = (!auto.is_empty()).then_some(None);
    let all = first.into_iter().chain(sizes.into_iter().map(Some));
    Ok(Windows(all.collect()))
}

/// Parses numbers of streams, and ranges of them.
pub fn counts(text: &str) -> Result<Counts, String> {
    let values = list(text, |t| super::streams(t).map(u64::from))?;
    Ok(Counts(values.into_iter().map(|n| n as u32).collect()))
}

/// Parses queue sizes of a link; 0 is no queue.
pub fn queues(text: &str) -> Result<Sizes, String> {
    list(text, |t| size(t, 0, MOST_QUEUE)).map(Sizes)
}

/// Parses loss probabilities: `0,1e-6,0.0001`.
pub fn losses(text: &str) -> Result<Ratios, String> {
    let one = |part: &str| {
        let wrong = || "expected probabilities such as 0,1e-6,0.001".to_owned();
        let value: f64 = part.trim().parse().map_err(|_| wrong())?;
        if !value.is_finite() {
            return Err(wrong());
        }
        within(value, 0.0, MOST_LOSS, f64::to_string)
    };
    let mut values = text
        .split(',')
        .map(one)
        .collect::<Result<Vec<f64>, String>>()?;
    values.sort_by(f64::total_cmp);
    values.dedup();
    few_enough(values.len() as u64)?;
    Ok(Ratios(values))
}

/// Parses a congestion control that the round model knows.
pub fn modelled(text: &str) -> Result<String, String> {
    const KNOWN: [&str; 3] = ["reno", "cubic", "bbr"];
    if !KNOWN.contains(&text) {
        return Err(format!("expected one of {}", KNOWN.join(", ")));
    }
    Ok(text.to_owned())
}

/// Parses a round-trip time, from 10 µs to 60 s (beyond the Moon).
pub fn round_trip(text: &str) -> Result<u64, String> {
    super::micros(text, 10, 60_000_000)
}

/// Fails if the product of the list lengths exceeds the maximum number of cells.
pub fn bearable(lengths: &[usize]) -> Result<usize, String> {
    let cells = lengths.iter().fold(1usize, |all, n| all.saturating_mul(*n));
    few_enough(cells as u64).map(|()| cells)
}

fn few_enough(values: u64) -> Result<(), String> {
    if values > MOST_CELLS as u64 {
        return Err(format!("{values} cells, at most {MOST_CELLS} are allowed"));
    }
    Ok(())
}

fn list(text: &str, one: impl Fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, String> {
    let mut values = Vec::new();
    for part in text.split(',') {
        range(part.trim(), &one, &mut values)?;
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

fn range(
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
        return Err(format!("{text}: the range runs backwards"));
    }
    if first == 0 || step == Some(0) {
        return Err(format!(
            "{text}: nothing grows from 0 by doubling or by steps of 0"
        ));
    }
    if let Some(step) = step {
        few_enough((last - first) / step + 1 + values.len() as u64)?;
    }
    let grown = |n: &u64| match step {
        Some(step) => n.checked_add(step),
        None => n.checked_mul(2),
    };
    values.extend(std::iter::successors(Some(first), grown).take_while(|n| *n < last));
    values.push(last);
    few_enough(values.len() as u64)
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
            assert_eq!(counts(text), Ok(Counts(want)), "{text}");
        }
    }

    #[test]
    fn windows_are_sizes_ranges_and_auto() {
        let kib = |n: u64| Some(n << 10);
        assert_eq!(
            windows("64K-512K,auto,4M"),
            Ok(Windows(vec![
                None,
                kib(64),
                kib(128),
                kib(256),
                kib(512),
                kib(4096)
            ]))
        );
        assert_eq!(windows("auto"), Ok(Windows(vec![None])));
        assert_eq!(windows("64K").unwrap(), windows("64KiB,64K").unwrap());
    }

    #[test]
    fn impossible_lists_are_refused_with_the_reason() {
        for (text, part) in [
            ("", "not a whole number"),
            ("1,,2", "not a whole number"),
            ("32-4", "backwards"),
            ("0-4", "allowed are 1"),
            ("1-4/0", "allowed are 1"),
            ("0", "allowed are 1"),
            ("1-200", "allowed are 1 to 128"),
            ("4/2", "needs a range"),
            ("-", "not a whole number"),
            ("1-2-3", "not a whole number"),
            ("auto", "not a whole number"),
        ] {
            let told = counts(text).unwrap_err();
            assert!(told.contains(part), "{text:?}: {told}");
        }
        for (text, part) in [
            ("", "a size"),
            ("auto,", "a size"),
            ("4M-64K", "backwards"),
            ("0", "allowed are 1 B"),
            ("64K-2G", "allowed are 1 B to 1 GiB"),
            ("1-1G/1", "at most 4096"),
            ("auto-4M", "a size"),
        ] {
            let told = windows(text).unwrap_err();
            assert!(told.contains(part), "{text:?}: {told}");
        }
    }

    #[test]
    fn many_short_ranges_are_counted_together() {
        let text = ["1-1000K/1K"; 5].join(",");
        assert!(windows(&text).unwrap_err().contains("at most 4096"));
        assert_eq!(bearable(&[64, 64]), Ok(4096));
        for lengths in [&[64usize, 65][..], &[usize::MAX, 2]] {
            assert!(bearable(lengths).unwrap_err().contains("at most 4096"));
        }
    }

    #[test]
    fn losses_are_probabilities_that_a_transfer_survives() {
        assert_eq!(losses("0.001,0,1e-6,0"), Ok(Ratios(vec![0.0, 1e-6, 0.001])));
        for text in ["", "x", "nan", "inf", "-1", "0.6", "1%"] {
            assert!(losses(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_queue_may_be_none() {
        assert_eq!(queues("0,64K"), Ok(Sizes(vec![0, 65_536])));
        assert!(queues("0-64K").unwrap_err().contains("from 0"));
    }
}
