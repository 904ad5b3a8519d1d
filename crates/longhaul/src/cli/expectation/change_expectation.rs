//! `--expect` on a change between two sets of runs, such as `change >= -5 %`.

use super::{ComparisonOperator, RELATIONS};
use longhaul_model::report::v1::comparison::{ChangeVerdict, QuantityChange};
use longhaul_model::report::v1::quantity::PathQuantity;
use std::fmt;
use std::str::FromStr;

/// One condition on a change.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeExpectation {
    text: String,
    quantity: PathQuantity,
    statistic: ChangeStatistic,
    relation: ComparisonOperator,
    wanted: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeStatistic {
    Change,
    /// Ends of the 95 % interval.
    Low,
    High,
    P,
}

const STATISTICS: [(&str, ChangeStatistic); 4] = [
    ("change", ChangeStatistic::Change),
    ("change_low", ChangeStatistic::Low),
    ("change_high", ChangeStatistic::High),
    ("p", ChangeStatistic::P),
];

impl FromStr for ChangeExpectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let start = text
            .find(['<', '>', '=', '!'])
            .ok_or("expected change, one of >= <= > <, and a value such as -5 %")?;
        let (name, rest) = text.split_at(start);
        let (sign, relation) = *RELATIONS
            .iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .filter(|(_, relation)| {
                !matches!(relation, ComparisonOperator::Equal | ComparisonOperator::Unequal)
            })
            .ok_or("expected one of >= <= > <")?;
        let name = name.trim();
        let (quantity, figure) = name.rsplit_once('.').unwrap_or(("goodput", name));
        let known = STATISTICS.iter().find(|(word, _)| *word == figure);
        let &(_, figure) = known.ok_or_else(|| {
            format!("`{figure}` is not one of change, change_low, change_high, p")
        })?;
        let quantity = PathQuantity::from_word(quantity).ok_or_else(|| {
            let words = PathQuantity::ALL.map(PathQuantity::word);
            format!("`{quantity}` is not one of {}", words.join(", "))
        })?;
        Ok(ChangeExpectation {
            text: text.trim().to_owned(),
            quantity,
            statistic: figure,
            relation,
            wanted: parse_change_ratio(rest[sign.len()..].trim())?,
        })
    }
}

/// Parses `-5 %` or `-0.05`.
fn parse_change_ratio(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value * factor),
        _ => Err(format!("`{text}` is not a number such as -5 % or 0.05")),
    }
}

impl ChangeExpectation {
    /// Returns `None` if the condition holds for every pair of hosts with this quantity, otherwise
    /// the value found. A change that was not measured or cannot be determined is a miss.
    pub fn describe_miss(&self, changes: &[QuantityChange]) -> Option<String> {
        let ours = changes.iter().filter(|change| change.quantity == self.quantity);
        let mut any = false;
        for change in ours {
            any = true;
            match self.measured_value(change) {
                None if change.verdict == ChangeVerdict::NotMeasured => {
                    return Some(String::from("not measured in both sets"));
                }
                None => return Some(String::from("too few values")),
                Some(found) if !self.holds(found) => {
                    return Some(self.describe_found(change, found));
                }
                Some(_) => {}
            }
        }
        (!any).then(|| String::from("not measured"))
    }

    fn measured_value(&self, change: &QuantityChange) -> Option<f64> {
        let by_ratio = change.change_interval_ratio;
        let interval =
            by_ratio.map(|ends| ends.map(|ratio| ratio - 1.0)).or(change.difference_interval);
        match self.statistic {
            ChangeStatistic::Change => change.change_ratio.map(|r| r - 1.0).or(change.difference),
            ChangeStatistic::Low => interval.map(|[low, _]| low),
            ChangeStatistic::High => interval.map(|[_, high]| high),
            ChangeStatistic::P => change.p_adjusted,
        }
    }

    fn holds(&self, found: f64) -> bool {
        match self.relation {
            ComparisonOperator::AtLeast => found >= self.wanted,
            ComparisonOperator::AtMost => found <= self.wanted,
            ComparisonOperator::Greater => found > self.wanted,
            ComparisonOperator::Less => found < self.wanted,
            ComparisonOperator::Equal | ComparisonOperator::Unequal => false,
        }
    }

    fn describe_found(&self, change: &QuantityChange, found: f64) -> String {
        let as_ratio = self.statistic != ChangeStatistic::P && change.quantity.unit() != "count";
        let found =
            if as_ratio { format!("{:+.2} %", found * 100.0) } else { format!("{found:.4}") };
        format!("found {found} ({} > {})", change.pair.from, change.pair.to)
    }
}

impl fmt::Display for ChangeExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_history::report_comparison::quantity_change;
    use longhaul_model::report::v1::series::HostPair;

    fn fell() -> Vec<QuantityChange> {
        let pair = HostPair { from: String::from("a"), to: String::from("b") };
        let before = [100e6, 101e6, 99e6, 102e6, 98e6, 100e6];
        let after = before.map(|bps| bps * 0.9);
        quantity_change::compare_quantity(&pair, PathQuantity::Goodput, &before, &after)
            .into_iter()
            .collect()
    }

    #[test]
    fn conditions_are_judged_on_the_change() {
        for (condition, holds) in [
            ("change >= -5 %", false),
            ("change >= -0.15", true),
            ("goodput.change > -12%", true),
            ("change_high < -5 %", true),
            ("change_low >= -11 %", false),
            ("p < 0.05", true),
            // A quantity that was not measured does not meet an expectation.
            ("rtt_floor.change <= 10 %", false),
        ] {
            let expectation: ChangeExpectation = condition.parse().unwrap();
            let missed = expectation.describe_miss(&fell());
            assert_eq!(missed.is_none(), holds, "{condition}: {missed:?}");
        }
    }

    #[test]
    fn too_few_values_do_not_meet_a_bound_of_the_interval() {
        let mut few = fell();
        few[0].change_interval_ratio = None;
        few[0].p_adjusted = None;
        for condition in ["change_low >= -50 %", "p >= 0"] {
            let expectation: ChangeExpectation = condition.parse().unwrap();
            let missed = expectation.describe_miss(&few).unwrap();
            assert!(missed.contains("too few values"), "{missed}");
        }
    }

    #[test]
    fn a_condition_that_means_nothing_is_refused() {
        for text in [
            "",
            "change",
            "change == 1",
            "speed.change >= 1",
            "change >= fast",
            "x >= 1",
            "p < inf",
        ] {
            assert!(text.parse::<ChangeExpectation>().is_err(), "{text}");
        }
    }
}
