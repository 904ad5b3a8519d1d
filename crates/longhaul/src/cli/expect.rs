//! `--expect`: checks a condition on the result, so that scripts need not parse reports.

pub mod change;

use crate::render::figures::{duration, grouped, percent, rate};
use longhaul_model::report::v1::Throughput;
use longhaul_model::report::v1::analysis::{Analysis, Limiter};
use longhaul_model::units::{Rate, parse_duration};
use std::fmt;
use std::str::FromStr;

/// One condition, such as `goodput >= 9 Gbit/s`.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    text: String,
    quantity: Quantity,
    relation: Relation,
    wanted: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
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
enum Relation {
    AtLeast,
    AtMost,
    More,
    Less,
    Equal,
    Unequal,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Bps(u64),
    Us(u64),
    Count(u64),
    Ratio(f64),
    Limiter(Limiter),
}

const QUANTITIES: [(&str, Quantity); 8] = [
    ("goodput", Quantity::Goodput),
    ("mean_goodput", Quantity::MeanGoodput),
    ("rtt", Quantity::Rtt),
    ("rtt_max", Quantity::RttMax),
    ("retransmits", Quantity::Retransmits),
    ("loss", Quantity::Loss),
    ("jitter", Quantity::Jitter),
    ("limited_by", Quantity::LimitedBy),
];

/// Longer operators come first, because `>` is a prefix of `>=`.
const RELATIONS: [(&str, Relation); 6] = [
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    ("==", Relation::Equal),
    ("!=", Relation::Unequal),
    (">", Relation::More),
    ("<", Relation::Less),
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

impl FromStr for Expectation {
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
        let wanted = value(quantity, rest[sign.len()..].trim())?;
        let ordered = !matches!(relation, Relation::Equal | Relation::Unequal);
        if quantity == Quantity::LimitedBy && ordered {
            return Err("limited_by knows only == and !=".to_owned());
        }
        Ok(Expectation {
            text: text.trim().to_owned(),
            quantity,
            relation,
            wanted,
        })
    }
}

fn value(quantity: Quantity, text: &str) -> Result<Value, String> {
    match quantity {
        Quantity::Goodput | Quantity::MeanGoodput => text
            .parse::<Rate>()
            .map(|rate| Value::Bps(rate.as_bps()))
            .map_err(|e| e.to_string()),
        Quantity::Rtt | Quantity::RttMax | Quantity::Jitter => parse_duration(text)
            .map(|time| Value::Us(time.as_micros() as u64))
            .map_err(|e| e.to_string()),
        Quantity::Retransmits => text
            .parse()
            .map(Value::Count)
            .map_err(|_| format!("`{text}` is not a whole number")),
        Quantity::Loss => ratio(text).map(Value::Ratio),
        Quantity::LimitedBy => {
            let found = LIMITERS.iter().find(|limiter| limiter.word() == text);
            found
                .map(|limiter| Value::Limiter(*limiter))
                .ok_or_else(|| {
                    let words: Vec<_> = LIMITERS.iter().map(|l| l.word()).collect();
                    format!("`{text}` is not one of {}", words.join(", "))
                })
        }
    }
}

/// Parses `0.01` or `1 %`.
fn ratio(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&(value * factor)) => Ok(value * factor),
        _ => Err(format!("`{text}` is not a share: 0 to 1, or 0 % to 100 %")),
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Bps(bps) => f.write_str(&rate(bps)),
            Value::Us(us) => f.write_str(&duration(us)),
            Value::Count(count) => f.write_str(&grouped(count)),
            Value::Ratio(ratio) => f.write_str(&percent(ratio)),
            Value::Limiter(limiter) => f.write_str(limiter.word()),
        }
    }
}

impl Expectation {
    /// Returns `None` if the condition holds in each measured direction, otherwise the value found.
    pub fn missed(&self, report: &Throughput) -> Option<String> {
        let directions = [Some(&report.analysis), report.analysis.reverse.as_deref()];
        directions
            .into_iter()
            .flatten()
            .find_map(|analysis| match self.find(analysis) {
                None => Some("it was not measured".to_owned()),
                Some(found) if !self.holds(found) => Some(format!("found {found}")),
                Some(_) => None,
            })
    }

    fn find(&self, analysis: &Analysis) -> Option<Value> {
        let totals = &analysis.totals;
        match self.quantity {
            Quantity::Goodput => analysis.goodput_bps.map(Value::Bps),
            Quantity::MeanGoodput => analysis.mean_goodput_bps.map(Value::Bps),
            Quantity::Rtt => analysis.rtt_us.map(|rtt| Value::Us(rtt.mean)),
            Quantity::RttMax => analysis.rtt_us.map(|rtt| Value::Us(rtt.max)),
            Quantity::Retransmits => totals.retransmitted_segments.map(Value::Count),
            Quantity::Loss => totals.loss_ratio.map(Value::Ratio),
            Quantity::Jitter => totals.jitter_us.map(Value::Us),
            Quantity::LimitedBy => Some(Value::Limiter(analysis.limited_by)),
        }
    }

    fn holds(&self, found: Value) -> bool {
        use std::cmp::Ordering;
        let order = match (found, self.wanted) {
            (Value::Bps(a), Value::Bps(b))
            | (Value::Us(a), Value::Us(b))
            | (Value::Count(a), Value::Count(b)) => a.cmp(&b),
            (Value::Ratio(a), Value::Ratio(b)) => a.total_cmp(&b),
            (Value::Limiter(a), Value::Limiter(b)) => a.cmp(&b),
            // Each quantity has one kind of value.
            _ => return false,
        };
        match self.relation {
            Relation::AtLeast => order != Ordering::Less,
            Relation::AtMost => order != Ordering::Greater,
            Relation::More => order == Ordering::Greater,
            Relation::Less => order == Ordering::Less,
            Relation::Equal => order == Ordering::Equal,
            Relation::Unequal => order != Ordering::Equal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Throughput {
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
            let expectation: Expectation = condition.parse().unwrap();
            assert_eq!(expectation.missed(&report).is_none(), holds, "{condition}");
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
            assert!(text.parse::<Expectation>().is_err(), "{text}");
        }
    }
}
