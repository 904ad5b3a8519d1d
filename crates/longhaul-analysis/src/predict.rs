//! Predicts goodput for windows and streams on a path, from theory and a round model.
//!
//! - [`closed_forms`]: the bounds that hold regardless of the streams
//! - [`round_model`]: streams of one kind over one drop-tail queue, one step per round trip; [`stream_model`],
//!   [`cubic_model`] and [`bbr_model`] model a single stream
//! - [`measured_comparison`]: interpretation of the differences from a measured scan
//! - [`mod@scan_derivation`]: parameters of the path and the hosts, derived from a scan
//!
//! Source: see the parts. Units: bit/s of payload, bytes, microseconds.
//! Error: against ns-3 and the lab, see docs/methods/prediction.md.
//! Wrong when: others share the path, the link is no drop-tail queue, or a limit was not specified.

pub mod bbr_model;
pub mod closed_forms;
pub mod cubic_model;
pub mod measured_comparison;
pub mod round_model;
pub mod scan_derivation;
pub mod stream_model;

pub use scan_derivation::derive_plan_from_scan;

use longhaul_model::report::v1::analysis::{Limiter, RateBound};
use longhaul_model::report::v1::predict::{
    PredictionAnalysis, PredictionCell, PredictionObservation, PredictionPlan,
};
use longhaul_model::report::v1::scan::TransferSetting;
use round_model::{ModelPath, SimulationResult};

/// The maximum number of cells of one prediction.
pub const MAX_CELLS: usize = 4096;
/// The maximum number of streams of a cell.
pub const MAX_STREAMS: u32 = 1024;
/// The congestion controls that are modelled.
pub const MODELLED: [&str; 3] = ["reno", "cubic", "bbr"];
/// Round trips that are modelled, in microseconds.
pub const RTT_US: std::ops::RangeInclusive<u64> = 10..=60_000_000;
/// Transfers that are modelled, in microseconds.
pub const TIME_US: std::ops::RangeInclusive<u64> = 1_000..=86_400_000_000;
/// Rates that are modelled, in bit/s.
pub const CAPACITY_BPS: std::ops::RangeInclusive<u64> = 1_000..=100_000_000_000_000;
/// The maximum loss ratio: a higher loss carries no transfer.
pub const MAX_LOSS_RATIO: f64 = 0.5;
/// A goodput at or above this ratio of a bound is limited by it.
const AT_BOUND_RATIO: f64 = 0.97;

/// Checks that the plan can be predicted; the error names the value and the allowed range.
pub fn check_plan(plan: &PredictionPlan) -> Result<(), String> {
    let within = |name: &str, value: u64, range: std::ops::RangeInclusive<u64>| {
        if range.contains(&value) {
            return Ok(());
        }
        let (least, most) = range.into_inner();
        Err(format!("{name} {value} is outside what is modelled ({least} to {most})"))
    };
    within("capacity_bps", plan.path.capacity_bps, CAPACITY_BPS)?;
    within("rtt_us", plan.path.rtt_us, RTT_US)?;
    within("mss_bytes", plan.path.mss_bytes.into(), 1..=65_535)?;
    within("header_bytes", plan.path.header_bytes.into(), 0..=1_000)?;
    within("time_us", plan.time_us, TIME_US)?;
    let cells = [
        plan.windows_bytes.len(),
        plan.streams.len(),
        plan.congestion_controls.len(),
        plan.loss_ratios.len(),
        plan.buffers_bytes.len(),
    ];
    let cells = cells.iter().fold(1usize, |all, n| all.saturating_mul(*n));
    within("cells", cells as u64, 1..=MAX_CELLS as u64)?;
    for streams in &plan.streams {
        within("streams", (*streams).into(), 1..=MAX_STREAMS.into())?;
    }
    for window in plan.windows_bytes.iter().flatten() {
        within("windows_bytes", *window, 1..=u64::MAX)?;
    }
    let mut asked = plan.congestion_controls.iter();
    if let Some(name) = asked.find(|name| !MODELLED.contains(&name.as_str())) {
        let known = MODELLED.join(", ");
        return Err(format!("{name} is not modelled ({known} are)"));
    }
    match plan.loss_ratios.iter().find(|p| !(0.0..=MAX_LOSS_RATIO).contains(*p)) {
        Some(p) => Err(format!("loss_ratio {p} is outside 0 to {MAX_LOSS_RATIO}")),
        None => Ok(()),
    }
}

/// Predicts all cells, table by table: queue, loss, congestion control, window, streams. A plan
/// that [`check_plan`] refuses has no cells.
pub fn predict_goodput(
    plan: &PredictionPlan,
    observation: &PredictionObservation,
) -> PredictionAnalysis {
    let mut analysis =
        PredictionAnalysis { version: crate::VERSION, ..PredictionAnalysis::default() };
    if check_plan(plan).is_err() {
        return analysis;
    }
    for &buffer_bytes in &plan.buffers_bytes {
        for &loss_ratio in &plan.loss_ratios {
            for setting in list_settings(plan) {
                analysis.cells.push(predict_cell(plan, setting, loss_ratio, buffer_bytes));
            }
        }
    }
    measured_comparison::compare_with_measured(&mut analysis, plan, observation);
    analysis
}

fn list_settings(plan: &PredictionPlan) -> Vec<TransferSetting> {
    let mut all = Vec::new();
    for congestion_control in &plan.congestion_controls {
        for &window_bytes in &plan.windows_bytes {
            all.extend(plan.streams.iter().map(|&streams| TransferSetting {
                window_bytes,
                streams,
                congestion_control: Some(congestion_control.clone()),
                pacing_bps: None,
            }));
        }
    }
    all
}

fn predict_cell(
    plan: &PredictionPlan,
    setting: TransferSetting,
    loss_ratio: f64,
    buffer_bytes: u64,
) -> PredictionCell {
    let bounds = closed_forms::predict_bounds(plan, &setting, loss_ratio);
    let course = round_model::simulate_setting(
        &ModelPath::of(plan, loss_ratio, buffer_bytes),
        plan,
        &setting,
    );
    let least = bounds.first().map_or(u64::MAX, |b| b.rate_bps);
    let limited_by = find_reached_limiter(&course, &bounds);
    PredictionCell {
        setting,
        loss_ratio,
        buffer_bytes,
        goodput_bps: (course.goodput_bps as u64).min(least),
        limited_by,
        queue_bytes: course.queue_bytes as u64,
        made_loss_ratio: course.made_loss_ratio,
        bounds,
        measured_bps: None,
        disagreement_ratio: None,
        meaning: None,
    }
}

/// Returns the bound that is reached, or else the limiter that keeps the streams below all bounds.
fn find_reached_limiter(course: &SimulationResult, bounds: &[RateBound]) -> Limiter {
    let reached = |b: &&RateBound| {
        b.limiter != Limiter::Loss && course.goodput_bps >= AT_BOUND_RATIO * b.rate_bps as f64
    };
    if let Some(bound) = bounds.iter().find(reached) {
        return bound.limiter;
    }
    if course.climbing {
        return Limiter::Ramp;
    }
    if course.excess_losses >= 0.0 {
        // The streams overflow the queue and then drain it: no other limit exists.
        return Limiter::PathCapacity;
    }
    Limiter::Loss
}
