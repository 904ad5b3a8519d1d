//! `--expect`: checks a condition on the result, so that scripts need not parse reports.

pub mod change_expectation;

use super::command_output;
use crate::command_failure::EXPECTATION_MISSED;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
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
