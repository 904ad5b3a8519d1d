//! `longhaul import`: imports the output of other programs into the archive.

use crate::cli::args::ArchiveArgs;
use crate::cli::value_parsers::{parse_host_name, parse_import_format, parse_moment};
use crate::cli::{command_output, report_archiving};
use crate::command_failure::{BUG, CommandFailure, USAGE};
use clap::Args;
use jiff::Timestamp;
use longhaul_analysis::RunConclusion;
use longhaul_analysis::imported::conclude_imported;
use longhaul_capture::compressed_input::decompress;
use longhaul_import::{ImportedResult, MAX_FILE_BYTES, sanitize_text};
use longhaul_model::report::v1::imported::{ImportPlan, ImportedInterval, ImportedObservation};
use longhaul_model::report::v1::{
    AnyReport, ImportedReport, Report, ReportCaveat, RunInfo, RunParty,
};
use longhaul_probe::secure::encode_hex;
use longhaul_report::imported_text::build_import_document;
use longhaul_store::{AppendOutcome, Archive, StoreError};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = include_str!("help/import-examples.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Output of another program; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Format: iperf3-json, ntttcp-text, ntttcp-xml, ping, pscheduler, traceroute, ndt7, flent [default: detected]
    #[arg(long, value_name = "NAME", value_parser = parse_import_format)]
    pub format: Option<longhaul_import::ImportFormat>,
    /// Client host, instead of the one in the output
    #[arg(long, value_name = "HOST", value_parser = parse_host_name)]
    pub from: Option<String>,
    /// Server host, instead of the one in the output
    #[arg(long, value_name = "HOST", value_parser = parse_host_name)]
    pub to: Option<String>,
    /// Time of the measurement (UTC), if the output has none
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub at: Option<Timestamp>,
    /// Show what would be imported, and store nothing
    #[arg(long, visible_alias = "no-save")]
    pub dry_run: bool,
    /// Print the reports as JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

pub fn run(args: &ImportArgs) -> Result<ExitCode, CommandFailure> {
    let mut reports = Vec::new();
    for file in &args.files {
        reports.extend(read_reports(file, args)?);
    }
    show_reports(&reports, args)?;
    Ok(ExitCode::SUCCESS)
}

/// Archives reports of imported results, unless `args` say otherwise, and shows them.
pub fn show_reports(reports: &[ImportedReport], args: &ImportArgs) -> Result<(), CommandFailure> {
    let mut archive = if args.dry_run {
        None
    } else {
        Some(Archive::open(&command_output::archive_path(&args.archive)?)?)
    };
    let mut rows = Vec::with_capacity(reports.len());
    for report in reports {
        let state = match &mut archive {
            Some(archive) => archive_import(archive, report)?,
            None => "not filed",
        };
        rows.push((state, report));
    }
    let row_json = |(state, report): &(_, _)| json!({"state": state, "report": report});
    command_output::print_json_or_document(
        args.json,
        &rows.iter().map(row_json).collect(),
        &build_import_document(&rows),
    )
}

fn archive_import(
    archive: &mut Archive,
    report: &ImportedReport,
) -> Result<&'static str, CommandFailure> {
    let id = match archive.append(report) {
        Ok(AppendOutcome::New) => return Ok("filed"),
        Ok(AppendOutcome::AlreadyStored) => return Ok("already filed"),
        Err(StoreError::IdTaken { id }) => id,
        Err(error) => return Err(error.into()),
    };
    // The same file under another name, or parsed by a newer longhaul.
    if let AnyReport::Imported(there) = archive.find(&id)?
        && there.plan.content_sha256 == report.plan.content_sha256
        && there.plan.index == report.plan.index
    {
        return Ok("already filed");
    }
    let fail = CommandFailure::new(BUG, format!("cannot import {id}: another run has this id"));
    Err(fail.hint(Some("give another time with `--at TIME`")))
}

/// The name of a host that is not given.
const UNKNOWN: &str = "unknown";

fn read_reports(file: &Path, args: &ImportArgs) -> Result<Vec<ImportedReport>, CommandFailure> {
    let name = sanitize_text(&file.to_string_lossy());
    parse_reports(&read_content(file, &name)?, &name, args)
}

/// Makes reports of the content of a file with this name; `-` has no name.
pub fn parse_reports(
    bytes: &[u8],
    name: &str,
    args: &ImportArgs,
) -> Result<Vec<ImportedReport>, CommandFailure> {
    let (text, flaw) = decode_import_text(bytes, name)?;
    let hint = "see docs/imports.md for the formats, or name one with `--format NAME`";
    let found = longhaul_import::parse_output(&text, args.format)
        .map_err(|why| import_failure(name, &why, hint))?;
    let sha256 = encode_hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    let file = Path::new(name).file_name().unwrap_or_default();
    let file = (name != "-").then(|| sanitize_text(&file.to_string_lossy()));
    let mut reports = Vec::new();
    for (index, mut one) in found.into_iter().enumerate() {
        one.import_caveats.extend(flaw.clone());
        let told = one.started.map(|started| (started, "text"));
        let Some((started, time_from)) = told.or(args.at.map(|at| (at, "user"))) else {
            let why = format!("result {} ({}) has no start time", index + 1, one.observation.tool);
            let hint = "give the time with `--at 2004-02-22T10:00:00Z` (UTC), or a date";
            return Err(import_failure(name, &why, hint));
        };
        let plan = ImportPlan {
            format: one.format.name().replace('-', "_"),
            file: file.clone(),
            content_sha256: sha256.clone(),
            index: index as u32,
            time_from: time_from.to_owned(),
        };
        reports.push(build_imported_report(one, plan, started, args));
    }
    Ok(reports)
}

fn import_failure(name: &str, why: &str, hint: &str) -> CommandFailure {
    CommandFailure::new(USAGE, format!("cannot import {name}")).cause(why).hint(Some(hint))
}

/// Reads a text of another program, at most [`MAX_FILE_BYTES`] long; `-` is standard input.
pub fn read_import_text(file: &Path) -> Result<String, CommandFailure> {
    let name = sanitize_text(&file.to_string_lossy());
    let bytes = read_content(file, &name)?;
    Ok(decode_import_text(&bytes, &name)?.0)
}

/// Reads and decompresses a file; both sizes are limited.
fn read_content(file: &Path, name: &str) -> Result<Vec<u8>, CommandFailure> {
    let mut bytes = Vec::new();
    let read = if name == "-" {
        std::io::stdin().lock().take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
    };
    let hint = "check the name and its permissions";
    read.map_err(|error| import_failure(name, &error.to_string(), hint))?;
    check_length(&bytes, name)?;
    let mut text = Vec::new();
    let unpack =
        decompress(&bytes[..]).and_then(|all| all.take(MAX_FILE_BYTES + 1).read_to_end(&mut text));
    let hint = "decompress it by other means, or import the file that is not compressed";
    unpack.map_err(|error| import_failure(name, &error.to_string(), hint))?;
    check_length(&text, name)?;
    Ok(text)
}

fn check_length(bytes: &[u8], name: &str) -> Result<(), CommandFailure> {
    if bytes.len() as u64 <= MAX_FILE_BYTES {
        return Ok(());
    }
    let why = format!("larger than {} MiB", MAX_FILE_BYTES >> 20);
    Err(import_failure(name, &why, "split it into single results"))
}

/// Decodes UTF-8, or UTF-16 with its mark (as redirected on Windows); reports replaced bytes.
fn decode_import_text(
    bytes: &[u8],
    name: &str,
) -> Result<(String, Option<String>), CommandFailure> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (units, _) = bytes.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16_lossy(&units)
    };
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    if text.contains('\0') {
        let why = "not a text file: it contains NUL bytes";
        return Err(import_failure(name, why, "give the output of the program"));
    }
    let broken = text.contains(char::REPLACEMENT_CHARACTER);
    let flaw = "some bytes are not UTF-8 and were replaced".to_owned();
    Ok((text, broken.then_some(flaw)))
}

fn build_imported_report(
    mut one: ImportedResult,
    plan: ImportPlan,
    started: Timestamp,
    args: &ImportArgs,
) -> ImportedReport {
    let near = args.from.clone().or(one.observation.near.clone());
    let far = args.to.clone().or(one.observation.far.clone());
    for (end, what) in [(&near, "the client host"), (&far, "the server host")] {
        if end.is_none() && !one.observation.missing.iter().any(|it| it == what) {
            one.observation.missing.push(what.to_owned());
        }
    }
    let RunConclusion { analysis, findings, mut caveats } = conclude_imported(&one.observation);
    let flaw = |text: &String| ReportCaveat::new("import_flaw", text.clone());
    caveats.extend(one.import_caveats.iter().map(flaw));
    let party = |host: Option<String>, address: Option<String>| RunParty {
        host: host.unwrap_or_else(|| UNKNOWN.to_owned()),
        address,
        ..RunParty::default()
    };
    let near = party(near, None);
    let far = party(far, one.observation.far_address.clone());
    let lasted = Duration::from_micros(longest_duration_us(&one.observation));
    let run = report_archiving::create_run_info(started, lasted, near, far);
    let run = RunInfo { id: content_run_id(started, &plan), environment: None, ..run };
    Report::new(run, plan, one.observation, analysis).with_notes(findings, caveats)
}

/// Returns the duration of the longest part that has a time, 0 if none has.
fn longest_duration_us(seen: &ImportedObservation) -> u64 {
    let totals = [seen.sender, seen.receiver, seen.either];
    let streams = seen.streams.iter();
    let of_streams = streams.flat_map(|it| [it.sender, it.receiver, it.either]);
    let transfers = totals.into_iter().chain(of_streams).flatten();
    let ends = |it: &ImportedInterval| it.started_us.saturating_add(it.duration_us);
    let intervals = seen.intervals.iter().map(ends);
    let longest = transfers.filter_map(|it| it.duration_us).chain(intervals);
    longest.max().unwrap_or(0)
}

/// Creates a run id from the content, so that the same content is imported once.
fn content_run_id(started: Timestamp, plan: &ImportPlan) -> String {
    let of = format!("{} {} {}", plan.content_sha256, plan.format, plan.index);
    let hash = ring::digest::digest(&ring::digest::SHA256, of.as_bytes());
    format!("{}-{}", started.strftime("%Y%m%dT%H%M%SZ"), &encode_hex(hash.as_ref())[..6])
}
