//! The plans of the bulk runs of a step.

use longhaul_model::report::v1::load::{LoadPlan, LoadStep};
use longhaul_model::report::v1::plan::{self, RunDirection, StopCondition};

/// The minimum interval between samples; closer ones add nothing.
const INTERVAL_US: u64 = 100_000;
/// The number of samples of a run, which is archived with the load report.
const SAMPLES: u64 = 300;

/// Returns the plan for the load of a step.
pub(super) fn load_plan(plan: &LoadPlan, step: &LoadStep) -> plan::ThroughputPlan {
    let each = |bps: u64| bps / u64::from(step.streams.max(1));
    plan::ThroughputPlan {
        streams: step.streams,
        send_buffer_bytes: step.window_bytes,
        receive_buffer_bytes: step.window_bytes,
        congestion_control: step.congestion_control.clone(),
        pacing_bps: step.rate_bps.map(each),
        dscp: step.dscp,
        scavenger: step.scavenger,
        ..competitor_plan(plan)
    }
}

/// Returns the plan of a plain stream, without settings that the kernel can choose.
pub(super) fn competitor_plan(plan: &LoadPlan) -> plan::ThroughputPlan {
    let (least, most) = crate::plan_limits::INTERVAL_US;
    plan::ThroughputPlan {
        direction: if plan.forward { RunDirection::Forward } else { RunDirection::Reverse },
        stop: StopCondition::TimeUs(plan.load_us),
        interval_us: (plan.load_us / SAMPLES).max(INTERVAL_US).clamp(least, most),
        ..plan::ThroughputPlan::default()
    }
}
