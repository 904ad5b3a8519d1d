//! `longhaul report`: shows archived results.
//!
//! [`case_report`] compares two periods; [`run_collection`] reads and selects runs.

mod case_report;
pub mod run_collection;

use crate::cli::args::{
    ALL_ENVIRONMENTS, ArchiveArgs, AsymmetryArgs, CompareArgs, EventsArgs, ListArgs, OutputArgs,
    ReportCommand, ReportOutputArgs, RoutesArgs, ScanFilesArgs, SiteArgs, TransfersArgs,
};
use crate::cli::value_parsers::file_extension;
use crate::cli::{
    command_output, expectation,
    report_archiving::{self, NOT_ARCHIVED},
    tune_command,
};
use crate::command_failure::{ARCHIVE, BUG, CommandFailure, USAGE};
use jiff::Timestamp;
use longhaul_analysis::imported::convert_to_path_report;
use longhaul_analysis::path::trace_table::{self, TraceTable};
use longhaul_history::report_comparison::daily_transfers::{
    DailyTransferSums, list_daily_transfers,
};
use longhaul_history::report_comparison::run_set_comparison::compare_run_sets;
use longhaul_history::report_comparison::{direction_asymmetry, site_summary};
use longhaul_model::report::v1::{
    AnyReport, AsymmetryReport, ChangeEvent, ComparisonReport, EventState, ImportedReport,
    PathAsymmetry, PathReport, Report, ReportKind, SCHEMA, SitePath, SiteReport, TimePeriod,
};
use longhaul_model::sanitize::sanitize_line;
use longhaul_report::document::{DocumentTable, ReportDocument};
use longhaul_report::number_format::{
    ABSENT, count_of, format_millis, format_percent, format_rate,
};
use longhaul_report::{event_text, flow_text, plot, routes_text, run_comparison};
use longhaul_store::history_store::{EventFilter, RunFilter, TimeRange};
use longhaul_store::{Archive, PathSelector, RunEntry, StoreError};
use run_collection::{RunCollection, RunSetReader};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::process::ExitCode;

pub fn run(command: ReportCommand) -> Result<ExitCode, CommandFailure> {
    match command {
        ReportCommand::List(args) => list_archived_runs(&args),
        ReportCommand::Show { id, written, files, archive } => {
            show_run(&id, &written, &files, &archive)
        }
        ReportCommand::Case(args) => case_report::run(&args),
        ReportCommand::Site(args) => report_site(&args),
        ReportCommand::Asymmetry(args) => report_asymmetry(&args),
        ReportCommand::Compare(args) => return report_comparison(&args),
        ReportCommand::Routes(args) => show_routes(&args),
        ReportCommand::Transfers(args) => sum_transfers(&args),
        ReportCommand::Events(args) => list_found_events(&args),
        ReportCommand::Event { id, json, archive } => show_event(&id, json, &archive),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn list_archived_runs(args: &ListArgs) -> Result<(), CommandFailure> {
    let begin_us = args.since.map_or(i64::MIN, Timestamp::as_microsecond);
    let filter = RunFilter {
        range: TimeRange { begin_us, ..TimeRange::ALL },
        kind: args.kind,
        host: args.host.clone(),
        environment: args.environment.clone().filter(|word| word != ALL_ENVIRONMENTS),
        with_parts: false,
        ..RunFilter::newest(args.limit)
    };
    // A missing file means that there is no run yet, which is not a failure.
    let entries = match command_output::open_archive(&args.archive)? {
        Some(archive) => archive.runs(&filter)?,
        None => Vec::new(),
    };
    if !args.json && entries.is_empty() {
        let path = command_output::archive_path(&args.archive)?;
        return command_output::print_text(&format!("no runs in {}\n", path.display()));
    }
    command_output::print_json_or_document(
        args.json,
        &entries.iter().map(entry_json).collect(),
        &build_run_list(&entries),
    )
}

/// Renders two lines per run, newest first.
fn build_run_list(entries: &[RunEntry]) -> ReportDocument {
    let minute =
        |entry: &RunEntry| entry.started_at.chars().take(16).collect::<String>().replace('T', " ");
    let table = DocumentTable::from_rows(entries)
        .text("started (UTC)", minute)
        .text("kind", |entry| entry.kind.clone())
        .text("from", |entry| entry.initiator_host.clone())
        .text("to", |entry| entry.responder_host.clone())
        .text("result", |entry| describe_result(entry).unwrap_or_else(|| ABSENT.to_owned()))
        .details(|entry| [describe_entry(entry)]);
    let mut page = ReportDocument::default();
    page.table(table.finish());
    page
}

/// Returns the main result of a run.
fn describe_result(entry: &RunEntry) -> Option<String> {
    let values = entry.values.unwrap_or_default();
    let count = |number: u32, what: &str| count_of(number.into(), what);
    let path = [
        values.rtt_us.map(|us| format!("{} ms RTT", format_millis(us))),
        values.hops.map(|hops| count(hops, "hop")),
        values
            .loss_ratio
            .filter(|loss| *loss > 0.0)
            .map(|it| format!("loss {}", format_percent(it))),
    ];
    let host = [
        values.limiting_settings.map(|number| format!("{} limit", count(number, "setting"))),
        values.advised_settings.map(|number| format!("{number} could be better")),
    ];
    let parts: Vec<String> = match (entry.kind.as_str(), entry.goodput_bps, values.available_bps) {
        ("path", ..) => path.into_iter().flatten().collect(),
        ("host", ..) => host.into_iter().flatten().collect(),
        (_, _, Some(available)) => vec![format!("{} available", format_rate(available))],
        (_, goodput, _) => goodput.map(format_rate).into_iter().collect(),
    };
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the second line of a run: its id, which other commands need, and its conditions.
fn describe_entry(entry: &RunEntry) -> String {
    let address = entry.responder_address.as_ref().filter(|it| **it != entry.responder_host);
    let environment = entry.environment.as_ref().filter(|word| *word != "network");
    let parts = [
        Some(entry.id.clone()),
        entry.streams.map(|number| count_of(number.into(), "stream")),
        entry.limited_by.as_ref().map(|limiter| format!("limited by {limiter}")),
        (entry.parts > 0).then(|| count_of(entry.parts.into(), "probe")),
        address.cloned(),
        environment.cloned(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn show_run(
    id: &str,
    written: &ReportOutputArgs,
    files: &ScanFilesArgs,
    args: &ArchiveArgs,
) -> Result<(), CommandFailure> {
    let report = open_existing_archive(args)?.find(id)?;
    write_report(written, &report, &longhaul_report::build_document(&report))?;
    let figure = match &report {
        AnyReport::Scan(scan) => return tune_command::write_scan_files(files, scan),
        AnyReport::Load(load) => Some(plot::draw_load_chart(load)),
        AnyReport::Predict(prediction) => Some(plot::draw_prediction(prediction)),
        _ => None,
    };
    if files.csv.is_some() {
        let text = "cannot write CSV: this run is not a scan";
        return Err(CommandFailure::new(USAGE, text));
    }
    match (&files.plot, figure) {
        (None, _) => Ok(()),
        (Some(path), Some(figure)) => Ok(plot::write_figure(path, &figure)?),
        (Some(_), None) => {
            let text = "cannot plot this run: it is neither a scan, a load nor a prediction";
            Err(CommandFailure::new(USAGE, text))
        }
    }
}

/// Returns the indexed columns under their names in the report.
fn entry_json(entry: &RunEntry) -> Value {
    json!({
        "id": entry.id,
        "started_at": entry.started_at,
        "kind": entry.kind,
        "initiator": entry.initiator_host,
        "responder": entry.responder_host,
        "responder_address": entry.responder_address,
        "streams": entry.streams,
        "goodput_bps": entry.goodput_bps,
        "limited_by": entry.limited_by,
        "analysis_version": entry.analysis_version,
        "parts": entry.parts,
        "environment": entry.environment,
    })
}

/// The maximum number of events to read.
const MAX_EVENTS: u32 = 10_000;

fn list_found_events(args: &EventsArgs) -> Result<(), CommandFailure> {
    let range = TimeRange { begin_us: args.since.as_microsecond(), end_us: i64::MAX };
    let mut events = match command_output::open_archive(&args.archive)? {
        Some(archive) => query_events(&archive, range, MAX_EVENTS)?,
        None => Vec::new(),
    };
    events.retain(|event| {
        let of_host = |host: &String| event.pair.from == *host || event.pair.to == *host;
        (args.all || event.state != EventState::Withdrawn) && args.host.as_ref().is_none_or(of_host)
    });
    if !args.json && events.is_empty() {
        let since = report_archiving::format_rfc3339(args.since);
        return command_output::print_text(&format!("no lasting changes since {since}\n"));
    }
    command_output::print_json_or_document(
        args.json,
        &json!(events),
        &event_text::build_event_list(&events),
    )
}

fn show_event(id: &str, as_json: bool, args: &ArchiveArgs) -> Result<(), CommandFailure> {
    let Some(archive) = command_output::open_archive(args)? else {
        return Err(ambiguous_event_failure(id, &[]));
    };
    let event = find_event(&archive, id)?;
    command_output::print_json_or_document(
        as_json,
        &json!(event),
        &event_text::build_event_document(&event),
    )
}

/// Returns the event whose id begins with `id`.
pub fn find_event(archive: &Archive, id: &str) -> Result<ChangeEvent, CommandFailure> {
    let mut events = query_events(archive, TimeRange::ALL, MAX_EVENTS)?;
    events.retain(|event| event.id.starts_with(id));
    match events.as_slice() {
        [event] => Ok(event.clone()),
        several => Err(ambiguous_event_failure(id, several)),
    }
}

fn ambiguous_event_failure(id: &str, found: &[ChangeEvent]) -> CommandFailure {
    if found.is_empty() {
        return CommandFailure::new(ARCHIVE, format!("cannot find event {id}"))
            .hint(Some("list all events with `longhaul report events`"));
    }
    let text = format!("cannot choose an event: the ids of {} begin with {id}", found.len());
    CommandFailure::new(USAGE, text).hint(Some("give more letters of the id"))
}

/// Reads up to `most` events of all pairs.
pub fn query_events(
    archive: &Archive,
    range: TimeRange,
    most: u32,
) -> Result<Vec<ChangeEvent>, StoreError> {
    archive.events(&EventFilter { range, ..EventFilter::newest(most) })
}

/// The maximum number of traces per path.
const MAX_TRACES: u32 = 50_000;

fn show_routes(args: &RoutesArgs) -> Result<(), CommandFailure> {
    let archive = command_output::require_archive(&args.archive, "longhaul path HOST")?;
    let since = report_archiving::format_rfc3339(args.since);
    let mut tables = Vec::with_capacity(args.hosts.len());
    let environment = args.environment.filter();
    for host in &args.hosts {
        let environment = environment.as_deref();
        let path = PathSelector { host: Some(host), environment, ..PathSelector::default() };
        let mut reports = archive.recent_reports::<PathReport>(&path, MAX_TRACES)?;
        let imports = archive.recent_reports::<ImportedReport>(&path, MAX_TRACES)?;
        reports.extend(imports.iter().filter_map(convert_to_path_report));
        let found = build_trace_tables(host, &reports, &since);
        if found.is_empty() {
            let elsewhere = list_environments(&archive, host)?;
            return Err(no_route_failure(host, &since, &reports, &elsewhere));
        }
        tables.extend(found);
    }
    command_output::print_json_or_document(
        args.json,
        &json!(tables),
        &routes_text::build_route_document(&tables),
    )
}

fn sum_transfers(args: &TransfersArgs) -> Result<(), CommandFailure> {
    let archive = command_output::require_archive(&args.archive, "longhaul explain")?;
    let begin_us = args.since.as_microsecond();
    let filter = RunFilter {
        range: TimeRange { begin_us, ..TimeRange::ALL },
        kind: Some(ReportKind::Flows),
        ..RunFilter::newest(u32::MAX)
    };
    let mut sums = DailyTransferSums::default();
    archive.for_each_report(&filter, |report| {
        if let AnyReport::Flows(report) = report {
            for transfers in list_daily_transfers(&report, &report.run.initiator.host) {
                sums.add_transfers(transfers);
            }
        }
    })?;
    let mut rows = sums.finish();
    if let Some(name) = &args.name {
        rows.retain(|row| row.program.contains(name) || row.peer.contains(name));
    }
    if !args.json && rows.is_empty() {
        let since = report_archiving::format_rfc3339(args.since);
        return command_output::print_text(&format!("no transfers since {since}\n"));
    }
    command_output::print_json_or_document(
        args.json,
        &json!(rows),
        &flow_text::build_daily_document(&rows),
    )
}

/// Returns the tables of a host, one for each of its addresses.
fn build_trace_tables(host: &str, reports: &[PathReport], since: &str) -> Vec<TraceTable> {
    let mut paths: BTreeMap<&str, Vec<PathReport>> = BTreeMap::new();
    for report in reports {
        let address = report.run.responder.address.as_ref();
        let address = address.unwrap_or(&report.observation.address);
        paths.entry(address).or_default().push(report.clone());
    }
    let tables = paths.iter().map(|(address, reports)| {
        let is_only = paths.len() == 1 || host == *address;
        let title = if is_only { host.to_owned() } else { format!("{host} ({address})") };
        trace_table::build_trace_table(&title, reports, since)
    });
    tables.filter(|table| !table.traces.is_empty()).collect()
}

/// Returns the environments with path runs to a host.
fn list_environments(archive: &Archive, host: &str) -> Result<BTreeSet<String>, StoreError> {
    let runs = archive.runs(&RunFilter {
        kind: Some(ReportKind::Path),
        host: Some(host.to_owned()),
        ..RunFilter::newest(MAX_TRACES)
    })?;
    Ok(runs.into_iter().filter_map(|run| run.environment).collect())
}

/// Returns the failure if the period has no trace, with the latest trace or other environments as a
/// hint.
fn no_route_failure(
    host: &str,
    since: &str,
    reports: &[PathReport],
    environments: &BTreeSet<String>,
) -> CommandFailure {
    let traced = |report: &&PathReport| report.observation.route.is_some();
    let traced = reports.iter().filter(traced);
    let fail =
        |why: String| CommandFailure::new(ARCHIVE, format!("cannot show routes to {host}: {why}"));
    let Some(latest) = traced.max_by_key(|report| &report.run.started_at) else {
        let fail = fail("none is archived".to_owned());
        return fail.hint(Some(match environments.first() {
            Some(other) => format!("show those in another network with `--environment {other}`"),
            None => "trace one with `longhaul path HOST`, or list all hosts with `longhaul report \
                     list`"
                .to_owned(),
        }));
    };
    let at = &latest.run.started_at;
    let day = at.split('T').next().unwrap_or(at);
    let hint = format!("show the latest trace, of {at}, with `--since {day}`");
    fail(format!("none was traced since {since}")).hint(Some(hint))
}

/// The maximum number of lines of a brief result.
const BRIEF_LINES: usize = 25;
/// The maximum number of lines of the brief result of a throughput test.
const BRIEF_TEST_LINES: usize = 14;

/// Writes the files, then shows the result of a run: brief unless the user wants all or less.
pub fn write_run<P, O, A>(
    output: &OutputArgs,
    report: &Report<P, O, A>,
    mut document: ReportDocument,
) -> Result<(), CommandFailure>
where
    Report<P, O, A>: Serialize,
{
    if output.full || output.form.json || output.form.markdown {
        return write_report(&output.form, report, &document);
    }
    write_report_files(&output.form, report, &document)?;
    let is_saved = !output.no_save && report.caveats.iter().all(|it| it.code != NOT_ARCHIVED);
    if is_saved {
        document.answer_command("details", format!("longhaul report show {}", report.run.id));
    } else {
        document.answer("details", "not archived: repeat the command with --full");
    }
    let max_lines =
        if report.kind == ReportKind::Throughput { BRIEF_TEST_LINES } else { BRIEF_LINES };
    command_output::print_text(&if output.quiet {
        document.answer_text()
    } else {
        document.brief_text(max_lines)
    })
}

/// Writes the files, then shows the whole report.
pub fn write_report(
    args: &ReportOutputArgs,
    shape: &impl Serialize,
    document: &ReportDocument,
) -> Result<(), CommandFailure> {
    write_report_files(args, shape, document)?;
    if args.json {
        let pretty = std::io::stdout().is_terminal();
        command_output::print_unstyled(&to_json(shape, pretty)?)
    } else if args.markdown {
        command_output::print_text(&document.markdown())
    } else {
        command_output::print_text(&document.text())
    }
}

/// Writes the files of `-o`.
pub fn write_report_files(
    args: &ReportOutputArgs,
    shape: &impl Serialize,
    document: &ReportDocument,
) -> Result<(), CommandFailure> {
    for file in &args.output {
        let text = match file_extension(file).as_str() {
            "html" | "htm" => document.html(),
            "md" | "markdown" => document.markdown(),
            "json" => to_json(shape, true)?,
            _ => document.unstyled_text(),
        };
        plot::replace_file(file, text.as_bytes())?;
    }
    Ok(())
}

/// Returns a report as JSON.
pub fn to_json(shape: &impl Serialize, pretty: bool) -> Result<String, CommandFailure> {
    let text =
        if pretty { serde_json::to_string_pretty(shape) } else { serde_json::to_string(shape) };
    text.map(|text| text + "\n").map_err(|e| CommandFailure::from_error(BUG, &e))
}

/// Opens the archive, which must exist.
pub fn open_existing_archive(args: &ArchiveArgs) -> Result<Archive, CommandFailure> {
    command_output::require_archive(args, "longhaul test HOST")
}

/// The version in stdout and in files.
pub const LONGHAUL_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Sanitizes and shortens user or file input for an error message.
pub fn sanitize_input(text: &str) -> String {
    sanitize_line(text, 200)
}

fn report_comparison(args: &CompareArgs) -> Result<ExitCode, CommandFailure> {
    let mut sets = RunSetReader::new(args);
    let (mut a, mut b) = (sets.read(&args.a)?, sets.read(&args.b)?);
    let compared = compare_run_sets(&mut a, &mut b);
    let [a, b] = compared.sides;
    let report = ComparisonReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("comparison"),
        longhaul: LONGHAUL_VERSION.to_owned(),
        a,
        b,
        changes: compared.changes,
        caveats: compared.caveats,
    };
    let document = run_comparison::comparison_document::build_comparison_document(&report);
    write_report(&args.written, &report, &document)?;
    let changes = &report.changes;
    let missed =
        args.expect.iter().map(|wanted| (wanted.text.as_str(), wanted.describe_miss(changes)));
    Ok(expectation::report_misses(missed))
}

/// The period of everything in the archive.
pub const ALL_TIME: TimePeriod = TimePeriod { begin_us: 0, end_us: i64::MAX };

fn report_site(args: &SiteArgs) -> Result<(), CommandFailure> {
    let archive = open_existing_archive(&args.archive)?;
    let period = args.period.unwrap_or(ALL_TIME);
    let gathered = RunCollection::read(&archive, &args.hosts, period, args.environment.filter())?;
    let materials = gathered.materials(&args.hosts);
    let paths: Vec<SitePath> = materials
        .iter()
        .flat_map(|material| site_summary::summarize_path(material, period))
        .collect();
    let report = SiteReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("site"),
        longhaul: LONGHAUL_VERSION.to_owned(),
        period: args.period.or_else(|| measured_period(&gathered)),
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document = run_comparison::site_document::build_site_document(&report);
    write_report(&args.written, &report, &document)
}

/// Returns the period from the first run or value to the last.
fn measured_period(gathered: &RunCollection) -> Option<TimePeriod> {
    let runs = gathered.runs.iter().map(|run| run.at_us);
    let series = gathered.series.iter();
    let values = series.flat_map(|series| {
        let points = series.points.iter().map(|point| point.at_us);
        points.chain(series.buckets.iter().map(|bucket| bucket.at_us))
    });
    let times = || runs.clone().chain(values.clone());
    Some(TimePeriod { begin_us: times().min()?, end_us: times().max()?.saturating_add(1) })
}

fn report_asymmetry(args: &AsymmetryArgs) -> Result<(), CommandFailure> {
    let archive = open_existing_archive(&args.site.archive)?;
    let period = args.site.period.unwrap_or(ALL_TIME);
    let gathered =
        RunCollection::read(&archive, &args.site.hosts, period, args.site.environment.filter())?;
    let most_apart_us = args.within.unsigned_abs();
    let materials = gathered.materials(&args.site.hosts);
    // Without hosts, paths measured in one direction only are skipped; with hosts they are shown.
    let shown = |path: &PathAsymmetry| {
        let both = path.unmatched_run_counts.iter().all(|count| *count > 0);
        !path.matched.is_empty() || !args.site.hosts.is_empty() || both
    };
    let paths: Vec<_> = materials
        .iter()
        .filter_map(|path| direction_asymmetry::compare_directions(path, period, most_apart_us))
        .filter(shown)
        .collect();
    if paths.is_empty() {
        let text = "cannot compare directions: no path has throughput runs in both in this period";
        return Err(CommandFailure::new(ARCHIVE, text).hint(Some(
            "measure both with `longhaul test HOST --bidir`, or with one run with `-R` and one \
             without",
        )));
    }
    let report = AsymmetryReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("asymmetry"),
        longhaul: LONGHAUL_VERSION.to_owned(),
        most_apart_us,
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document = run_comparison::asymmetry_document::build_asymmetry_document(&report);
    write_report(&args.site.written, &report, &document)
}
