//! `longhaul report routes`: traces of one or more paths over time.

use crate::cli::args::RoutesArgs;
use crate::cli::{command_output, report_archiving};
use crate::command_failure::{ARCHIVE, BUG, CommandFailure};
use jiff::{Timestamp, ToSpan};
use longhaul_analysis::imported::convert_to_path_report;
use longhaul_analysis::path::trace_table::{self, TraceTable};
use longhaul_model::report::v1::ImportedReport;
use longhaul_model::report::v1::PathReport;
use longhaul_store::Archive;
use std::process::ExitCode;

/// The maximum number of traces per path.
const MAX_TRACES: u32 = 50_000;

pub fn run(args: &RoutesArgs) -> Result<ExitCode, CommandFailure> {
    let path = command_output::archive_path(&args.archive)?;
    let archive = Archive::open_existing(&path)?.ok_or_else(|| {
        CommandFailure::new(ARCHIVE, format!("cannot find the archive {}", path.display())).hint(
            Some("create one with `longhaul path HOST`, or name another with `--archive FILE`"),
        )
    })?;
    let since = report_archiving::format_rfc3339(period_begin(args.since, args.days)?);
    let mut tables = Vec::with_capacity(args.hosts.len());
    for host in &args.hosts {
        let mut reports = archive.recent_reports::<PathReport>(Some(host), MAX_TRACES)?;
        let imports = archive.recent_reports::<ImportedReport>(Some(host), MAX_TRACES)?;
        reports.extend(imports.iter().filter_map(convert_to_path_report));
        let table = trace_table::build_trace_table(host, &reports, &since);
        if table.traces.is_empty() {
            return Err(no_route_failure(host, &since, &reports));
        }
        tables.push(table);
    }
    show_route_tables(args, &tables)?;
    Ok(ExitCode::SUCCESS)
}

fn show_route_tables(args: &RoutesArgs, tables: &[TraceTable]) -> Result<(), CommandFailure> {
    if args.json {
        let hosts =
            tables.iter().map(longhaul_report::routes_text::routes_json::table_to_json).collect();
        command_output::print_json(&serde_json::Value::Array(hosts))
    } else if args.csv {
        command_output::print_text(&longhaul_report::routes_text::routes_csv::render_traces_csv(
            tables,
        ))
    } else {
        command_output::print_document(&longhaul_report::routes_text::build_route_document(tables))
    }
}

/// Returns the beginning of the period.
pub fn period_begin(moment: Option<Timestamp>, days: u16) -> Result<Timestamp, CommandFailure> {
    if let Some(moment) = moment {
        return Ok(moment);
    }
    let hours = i64::from(days) * 24;
    Timestamp::now().checked_sub(hours.hours()).map_err(|e| CommandFailure::from_error(BUG, &e))
}

/// Returns the failure if the period has no trace, with the latest trace as a hint.
fn no_route_failure(host: &str, since: &str, reports: &[PathReport]) -> CommandFailure {
    let traced = |report: &&PathReport| report.observation.route.is_some();
    let traced = reports.iter().filter(traced);
    match traced.max_by_key(|report| &report.run.started_at) {
        Some(latest) => {
            let at = &latest.run.started_at;
            let day = at.split('T').next().unwrap_or(at);
            CommandFailure::new(
                ARCHIVE,
                format!("cannot show routes to {host}: none was traced since {since}"),
            )
            .hint(Some(format!("show the latest trace, of {at}, with `--since {day}`")))
        }
        None => CommandFailure::new(
            ARCHIVE,
            format!("cannot show routes to {host}: none is archived"),
        )
        .hint(Some(
            "trace one with `longhaul path HOST`, or list all hosts with `longhaul report list`",
        )),
    }
}
