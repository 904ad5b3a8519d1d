//! A full path: nothing to fix.
//!
//! We would see: a standing queue or a rate independent of the window, in most of the run, and a
//! goodput near its own best level. Refuted by: any limiter of the hosts, or a low steady rate.
//! Needs: RTT, arrivals. To do: nothing.
//!
//! Units: bit/s. Wrong when: other traffic shares the path; then this is only the free part of it.

use super::{Case, Finding, finding, percent, rate};
use crate::limit::state::State;
use crate::limit::verdict::PRIMARY_RATIO;
use longhaul_model::report::v1::analysis::Limiter;

/// The minimum ratio of the goodput to the level that was reached.
const NEAR_RATIO: f64 = 0.85;

pub fn diagnose(case: &Case) -> Option<Finding> {
    let share = case.verdict.shares.limiter(Limiter::PathCapacity);
    let near = case.goodput_bps() as f64 >= NEAR_RATIO * case.scene.level_bps;
    let bucket = case.scene.policed.is_some() || case.scene.bucket.is_some();
    if !case.is(Limiter::PathCapacity) || share < PRIMARY_RATIO || !near || bucket {
        return None;
    }
    // A full path with a deep queue is not healthy.
    if super::deep_queue::diagnose(case).is_some() {
        return None;
    }
    let summary = format!(
        "Nothing to mend: the path is full at {}",
        rate(case.goodput_bps())
    );
    let mut found = finding(case, "healthy", summary);
    found.supports.push(super::share_of(case, State::PathFull));
    let sawtooth = case.verdict.shares.state(State::Sawtooth);
    if sawtooth > 0.0 {
        found.supports.push(format!(
            "{} while growing back after a full queue dropped",
            percent(sawtooth)
        ));
    }
    Some(found)
}
