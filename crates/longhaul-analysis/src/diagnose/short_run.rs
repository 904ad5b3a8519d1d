//! A run too short for its path.
//!
//! We would see: fewer than twenty round trips, or less than ten times the duration of slow start.
//! Refuted by: a rate that settled and stayed. Needs: idle RTT, arrivals. To do: run longer.
//!
//! Source: slow start doubles per RTT from ten segments (RFC 6928): RTT × log2(BDP / IW).
//! Units: seconds. Wrong when: the receive window, not the path, ends the doubling sooner.

use super::{DiagnosisCase, FindingAdvice, build_finding, format_duration, repeat_command};
use crate::limit::limiter_verdict::SHORT_TRIPS;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use std::time::Duration;

/// The minimum ratio of the run to its ramp.
const RAMPS: u32 = 10;
/// The initial window of RFC 6928, ten segments of 1460 bytes.
const INITIAL_WINDOW_BYTES: f64 = 14_600.0;

pub fn diagnose_short_run(case: &DiagnosisCase) -> Option<ReportFinding> {
    let rtt = case.idle_rtt()?;
    let elapsed = Duration::from_micros(case.scene.observation.elapsed_us);
    let ramp = estimate_slow_start(case, rtt);
    let trips = elapsed.as_micros() / rtt.as_micros().max(1);
    let needed = ramp.saturating_mul(RAMPS).max(rtt.saturating_mul(SHORT_TRIPS as u32));
    let is_ramp = case.is_limited_by(Limiter::Ramp);
    // A rate limited by a window, an application or a CPU is just as valid after a short run.
    let of_path = is_ramp
        || matches!(case.verdict.limiter, Limiter::PathCapacity | Limiter::Loss | Limiter::Unknown);
    if !is_ramp && (!of_path || elapsed >= needed) {
        return None;
    }
    let summary = format!(
        "The run is too short for this path: {} is {trips} RTTs, and slow start to this rate alone takes about {}; the steady rate is {}",
        format_duration(elapsed),
        format_duration(ramp),
        if case.analysis.steady.is_some() { "less certain" } else { "unknown" },
    );
    let mut found = build_finding(case, "short_run", summary);
    found.confidence_ratio = if is_ramp { case.analysis.confidence_ratio } else { 0.6 };
    let seconds = needed.as_secs_f64().max(elapsed.as_secs_f64() * 2.0).ceil().max(1.0);
    found.advice.push(FindingAdvice {
        command: Some(repeat_command(&format!("-t {seconds}"))),
        ..FindingAdvice::new("initiator", format!("Run for {seconds} s or longer"))
    });
    Some(found)
}

/// Returns the duration of slow start: doublings from the initial window, times the RTT.
fn estimate_slow_start(case: &DiagnosisCase, rtt: Duration) -> Duration {
    let each = case.goodput().bytes_in(rtt) as f64 / case.streams() as f64;
    let trips = (each / INITIAL_WINDOW_BYTES).max(1.0).log2();
    Duration::try_from_secs_f64(rtt.as_secs_f64() * trips).unwrap_or(Duration::MAX)
}
