//! Earlier routes and the capacity of a path, from the archive.

use crate::cli::args::PathArgs;
use crate::cli::output;
use longhaul_analysis::path::{Capacity, KnownRoute};
use longhaul_model::report::v1::Throughput;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::path::HopLoad;
use longhaul_store::Archive;

/// The maximum number of earlier routes to compare with.
const ROUTES: u32 = 500;

/// Returns earlier routes of the path, and its capacity if it is known. If the archive cannot be
/// read, routes get no numbers.
pub fn of(
    args: &PathArgs,
    load: Option<&HopLoad>,
    run: Option<&Throughput>,
) -> (Vec<KnownRoute>, Option<Capacity>) {
    let archive = output::archive_path(&args.output.archive)
        .ok()
        .and_then(|path| Archive::open_existing(&path).ok()?);
    let known = archive
        .as_ref()
        .and_then(|archive| archive.paths(&args.host, ROUTES).ok())
        .unwrap_or_default();
    let known = known.iter().filter_map(KnownRoute::of).collect();
    let capacity = load.and_then(|load| {
        let estimated = archive.as_ref().and_then(|a| estimated(a, args, load));
        estimated.or_else(|| run.and_then(carried))
    });
    (known, capacity)
}

/// Takes the capacity from the latest estimate of available bandwidth in the load's direction.
fn estimated(archive: &Archive, args: &PathArgs, load: &HopLoad) -> Option<Capacity> {
    let latest = archive.availables(&args.host, 1).ok()?.pop()?;
    let analysis = latest.analysis;
    let estimate = if load.forward {
        analysis.forward?
    } else {
        analysis.reverse?
    };
    Some(Capacity {
        bps: estimate.capacity_bps?,
        interval_bps: estimate.capacity_interval_bps,
    })
}

/// Takes the capacity from the load itself, if the path limited it.
fn carried(run: &Throughput) -> Option<Capacity> {
    let by_the_path = run.analysis.limited_by == Limiter::PathCapacity;
    let bps = run.analysis.goodput_bps.filter(|_| by_the_path)?;
    Some(Capacity {
        bps,
        interval_bps: run.analysis.goodput_interval_bps,
    })
}
