//! Output formats and files of comparison reports.

use crate::cli::args::{ArchiveArgs, ReportOutputArgs};
use crate::cli::command_output;
use crate::cli::value_parsers::file_extension;
use crate::command_failure::{BUG, CommandFailure};
use longhaul_model::sanitize::sanitize_line;
use longhaul_report::document::ReportDocument;
use longhaul_report::plot;
use longhaul_store::Archive;
use serde::Serialize;
use std::io::IsTerminal;

/// Writes the files, then shows the report.
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
            _ => anstream::adapter::strip_str(&document.text()).to_string(),
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
