//! Formatting of values, changes and periods.

use crate::number_format::{ABSENT, or_absent};
use jiff::Timestamp;
use longhaul_history::event::format_quantity;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    ChangeVerdict, HostPair, QuantityChange, QuantityLevel, TimePeriod,
};

/// Formats a pair: `near > far`.
pub fn format_pair(pair: &HostPair) -> String {
    format!("{} > {}", pair.from, pair.to)
}

/// Formats a time: `2003-06-11 22:45 UTC`, with seconds if they are not zero.
pub fn format_moment(us: i64) -> String {
    let Ok(moment) = Timestamp::from_microsecond(us) else {
        return String::from("time out of range");
    };
    let form = if us.rem_euclid(60_000_000) < 1_000_000 {
        "%Y-%m-%d %H:%M UTC"
    } else {
        "%Y-%m-%d %H:%M:%S UTC"
    };
    moment.strftime(form).to_string()
}

pub fn format_period(period: TimePeriod) -> String {
    let begin = format_moment(period.begin_us);
    format!("{} to {}", begin.trim_end_matches(" UTC"), format_moment(period.end_us))
}

/// Formats the median of a sample.
pub fn format_level(quantity: PathQuantity, level: Option<&QuantityLevel>) -> String {
    or_absent(level, |level| format_quantity(quantity, level.median))
}

/// Formats the number of values on each side: `12/9`.
pub fn format_counts(change: &QuantityChange) -> String {
    let of = |level: Option<&QuantityLevel>| level.map_or(0, |level| level.samples);
    format!("{}/{}", of(change.before.as_ref()), of(change.after.as_ref()))
}

/// Formats the size of a change: `-40 %`, `+0.3 pt` (percentage points), `-4`.
pub fn format_change(change: &QuantityChange) -> String {
    match (change.change_ratio, change.difference) {
        (Some(ratio), _) => format!("{} %", format_signed((ratio - 1.0) * 100.0)),
        (None, Some(difference)) if change.quantity.unit() == "ratio" => {
            format!("{} pt", format_signed(difference * 100.0))
        }
        (None, Some(difference)) => format_signed(difference),
        (None, None) => ABSENT.to_owned(),
    }
}

/// Formats the size of a change between periods, which few values do not show.
pub fn format_tested_change(change: &QuantityChange) -> String {
    match change.verdict {
        ChangeVerdict::CannotTell => ABSENT.to_owned(),
        _ => format_change(change),
    }
}

/// Returns the sizes of samples that are too small for any test, and the sizes that are needed.
pub fn describe_few_values(change: &QuantityChange) -> Option<String> {
    let of = |level: Option<&QuantityLevel>| level.map_or(0, |level| level.samples);
    let [before, after] = [change.before.as_ref(), change.after.as_ref()].map(of);
    (change.verdict == ChangeVerdict::CannotTell).then(|| {
        format!("too few runs ({before} and {after}) to tell; at least 4 and 4 are needed")
    })
}

/// Formats the interval of a change in the unit of [`format_change`]: `-42 to -38`.
pub fn format_change_interval(change: &QuantityChange) -> String {
    let by_ratio = change.change_interval_ratio;
    let by_ratio = by_ratio.map(|ends| ends.map(|ratio| (ratio - 1.0) * 100.0));
    let of_share = change.quantity.unit() == "ratio";
    let factor = if of_share { 100.0 } else { 1.0 };
    let by_difference = change.difference_interval;
    let by_difference = by_difference.map(|ends| ends.map(|value| value * factor));
    let ends = by_ratio.or(by_difference);
    or_absent(ends, |[low, high]| format!("{} to {}", format_signed(low), format_signed(high)))
}

/// Returns the short name of a quantity, for the first column of a table.
pub const fn quantity_label(quantity: PathQuantity) -> &'static str {
    match quantity {
        PathQuantity::Available => "available",
        other => other.title(),
    }
}

/// Formats a number with its sign and only significant digits.
pub fn format_signed(number: f64) -> String {
    let text = match number.abs() {
        n if n >= 9.95 => format!("{number:+.0}"),
        n if n >= 0.095 => format!("{number:+.1}"),
        _ => format!("{number:+.2}"),
    };
    match text.as_str() {
        "+0.00" | "-0.00" => String::from("0"),
        _ => text,
    }
}

/// Formats a p-value: `0.0021`, `<0.0001`.
pub fn format_probability(p: Option<f64>) -> String {
    or_absent(p, |p| {
        if p < 1e-4 {
            String::from("<0.0001")
        } else if p < 0.01 {
            format!("{p:.4}")
        } else {
            format!("{p:.2}")
        }
    })
}

pub const fn verdict_label(verdict: ChangeVerdict) -> &'static str {
    match verdict {
        ChangeVerdict::Fell => "fell",
        ChangeVerdict::Rose => "rose",
        ChangeVerdict::NoChangeSeen => "not significant",
        ChangeVerdict::CannotTell => "cannot tell",
        ChangeVerdict::NotMeasured => "not measured",
    }
}

/// Returns true if the change is significant.
pub const fn is_significant(verdict: ChangeVerdict) -> bool {
    matches!(verdict, ChangeVerdict::Fell | ChangeVerdict::Rose)
}

/// Description of the tests, shown below the results.
pub const METHOD_NOTE: &str = "Medians. Change: median ratio (for shares and counts: difference) of all \
    pairs of values, with its 95 % interval in the same unit (Hodges-Lehmann; pt: percentage points). \
    Significance: two-sided Mann-Whitney rank-sum test, distribution-free, exact up to 40 values; \
    p is Holm-adjusted over the paths of a table, and higher if neighbouring values are correlated.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        for (number, text) in [(-40.2, "-40"), (5.23, "+5.2"), (0.04, "+0.04"), (0.0001, "0")] {
            assert_eq!(format_signed(number), text);
        }
        assert_eq!(format_probability(Some(0.00001)), "<0.0001");
        assert_eq!(format_probability(Some(0.002_13)), "0.0021");
        assert_eq!(format_probability(None), "-");
    }

    #[test]
    fn moments_have_seconds_where_they_matter() {
        assert_eq!(format_moment(1_055_371_500_000_000), "2003-06-11 22:45 UTC");
        assert_eq!(format_moment(1_055_371_512_000_000), "2003-06-11 22:45:12 UTC");
        assert!(format_moment(i64::MAX).contains("out of range"));
    }
}
