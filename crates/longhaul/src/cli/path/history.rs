//! What the archive knows of a path: its earlier routes, and its capacity.

use crate::cli::args::PathArgs;
use crate::cli::output;
use longhaul_analysis::path::{Capacity, KnownRoute};
use longhaul_model::report::v1::Throughput;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::path::HopLoad;
use longhaul_store::Archive;

/// Routes further back do not number this one.
const ROUTES: u32 = 500;

/// Earlier routes of the path, and what it carries as far as that is known. An archive that cannot
/// be read costs the numbers, not the look.
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

/// From the latest estimate of available bandwidth, in the direction of the load.
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

/// From the load itself, where it was the path that held it back.
fn carried(run: &Throughput) -> Option<Capacity> {
    let by_the_path = run.analysis.limited_by == Limiter::PathCapacity;
    let bps = run.analysis.goodput_bps.filter(|_| by_the_path)?;
    Some(Capacity {
        bps,
        interval_bps: run.analysis.goodput_interval_bps,
    })
}
