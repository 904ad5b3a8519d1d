//! `--expect`: checks a condition on the result, so that scripts need not parse reports.

pub mod change_expectation;

use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::units::{Rate, parse_duration};
use longhaul_report::number_format::{format_grouped, format_micros, format_percent, format_rate};
use std::fmt;
use std::str::FromStr;

/// One condition, such as `goodput >= 9 Gbit/s`.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputExpectation {
    text: String,
    quantity: ExpectedQuantity,
    relation: ComparisonOperator,
    wanted: ExpectedValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedQuantity {
    Goodput,
    MeanGoodput,
    Rtt,
    RttMax,
    Retransmits,
    Loss,
    Jitter,
    LimitedBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparisonOperator {
    AtLeast,
    AtMost,
    Greater,
    Less,
    Equal,
    Unequal,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ExpectedValue {
    Bps(u64),
    Us(u64),
    Count(u64),
    Ratio(f64),
    Limiter(Limiter),
}

const QUANTITIES: [(&str, ExpectedQuantity); 8] = [
    ("goodput", ExpectedQuantity::Goodput),
    ("mean_goodput", ExpectedQuantity::MeanGoodput),
    ("rtt", ExpectedQuantity::Rtt),
    ("rtt_max", ExpectedQuantity::RttMax),
    ("retransmits", ExpectedQuantity::Retransmits),
    ("loss", ExpectedQuantity::Loss),
    ("jitter", ExpectedQuantity::Jitter),
    ("limited_by", ExpectedQuantity::LimitedBy),
];

/// Longer operators come first, because `>` is a prefix of `>=`.
const RELATIONS: [(&str, ComparisonOperator); 6] = [
    (">=", ComparisonOperator::AtLeast),
    ("<=", ComparisonOperator::AtMost),
    ("==", ComparisonOperator::Equal),
    ("!=", ComparisonOperator::Unequal),
    (">", ComparisonOperator::Greater),
    ("<", ComparisonOperator::Less),
];

const LIMITERS: [Limiter; 12] = [
    Limiter::ReceiveWindow,
    Limiter::SendBuffer,
    Limiter::Application,
    Limiter::CpuSender,
    Limiter::CpuReceiver,
    Limiter::Loss,
    Limiter::PathCapacity,
    Limiter::Shaper,
    Limiter::Policer,
    Limiter::Pacing,
    Limiter::Ramp,
    Limiter::Unknown,
];

impl FromStr for ThroughputExpectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let start = text
            .find(['<', '>', '=', '!'])
            .ok_or("expected a quantity, one of >= <= == != > <, and a value")?;
        let (name, rest) = text.split_at(start);
        let (sign, relation) = *RELATIONS
            .iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or("expected one of >= <= == != > <")?;
        let name = name.trim();
        let quantity = QUANTITIES.iter().find(|(word, _)| *word == name);
        let Some(&(_, quantity)) = quantity else {
            let known: Vec<_> = QUANTITIES.iter().map(|(word, _)| *word).collect();
            return Err(format!("`{name}` is not one of {}", known.join(", ")));
        };
        let wanted = parse_expected_value(quantity, rest[sign.len()..].trim())?;
        let ordered = !matches!(relation, ComparisonOperator::Equal | ComparisonOperator::Unequal);
        if quantity == ExpectedQuantity::LimitedBy && ordered {
            return Err("limited_by supports only == and !=".to_owned());
        }
        Ok(ThroughputExpectation { text: text.trim().to_owned(), quantity, relation, wanted })
    }
}

fn parse_expected_value(quantity: ExpectedQuantity, text: &str) -> Result<ExpectedValue, String> {
    match quantity {
        ExpectedQuantity::Goodput | ExpectedQuantity::MeanGoodput => text
            .parse::<Rate>()
            .map(|rate| ExpectedValue::Bps(rate.as_bps()))
            .map_err(|e| e.to_string()),
        ExpectedQuantity::Rtt | ExpectedQuantity::RttMax | ExpectedQuantity::Jitter => {
            parse_duration(text)
                .map(|time| ExpectedValue::Us(time.as_micros() as u64))
                .map_err(|e| e.to_string())
        }
        ExpectedQuantity::Retransmits => text
            .parse()
            .map(ExpectedValue::Count)
            .map_err(|_| format!("`{text}` is not a whole number")),
        ExpectedQuantity::Loss => parse_ratio(text).map(ExpectedValue::Ratio),
        ExpectedQuantity::LimitedBy => {
            let found = LIMITERS.iter().find(|limiter| limiter.word() == text);
            found.map(|limiter| ExpectedValue::Limiter(*limiter)).ok_or_else(|| {
                let words: Vec<_> = LIMITERS.iter().map(|l| l.word()).collect();
                format!("`{text}` is not one of {}", words.join(", "))
            })
        }
    }
}

/// Parses `0.01` or `1 %`.
fn parse_ratio(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&(value * factor)) => Ok(value * factor),
        _ => Err(format!("`{text}` is not a ratio: 0 to 1, or 0 % to 100 %")),
    }
}

impl fmt::Display for ThroughputExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for ExpectedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ExpectedValue::Bps(bps) => f.write_str(&format_rate(bps)),
            ExpectedValue::Us(us) => f.write_str(&format_micros(us)),
            ExpectedValue::Count(count) => f.write_str(&format_grouped(count)),
            ExpectedValue::Ratio(ratio) => f.write_str(&format_percent(ratio)),
            ExpectedValue::Limiter(limiter) => f.write_str(limiter.word()),
        }
    }
}

impl ThroughputExpectation {
    /// Returns `None` if the condition holds in each measured direction, otherwise the value found.
    pub fn describe_miss(&self, report: &ThroughputReport) -> Option<String> {
        let directions = [Some(&report.analysis), report.analysis.reverse.as_deref()];
        directions.into_iter().flatten().find_map(|analysis| match self.measured_value(analysis) {
            None => Some("not measured".to_owned()),
            Some(found) if !self.holds(found) => Some(format!("found {found}")),
            Some(_) => None,
        })
    }

    fn measured_value(&self, analysis: &ThroughputAnalysis) -> Option<ExpectedValue> {
        let totals = &analysis.totals;
        match self.quantity {
            ExpectedQuantity::Goodput => analysis.goodput_bps.map(ExpectedValue::Bps),
            ExpectedQuantity::MeanGoodput => analysis.mean_goodput_bps.map(ExpectedValue::Bps),
            ExpectedQuantity::Rtt => analysis.rtt_us.map(|rtt| ExpectedValue::Us(rtt.mean)),
            ExpectedQuantity::RttMax => analysis.rtt_us.map(|rtt| ExpectedValue::Us(rtt.max)),
            ExpectedQuantity::Retransmits => {
                totals.retransmitted_segments.map(ExpectedValue::Count)
            }
            ExpectedQuantity::Loss => totals.loss_ratio.map(ExpectedValue::Ratio),
            ExpectedQuantity::Jitter => totals.jitter_us.map(ExpectedValue::Us),
            ExpectedQuantity::LimitedBy => Some(ExpectedValue::Limiter(analysis.limited_by)),
        }
    }

    fn holds(&self, found: ExpectedValue) -> bool {
        use std::cmp::Ordering;
        let order = match (found, self.wanted) {
            (ExpectedValue::Bps(a), ExpectedValue::Bps(b))
            | (ExpectedValue::Us(a), ExpectedValue::Us(b))
            | (ExpectedValue::Count(a), ExpectedValue::Count(b)) => a.cmp(&b),
            (ExpectedValue::Ratio(a), ExpectedValue::Ratio(b)) => a.total_cmp(&b),
            (ExpectedValue::Limiter(a), ExpectedValue::Limiter(b)) => a.cmp(&b),
            // Each quantity has one kind of value.
            _ => return false,
        };
        match self.relation {
            ComparisonOperator::AtLeast => order != Ordering::Less,
            ComparisonOperator::AtMost => order != Ordering::Greater,
            ComparisonOperator::Greater => order == Ordering::Greater,
            ComparisonOperator::Less => order == Ordering::Less,
            ComparisonOperator::Equal => order == Ordering::Equal,
            ComparisonOperator::Unequal => order != Ordering::Equal,
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
