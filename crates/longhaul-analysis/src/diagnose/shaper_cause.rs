//! A shaper that passes a burst and then limits the flow to a lower rate.
//!
//! We would see: a lasting step down in the arrivals, level before and after, with a standing queue
//! after it. Refuted by: losses without a queue (a policer), a sloping rate (other traffic).
//! Needs: arrivals at the receiver, RTT. To do: use the sustained rate; short tests overestimate.
//!
//! Source: the shaper test in `limit`. Units: bit/s, bytes. Error: burst accurate to 2 %.
//! Wrong when: competing traffic starts once and continues.

use super::{DiagnosisCase, build_finding, to_rate};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::units::Bytes;

pub fn diagnose_shaper(case: &DiagnosisCase) -> Option<ReportFinding> {
    let bucket = case.scene.bucket?;
    let summary = format!(
        "Shaped: {} for the first {}, then {}; tests shorter than the burst overestimate",
        to_rate(bucket.peak_bps as u64),
        Bytes(bucket.burst_bytes as u64),
        to_rate(bucket.sustained_bps as u64),
    );
    let mut found = build_finding(case, "shaper", summary);
    found.confidence_ratio = found.confidence_ratio.max(0.8);
    let knee = bucket.knee_us.saturating_sub(case.scene.arrivals.from_us()) as f64 / 1e6;
    found.support(format!(
        "the rate stepped down once, {knee:.2} s into the run, and was constant before and after"
    ));
    found.advise(
        "path",
        format!(
            "Plan with {}; the operator's contract should name peak, sustained rate and burst",
            to_rate(bucket.sustained_bps as u64)
        ),
    );
    Some(found)
}
