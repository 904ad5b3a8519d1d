//! `longhaul copy SRC DST`: copies files, then analyses, archives and shows the result.
//!
//! - [`copy_endpoint`]: SRC and DST as typed; `asked`: the request from options and the result of `tune`
//! - `copy_progress_line`: rate and remaining time on stderr

pub mod copy_endpoint;
mod copy_preparation;
mod copy_progress_line;

use super::args::CopyArgs;
use super::report_command::report_output;
use super::{interrupt, report_archiving};
use crate::cli::report_archiving::{RunEnvelope, timestamp_of};
use crate::command_failure::{CommandFailure, HOST, INTERRUPTED, PEER};
use copy_preparation::PreparedCopy;
use copy_progress_line::CopyProgressLine;
use longhaul_analysis::copy_analysis::conclude_copy;
use longhaul_copy::{CopyError, CopyOutcome};
use longhaul_model::report::v1::CopyReport;
use longhaul_report::copy_text::build_copy_document;
use std::io::Write;
use std::process::ExitCode;

pub fn run(args: &CopyArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.output.form)?;
    let asked = copy_preparation::prepare_copy(args)?;
    let stop = interrupt::install_stop_flag()?;
    let mut progress = CopyProgressLine::new(args);
    let copied = longhaul_copy::copy_files(&asked.peer, &asked.request, &stop, &mut |now| {
        progress.show(now);
    });
    progress.clear();
    let outcome = copied.map_err(|error| copy_failure(&error, &asked))?;
    let report = archive_copy(args, &asked, outcome);
    if asked.to_stdout {
        // The file is on standard output, so the report goes to stderr.
        let text = build_copy_document(&report).text();
        if !args.output.quiet {
            let _ = anstream::stderr().write_all(text.as_bytes());
        }
        return Ok(ExitCode::SUCCESS);
    }
    report_output::write_report(&args.output.form, &report, |_| build_copy_document(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn archive_copy(args: &CopyArgs, asked: &PreparedCopy, outcome: CopyOutcome) -> CopyReport {
    let (analysis, findings) = conclude_copy(&asked.plan, &outcome.observation);
    let mut report = RunEnvelope::new(
        timestamp_of(outcome.started_at),
        outcome.duration,
        outcome.initiator,
        outcome.responder,
    )
    .report(asked.plan.clone(), outcome.observation, analysis)
    .with_notes(findings, outcome.caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report
}

fn copy_failure(error: &CopyError, asked: &PreparedCopy) -> CommandFailure {
    let taken_up = "run the same command again to resume; partial data is kept at the target";
    let hint = asked.is_resumable().then_some(taken_up);
    match error {
        CopyError::Session(inner) => {
            CommandFailure::from_error(inner.exit_code(), inner).hint(inner.hint())
        }
        CopyError::Local(_) => CommandFailure::from_error(HOST, error).hint(copy_error_hint(error)),
        CopyError::Server { .. } => {
            CommandFailure::from_error(PEER, error).hint(copy_error_hint(error))
        }
        CopyError::Network { .. } => CommandFailure::from_error(PEER, error).hint(hint),
        CopyError::Stopped => CommandFailure::from_error(INTERRUPTED, error).hint(hint),
    }
}

/// Returns a hint for an error, unless its message already says what to do.
fn copy_error_hint(error: &CopyError) -> Option<&'static str> {
    let text = error.to_string();
    let knows = |part: &str| text.contains(part);
    if knows("No space left") {
        return Some("free space at the target, then run the same command again to resume");
    }
    if knows("token may write") {
        return Some("give the token that `longhaul serve` printed, with `--token-file FILE`");
    }
    if knows("--overwrite") || knows("--files") || knows("--direct") {
        // The message names the option.
        return None;
    }
    Some("check the name and its permissions; see `longhaul copy --help` for the forms of names")
}
