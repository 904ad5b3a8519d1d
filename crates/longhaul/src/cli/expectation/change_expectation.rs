//! `--expect` on a change between two sets of runs, such as `change >= -5 %`.

use super::{ORDER_OPERATORS, meets_condition, parse_ratio, split_condition};
use longhaul_model::report::v1::comparison::{ChangeVerdict, QuantityChange};
use longhaul_model::report::v1::quantity::PathQuantity;
use std::str::FromStr;

/// One condition on a change.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeExpectation {
    pub text: String,
    quantity: PathQuantity,
    statistic: &'static str,
    operator: &'static str,
    wanted: f64,
}

/// The change, the ends of its 95 % interval, and the significance.
const STATISTICS: [&str; 4] = ["change", "change_low", "change_high", "p"];

impl FromStr for ChangeExpectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = split_condition(text, &ORDER_OPERATORS)?;
        let (quantity, figure) =
            parts.quantity.rsplit_once('.').unwrap_or(("goodput", parts.quantity));
        let statistic = STATISTICS.into_iter().find(|word| *word == figure);
        let statistic = statistic
            .ok_or_else(|| format!("`{figure}` is not one of {}", STATISTICS.join(", ")))?;
        let quantity = PathQuantity::from_word(quantity).ok_or_else(|| {
            let words = PathQuantity::ALL.map(PathQuantity::word);
            format!("`{quantity}` is not one of {}", words.join(", "))
        })?;
        let value = parts.value;
        let wanted = parse_ratio(value)
            .ok_or_else(|| format!("`{value}` is not a number such as -5 % or 0.05"))?;
        let text = text.trim().to_owned();
        Ok(ChangeExpectation { text, quantity, statistic, operator: parts.operator, wanted })
    }
}

impl ChangeExpectation {
    /// Returns `None` if the condition holds for every pair of hosts with this quantity, otherwise
    /// the value found. A change that was not measured or cannot be determined is a miss.
    pub fn describe_miss(&self, changes: &[QuantityChange]) -> Option<String> {
        let mut ours = changes.iter().filter(|change| change.quantity == self.quantity).peekable();
        if ours.peek().is_none() {
            return Some(String::from("not measured"));
        }
        ours.find_map(|change| match self.measured_value(change) {
            None if change.verdict == ChangeVerdict::NotMeasured => {
                Some(String::from("not measured in both sets"))
            }
            None => Some(String::from("too few values")),
            Some(found) => {
                let holds = meets_condition(&found, self.operator, &self.wanted);
                (!holds).then(|| self.describe_found(change, found))
            }
        })
    }

    fn measured_value(&self, change: &QuantityChange) -> Option<f64> {
        let by_ratio = change.change_interval_ratio;
        let interval =
            by_ratio.map(|ends| ends.map(|ratio| ratio - 1.0)).or(change.difference_interval);
        match self.statistic {
            "change" => change.change_ratio.map(|r| r - 1.0).or(change.difference),
            "change_low" => interval.map(|[low, _]| low),
            "change_high" => interval.map(|[_, high]| high),
            _ => change.p_adjusted,
        }
    }

    fn describe_found(&self, change: &QuantityChange, found: f64) -> String {
        let as_ratio = self.statistic != "p" && change.quantity.unit() != "count";
        let found =
            if as_ratio { format!("{:+.2} %", found * 100.0) } else { format!("{found:.4}") };
        format!("found {found} ({} > {})", change.pair.from, change.pair.to)
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
