//! Concludes from one throughput run: plan and observation to analysis, findings and caveats.

pub mod goodput;
pub mod ramp;
pub mod rtt;
pub mod timeline;
pub mod totals;
pub mod words;

pub use words::sentence;

use crate::limit::scene::Scene;
use crate::limit::{bounds, verdict};
use crate::{VERSION, caveats, diagnose};
use longhaul_model::report::v1::analysis::Analysis;
use longhaul_model::report::v1::observation::Observation;
use longhaul_model::report::v1::plan::Plan;
use longhaul_model::report::v1::{Caveat, Finding};

/// All conclusions from one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}

/// A run in both directions holds one observation inside the other; deeper nesting is invalid.
const MOST_DIRECTIONS: usize = 2;

/// Draws all conclusions from one throughput run.
///
/// Never fails: what the observation does not contain stays absent in the analysis, and the caveats
/// say so. A run without a steady part has the rate of its last quarter as goodput, without an
/// interval and with the caveat `ramp_only`.
pub fn conclude(plan: &Plan, observation: &Observation) -> Conclusion {
    conclude_within(plan, observation, MOST_DIRECTIONS)
}

fn conclude_within(plan: &Plan, observation: &Observation, directions: usize) -> Conclusion {
    let mut forward = one_direction(plan, observation);
    let reverse = observation.reverse.as_deref().filter(|_| directions > 1);
    if let Some(reverse) = reverse.map(|r| conclude_within(plan, r, directions - 1)) {
        forward.analysis.reverse = Some(Box::new(reverse.analysis));
        forward
            .findings
            .extend(reverse.findings.into_iter().map(|f| Finding {
                summary: format!("Other direction: {}", f.summary),
                ..f
            }));
        forward
            .caveats
            .extend(reverse.caveats.into_iter().map(|c| Caveat {
                text: format!("Other direction: {}", c.text),
                ..c
            }));
    }
    forward
}

fn one_direction(plan: &Plan, observation: &Observation) -> Conclusion {
    let scene = Scene::of(plan, observation);
    let verdict = verdict::verdict(&scene);
    let goodput = goodput::goodput(&scene.arrivals, scene.steady);
    let bounds = bounds::bounds(&scene, &verdict, goodput.bps);
    let ramp_us = scene
        .steady
        .map(|s| s.from_us.saturating_sub(first_byte_us(observation)));
    let analysis = Analysis {
        version: VERSION,
        goodput_bps: goodput.bps,
        goodput_interval_bps: goodput.interval_bps,
        mean_goodput_bps: goodput::mean(observation),
        steady: scene.steady,
        ramp_us,
        rtt_us: rtt::loaded(&scene),
        limited_by: verdict.limiter,
        confidence_ratio: verdict.confidence_ratio.clamp(0.0, 1.0),
        shares: verdict.shares.published(),
        next_limit: bounds::next(&bounds, &verdict),
        bounds,
        totals: totals::totals(observation),
        streams: totals::per_stream(observation),
        reverse: None,
    };
    let caveats = caveats::caveats(&scene, &analysis);
    let findings = diagnose::findings(&diagnose::Case {
        scene,
        verdict,
        analysis: &analysis,
    });
    Conclusion {
        analysis,
        findings,
        caveats,
    }
}

fn first_byte_us(observation: &Observation) -> u64 {
    let carrying = observation.streams.iter().filter(|s| s.receiver.bytes > 0);
    carrying.map(|s| s.receiver.started_us).min().unwrap_or(0)
}
