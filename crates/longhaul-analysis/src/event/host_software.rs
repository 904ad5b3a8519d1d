//! Cause: the software of one of the two hosts was changed.
//!
//! We would see: another kernel, driver, firmware or longhaul from the time of the event on; after
//! an upgrade perhaps another limiter, or more CPU time for the same bytes.
//! Refuted by: nothing by itself, so it weighs little alone. Needs: the host facts of bulk runs, or
//! audits. To do: measure with the old version; read its changes.
//!
//! Units: us of CPU time per 10^9 bytes. Wrong when: a restart changed other settings unnoticed.

use super::candidate::{Candidate, weight};
use super::case::Case;
use super::evidence::Place;
use super::host_facts::{self, Changed};
use super::host_setting::told;
use super::words;
use crate::diagnose::advice;
use longhaul_model::report::v1::analysis::Limiter;

/// Consistency without supporting evidence: always possible, never proven.
const ALONE: f64 = 0.6;
/// The minimum growth of CPU time for the same bytes.
const DEARER: f64 = 1.2;

pub fn candidate(case: &Case) -> Option<Candidate> {
    if !case.of_link() {
        return None;
    }
    let all = host_facts::changed(case, is_software);
    let first = all
        .iter()
        .max_by(|a, b| case.rank(&a.turn).total_cmp(&case.rank(&b.turn)))?;
    let host = case.host(first.place);
    let text = format!(
        "Software of the {} {host} changed {}: {}",
        first.place.word(),
        words::span(first.turn.between_us),
        told(first),
    );
    let mut found = Candidate::new("host_software", first.turn.between_us, text);
    found.weight = weight::HOST;
    found.consistency = if first.turn.lasted { ALONE } else { 0.0 };
    if first.turn.lasted
        && let Some(sign) = burden(case, first)
    {
        found.consistency = 1.0;
        found.supports.push(sign);
    } else {
        found
            .contradicts
            .push(String::from("no reading shows that it made a difference"));
    }
    found.advice.push(advice(
        first.place.word(),
        format!("Measure {host} with the former version, or with another host beside it"),
    ));
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
fn burden(case: &Case, changed: &Changed) -> Option<String> {
    if case.worse() != Some(true) {
        return None;
    }
    let own = if changed.place == Place::Sender {
        Limiter::CpuSender
    } else {
        Limiter::CpuReceiver
    };
    if case.limiter(true) == Some(own) && case.limiter(false) != Some(own) {
        return Some(format!(
            "runs are limited by {} since",
            crate::throughput::words::name(own)
        ));
    }
    let cost = |after: bool| {
        let totals = &case.run(after)?.direction()?.1.totals;
        match changed.place {
            Place::Sender => totals.sender_cpu_us_per_gb,
            Place::Receiver => totals.receiver_cpu_us_per_gb,
        }
    };
    let ratio = cost(true)? as f64 / cost(false).filter(|us| *us > 0)? as f64;
    (ratio >= DEARER).then(|| {
        format!(
            "the same bytes cost it {} of processor time",
            words::change(ratio)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, HOUR};
    use super::*;

    fn found(limiter: Limiter) -> Candidate {
        let mut sketch = sketch::fell();
        for (at, kernel, limiter) in [
            (-HOUR, "6.1.0", Limiter::PathCapacity),
            (HOUR, "6.12.0", limiter),
        ] {
            sketch.run(at, move |report| {
                report.observation.ends.receiver.host.kernel = kernel.to_owned();
                report.analysis.limited_by = limiter;
            });
        }
        sketch.found(candidate).expect("a candidate")
    }

    #[test]
    fn a_new_kernel_alone_is_just_likely() {
        let score = weight::HOST * found(Limiter::PathCapacity).consistency;
        assert!((0.5..0.6).contains(&score), "{score}");
    }

    #[test]
    fn with_the_processor_as_the_new_limit_it_counts_in_full() {
        let found = found(Limiter::CpuReceiver);
        assert!((found.consistency - 1.0).abs() < 1e-9);
        assert!(
            found.summary.contains("kernel from 6.1.0 to 6.12.0"),
            "{}",
            found.summary
        );
    }
}
