//! Each rule with a good, a wanting and an absent reading; and no reading may mislead any of them.

mod hostile;
mod judged;
mod proof;

use longhaul_model::report::v1::host::{Observation, Path, Plan, Verdict};

/// 10 Gbit/s × 100 ms: 125 MB in flight.
const FAST: (u64, u64) = (10_000_000_000, 100_000);
/// 100 Gbit/s × 20 ms.
const VERY_FAST: (u64, u64) = (100_000_000_000, 20_000);
/// 10 Mbit/s × 160 ms.
const DARESBURY: (u64, u64) = (10_000_000, 160_000);

fn path(name: &str, (rate_bps, rtt_us): (u64, u64)) -> Path {
    Path {
        name: name.to_owned(),
        rtt_us,
        rate_bps,
        origin: String::from("asked"),
    }
}

fn plan(figures: (u64, u64)) -> Plan {
    Plan {
        paths: vec![path("far", figures)],
        ..Plan::default()
    }
}

fn observed(readings: &[(&str, &str)]) -> Observation {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Observation {
        readings: readings.iter().map(owned).collect(),
        ..Observation::default()
    }
}

fn verdict_on(rule: &str, plan: &Plan, observation: &Observation) -> Verdict {
    let (analysis, _, _) = super::audit(plan, observation);
    let mut verdicts = analysis.verdicts.into_iter();
    verdicts
        .find(|verdict| verdict.rule == rule)
        .unwrap_or_else(|| panic!("no rule {rule}"))
}
