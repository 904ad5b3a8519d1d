//! Summarises the best and the latest results of every path.
//!
//! The maximum is SLAC's: the rate exceeded by a tenth of the measurements. Probes of scans count,
//! because they test other settings.

use super::material::Material;
use super::settings;
use crate::scan::top_tenth_of;
use crate::stats::quantile::{median, sorted};
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::comparison::Period;
use longhaul_model::report::v1::path::NarrowLink;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Pair;
use longhaul_model::report::v1::site::SitePath;

/// Summarises the measured directions of a path.
pub fn of_path(material: &Material, period: Period) -> Vec<SitePath> {
    let directions = material.directions();
    let found = directions
        .iter()
        .filter_map(|pair| direction(material, pair, period));
    found.collect()
}

fn direction(material: &Material, pair: &Pair, period: Period) -> Option<SitePath> {
    let points = |quantity| {
        let mut points = material.points(pair, quantity);
        points.retain(|point| period.holds(point.at_us));
        points
    };
    let quantities = Quantity::ALL.map(|quantity| (quantity, points(quantity)));
    let of = |wanted: Quantity| {
        let found = quantities.iter().find(|(quantity, _)| *quantity == wanted);
        found.map_or(&[][..], |(_, points)| points.as_slice())
    };
    let mut bulk = material.bulk(pair);
    bulk.retain(|run| period.holds(run.at_us));
    let probes = bulk.iter().filter(|run| !run.alone());
    let rates = sorted(
        of(Quantity::Goodput)
            .iter()
            .map(|point| point.value)
            .chain(probes.filter_map(|run| run.goodput_bps().map(|bps| bps as f64))),
    );
    let newest_value = quantities
        .iter()
        .filter_map(|(_, points)| points.last())
        .map(|point| point.at_us);
    let newest_run = bulk.iter().map(|run| run.at_us);
    let last_at_us = newest_value.chain(newest_run).max()?;
    let floors: Vec<f64> = of(Quantity::RttFloor).iter().map(|p| p.value).collect();
    let least = floors.iter().copied().reduce(f64::min);
    let whole = |value: f64| value.round() as u64;
    let runs = of(Quantity::Goodput)
        .len()
        .max(material.within(period).count());
    Some(SitePath {
        pair: pair.clone(),
        run_count: u32::try_from(runs).unwrap_or(u32::MAX),
        last_at_us,
        bulk_run_count: u32::try_from(rates.len()).unwrap_or(u32::MAX),
        top_tenth: top_tenth_of(&rates),
        greatest_bps: rates.last().map(|bps| whole(*bps)),
        median_bps: median(rates.iter().copied()).map(whole),
        best: settings::best(material, pair, period),
        limited_by: settings::limiter(&bulk),
        rtt_min_us: least.map(whole),
        rtt_median_us: median(floors.iter().copied()).map(whole),
        capacity_bps: of(Quantity::Capacity).last().copied(),
        available_bps: of(Quantity::Available).last().copied(),
        narrow_link: narrow_link(material, pair, period),
    })
}

/// Returns the narrow link found by the latest path run, if its load had this direction.
fn narrow_link(material: &Material, pair: &Pair, period: Period) -> Option<NarrowLink> {
    let mut runs: Vec<_> = material.within(period).collect();
    runs.reverse();
    runs.into_iter().find_map(|run| {
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
    use super::super::sketch;
    use super::*;

    const ALL: Period = Period {
        begin_us: i64::MIN,
        end_us: i64::MAX,
    };

    #[test]
    fn the_maximum_is_what_a_tenth_exceeds_and_what_was_not_measured_is_absent() {
        let mut sketch = sketch::Archive::default();
        for minute in 0..11 {
            sketch.run(minute, true, 1e6 * (minute + 1) as f64);
        }
        let found = of_path(&sketch.material(), ALL);
        assert_eq!(found.len(), 1, "nothing went the other way");
        let path = &found[0];
        assert_eq!(path.top_tenth.as_ref().unwrap().goodput_bps, 10_000_000);
        assert_eq!(
            (path.greatest_bps, path.bulk_run_count),
            (Some(11_000_000), 11)
        );
        assert_eq!((path.rtt_min_us, path.capacity_bps), (None, None));
        assert_eq!(path.best.as_ref().unwrap().repeats, 11);
    }

    #[test]
    fn few_runs_have_no_upper_tenth() {
        let mut sketch = sketch::Archive::default();
        sketch.run(0, true, 5e6);
        let found = of_path(&sketch.material(), ALL);
        assert_eq!(
            (found[0].top_tenth.clone(), found[0].greatest_bps),
            (None, Some(5_000_000))
        );
    }
}
