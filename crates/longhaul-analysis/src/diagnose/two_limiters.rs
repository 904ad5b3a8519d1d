//! Two limiters that shared the run.
//!
//! We would see: two limiters with at least 30 % of the bytes each. Refuted by: one with most of
//! them.
//! Needs: the shares. To do: lift the first, and measure again.
//! Units: shares of bytes. Wrong when: the samples are too sparse to distinguish neighbours.

use super::{Case, Finding, finding, percent};
use crate::limit::verdict::SHARED_RATIO;
use crate::throughput::words::name;

pub fn diagnose(case: &Case) -> Option<Finding> {
    let (second, share) = case.verdict.second?;
    let first = case.verdict.limiter;
    let own = case.verdict.shares.limiter(first);
    if first == second || own < SHARED_RATIO {
        return None;
    }
    let summary = format!(
        "Two limiters: {} held {} of the bytes, {} held {}",
        name(first),
        percent(own),
        name(second),
        percent(share),
    );
    let mut found = finding(case, "two_limiters", summary);
    found.advice.push(super::advice(
        "initiator",
        String::from("Lift the first limit, and measure again: the second then shows alone"),
    ));
    Some(found)
}
