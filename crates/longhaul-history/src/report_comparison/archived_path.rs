//! The archive's data on one path.
//!
//! Runs with the archive's names of their ends, and the values of each quantity. Values of runs
//! whose reports were deleted come from an agent's series; an hour that is only kept as a bucket
//! counts as one value, its median.

use crate::change_detection::{extract_points, median_spacing_us};
use crate::event::{ChangeEvidence, EvidenceReport};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AnyReport, HostPair, QuantitySeries, SeriesPoint, ThroughputReport, TimePeriod, analysis,
    observation,
};
use std::collections::BTreeMap;

/// A run from the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchivedRun {
    pub at_us: i64,
    pub run_id: String,
    /// The initiator and the other end, by their names in the series.
    pub near: String,
    pub far: String,
    pub report: AnyReport,
}

/// Returns the same pair in the other direction.
pub fn reverse_pair(pair: &HostPair) -> HostPair {
    HostPair { from: pair.to.clone(), to: pair.from.clone() }
}

/// All data on one path.
#[derive(Debug)]
pub struct ArchivedPath<'a> {
    /// The forward direction.
    pub pair: HostPair,
    /// In time order.
    pub runs: Vec<&'a ArchivedRun>,
    values: BTreeMap<(HostPair, PathQuantity), BTreeMap<i64, f64>>,
}

impl<'a> ArchivedPath<'a> {
    /// Selects the runs of this path in either direction; `series` are the archive's own.
    pub fn new(
        pair: HostPair,
        runs: &'a [ArchivedRun],
        series: &[QuantitySeries],
    ) -> ArchivedPath<'a> {
        let ours = |run: &&ArchivedRun| {
            (run.near == pair.from && run.far == pair.to)
                || (run.near == pair.to && run.far == pair.from)
        };
        let mut runs: Vec<&ArchivedRun> = runs.iter().filter(ours).collect();
        runs.sort_by(|a, b| (a.at_us, &a.run_id).cmp(&(b.at_us, &b.run_id)));
        let mut values: BTreeMap<_, BTreeMap<i64, f64>> = BTreeMap::new();
        for series in series {
            let of = values.entry((series.pair.clone(), series.quantity)).or_default();
            of.extend(series.buckets.iter().map(|it| (it.at_us, it.median)));
            of.extend(series.points.iter().map(|it| (it.at_us, it.value)));
        }
        for run in &runs {
            for (pair, quantity, point) in
                extract_points(&run.report, Some(&run.near), Some(&run.far))
            {
                let of = values.entry((pair, quantity)).or_default();
                // The series has the start time in microseconds, the report in seconds.
                let known = of
                    .range(point.at_us..point.at_us.saturating_add(1_000_000))
                    .any(|(_, value)| value.to_bits() == point.value.to_bits());
                if !known {
                    of.insert(find_free_time(of, point.at_us), point.value);
                }
            }
        }
        values.retain(|(of, _), _| *of == pair || *of == reverse_pair(&pair));
        ArchivedPath { pair, runs, values }
    }

    /// Returns the values of one quantity in one direction, in time order.
    pub fn points(&self, pair: &HostPair, quantity: PathQuantity) -> Vec<SeriesPoint> {
        let found = self.values.get(&(pair.clone(), quantity));
        let points = found.into_iter().flatten();
        points.map(|(&at_us, &value)| SeriesPoint { at_us, value }).collect()
    }

    /// Returns the values of a period, without their times.
    pub fn values(&self, pair: &HostPair, quantity: PathQuantity, period: TimePeriod) -> Vec<f64> {
        self.values_without(pair, quantity, period, &[])
    }

    /// Returns the values of a period except those of runs that began at these times.
    pub fn values_without(
        &self,
        pair: &HostPair,
        quantity: PathQuantity,
        period: TimePeriod,
        without: &[i64],
    ) -> Vec<f64> {
        let all = self.points(pair, quantity);
        // The series has the start time in microseconds, the report in seconds.
        let second = |at_us: i64| at_us.div_euclid(1_000_000);
        let left_out = |at_us| without.iter().any(|it| second(*it) == second(at_us));
        let within = all.iter().filter(|point| period.contains(point.at_us));
        let kept = within.filter(|point| !left_out(point.at_us));
        kept.map(|point| point.value).collect()
    }

    /// Returns both directions, forward first.
    pub fn directions(&self) -> [HostPair; 2] {
        [self.pair.clone(), reverse_pair(&self.pair)]
    }

    /// Returns the runs of a period.
    pub fn runs_within(
        &self,
        period: TimePeriod,
    ) -> impl DoubleEndedIterator<Item = &'a ArchivedRun> + '_ {
        let inside = move |run: &&ArchivedRun| period.contains(run.at_us);
        self.runs.iter().copied().filter(inside)
    }

    /// Returns the bulk runs with payload in this direction, with observation and analysis.
    pub fn bulk_runs(&self, pair: &HostPair) -> Vec<ArchivedBulkRun<'a>> {
        let runs = self.runs.iter();
        runs.filter_map(|run| ArchivedBulkRun::of(run, pair)).collect()
    }

    /// Returns all reports as evidence for an event of this direction.
    pub fn evidence(&self, pair: &HostPair) -> ChangeEvidence<'a> {
        let mut evidence = ChangeEvidence {
            rtt: self.points(pair, PathQuantity::RttFloor),
            ..ChangeEvidence::default()
        };
        let goodput = self.points(pair, PathQuantity::Goodput);
        let spacing = median_spacing_us(goodput.iter().map(|point| point.at_us));
        evidence.period_us = spacing.map_or(0, |us| us as i64);
        for run in &self.runs {
            let forward = run.near == pair.from;
            let at_us = run.at_us;
            match &run.report {
                AnyReport::Path(report) => {
                    evidence.paths.push(EvidenceReport { at_us, report, forward });
                }
                AnyReport::Throughput(report) if report.run.part_of.is_none() => {
                    evidence.throughput.push(EvidenceReport { at_us, report, forward });
                }
                AnyReport::Available(report) => {
                    evidence.available.push(EvidenceReport { at_us, report, forward });
                }
                AnyReport::Host(report) => {
                    evidence.hosts.push(EvidenceReport { at_us, report, forward });
                }
                _ => {}
            }
        }
        evidence
    }
}

/// Returns the first free microsecond from `at_us` on, so that runs of one second stay separate.
fn find_free_time(taken: &BTreeMap<i64, f64>, at_us: i64) -> i64 {
    let mut free = at_us;
    while taken.contains_key(&free) {
        free = free.saturating_add(1);
    }
    free
}

/// A bulk run in one direction.
#[derive(Debug, Clone, Copy)]
pub struct ArchivedBulkRun<'a> {
    pub at_us: i64,
    pub report: &'a ThroughputReport,
    pub observation: &'a observation::ThroughputObservation,
    pub analysis: &'a analysis::ThroughputAnalysis,
}

impl<'a> ArchivedBulkRun<'a> {
    fn of(run: &'a ArchivedRun, pair: &HostPair) -> Option<ArchivedBulkRun<'a>> {
        let AnyReport::Throughput(report) = &run.report else {
            return None;
        };
        let forward = run.near == pair.from && run.far == pair.to;
        let seen = EvidenceReport { at_us: run.at_us, report: &**report, forward };
        let (observation, analysis) = seen.direction()?;
        Some(ArchivedBulkRun { at_us: run.at_us, report, observation, analysis })
    }

    /// Returns whether it is a run by itself rather than a probe of a scan.
    pub fn is_standalone(&self) -> bool {
        self.report.run.part_of.is_none()
    }

    pub fn goodput_bps(&self) -> Option<u64> {
        self.analysis.goodput_bps.filter(|bps| *bps > 0)
    }
}
