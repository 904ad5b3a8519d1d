//! Collects runs and series of paths from the archive, and the sets of runs of `longhaul report
//! compare`: ids, files, hosts, periods.
//!
//! Runs of an agent have the host names of its watch file; runs started by a user have the typed
//! names. If a typed name stands for several addresses, each is a path of its own. Of very many runs, an evenly spread selection is read, with a caveat.

use crate::cli::args::CompareArgs;
use crate::cli::report_command::{ALL_TIME, sanitize_input};
use crate::cli::value_parsers;
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use jiff::Timestamp;
use longhaul_analysis::imported::convert_to_path_report;
use longhaul_history::report_comparison::run_set_comparison::RunSet;
use longhaul_history::report_comparison::{ArchivedPath, ArchivedRun, reverse_pair};
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AnyReport, HostPair, QuantitySeries, ReportCaveat, ReportKind, TimePeriod,
};
use longhaul_report::number_format::count_of;
use longhaul_store::history_store::{IncomingRun, RunFilter, TimeRange};
use longhaul_store::{Archive, RunEntry, StoreError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The maximum number of listed runs, the newest.
const MAX_LISTED_RUNS: u32 = 100_000;
/// The maximum number of reports read.
const MAX_READ_REPORTS: usize = 5_000;
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
    /// Reads runs and values of paths from or to these hosts; without hosts, of all paths. Runs of
    /// an agent are read in all environments, others in the given one only.
    pub fn read(
        archive: &Archive,
        hosts: &[String],
        period: TimePeriod,
        environment: Option<String>,
    ) -> Result<RunCollection, CommandFailure> {
        let mut gathered = RunCollection::default();
        let range = TimeRange { begin_us: period.begin_us, end_us: period.end_us };
        let mut pairs = archive.pairs()?;
        // Transfers of other programs are no paths.
        pairs.retain(|pair| TransferIdentity::of_pair(pair).is_none());
        let agent = find_agent_host(&pairs);
        // A path measurement covers both directions; its first pair counts.
        let mut watched: BTreeMap<String, &HostPair> = BTreeMap::new();
        for pair in pairs.iter().filter(|pair| is_of_hosts(hosts, &[&pair.from, &pair.to])) {
            gathered.add_series(archive, pair, range)?;
            for entry in archive.runs(&run_filter(range, Some(pair)))? {
                watched.entry(entry.id).or_insert(pair);
            }
        }
        let filter = RunFilter { environment, ..run_filter(range, None) };
        let mut entries = archive.runs(&filter)?;
        entries.retain(|entry| entry.kind != ReportKind::Flows.word());
        entries.retain(|entry| {
            let (near, far) = (&entry.initiator_host, &entry.responder_host);
            let address = entry.responder_address.as_ref().unwrap_or(far);
            watched.contains_key(&entry.id)
                || (near != far && is_of_hosts(hosts, &[near, far, address]))
        });
        gathered.note_unknown_environments(&entries);
        let servers = ServerAddresses::collect(&entries);
        for entry in gathered.spread_evenly(&entries) {
            let Some(report) = archive.report(&entry.id)? else {
                continue;
            };
            let [near, far] = match watched.get(&entry.id) {
                Some(pair) => order_ends(&report, pair, agent.as_deref()).map(String::clone),
                // Runs that were not made by an agent have the typed names.
                None => [entry.initiator_host.clone(), servers.name(entry)],
            };
            gathered.runs.extend(prepare_run(report, near, far));
        }
        Ok(gathered)
    }

    fn add_series(
        &mut self,
        archive: &Archive,
        pair: &HostPair,
        range: TimeRange,
    ) -> Result<(), StoreError> {
        for quantity in PathQuantity::ALL {
            let series = archive.series(pair, quantity, range, MAX_SERIES_VALUES)?;
            if !series.buckets.is_empty() {
                self.add_caveat("buckets", BUCKETS_CAVEAT);
            }
            self.series.push(series);
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

    /// Adds a caveat about runs of earlier versions, which may have been made in the lab.
    fn note_unknown_environments(&mut self, entries: &[RunEntry]) {
        let unknown = entries.iter().filter(|entry| {
            entry.environment.is_none() && entry.kind != ReportKind::Imported.word()
        });
        let count = unknown.count();
        if count > 0 {
            let text = format!(
                "{} of an earlier version may have been measured in the lab, because that version \
                 did not record it",
                count_of(count as u64, "run")
            );
            self.add_caveat("environment_unknown", &text);
        }
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
                let (from, to) =
                    match hosts.iter().find(|h| is_named(first, h) || is_named(second, h)) {
                        Some(host) if is_named(first, host) => (second, first),
                        None if begun[1] > begun[0] => (second, first),
                        _ => (first, second),
                    };
                let pair = HostPair { from: from.to_owned(), to: to.to_owned() };
                let back = reverse_pair(&pair);
                let ours = self.series.iter().filter(|s| s.pair == pair || s.pair == back);
                let ours: Vec<QuantitySeries> = ours.cloned().collect();
                ArchivedPath::new(pair, &self.runs, &ours)
            })
            .collect();
        let place =
            |path: &ArchivedPath| hosts.iter().position(|host| is_named(&path.pair.to, host));
        found.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.pair.cmp(&b.pair)));
        found
    }
}

const BUCKETS_CAVEAT: &str =
    "part of the period has hourly values only: each counts as one value, its median";

/// Returns true if one of the ends is one of the hosts, or if there are no hosts.
fn is_of_hosts(hosts: &[String], ends: &[&String]) -> bool {
    hosts.is_empty() || hosts.iter().any(|host| ends.contains(&host))
}

/// The addresses of each server of runs that were not made by an agent.
struct ServerAddresses<'e>(BTreeMap<&'e str, BTreeSet<&'e str>>);

impl<'e> ServerAddresses<'e> {
    fn collect(entries: &'e [RunEntry]) -> ServerAddresses<'e> {
        let mut servers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for entry in entries {
            let addresses = servers.entry(&entry.responder_host).or_default();
            addresses.extend(entry.responder_address.as_deref());
        }
        ServerAddresses(servers)
    }

    /// Returns the name of the server of a run, with its address if the name has several.
    fn name(&self, entry: &RunEntry) -> String {
        let host = &entry.responder_host;
        let is_ambiguous = self.0.get(host.as_str()).is_some_and(|it| it.len() > 1);
        match &entry.responder_address {
            Some(address) if is_ambiguous => format!("{host} ({address})"),
            _ => host.clone(),
        }
    }
}

/// Returns true if an end of a path has this name, whatever its address.
pub fn is_named(end: &str, host: &str) -> bool {
    end.strip_prefix(host).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
}

fn order_pair<'a>(from: &'a str, to: &'a str) -> [&'a str; 2] {
    if from <= to { [from, to] } else { [to, from] }
}

fn run_filter(range: TimeRange, pair: Option<&HostPair>) -> RunFilter {
    RunFilter { range, pair: pair.cloned(), ..RunFilter::newest(MAX_LISTED_RUNS) }
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

/// Returns both ends of a watched pair, with the end that began the run first.
fn order_ends<'p>(report: &AnyReport, pair: &'p HostPair, agent: Option<&str>) -> [&'p String; 2] {
    let (there, back) = ([&pair.from, &pair.to], [&pair.to, &pair.from]);
    if let AnyReport::Throughput(bulk) = report {
        match bulk.plan.direction {
            RunDirection::Forward => return there,
            RunDirection::Reverse => return back,
            RunDirection::Both => {}
        }
    }
    let run = report.run();
    let (initiator, responder) = (&run.initiator.host, &run.responder.host);
    let is = |name: &str| *responder == name || run.responder.address.as_deref() == Some(name);
    if is(&pair.to) || *initiator == pair.from {
        return there;
    }
    let turned = is(&pair.from) || *initiator == pair.to || agent == Some(&pair.to);
    if turned { back } else { there }
}

/// Returns `None` if the run's time cannot be parsed.
fn prepare_run(mut report: AnyReport, near: String, far: String) -> Option<ArchivedRun> {
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

/// The maximum size of a file with reports.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The maximum number of items in a set.
const MAX_ITEMS: usize = 1_000;

/// Reads sets of runs. The archive is opened on first use, because files do not need it.
pub struct RunSetReader<'a> {
    args: &'a CompareArgs,
    archive: Option<Archive>,
}

impl<'a> RunSetReader<'a> {
    pub fn new(args: &'a CompareArgs) -> RunSetReader<'a> {
        RunSetReader { args, archive: None }
    }

    /// Reads one set of comma-separated items.
    pub fn read(&mut self, text: &str) -> Result<RunSet, CommandFailure> {
        let mut runs = Vec::new();
        let items: Vec<&str> = text.split(',').map(str::trim).filter(|t| !t.is_empty()).collect();
        if items.is_empty() || items.len() > MAX_ITEMS {
            let text = format!("cannot compare: a set must have 1 to {MAX_ITEMS} items");
            return Err(CommandFailure::new(USAGE, text));
        }
        for item in items {
            let found = self.read_item(item)?;
            if found.is_empty() {
                let text = format!("cannot find runs for {}", sanitize_input(item));
                return Err(CommandFailure::new(ARCHIVE, text)
                    .hint(Some("list the runs and their hosts with `longhaul report list`")));
            }
            runs.extend(found);
        }
        Ok(RunSet { text: sanitize_input(text), runs })
    }

    fn read_item(&mut self, item: &str) -> Result<Vec<ArchivedRun>, CommandFailure> {
        let path = Path::new(item);
        let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
        if named || item.contains('/') {
            return read_report_file(path);
        }
        if let Some((host, period)) = item.split_once('@') {
            let period = value_parsers::parse_period(period).map_err(|why| {
                let text = format!("invalid period in {}: {why}", sanitize_input(item));
                CommandFailure::new(USAGE, text)
            })?;
            return self.runs_of_host(host, period);
        }
        match self.archive()?.find(item) {
            Ok(report) => Ok(run_from_report(report).into_iter().collect()),
            Err(StoreError::NoSuchRun { .. }) => self.runs_of_host(item, ALL_TIME),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns runs to or from a host, or all runs if the host is empty.
    fn runs_of_host(
        &mut self,
        host: &str,
        period: TimePeriod,
    ) -> Result<Vec<ArchivedRun>, CommandFailure> {
        let hosts = if host.is_empty() { Vec::new() } else { vec![host.to_owned()] };
        let environment = self.args.environment.filter();
        let mut runs = RunCollection::read(self.archive()?, &hosts, period, environment)?.runs;
        // Probes of a scan use the scan's settings and are not samples of the path.
        runs.retain(|run| run.report.run().part_of.is_none());
        Ok(runs)
    }

    fn archive(&mut self) -> Result<&Archive, CommandFailure> {
        let archive = match self.archive.take() {
            Some(archive) => archive,
            None => super::open_existing_archive(&self.args.archive)?,
        };
        Ok(self.archive.insert(archive))
    }
}

/// Uses the host names in the run itself.
fn run_from_report(report: AnyReport) -> Option<ArchivedRun> {
    let run = report.run();
    let (near, far) = (run.initiator.host.clone(), run.responder.host.clone());
    prepare_run(report, near, far)
}

/// Reads one report, a list of reports, or one report per line.
fn read_report_file(path: &Path) -> Result<Vec<ArchivedRun>, CommandFailure> {
    let failed = |why: String| {
        CommandFailure::new(USAGE, format!("cannot read reports from {}", path.display()))
            .cause(&why)
            .hint(Some("write such a file with `longhaul report show ID --json > FILE`"))
    };
    let about = std::fs::metadata(path).map_err(|e| failed(e.to_string()))?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return Err(failed(format!("not a regular file of at most {} MiB", MAX_FILE_BYTES >> 20)));
    }
    let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
    let mut reports = Vec::new();
    for document in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        match document.map_err(|e| failed(e.to_string()))? {
            Value::Array(items) => reports.extend(items),
            single => reports.push(single),
        }
    }
    let mut found = Vec::new();
    for report in reports {
        let (_, report) = IncomingRun::parse_json(report.to_string(), 0)
            .map_err(|e| failed(sanitize_input(&CommandFailure::from_error(USAGE, &e).chain())))?;
        found.extend(run_from_report(report));
    }
    Ok(found)
}
