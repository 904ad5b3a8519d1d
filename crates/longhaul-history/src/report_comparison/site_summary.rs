//! Summarises the best and the latest results of every path.
//!
//! The maximum is SLAC's: the rate exceeded by a tenth of the measurements. Probes of scans count,
//! because they test other settings.

use super::archived_path::ArchivedPath;
use super::period_settings;
use longhaul_analysis::scan::compute_top_tenth;
use longhaul_analysis::stats::{median, sort_finite};
use longhaul_model::report::v1::path::NarrowLink;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair, SitePath, TimePeriod};

/// Summarises the measured directions of a path.
pub fn summarize_path(material: &ArchivedPath, period: TimePeriod) -> Vec<SitePath> {
    let directions = material.directions();
    let found = directions.iter().filter_map(|pair| summarize_direction(material, pair, period));
    found.collect()
}

fn summarize_direction(
    material: &ArchivedPath,
    pair: &HostPair,
    period: TimePeriod,
) -> Option<SitePath> {
    let points = |quantity| {
        let mut points = material.points(pair, quantity);
        points.retain(|point| period.contains(point.at_us));
        points
    };
    let quantities = PathQuantity::ALL.map(|quantity| (quantity, points(quantity)));
    let of = |wanted: PathQuantity| {
        let found = quantities.iter().find(|(quantity, _)| *quantity == wanted);
        found.map_or(&[][..], |(_, points)| points.as_slice())
    };
    let mut bulk = material.bulk_runs(pair);
    bulk.retain(|run| period.contains(run.at_us));
    let probes = bulk.iter().filter(|run| !run.is_standalone());
    let rates = sort_finite(
        of(PathQuantity::Goodput)
            .iter()
            .map(|point| point.value)
            .chain(probes.filter_map(|run| run.goodput_bps().map(|bps| bps as f64))),
    );
    let newest_value =
        quantities.iter().filter_map(|(_, points)| points.last()).map(|point| point.at_us);
    let newest_run = bulk.iter().map(|run| run.at_us);
    let last_at_us = newest_value.chain(newest_run).max()?;
    let floors: Vec<f64> = of(PathQuantity::RttFloor).iter().map(|p| p.value).collect();
    let least = floors.iter().copied().reduce(f64::min);
    let whole = |value: f64| value.round() as u64;
    let runs = of(PathQuantity::Goodput).len().max(material.runs_within(period).count());
    Some(SitePath {
        pair: pair.clone(),
        run_count: u32::try_from(runs).unwrap_or(u32::MAX),
        last_at_us,
        bulk_run_count: u32::try_from(rates.len()).unwrap_or(u32::MAX),
        top_tenth: compute_top_tenth(&rates),
        greatest_bps: rates.last().map(|bps| whole(*bps)),
        median_bps: median(rates.iter().copied()).map(whole),
        best: period_settings::find_best_setting(material, pair, period),
        limited_by: period_settings::find_common_limiter(&bulk),
        rtt_min_us: least.map(whole),
        rtt_median_us: median(floors.iter().copied()).map(whole),
        capacity_bps: of(PathQuantity::Capacity).last().copied(),
        available_bps: of(PathQuantity::Available).last().copied(),
        narrow_link: find_latest_narrow_link(material, pair, period),
    })
}

/// Returns the narrow link found by the latest path run, if its load had this direction.
fn find_latest_narrow_link(
    material: &ArchivedPath,
    pair: &HostPair,
    period: TimePeriod,
) -> Option<NarrowLink> {
    material.runs_within(period).rev().find_map(|run| {
        let AnyReport::Path(path) = &run.report else {
            return None;
        };
        let loaded = path.plan.load.as_ref()?;
        let same_way = loaded.forward == (run.near == pair.from);
        path.analysis.narrow_link.clone().filter(|_| same_way)
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_archive;
    use super::*;

    const ALL: TimePeriod = TimePeriod { begin_us: i64::MIN, end_us: i64::MAX };

    #[test]
    fn the_maximum_is_what_a_tenth_exceeds_and_what_was_not_measured_is_absent() {
        let mut sketch = test_archive::TestArchive::default();
        for minute in 0..11 {
            sketch.run(minute, true, 1e6 * (minute + 1) as f64);
        }
        let found = summarize_path(&sketch.material(), ALL);
        assert_eq!(found.len(), 1, "nothing went the other way");
        let path = &found[0];
        assert_eq!(path.top_tenth.as_ref().unwrap().goodput_bps, 10_000_000);
        assert_eq!((path.greatest_bps, path.bulk_run_count), (Some(11_000_000), 11));
        assert_eq!((path.rtt_min_us, path.capacity_bps), (None, None));
        assert_eq!(path.best.as_ref().unwrap().repeats, 11);
    }

    #[test]
    fn few_runs_have_no_upper_tenth() {
        let mut sketch = test_archive::TestArchive::default();
        sketch.run(0, true, 5e6);
        let found = summarize_path(&sketch.material(), ALL);
        assert_eq!((found[0].top_tenth.clone(), found[0].greatest_bps), (None, Some(5_000_000)));
    }
}
