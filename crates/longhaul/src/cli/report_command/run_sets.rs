//! Selects the runs of `longhaul report compare`: ids, files, hosts, periods.

use super::report_output::sanitize_input;
use super::run_collection::{RunCollection, prepare_run};
use super::site_report::ALL_TIME;
use crate::cli::args::CompareArgs;
use crate::cli::{command_output, value_parsers};
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use longhaul_history::report_comparison::ArchivedRun;
use longhaul_history::report_comparison::run_set_comparison::RunSet;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::comparison::TimePeriod;
use longhaul_store::history_store::{IncomingRun, PlannedOutcome, PlannedRunFilter, TimeRange};
use longhaul_store::{Archive, StoreError};
use serde_json::Value;
use std::path::Path;

/// The maximum size of a file with reports.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The maximum number of planned runs searched for the name of a measurement.
const MAX_PLANNED_RUNS: u32 = 100_000;
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
            return Err(CommandFailure::new(
                USAGE,
                format!("cannot compare: a set must have 1 to {MAX_ITEMS} items"),
            ));
        }
        for item in items {
            let found = self.read_item(item)?;
            if found.is_empty() {
                return Err(CommandFailure::new(
                    ARCHIVE,
                    format!("cannot find runs for {}", sanitize_input(item)),
                )
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
        if let Some(name) = item.strip_prefix("measure:") {
            return self.runs_of_measurement(name);
        }
        if let Some((host, period)) = item.split_once('@') {
            let period = value_parsers::parse_period(period).map_err(|why| {
                CommandFailure::new(
                    USAGE,
                    format!("invalid period in {}: {why}", sanitize_input(item)),
                )
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
        let hosts: Vec<String> =
            Some(host).filter(|h| !h.is_empty()).map(str::to_owned).into_iter().collect();
        let gathered = RunCollection::read(self.archive()?, &hosts, period)?;
        let mut runs = gathered.runs;
        // Probes of a scan use the scan's settings and are not samples of the path.
        runs.retain(|run| run.report.run().part_of.is_none());
        Ok(runs)
    }

    /// Returns the runs of a measurement of the watch file.
    fn runs_of_measurement(&mut self, name: &str) -> Result<Vec<ArchivedRun>, CommandFailure> {
        let archive = self.archive()?;
        let planned = archive.planned(&PlannedRunFilter {
            range: TimeRange::ALL,
            pair: None,
            state: None,
            limit: MAX_PLANNED_RUNS,
        })?;
        let mut found = Vec::new();
        for row in planned.iter().filter(|row| row.planned.measurement == name) {
            let (Some(PlannedOutcome::Done { run_id }), Some(pair)) =
                (&row.outcome, &row.planned.pair)
            else {
                continue;
            };
            if let Some(report) = archive.report(run_id)? {
                found.extend(prepare_run(report, pair.from.clone(), pair.to.clone()));
            }
        }
        Ok(found)
    }

    fn archive(&mut self) -> Result<&Archive, CommandFailure> {
        if self.archive.is_none() {
            self.archive = Some(super::report_output::open_existing_archive(&self.args.archive)?);
        }
        self.archive.as_ref().ok_or_else(|| {
            let path = command_output::archive_path(&self.args.archive);
            let path = path.map_or_else(|_| String::new(), |path| path.display().to_string());
            CommandFailure::new(ARCHIVE, format!("cannot open the archive {path}"))
        })
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
        let mut fail =
            CommandFailure::new(USAGE, format!("cannot read reports from {}", path.display()));
        fail.causes.push(why);
        fail.hint(Some("write such a file with `longhaul report show ID --json > FILE`"))
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
            .map_err(|error| failed(format_error_chain(&error)))?;
        found.extend(run_from_report(report));
    }
    Ok(found)
}

fn format_error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.extend([": ", cause.to_string().as_str()]);
        source = cause.source();
    }
    sanitize_input(&text)
}
