//! Collects runs and series of paths from the archive.
//!
//! Runs of an agent have the host names of its watch file; runs started by a user have the typed
//! names. Of very many runs, an evenly spread selection is read, with a caveat.

use crate::command_failure::CommandFailure;
use jiff::Timestamp;
use longhaul_analysis::imported::convert_to_path_report;
use longhaul_history::report_comparison::{ArchivedPath, ArchivedRun, reverse_pair};
use longhaul_model::report::v1::comparison::TimePeriod;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries};
use longhaul_model::report::v1::{AnyReport, ReportCaveat};
use longhaul_store::history_store::{RunFilter, TimeRange};
use longhaul_store::{Archive, RunEntry, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of listed runs, the newest.
const MAX_LISTED_RUNS: u32 = 100_000;
/// The maximum number of reports read for one pair, and for all runs not made by an agent.
const MAX_READ_REPORTS: usize = 1_500;
/// The maximum number of values of a series; beyond it, the archive returns buckets.
const MAX_SERIES_VALUES: u32 = 50_000;

/// The runs and series of the requested paths.
#[derive(Default)]
pub struct RunCollection {
    pub runs: Vec<ArchivedRun>,
    pub series: Vec<QuantitySeries>,
    pub caveats: Vec<ReportCaveat>,
}

impl RunCollection {
    /// Reads runs and values of paths from or to these hosts; without hosts, of all paths.
    pub fn read(
        archive: &Archive,
        hosts: &[String],
        period: TimePeriod,
    ) -> Result<RunCollection, CommandFailure> {
        let mut gathered = RunCollection::default();
        let range = TimeRange { begin_us: period.begin_us, end_us: period.end_us };
        let mut known = BTreeSet::new();
        let pairs = archive.pairs()?;
        let agent = find_agent_host(&pairs);
        for pair in &pairs {
            let ours = |host: &String| pair.from == *host || pair.to == *host;
            if !hosts.is_empty() && !hosts.iter().any(ours) {
                continue;
            }
            gathered.add_watched_runs(archive, (pair, agent.as_deref()), range, &mut known)?;
        }
        gathered.add_other_runs(archive, hosts, range, &known)?;
        Ok(gathered)
    }

    fn add_watched_runs(
        &mut self,
        archive: &Archive,
        (pair, agent): (&HostPair, Option<&str>),
        range: TimeRange,
        known: &mut BTreeSet<String>,
    ) -> Result<(), StoreError> {
        for quantity in PathQuantity::ALL {
            let series = archive.series(pair, quantity, range, MAX_SERIES_VALUES)?;
            if !series.buckets.is_empty() {
                self.add_caveat("buckets", BUCKETS_CAVEAT);
            }
            self.series.push(series);
        }
        let entries = archive.runs(&run_filter(range, Some(pair)))?;
        for entry in self.spread_evenly(&entries) {
            // A path measurement covers both directions.
            if !known.insert(entry.id.clone()) {
                continue;
            }
            if let Some(report) = archive.report(&entry.id)? {
                let near = initiating_host(&report, pair, agent).to_owned();
                let far = if near == pair.from { &pair.to } else { &pair.from };
                self.runs.extend(prepare_run(report, near, far.clone()));
            }
        }
        known.extend(entries.into_iter().map(|entry| entry.id));
        Ok(())
    }

    /// Adds runs that were not made by an agent, under the typed names.
    fn add_other_runs(
        &mut self,
        archive: &Archive,
        hosts: &[String],
        range: TimeRange,
        known: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let mut entries = archive.runs(&run_filter(range, None))?;
        entries.retain(|entry| {
            let ours = |host: &String| {
                entry.initiator_host == *host
                    || entry.responder_host == *host
                    || entry.responder_address.as_ref() == Some(host)
            };
            let two_ends = entry.initiator_host != entry.responder_host;
            two_ends && !known.contains(&entry.id) && (hosts.is_empty() || hosts.iter().any(ours))
        });
        for entry in self.spread_evenly(&entries) {
            if let Some(report) = archive.report(&entry.id)? {
                let (near, far) = (&entry.initiator_host, &entry.responder_host);
                self.runs.extend(prepare_run(report, near.clone(), far.clone()));
            }
        }
        Ok(())
    }

    fn spread_evenly<'e>(
        &mut self,
        entries: &'e [RunEntry],
    ) -> impl Iterator<Item = &'e RunEntry> + use<'e> {
        let step = entries.len().div_ceil(MAX_READ_REPORTS).max(1);
        if step > 1 {
            let text = format!(
                "of {} runs, only every {step}th report was read; the values of runs by an agent are \
                 complete",
                entries.len()
            );
            self.add_caveat("spread", &text);
        }
        entries.iter().step_by(step)
    }

    fn add_caveat(&mut self, code: &str, text: &str) {
        let caveat = ReportCaveat::new(code, text);
        if !self.caveats.contains(&caveat) {
            self.caveats.push(caveat);
        }
    }

    /// Returns one entry per path. Forward is towards the first of `hosts` that the path ends at;
    /// without hosts, away from the host that began most runs.
    pub fn materials(&self, hosts: &[String]) -> Vec<ArchivedPath<'_>> {
        let mut paths: BTreeMap<[&str; 2], [u64; 2]> = BTreeMap::new();
        for run in &self.runs {
            let turned = usize::from(run.near > run.far);
            paths.entry(order_pair(&run.near, &run.far)).or_default()[turned] += 1;
        }
        for series in self.series.iter().filter(|s| !s.points.is_empty() || !s.buckets.is_empty()) {
            paths.entry(order_pair(&series.pair.from, &series.pair.to)).or_default();
        }
        let mut found: Vec<ArchivedPath> = paths
            .into_iter()
            .map(|([first, second], begun)| {
                let (from, to) = match hosts.iter().find(|h| *h == first || *h == second) {
                    Some(host) if host == first => (second, first),
                    None if begun[1] > begun[0] => (second, first),
                    _ => (first, second),
                };
                let pair = HostPair { from: from.to_owned(), to: to.to_owned() };
                ArchivedPath::new(pair, &self.runs, &self.series_of(from, to))
            })
            .collect();
        found.sort_by(|a, b| a.pair.cmp(&b.pair));
        let place = |m: &ArchivedPath| hosts.iter().position(|h| *h == m.pair.to);
        found.sort_by_key(place);
        found
    }

    fn series_of(&self, from: &str, to: &str) -> Vec<QuantitySeries> {
        let pair = HostPair { from: from.to_owned(), to: to.to_owned() };
        let back = reverse_pair(&pair);
        let ours = self.series.iter().filter(|s| s.pair == pair || s.pair == back);
        ours.cloned().collect()
    }
}

const BUCKETS_CAVEAT: &str =
    "part of the period has hourly values only: each counts as one value, its median";

fn order_pair<'a>(from: &'a str, to: &'a str) -> [&'a str; 2] {
    if from <= to { [from, to] } else { [to, from] }
}

fn run_filter(range: TimeRange, pair: Option<&HostPair>) -> RunFilter {
    RunFilter { range, pair: pair.cloned(), kind: None, limit: MAX_LISTED_RUNS }
}

/// Returns the host that is an end of every pair: the agent that owns the archive.
fn find_agent_host(pairs: &[HostPair]) -> Option<String> {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for pair in pairs {
        *ends.entry(&pair.from).or_default() += 1;
        *ends.entry(&pair.to).or_default() += 1;
    }
    let (name, count) = ends.into_iter().max_by_key(|(_, count)| *count)?;
    // In a single pair, both ends qualify.
    (count == pairs.len() && pairs.len() > 2).then(|| name.to_owned())
}

/// Returns the end of a watched pair that began the run.
fn initiating_host<'p>(report: &AnyReport, pair: &'p HostPair, agent: Option<&str>) -> &'p str {
    let run = report.run();
    let (initiator, responder) = (&run.initiator.host, &run.responder.host);
    if let AnyReport::Throughput(bulk) = report {
        match bulk.plan.direction {
            RunDirection::Forward => return &pair.from,
            RunDirection::Reverse => return &pair.to,
            RunDirection::Both => {}
        }
    }
    let is = |name: &str| *responder == name || run.responder.address.as_deref() == Some(name);
    if is(&pair.to) || *initiator == pair.from {
        &pair.from
    } else if is(&pair.from) || *initiator == pair.to || agent == Some(&pair.to) {
        &pair.to
    } else {
        &pair.from
    }
}

/// Returns `None` if the run's time cannot be parsed.
pub fn prepare_run(mut report: AnyReport, near: String, far: String) -> Option<ArchivedRun> {
    drop_samples(&mut report);
    // Imported routes count like our own.
    if let AnyReport::Imported(it) = &report
        && let Some(path) = convert_to_path_report(it)
    {
        report = AnyReport::Path(Box::new(path));
    }
    let run = report.run();
    let began: Timestamp = run.started_at.parse().ok()?;
    Some(ArchivedRun { at_us: began.as_microsecond(), run_id: run.id.clone(), near, far, report })
}

/// Removes single samples, which are most of a report and not used here.
fn drop_samples(report: &mut AnyReport) {
    match report {
        AnyReport::Throughput(it) => {
            let seen = &mut it.observation;
            let reverse = seen.reverse.as_deref_mut().map(|it| &mut it.streams);
            for stream in reverse.into_iter().chain([&mut seen.streams]).flatten() {
                stream.sender.samples = Vec::new();
                stream.receiver.samples = Vec::new();
            }
        }
        AnyReport::Available(it) => {
            let ways = [&mut it.observation.forward, &mut it.observation.reverse];
            for probing in ways.into_iter().flatten() {
                probing.trains = Vec::new();
                probing.tcp_samples = Vec::new();
            }
        }
        _ => {}
    }
}
