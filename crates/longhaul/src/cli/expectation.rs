//! `--expect`: checks a condition on the result, so that scripts need not parse reports.

use super::command_output;
use crate::command_failure::EXPECTATION_MISSED;
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeVerdict, QuantityChange, ThroughputReport};
use longhaul_model::units::{Rate, parse_duration};
use longhaul_report::number_format::{format_grouped, format_micros, format_percent, format_rate};
use longhaul_report::style::{ERROR, paint};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;
use std::process::ExitCode;
use std::str::FromStr;

/// Reports every missed expectation: its text, and the value found. Returns the exit code.
pub fn report_misses<'a>(misses: impl Iterator<Item = (&'a str, Option<String>)>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (expected, found) in misses.filter_map(|(text, found)| Some((text, found?))) {
        let label = paint(ERROR, "missed:");
        command_output::print_note(&format!("{label} expected {expected}; {found}"));
        code = ExitCode::from(EXPECTATION_MISSED);
    }
    code
}

/// The comparisons with a wanted value. Longer ones come first, because `>` is a prefix of `>=`.
const OPERATORS: [&str; 6] = [">=", "<=", "==", "!=", ">", "<"];
/// The comparisons of values that have an order but are hardly ever equal.
const ORDER_OPERATORS: [&str; 4] = [">=", "<=", ">", "<"];

/// Returns whether the value found meets the condition.
fn meets_condition<T: PartialOrd>(found: &T, operator: &str, wanted: &T) -> bool {
    match operator {
        ">=" => found >= wanted,
        "<=" => found <= wanted,
        "==" => found == wanted,
        "!=" => found != wanted,
        ">" => found > wanted,
        _ => found < wanted,
    }
}

/// A condition in its parts: `goodput`, `>=`, `9 Gbit/s`.
struct ConditionParts<'a> {
    quantity: &'a str,
    operator: &'static str,
    value: &'a str,
}

/// Splits a condition at the first of these operators.
fn split_condition<'a>(
    text: &'a str,
    operators: &[&'static str],
) -> Result<ConditionParts<'a>, String> {
    let signs = || operators.join(" ");
    let start = text
        .find(['<', '>', '=', '!'])
        .ok_or_else(|| format!("expected a quantity, one of {}, and a value", signs()))?;
    let (quantity, rest) = text.split_at(start);
    let operator = operators.iter().find(|sign| rest.starts_with(**sign));
    let operator = *operator.ok_or_else(|| format!("expected one of {}", signs()))?;
    let value = rest[operator.len()..].trim();
    Ok(ConditionParts { quantity: quantity.trim(), operator, value })
}

/// Parses `0.01` or `1 %`.
fn parse_ratio(text: &str) -> Option<f64> {
    let (number, factor) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let value = number.trim().parse::<f64>().ok()? * factor;
    value.is_finite().then_some(value)
}

/// One condition, such as `goodput >= 9 Gbit/s`.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputExpectation {
    pub text: String,
    quantity: &'static str,
    operator: &'static str,
    wanted: ExpectedValue,
}

#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum ExpectedValue {
    Bps(u64),
    Us(u64),
    Count(u64),
    Ratio(f64),
    Limiter(Limiter),
}

const QUANTITIES: [&str; 8] =
    ["goodput", "mean_goodput", "rtt", "rtt_max", "retransmits", "loss", "jitter", "limited_by"];

impl FromStr for ThroughputExpectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = split_condition(text, &OPERATORS)?;
        let quantity = QUANTITIES.into_iter().find(|name| *name == parts.quantity);
        let quantity = quantity.ok_or_else(|| {
            format!("`{}` is not one of {}", parts.quantity, QUANTITIES.join(", "))
        })?;
        let wanted = parse_expected_value(quantity, parts.value)?;
        if quantity == "limited_by" && !["==", "!="].contains(&parts.operator) {
            return Err("limited_by supports only == and !=".to_owned());
        }
        let text = text.trim().to_owned();
        Ok(ThroughputExpectation { text, quantity, operator: parts.operator, wanted })
    }
}

fn parse_expected_value(quantity: &str, text: &str) -> Result<ExpectedValue, String> {
    match quantity {
        "goodput" | "mean_goodput" => {
            let rate = text.parse::<Rate>().map_err(|e| e.to_string())?;
            Ok(ExpectedValue::Bps(rate.as_bps()))
        }
        "rtt" | "rtt_max" | "jitter" => {
            let time = parse_duration(text).map_err(|e| e.to_string())?;
            Ok(ExpectedValue::Us(time.as_micros() as u64))
        }
        "retransmits" => {
            let count = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
            Ok(ExpectedValue::Count(count))
        }
        "loss" => match parse_ratio(text) {
            Some(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ExpectedValue::Ratio(ratio)),
            _ => Err(format!("`{text}` is not a ratio: 0 to 1, or 0 % to 100 %")),
        },
        _ => {
            let limiter: Result<Limiter, ValueError> =
                Limiter::deserialize(text.into_deserializer());
            limiter.map(ExpectedValue::Limiter).map_err(|e| e.to_string())
        }
    }
}

impl ExpectedValue {
    fn text(self) -> String {
        match self {
            ExpectedValue::Bps(bps) => format_rate(bps),
            ExpectedValue::Us(us) => format_micros(us),
            ExpectedValue::Count(count) => format_grouped(count),
            ExpectedValue::Ratio(ratio) => format_percent(ratio),
            ExpectedValue::Limiter(limiter) => limiter.word().to_owned(),
        }
    }
}

impl ThroughputExpectation {
    /// Returns `None` if the condition holds in each measured direction, otherwise the value found.
    pub fn describe_miss(&self, report: &ThroughputReport) -> Option<String> {
        let directions = [Some(&report.analysis), report.analysis.reverse.as_deref()];
        directions.into_iter().flatten().find_map(|analysis| {
            let Some(found) = self.measured_value(analysis) else {
                return Some("not measured".to_owned());
            };
            let holds = meets_condition(&found, self.operator, &self.wanted);
            (!holds).then(|| format!("found {}", found.text()))
        })
    }

    fn measured_value(&self, analysis: &ThroughputAnalysis) -> Option<ExpectedValue> {
        let totals = &analysis.totals;
        match self.quantity {
            "goodput" => analysis.goodput_bps.map(ExpectedValue::Bps),
            "mean_goodput" => analysis.mean_goodput_bps.map(ExpectedValue::Bps),
            "rtt" => analysis.rtt_us.map(|rtt| ExpectedValue::Us(rtt.mean)),
            "rtt_max" => analysis.rtt_us.map(|rtt| ExpectedValue::Us(rtt.max)),
            "retransmits" => totals.retransmitted_segments.map(ExpectedValue::Count),
            "loss" => totals.loss_ratio.map(ExpectedValue::Ratio),
            "jitter" => totals.jitter_us.map(ExpectedValue::Us),
            _ => Some(ExpectedValue::Limiter(analysis.limited_by)),
        }
    }
}

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

    fn report() -> ThroughputReport {
        let text = include_str!("../../../../fixtures/reports/la-geneva-9-streams.json");
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn conditions_are_judged_on_the_report() {
        let report = report();
        for (condition, holds) in [
            ("goodput >= 6 Gbit/s", true),
            ("goodput>=6.2G", false),
            ("mean_goodput < 6 Gbit/s", true),
            ("retransmits <= 52", true),
            ("retransmits < 52", false),
            ("rtt <= 200 ms", true),
            ("rtt_max <= 175 ms", false),
            ("limited_by == path_capacity", true),
            ("limited_by != path_capacity", false),
            // TCP has no such value: an expectation without a measured value is missed.
            ("loss <= 1 %", false),
        ] {
            let expectation: ThroughputExpectation = condition.parse().unwrap();
            assert_eq!(expectation.describe_miss(&report).is_none(), holds, "{condition}");
        }
    }

    #[test]
    fn a_condition_that_means_nothing_is_refused() {
        for text in [
            "",
            "goodput",
            "speed >= 1G",
            "goodput >= fast",
            "goodput = 1G",
            "limited_by >= loss",
            "limited_by == everything",
            "loss <= 200 %",
            "retransmits <= -1",
        ] {
            assert!(text.parse::<ThroughputExpectation>().is_err(), "{text}");
        }
    }
}

#[cfg(test)]
mod change_expectation_tests {
    use super::*;
    use longhaul_history::report_comparison::run_set_comparison;
    use longhaul_model::report::v1::HostPair;

    fn fell() -> Vec<QuantityChange> {
        let pair = HostPair { from: String::from("a"), to: String::from("b") };
        let before = [100e6, 101e6, 99e6, 102e6, 98e6, 100e6];
        let after = before.map(|bps| bps * 0.9);
        run_set_comparison::compare_quantity(&pair, PathQuantity::Goodput, &before, &after)
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
