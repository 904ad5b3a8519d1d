//! `longhaul archive`: checks, copies and prunes the archive.

use crate::cli::args::{ALL_ENVIRONMENTS, ArchiveArgs};
use crate::cli::command_output;
use crate::cli::value_parsers::{parse_environment, parse_moment, parse_report_kind};
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use longhaul_model::report::v1::ReportKind;
use longhaul_model::units::Bytes;
use longhaul_report::document::ReportDocument;
use longhaul_report::number_format::count_of;
use longhaul_store::Archive;
use longhaul_store::archive_maintenance::{BackupError, MAX_PROBLEMS};
use longhaul_store::history_store::{RunFilter, TimeRange};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = include_str!("help/archive-examples.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ArchiveCommandArgs {
    #[command(subcommand)]
    pub command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
pub enum ArchiveCommand {
    /// Check the file and read every report
    Check {
        #[command(flatten)]
        output: ArchiveOutputArgs,
    },
    /// Write a consistent copy, while others may write to the archive
    Backup {
        /// New file; an existing one is not replaced
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        output: ArchiveOutputArgs,
    },
    /// Delete the runs that match all given conditions, except those of an agent
    #[command(override_usage = "longhaul archive prune CONDITION... [OPTIONS]")]
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
pub struct ArchiveOutputArgs {
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
#[group(id = "selection", required = true, multiple = true, args = ["before", "host", "kind", "environment"])]
pub struct PruneArgs {
    /// Runs that started before this date or time (UTC), or before such a time ago
    #[arg(long, value_name = "TIME", value_parser = parse_moment, help_heading = "Conditions")]
    pub before: Option<Timestamp>,
    /// Runs from or to hosts with this in their name
    #[arg(long, value_name = "HOST", help_heading = "Conditions")]
    pub host: Option<String>,
    /// Runs of this kind, such as throughput, path or scan
    #[arg(long, value_name = "KIND", value_parser = parse_report_kind, help_heading = "Conditions")]
    pub kind: Option<ReportKind>,
    /// Runs in this network: network, loopback, lab, lab:NAME or all
    #[arg(long, value_name = "ENV", value_parser = parse_environment, help_heading = "Conditions")]
    pub environment: Option<String>,
    /// Only show what would be deleted
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Return the freed space to the disk; locks the archive meanwhile
    #[arg(long)]
    pub compact: bool,
    #[command(flatten)]
    pub output: ArchiveOutputArgs,
}

pub fn run(command: &ArchiveCommand) -> Result<ExitCode, CommandFailure> {
    match command {
        ArchiveCommand::Check { output } => check_archive(output),
        ArchiveCommand::Backup { file, output } => back_up_archive(file, output),
        ArchiveCommand::Prune(args) => prune_archive(args),
    }
}

fn open(output: &ArchiveOutputArgs) -> Result<Archive, CommandFailure> {
    command_output::require_archive(&output.archive, "longhaul test HOST")
}

fn check_archive(output: &ArchiveOutputArgs) -> Result<ExitCode, CommandFailure> {
    let check = open(output)?.check()?;
    let path = command_output::archive_path(&output.archive)?;
    let mut page = ReportDocument::default();
    page.fact("archive", path.display().to_string());
    page.fact("size", Bytes(check.bytes).to_string());
    let watched = format!("{} of an agent", check.watched_runs);
    page.fact("runs", format!("{}, {watched}", check.runs));
    if let Some([first, last]) = &check.period {
        page.fact("period", format!("{first} to {last}"));
    }
    page.fact("state", if check.problems.is_empty() { "ok" } else { "damaged" });
    page.list(check.problems.iter().cloned());
    command_output::print_json_or_document(output.json, &json!(check), &page)?;
    if check.problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let at_least = if check.problems.len() < MAX_PROBLEMS { "" } else { "at least " };
    let count = count_of(check.problems.len() as u64, "problem");
    let text = format!("{at_least}{count} in {}", path.display());
    Err(CommandFailure::new(ARCHIVE, text)
        .hint(Some("restore a backup, or recover the readable part with `sqlite3 FILE .recover`")))
}

fn back_up_archive(file: &Path, output: &ArchiveOutputArgs) -> Result<ExitCode, CommandFailure> {
    let bytes = open(output)?.back_up(file).map_err(|error| match error {
        BackupError::Exists(path) => {
            CommandFailure::new(USAGE, format!("cannot write {}: it exists", path.display()))
                .hint(Some("name a new file; no backup is replaced"))
        }
        BackupError::Write(error) => {
            CommandFailure::new(ARCHIVE, format!("cannot write {}", file.display()))
                .cause(&error.to_string())
        }
        BackupError::Read(error) => error.into(),
    })?;
    let mut page = ReportDocument::default();
    page.fact("backup", format!("{}, {}", file.display(), Bytes(bytes)));
    let shape = json!({ "file": file.display().to_string(), "bytes": bytes });
    command_output::print_json_or_document(output.json, &shape, &page)?;
    Ok(ExitCode::SUCCESS)
}

fn prune_archive(args: &PruneArgs) -> Result<ExitCode, CommandFailure> {
    let mut archive = open(&args.output)?;
    let filter = RunFilter {
        range: TimeRange {
            end_us: args.before.map_or(i64::MAX, Timestamp::as_microsecond),
            ..TimeRange::ALL
        },
        kind: args.kind,
        host: args.host.clone(),
        environment: args.environment.clone().filter(|word| word != ALL_ENVIRONMENTS),
        with_parts: false,
        ..RunFilter::newest(u32::MAX)
    };
    let pruned =
        if args.dry_run { archive.count_prunable(&filter)? } else { archive.prune(&filter)? };
    if args.compact && !args.dry_run {
        archive.compact()?;
    }
    let mut page = ReportDocument::default();
    let label = if args.dry_run { "would delete" } else { "deleted" };
    let runs = count_of(pruned.runs, "run");
    page.fact(label, format!("{runs}, {} of reports", Bytes(pruned.bytes)));
    let shape = json!({ "runs": pruned.runs, "bytes": pruned.bytes, "dry_run": args.dry_run });
    command_output::print_json_or_document(args.output.json, &shape, &page)?;
    Ok(ExitCode::SUCCESS)
}
