//! The archive's data on one path.
//!
//! Runs with the archive's names of their ends, and the values of each quantity. Values of runs
//! whose reports were deleted come from an agent's series; an hour that is only kept as a bucket
//! counts as one value, its median.

use crate::detect::points::points_of;
use crate::detect::sample::spacing_us;
use crate::event::{Audited, Evidence, Place, Seen};
use longhaul_model::report::v1::comparison::Period;
use longhaul_model::report::v1::plan::Direction;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point, Series};
use longhaul_model::report::v1::{AnyReport, Throughput, analysis, observation};
use std::collections::BTreeMap;

/// A run from the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    pub at_us: i64,
    pub run_id: String,
    /// The initiator and the other end, by their names in the series.
    pub near: String,
    pub far: String,
    pub report: AnyReport,
}

/// Returns the same pair in the other direction.
pub fn reversed(pair: &Pair) -> Pair {
    Pair {
        from: pair.to.clone(),
        to: pair.from.clone(),
    }
}

/// All data on one path.
#[derive(Debug)]
pub struct Material<'a> {
    /// The forward direction.
    pub pair: Pair,
    /// In time order.
    pub runs: Vec<&'a Taken>,
    values: BTreeMap<(Pair, Quantity), BTreeMap<i64, f64>>,
}

impl<'a> Material<'a> {
    /// Selects the runs of this path in either direction; `series` are the archive's own.
    pub fn new(pair: Pair, runs: &'a [Taken], series: &[Series]) -> Material<'a> {
        let ours = |run: &&Taken| {
            (run.near == pair.from && run.far == pair.to)
                || (run.near == pair.to && run.far == pair.from)
        };
        let mut runs: Vec<&Taken> = runs.iter().filter(ours).collect();
        runs.sort_by(|a, b| (a.at_us, &a.run_id).cmp(&(b.at_us, &b.run_id)));
        let mut values: BTreeMap<_, BTreeMap<i64, f64>> = BTreeMap::new();
        for series in series {
            let of = values
                .entry((series.pair.clone(), series.quantity))
                .or_default();
            of.extend(series.buckets.iter().map(|it| (it.at_us, it.median)));
            of.extend(series.points.iter().map(|it| (it.at_us, it.value)));
        }
        for run in &runs {
            for (pair, quantity, point) in points_of(&run.report, Some(&run.near), Some(&run.far)) {
                let of = values.entry((pair, quantity)).or_default();
                // The series has the start time in microseconds, the report in seconds.
                let known = of
                    .range(point.at_us..point.at_us.saturating_add(1_000_000))
                    .any(|(_, value)| value.to_bits() == point.value.to_bits());
                if !known {
                    of.insert(free_time(of, point.at_us), point.value);
                }
            }
        }
        values.retain(|(of, _), _| *of == pair || *of == reversed(&pair));
        Material { pair, runs, values }
    }

    /// Returns the values of one quantity in one direction, in time order.
    pub fn points(&self, pair: &Pair, quantity: Quantity) -> Vec<Point> {
        let found = self.values.get(&(pair.clone(), quantity));
        let points = found.into_iter().flatten();
        points
            .map(|(&at_us, &value)| Point { at_us, value })
            .collect()
    }

    /// Returns the values of a period, without their times.
    pub fn values(&self, pair: &Pair, quantity: Quantity, period: Period) -> Vec<f64> {
        self.values_without(pair, quantity, period, &[])
    }

    /// Returns the values of a period except those of runs that began at these times.
    pub fn values_without(
        &self,
        pair: &Pair,
        quantity: Quantity,
        period: Period,
        without: &[i64],
    ) -> Vec<f64> {
        let all = self.points(pair, quantity);
        // The series has the start time in microseconds, the report in seconds.
        let second = |at_us: i64| at_us.div_euclid(1_000_000);
        let left_out = |at_us| without.iter().any(|it| second(*it) == second(at_us));
        let within = all.iter().filter(|point| period.holds(point.at_us));
        let kept = within.filter(|point| !left_out(point.at_us));
        kept.map(|point| point.value).collect()
    }

    /// Returns both directions, forward first.
    pub fn directions(&self) -> [Pair; 2] {
        [self.pair.clone(), reversed(&self.pair)]
    }

    /// Returns the runs of a period.
    pub fn within(&self, period: Period) -> impl Iterator<Item = &'a Taken> + '_ {
        let inside = move |run: &&Taken| period.holds(run.at_us);
        self.runs.iter().copied().filter(inside)
    }

    /// Returns the bulk runs with payload in this direction, with observation and analysis.
    pub fn bulk(&self, pair: &Pair) -> Vec<Bulk<'a>> {
        let runs = self.runs.iter();
        runs.filter_map(|run| Bulk::of(run, pair)).collect()
    }

    /// Returns all reports as evidence for an event of this direction.
    pub fn evidence(&self, pair: &Pair) -> Evidence<'a> {
        let mut evidence = Evidence {
            rtt: self.points(pair, Quantity::RttFloor),
            ..Evidence::default()
        };
        let goodput = self.points(pair, Quantity::Goodput);
        let spacing = spacing_us(goodput.iter().map(|point| point.at_us));
        evidence.period_us = spacing.map_or(0, |us| us as i64);
        for run in &self.runs {
            let forward = run.near == pair.from;
            let at_us = run.at_us;
            match &run.report {
                AnyReport::Path(report) => evidence.paths.push(Seen {
                    at_us,
                    report,
                    forward,
                }),
                AnyReport::Throughput(report) if report.run.part_of.is_none() => {
                    evidence.throughput.push(Seen {
                        at_us,
                        report,
                        forward,
                    });
                }
                AnyReport::Available(report) => evidence.available.push(Seen {
                    at_us,
                    report,
                    forward,
                }),
                AnyReport::Host(report) => evidence.hosts.push(Audited {
                    at_us,
                    place: if forward {
                        Place::Sender
                    } else {
                        Place::Receiver
                    },
                    report,
                }),
                _ => {}
            }
        }
        evidence
    }
}

/// Returns the first free microsecond from `at_us` on, so that runs of one second stay separate.
fn free_time(taken: &BTreeMap<i64, f64>, at_us: i64) -> i64 {
    let mut free = at_us;
    while taken.contains_key(&free) {
        free = free.saturating_add(1);
    }
    free
}

/// A bulk run in one direction.
#[derive(Debug, Clone, Copy)]
pub struct Bulk<'a> {
    pub at_us: i64,
    pub report: &'a Throughput,
    pub seen: &'a observation::Observation,
    pub judged: &'a analysis::Analysis,
}

impl<'a> Bulk<'a> {
    fn of(run: &'a Taken, pair: &Pair) -> Option<Bulk<'a>> {
        let AnyReport::Throughput(report) = &run.report else {
            return None;
        };
        // True if the requested payload went from initiator to responder.
        let forward = run.near == pair.from && run.far == pair.to;
        let first = report.plan.direction != Direction::Reverse;
        let (seen, judged) = if first == forward {
            (&report.observation, &report.analysis)
        } else {
            let reverse = report.observation.reverse.as_deref();
            reverse.zip(report.analysis.reverse.as_deref())?
        };
        Some(Bulk {
            at_us: run.at_us,
            report,
            seen,
            judged,
        })
    }

    /// Returns whether it is a run by itself rather than a probe of a scan.
    pub fn alone(&self) -> bool {
        self.report.run.part_of.is_none()
    }

    pub fn goodput_bps(&self) -> Option<u64> {
        self.judged.goodput_bps.filter(|bps| *bps > 0)
    }
}
