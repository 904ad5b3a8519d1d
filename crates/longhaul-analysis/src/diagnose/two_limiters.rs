//! Two limiters that shared the run.
//!
//! We would see: two limiters with at least 30 % of the bytes each. Refuted by: one with most of
//! them.
//! Needs: the shares. To do: lift the first, and measure again.
//! Units: shares of bytes. Wrong when: the samples are too sparse to distinguish neighbours.

use super::{DiagnosisCase, ReportFinding, build_finding, format_whole_percent};
use crate::limit::limiter_verdict::SHARED_RATIO;
use crate::throughput::limiter_text::name_limiter;

pub fn diagnose_two_limiters(case: &DiagnosisCase) -> Option<ReportFinding> {
    let (second, share) = case.verdict.second?;
    let first = case.verdict.limiter;
    let own = case.verdict.shares.limiter(first);
    if first == second || own < SHARED_RATIO {
        return None;
    }
    let summary = format!(
        "Two limiters: {} for {} of the bytes, {} for {}",
        name_limiter(first),
        format_whole_percent(own),
        name_limiter(second),
        format_whole_percent(share),
    );
    let mut found = build_finding(case, "two_limiters", summary);
    let text = "Remove the first limit and measure again; the second then limits alone";
    found.advise("initiator", text);
    Some(found)
}
