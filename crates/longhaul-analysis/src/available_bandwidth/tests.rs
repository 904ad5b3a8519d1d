//! What must hold whatever the path: properties of the whole conclusion, and bad input.

mod bad_input;
mod properties;

use super::conclude_available;
use longhaul_accuracy::available_accuracy::simulated_path::{SimulatedLink, SimulatedPath};
use longhaul_accuracy::available_accuracy::simulated_traffic::TrafficPattern;
use longhaul_accuracy::available_accuracy::{build_available_plan, run_probe_schedule};
use longhaul_model::report::v1::available::{
    AvailableEstimate, AvailableMode, AvailableObservation, AvailablePlan, DirectionProbing,
};
use std::sync::OnceLock;

/// A run over a link of 100 Mbit/s at half load.
fn run() -> &'static (AvailablePlan, DirectionProbing) {
    static RUN: OnceLock<(AvailablePlan, DirectionProbing)> = OnceLock::new();
    RUN.get_or_init(|| {
        let link = SimulatedLink::new(1e8, 0.5, TrafficPattern::Poisson, 5);
        let mut path = SimulatedPath::new(1e9, vec![link], 0.0, 6);
        let plan = build_available_plan(AvailableMode::Quick, 7);
        let probing = run_probe_schedule(&mut path, &plan);
        (plan, probing)
    })
}

fn forward(plan: &AvailablePlan, probing: DirectionProbing) -> AvailableEstimate {
    let observation =
        AvailableObservation { forward: Some(probing), ..AvailableObservation::default() };
    conclude_available(plan, &observation).analysis.forward.unwrap()
}

fn near(found: Option<u64>, expected: Option<u64>, ratio: f64) -> bool {
    match (found, expected) {
        (Some(a), Some(b)) => (a as f64 / b as f64 - 1.0).abs() <= ratio,
        _ => false,
    }
}
