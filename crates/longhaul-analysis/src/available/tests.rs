//! What must hold whatever the path: properties of the whole conclusion, and bad input.

mod bad_input;
mod properties;

use super::conclude;
use crate::accuracy::available::path::{Link, Path};
use crate::accuracy::available::traffic::Traffic;
use crate::accuracy::available::{plan, probe};
use longhaul_model::report::v1::available::{Estimate, Mode, Observation, Plan, Probing};
use std::sync::OnceLock;

/// A run over a link of 100 Mbit/s at half load.
fn run() -> &'static (Plan, Probing) {
    static RUN: OnceLock<(Plan, Probing)> = OnceLock::new();
    RUN.get_or_init(|| {
        let link = Link::new(1e8, 0.5, Traffic::Poisson, 5);
        let mut path = Path::new(1e9, vec![link], 0.0, 6);
        let plan = plan(Mode::Quick, 7);
        let probing = probe(&mut path, &plan);
        (plan, probing)
    })
}

fn forward(plan: &Plan, probing: Probing) -> Estimate {
    let observation = Observation {
        forward: Some(probing),
        ..Observation::default()
    };
    conclude(plan, &observation, &[]).analysis.forward.unwrap()
}

fn near(found: Option<u64>, expected: Option<u64>, ratio: f64) -> bool {
    match (found, expected) {
        (Some(a), Some(b)) => (a as f64 / b as f64 - 1.0).abs() <= ratio,
        _ => false,
    }
}
