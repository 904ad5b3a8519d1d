//! Concludes from one throughput run: plan and observation to analysis, findings and caveats.

pub mod arrival_timeline;
pub mod goodput;
pub mod limiter_text;
pub mod ramp_detection;
pub mod run_totals;

use crate::limit::run_reading::read_run;
use crate::limit::{limit_bounds, limiter_verdict};
use crate::{RunConclusion, VERSION, caveats, diagnose};
use longhaul_model::report::v1::analysis::ThroughputAnalysis;
use longhaul_model::report::v1::observation::ThroughputObservation;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::{ReportCaveat, ReportFinding};

pub use limiter_text::format_verdict;

/// Draws all conclusions from one throughput run.
///
/// Never fails: what the observation does not contain stays absent in the analysis, and the caveats
/// say so. A run without a steady part has the rate of its last quarter as goodput, without an
/// interval and with the caveat `check_ramp_only`.
pub fn conclude_throughput(
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
) -> RunConclusion<ThroughputAnalysis> {
    let mut forward = conclude_direction(plan, observation);
    if let Some(reverse) = observation.reverse.as_deref() {
        let reverse = conclude_direction(plan, reverse);
        forward.analysis.reverse = Some(Box::new(reverse.analysis));
        let other = |text: String| format!("Other direction: {text}");
        let findings = reverse.findings.into_iter();
        forward.findings.extend(findings.map(|f| ReportFinding { summary: other(f.summary), ..f }));
        let caveats = reverse.caveats.into_iter();
        forward.caveats.extend(caveats.map(|c| ReportCaveat { text: other(c.text), ..c }));
    }
    forward
}

fn conclude_direction(
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
) -> RunConclusion<ThroughputAnalysis> {
    let run = read_run(plan, observation);
    let verdict = limiter_verdict::find_limiter(&run);
    let goodput = goodput::measure_goodput(&run.arrivals, run.steady);
    let bounds = limit_bounds::compute_bounds(&run, &verdict, goodput.bps);
    let ramp_us = run.steady.map(|s| s.from_us.saturating_sub(find_first_byte_us(observation)));
    let analysis = ThroughputAnalysis {
        version: VERSION,
        goodput_bps: goodput.bps,
        goodput_interval_bps: goodput.interval_bps,
        mean_goodput_bps: goodput::compute_mean_goodput(observation),
        steady: run.steady,
        ramp_us,
        rtt_us: run.loaded_rtt,
        limited_by: verdict.limiter,
        confidence_ratio: verdict.confidence_ratio.clamp(0.0, 1.0),
        shares: verdict.shares.to_report(),
        next_limit: limit_bounds::find_next_bound(&bounds, &verdict),
        bounds,
        totals: run.totals.clone(),
        streams: run_totals::list_stream_totals(observation),
        reverse: None,
    };
    let caveats = caveats::list_run_caveats(&run, &analysis);
    let findings = diagnose::diagnose_run(&diagnose::DiagnosisCase {
        scene: run,
        verdict,
        analysis: &analysis,
    });
    RunConclusion { analysis, findings, caveats }
}

fn find_first_byte_us(observation: &ThroughputObservation) -> u64 {
    let carrying = observation.streams.iter().filter(|s| s.receiver.bytes > 0);
    carrying.map(|s| s.receiver.started_us).min().unwrap_or(0)
}
