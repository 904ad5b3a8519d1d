//! Earlier routes and the capacity of a path, from the archive.

use crate::cli::args::PathArgs;
use crate::cli::command_output;
use longhaul_analysis::path::{KnownRoute, PathCapacityEstimate};
use longhaul_model::report::v1::AvailableReport;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::path::HopLoadPlan;
use longhaul_store::Archive;

/// The maximum number of earlier routes to compare with.
const MAX_ROUTES: u32 = 500;

/// Returns earlier routes of the path, and its capacity if it is known. If the archive cannot be
/// read, routes get no numbers.
pub fn load_path_history(
    args: &PathArgs,
    load: Option<&HopLoadPlan>,
    run: Option<&ThroughputReport>,
) -> (Vec<KnownRoute>, Option<PathCapacityEstimate>) {
    let archive = command_output::archive_path(&args.output.archive)
        .ok()
        .and_then(|path| Archive::open_existing(&path).ok()?);
    let known = archive
        .as_ref()
        .and_then(|archive| archive.recent_reports(Some(&args.host), MAX_ROUTES).ok())
        .unwrap_or_default();
    let known = known.iter().filter_map(KnownRoute::of).collect();
    let capacity = load.and_then(|load| {
        let estimated = archive.as_ref().and_then(|a| capacity_from_estimate(a, args, load));
        estimated.or_else(|| run.and_then(capacity_from_load))
    });
    (known, capacity)
}

/// Takes the capacity from the latest estimate of available bandwidth in the load's direction.
fn capacity_from_estimate(
    archive: &Archive,
    args: &PathArgs,
    load: &HopLoadPlan,
) -> Option<PathCapacityEstimate> {
    let latest = archive.recent_reports::<AvailableReport>(Some(&args.host), 1).ok()?.pop()?;
    let analysis = latest.analysis;
    let estimate = if load.forward { analysis.forward? } else { analysis.reverse? };
    Some(PathCapacityEstimate {
        bps: estimate.capacity_bps?,
        interval_bps: estimate.capacity_interval_bps,
    })
}

/// Takes the capacity from the load itself, if the path limited it.
fn capacity_from_load(run: &ThroughputReport) -> Option<PathCapacityEstimate> {
    let by_the_path = run.analysis.limited_by == Limiter::PathCapacity;
    let bps = run.analysis.goodput_bps.filter(|_| by_the_path)?;
    Some(PathCapacityEstimate { bps, interval_bps: run.analysis.goodput_interval_bps })
}
