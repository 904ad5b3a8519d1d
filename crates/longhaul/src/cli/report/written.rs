//! Output formats and files of comparison reports.

use crate::cli::args::WrittenArgs;
use crate::cli::output;
use crate::fail::{Fail, USAGE};
use crate::plot;
use crate::render::document::Document;
use serde_json::Value;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Markdown,
    Text,
    Json,
}

/// Fails before any work if a file cannot be written.
pub fn check(args: &WrittenArgs) -> Result<(), Fail> {
    args.output.iter().try_for_each(|file| {
        form(file)?;
        plot::may_replace(file)
    })
}

/// Writes the files, then shows the report. `document` gets true for a format with figures.
pub fn write(
    args: &WrittenArgs,
    shape: &Value,
    document: impl Fn(bool) -> Document,
) -> Result<(), Fail> {
    for file in &args.output {
        let text = match form(file)? {
            Form::Html => document(true).html(),
            Form::Markdown => document(false).markdown(),
            Form::Text => anstream::adapter::strip_str(&document(false).text()).to_string(),
            Form::Json => format!("{shape:#}\n"),
        };
        plot::replace(file, text.as_bytes())?;
    }
    if args.json {
        output::json(shape)
    } else if args.markdown {
        output::text(&document(false).markdown())
    } else {
        output::text(&document(false).text())
    }
}

fn form(file: &Path) -> Result<Form, Fail> {
    let extension = file
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => Ok(Form::Html),
        "md" | "markdown" => Ok(Form::Markdown),
        "txt" => Ok(Form::Text),
        "json" => Ok(Form::Json),
        _ => Err(Fail::new(
            USAGE,
            format!("cannot write a report to {}", file.display()),
        )
        .hint(Some("a report's file ends in .html, .md, .txt or .json"))),
    }
}

/// Opens the archive, which must exist.
pub fn archive(args: &crate::cli::args::ArchiveArgs) -> Result<longhaul_store::Archive, Fail> {
    let path = output::archive_path(args)?;
    longhaul_store::Archive::open_existing(&path)?.ok_or_else(|| {
        Fail::new(
            crate::fail::ARCHIVE,
            format!("there is no archive {}", path.display()),
        )
        .hint(Some(
            "`longhaul test HOST` makes one; `--archive FILE` names another",
        ))
    })
}

/// The version in stdout and in files.
pub const LONGHAUL: &str = env!("CARGO_PKG_VERSION");

/// Sanitizes and shortens user or file input for an error message.
pub fn shown(text: &str) -> String {
    let start = text.chars().take(200);
    start.map(|c| crate::render::html::still(c, '?')).collect()
}
