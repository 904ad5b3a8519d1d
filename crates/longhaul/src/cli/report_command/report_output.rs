//! Output formats and files of comparison reports.

use crate::cli::args::ReportOutputArgs;
use crate::cli::command_output;
use crate::command_failure::{BUG, CommandFailure, USAGE};
use longhaul_model::sanitize::sanitize_line;
use longhaul_report::document::ReportDocument;
use longhaul_report::plot;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportFormat {
    Html,
    Markdown,
    Text,
    Json,
}

/// Fails before any work if a file cannot be written.
pub fn check_output_files(args: &ReportOutputArgs) -> Result<(), CommandFailure> {
    args.output.iter().try_for_each(|file| {
        report_format(file)?;
        Ok(plot::check_replaceable(file)?)
    })
}

/// Writes the files, then shows the report. `document` gets true for a format with figures.
pub fn write_report(
    args: &ReportOutputArgs,
    shape: &impl Serialize,
    document: impl Fn(bool) -> ReportDocument,
) -> Result<(), CommandFailure> {
    write_report_files(args, shape, &document)?;
    if args.json {
        let pretty = std::io::stdout().is_terminal();
        command_output::print_unstyled(&to_json(shape, pretty)?)
    } else if args.markdown {
        command_output::print_text(&document(false).markdown())
    } else {
        command_output::print_text(&document(false).text())
    }
}

/// Writes the files of `-o`.
pub fn write_report_files(
    args: &ReportOutputArgs,
    shape: &impl Serialize,
    document: impl Fn(bool) -> ReportDocument,
) -> Result<(), CommandFailure> {
    for file in &args.output {
        let text = match report_format(file)? {
            ReportFormat::Html => document(true).html(),
            ReportFormat::Markdown => document(false).markdown(),
            ReportFormat::Text => anstream::adapter::strip_str(&document(false).text()).to_string(),
            ReportFormat::Json => to_json(shape, true)?,
        };
        plot::replace_file(file, text.as_bytes())?;
    }
    Ok(())
}

fn to_json(shape: &impl Serialize, pretty: bool) -> Result<String, CommandFailure> {
    let text =
        if pretty { serde_json::to_string_pretty(shape) } else { serde_json::to_string(shape) };
    text.map(|text| text + "\n").map_err(|e| CommandFailure::from_error(BUG, &e))
}

fn report_format(file: &Path) -> Result<ReportFormat, CommandFailure> {
    let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => Ok(ReportFormat::Html),
        "md" | "markdown" => Ok(ReportFormat::Markdown),
        "txt" => Ok(ReportFormat::Text),
        "json" => Ok(ReportFormat::Json),
        _ => {
            Err(CommandFailure::new(USAGE, format!("cannot write a report to {}", file.display()))
                .hint(Some("use a file name that ends in .html, .md, .txt or .json")))
        }
    }
}

/// Opens the archive, which must exist.
pub fn open_existing_archive(
    args: &crate::cli::args::ArchiveArgs,
) -> Result<longhaul_store::Archive, CommandFailure> {
    let path = command_output::archive_path(args)?;
    longhaul_store::Archive::open_existing(&path)?.ok_or_else(|| {
        CommandFailure::new(
            crate::command_failure::ARCHIVE,
            format!("cannot find the archive {}", path.display()),
        )
        .hint(Some("create one with `longhaul test HOST`, or name another with `--archive FILE`"))
    })
}

/// The version in stdout and in files.
pub const LONGHAUL_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Sanitizes and shortens user or file input for an error message.
pub fn sanitize_input(text: &str) -> String {
    sanitize_line(text, 200)
}
