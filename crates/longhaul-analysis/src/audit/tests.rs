//! Each rule with a good, a wanting and an absent reading; and no reading may mislead any of them.

mod hostile;
mod judged;
mod proof;

use longhaul_model::report::v1::host::{AuditObservation, AuditPath, AuditPlan, AuditVerdict};

/// 10 Gbit/s × 100 ms: 125 MB in flight.
const FAST: (u64, u64) = (10_000_000_000, 100_000);
/// 100 Gbit/s × 20 ms.
const VERY_FAST: (u64, u64) = (100_000_000_000, 20_000);
/// 10 Mbit/s × 160 ms.
const DARESBURY: (u64, u64) = (10_000_000, 160_000);

fn path(name: &str, (rate_bps, rtt_us): (u64, u64)) -> AuditPath {
    AuditPath { name: name.to_owned(), rtt_us, rate_bps, origin: String::from("asked") }
}

fn plan(figures: (u64, u64)) -> AuditPlan {
    AuditPlan { paths: vec![path("far", figures)], ..AuditPlan::default() }
}

fn observed(readings: &[(&str, &str)]) -> AuditObservation {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    AuditObservation {
        readings: readings.iter().map(owned).collect(),
        ..AuditObservation::default()
    }
}

fn verdict_on(rule: &str, plan: &AuditPlan, observation: &AuditObservation) -> AuditVerdict {
    let (analysis, _, _) = super::audit_host(plan, observation);
    let mut verdicts = analysis.verdicts.into_iter();
    verdicts.find(|verdict| verdict.rule == rule).unwrap_or_else(|| panic!("no rule {rule}"))
}
