//! `longhaul report routes`: traces of one or more paths over time.

use crate::cli::args::RoutesArgs;
use crate::cli::{filing, output};
use crate::fail::{ARCHIVE, BUG, Fail};
use crate::render;
use jiff::{Timestamp, ToSpan};
use longhaul_analysis::imported::look;
use longhaul_analysis::path::table::{self, Table};
use longhaul_model::report::v1::Path;
use longhaul_store::Archive;
use std::process::ExitCode;

/// The maximum number of traces per path.
const MOST_TRACES: u32 = 50_000;

pub fn run(args: &RoutesArgs) -> Result<ExitCode, Fail> {
    let path = output::archive_path(&args.archive)?;
    let archive = Archive::open_existing(&path)?.ok_or_else(|| {
        Fail::new(ARCHIVE, format!("there is no archive {}", path.display())).hint(Some(
            "`longhaul path HOST` makes one; `--archive FILE` names another",
        ))
    })?;
    let since = filing::rfc3339(since(args.since, args.days)?);
    let mut tables = Vec::with_capacity(args.hosts.len());
    for host in &args.hosts {
        let mut reports = archive.paths(host, MOST_TRACES)?;
        let imports = archive.imports(host, MOST_TRACES)?;
        reports.extend(imports.iter().filter_map(look));
        let table = table::of(host, &reports, &since);
        if table.traces.is_empty() {
            return Err(nothing(host, &since, &reports));
        }
        tables.push(table);
    }
    show(args, &tables)?;
    Ok(ExitCode::SUCCESS)
}

fn show(args: &RoutesArgs, tables: &[Table]) -> Result<(), Fail> {
    if args.json {
        let hosts = tables.iter().map(render::routes::json::table).collect();
        output::json(&serde_json::Value::Array(hosts))
    } else if args.csv {
        output::text(&render::routes::csv::traces(tables))
    } else {
        output::text(&render::routes::text(tables))
    }
}

/// Returns the beginning of the period.
pub fn since(moment: Option<Timestamp>, days: u16) -> Result<Timestamp, Fail> {
    if let Some(moment) = moment {
        return Ok(moment);
    }
    let hours = i64::from(days) * 24;
    Timestamp::now()
        .checked_sub(hours.hours())
        .map_err(|e| Fail::from_error(BUG, &e))
}

/// Returns the failure if the period has no trace, with the latest trace as a hint.
fn nothing(host: &str, since: &str, reports: &[Path]) -> Fail {
    let traced = |report: &&Path| report.observation.route.is_some();
    let traced = reports.iter().filter(traced);
    match traced.max_by_key(|report| &report.run.started_at) {
        Some(latest) => {
            let at = &latest.run.started_at;
            let day = at.split('T').next().unwrap_or(at);
            Fail::new(
                ARCHIVE,
                format!("no route to {host} was traced since {since}"),
            )
            .hint(Some(format!(
                "the latest trace is of {at}: `--since {day}` shows it"
            )))
        }
        None => Fail::new(ARCHIVE, format!("no route to {host} is in the archive")).hint(Some(
            "`longhaul path HOST` traces one; `longhaul report list` shows the names that were used",
        )),
    }
}
