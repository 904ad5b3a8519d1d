//! Selects the runs of `longhaul report compare`: ids, files, hosts, periods.

use super::gather::{Gathered, taken};
use super::site::ALWAYS;
use super::written::shown;
use crate::cli::args::CompareArgs;
use crate::cli::{output, parse};
use crate::fail::{ARCHIVE, Fail, USAGE};
use longhaul_analysis::beside::Taken;
use longhaul_analysis::beside::comparison::Asked;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::comparison::Period;
use longhaul_store::watched::{Outcome, PlannedFilter, Range, Watched, WatchedRun, run_of};
use longhaul_store::{Archive, StoreError};
use serde_json::Value;
use std::path::Path;

/// The maximum size of a file with reports.
const MOST_FILE_BYTES: u64 = 256 << 20;
/// The maximum number of planned runs searched for the name of a measurement.
const MOST_PLANNED: u32 = 100_000;
/// The maximum number of items in a set.
const MOST_ITEMS: usize = 1_000;

/// Reads sets of runs. The archive is opened on first use, because files do not need it.
pub struct Sets<'a> {
    args: &'a CompareArgs,
    archive: Option<Archive>,
}

impl<'a> Sets<'a> {
    pub fn new(args: &'a CompareArgs) -> Sets<'a> {
        Sets {
            args,
            archive: None,
        }
    }

    /// Reads one set of comma-separated items.
    pub fn read(&mut self, text: &str) -> Result<Asked, Fail> {
        let mut runs = Vec::new();
        let items: Vec<&str> = text
            .split(',')
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .collect();
        if items.is_empty() || items.len() > MOST_ITEMS {
            return Err(Fail::new(
                USAGE,
                format!("a set has 1 to {MOST_ITEMS} items"),
            ));
        }
        for item in items {
            let found = self.item(item)?;
            if found.is_empty() {
                return Err(
                    Fail::new(ARCHIVE, format!("no run is meant by {}", shown(item))).hint(Some(
                        "`longhaul report list` shows the runs and their hosts",
                    )),
                );
            }
            runs.extend(found);
        }
        Ok(Asked {
            text: shown(text),
            runs,
        })
    }

    fn item(&mut self, item: &str) -> Result<Vec<Taken>, Fail> {
        let path = Path::new(item);
        let named = path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("json"));
        if named || item.contains('/') {
            return file(path);
        }
        if let Some(name) = item.strip_prefix("measure:") {
            return self.measurement(name);
        }
        if let Some((host, period)) = item.split_once('@') {
            let period = parse::period(period)
                .map_err(|why| Fail::new(USAGE, format!("in {}: {why}", shown(item))))?;
            return self.of_host(host, period);
        }
        match self.archive()?.find(item) {
            Ok(report) => Ok(one(report).into_iter().collect()),
            Err(StoreError::NoSuchRun { .. }) => self.of_host(item, ALWAYS),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns runs to or from a host, or all runs if the host is empty.
    fn of_host(&mut self, host: &str, period: Period) -> Result<Vec<Taken>, Fail> {
        let hosts: Vec<String> = Some(host)
            .filter(|h| !h.is_empty())
            .map(str::to_owned)
            .into_iter()
            .collect();
        let gathered = Gathered::of(self.archive()?, &hosts, period)?;
        let mut runs = gathered.runs;
        // Probes of a scan use the scan's settings and are not samples of the path.
        runs.retain(|run| run_of(&run.report).part_of.is_none());
        Ok(runs)
    }

    /// Returns the runs of a measurement of the watch file.
    fn measurement(&mut self, name: &str) -> Result<Vec<Taken>, Fail> {
        let archive = self.archive()?;
        let planned = archive.planned(&PlannedFilter {
            range: Range::ALL,
            pair: None,
            waiting: false,
            limit: MOST_PLANNED,
        })?;
        let mut found = Vec::new();
        for row in planned.iter().filter(|row| row.planned.measurement == name) {
            let (Some(Outcome::Done { run_id }), Some(pair)) = (&row.outcome, &row.planned.pair)
            else {
                continue;
            };
            if let Some(report) = archive.report(run_id)? {
                found.extend(taken(report, pair.from.clone(), pair.to.clone()));
            }
        }
        Ok(found)
    }

    fn archive(&mut self) -> Result<&Archive, Fail> {
        if self.archive.is_none() {
            self.archive = Some(super::written::archive(&self.args.archive)?);
        }
        self.archive.as_ref().ok_or_else(|| {
            let path = output::archive_path(&self.args.archive);
            let path = path.map_or_else(|_| String::new(), |path| path.display().to_string());
            Fail::new(ARCHIVE, format!("cannot open the archive {path}"))
        })
    }
}

/// Uses the host names in the run itself.
fn one(report: AnyReport) -> Option<Taken> {
    let run = run_of(&report);
    let (near, far) = (run.initiator.host.clone(), run.responder.host.clone());
    taken(report, near, far)
}

/// Reads one report, a list of reports, or one report per line.
fn file(path: &Path) -> Result<Vec<Taken>, Fail> {
    let failed = |why: String| {
        let mut fail = Fail::new(
            USAGE,
            format!("cannot read reports from {}", path.display()),
        );
        fail.causes.push(why);
        fail.hint(Some(
            "`longhaul report show ID --json > FILE` writes such a file",
        ))
    };
    let about = std::fs::metadata(path).map_err(|e| failed(e.to_string()))?;
    if !about.is_file() || about.len() > MOST_FILE_BYTES {
        return Err(failed(format!(
            "it is no regular file of at most {} MiB",
            MOST_FILE_BYTES >> 20
        )));
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
        let (_, report) = WatchedRun::with_report(report.to_string(), 0)
            .map_err(|error| failed(chain(&error)))?;
        found.extend(one(report));
    }
    Ok(found)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.extend([": ", cause.to_string().as_str()]);
        source = cause.source();
    }
    shown(&text)
}
