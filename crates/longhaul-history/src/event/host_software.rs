//! Cause: the software of one of the two hosts was changed.
//!
//! We would see: another kernel, driver, firmware or longhaul from the time of the event on; after
//! an upgrade perhaps another limiter, or more CPU time for the same bytes.
//! Refuted by: nothing by itself, so it weighs little alone. Needs: the host facts of bulk runs, or
//! audits. To do: measure with the old version; read its changes.
//!
//! Units: us of CPU time per 10^9 bytes. Wrong when: a restart changed other settings unnoticed.

use super::change_evidence::HostRole;
use super::event_case::EventCase;
use super::event_format;
use super::host_facts::{self, HostFactChange, create_fact_candidate, format_fact_change};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;

/// Consistency without supporting evidence: always possible, never proven.
const UNSUPPORTED_CONSISTENCY: f64 = 0.6;
/// The minimum growth of CPU time for the same bytes.
const MIN_CPU_COST_RATIO: f64 = 1.2;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let all = host_facts::find_changed_facts(case, is_software);
    let first = all
        .iter()
        .max_by(|a, b| case.rank_change(&a.change).total_cmp(&case.rank_change(&b.change)))?;
    let told = format_fact_change(first);
    let mut found = create_fact_candidate(case, "host_software", "Software", first, &told);
    match find_cpu_evidence(case, first) {
        _ if !first.change.lasted => found.confidence_ratio = 0.0,
        Some(sign) => found.support(sign),
        None => {
            found.confidence_ratio *= UNSUPPORTED_CONSISTENCY;
            found.contradict("no reading shows an effect");
        }
    }
    let host = case.host(first.role);
    let text = format!("Measure {host} with the previous version, or next to another host");
    found.advise(first.role.word(), text);
    Some(found)
}

fn is_software(name: &str) -> bool {
    matches!(
        name,
        "kernel"
            | "longhaul"
            | "interface.driver"
            | "interface.firmware"
            | "cpu.hypervisor"
            | "cpu.model"
    )
}

/// Returns evidence that the CPU of that host is now the limiter or spends more time per byte.
fn find_cpu_evidence(case: &EventCase, changed: &HostFactChange) -> Option<String> {
    if case.is_worse() != Some(true) {
        return None;
    }
    let own =
        if changed.role == HostRole::Sender { Limiter::CpuSender } else { Limiter::CpuReceiver };
    if case.frequent_limiter(true) == Some(own) && case.frequent_limiter(false) != Some(own) {
        return Some(event_format::describe_limiter_since(own));
    }
    let cost = |after: bool| {
        let totals = &case.nearest_run(after)?.direction()?.1.totals;
        match changed.role {
            HostRole::Sender => totals.sender_cpu_us_per_gb,
            HostRole::Receiver => totals.receiver_cpu_us_per_gb,
        }
    };
    let ratio = cost(true)? as f64 / cost(false).filter(|us| *us > 0)? as f64;
    (ratio >= MIN_CPU_COST_RATIO)
        .then(|| format!("CPU time per byte changed by {}", event_format::format_change(ratio)))
}

#[cfg(test)]
mod tests {
    use super::super::cause_selection::weight;
    use super::super::event_test_builder::{self, HOUR};
    use super::*;

    fn found(limiter: Limiter) -> ReportFinding {
        let mut sketch = event_test_builder::build_goodput_drop();
        for (at, kernel, limiter) in
            [(-HOUR, "6.1.0", Limiter::PathCapacity), (HOUR, "6.12.0", limiter)]
        {
            sketch.run(at, move |report| {
                report.observation.ends.receiver.host.kernel = kernel.to_owned();
                report.analysis.limited_by = limiter;
            });
        }
        sketch.run_cause(find_candidate).expect("a candidate")
    }

    #[test]
    fn a_new_kernel_alone_is_just_likely() {
        let score = found(Limiter::PathCapacity).confidence_ratio;
        assert!((0.5..0.6).contains(&score), "{score}");
    }

    #[test]
    fn with_the_processor_as_the_new_limit_it_counts_in_full() {
        let found = found(Limiter::CpuReceiver);
        assert!((found.confidence_ratio - weight::HOST).abs() < 1e-9);
        assert!(found.summary.contains("kernel from 6.1.0 to 6.12.0"), "{}", found.summary);
    }
}
