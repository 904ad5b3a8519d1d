//! The files of a bundle.

use super::RecordEvidence;
use crate::cli::report_command::report_output;
use crate::command_failure::CommandFailure;
use anstream::adapter::strip_str;
use longhaul_model::report::v1::{ImportedReport, ThroughputReport};
use longhaul_model::sanitize::sanitize_line;
use longhaul_record::bundle_folder::BundleFolder;
use longhaul_record::bundle_verification::{IMPORTED, RECORD, THROUGHPUT};
use longhaul_record::record_assembly::RecordTransfer;
use longhaul_record::speed_record::SpeedRecord;
use longhaul_report::document::ReportDocument;
use longhaul_report::record_text::{record_evidence, record_page};
use longhaul_report::{capture_text, imported_text, path_text, plot, throughput_text};
use serde::Serialize;
use std::path::{Path, PathBuf};

const PAGE: &str = "index.html";

/// The content of a bundle.
pub struct BundleContents<'a> {
    pub record: &'a SpeedRecord,
    pub evidence: &'a RecordEvidence,
    pub attached: &'a [PathBuf],
}

pub fn write_bundle_files(
    folder: &mut BundleFolder,
    of: &BundleContents,
) -> Result<(), CommandFailure> {
    add_json(folder, RECORD, "the record: figures, legs, rules", of.record)?;
    let (mut texts, commands) = match &of.evidence.runs.transfer {
        RecordTransfer::Measured(run) => {
            (write_measured(folder, run)?, Some(record_evidence::render_commands(run)))
        }
        RecordTransfer::Imported(run) => (write_imported(folder, run)?, imported_command_line(run)),
    };
    texts.extend(write_path(folder, of)?);
    texts.extend(copy_captures(folder, of)?);
    let (mut settings, mut drawings) = (Vec::new(), Vec::new());
    if let RecordTransfer::Measured(run) = &of.evidence.runs.transfer {
        settings = write_settings(folder, of, run)?;
        let svg = plot::draw_goodput_svg(run);
        let about = "goodput over time, all streams together, as the receiver counted it";
        folder.add("course.svg", about, svg.as_bytes())?;
        drawings.push((svg, about.to_owned()));
    }
    if let Some(commands) = &commands {
        folder.add("commands.txt", "command lines", commands.as_bytes())?;
    }
    copy_attachments(folder, of)?;
    let html = record_page::build_record_page(&record_page::RecordPageParts {
        record: of.record,
        runs: (of.evidence.runs.transfer.run(), of.evidence.runs.path.as_ref()),
        commands,
        settings,
        texts,
        drawings,
        files: folder.files(),
    });
    folder.add(PAGE, "all results as a web page", html.html().as_bytes())?;
    Ok(())
}

/// A heading of the page, and the text below it.
type PageChapter = (String, String);

fn write_imported(
    folder: &mut BundleFolder,
    run: &ImportedReport,
) -> Result<Vec<PageChapter>, CommandFailure> {
    add_json(folder, IMPORTED, "the transfer as imported from another program", run)?;
    let text = unstyled_text(&imported_text::build_imported_document(run));
    let about = "the transfer as printed by another program";
    folder.add("imported.txt", about, text.as_bytes())?;
    Ok(vec![(about.to_owned(), text)])
}

/// Returns the printed command line without terminal control characters, if there is one.
fn imported_command_line(run: &ImportedReport) -> Option<String> {
    let command = run.observation.command.as_deref()?;
    Some(format!("{}\n", capture_text::sanitize_shown(command)))
}

fn write_measured(
    folder: &mut BundleFolder,
    run: &ThroughputReport,
) -> Result<Vec<PageChapter>, CommandFailure> {
    add_json(folder, THROUGHPUT, "the transfer as archived: what both ends counted", run)?;
    let near = unstyled_text(&throughput_text::build_throughput_document(run));
    let far = record_evidence::render_responder_output(run);
    let mut chapters = Vec::new();
    for (role, text) in [("initiator", near), ("responder", far)] {
        let name = format!("output-{role}.txt");
        let about = format!("full output of the {role}");
        folder.add(&name, &about, text.as_bytes())?;
        chapters.push((format!("Output of the {role}"), text));
    }
    Ok(chapters)
}

fn write_path(
    folder: &mut BundleFolder,
    of: &BundleContents,
) -> Result<Option<PageChapter>, CommandFailure> {
    let Some(path) = &of.evidence.runs.path else {
        return Ok(None);
    };
    add_json(folder, "path.json", "the path measurement as archived", path)?;
    let text = unstyled_text(&path_text::build_path_document(path));
    folder.add("path.txt", "routes in both directions, path MTU", text.as_bytes())?;
    Ok(Some(("Routes".to_owned(), text)))
}

fn write_settings(
    folder: &mut BundleFolder,
    of: &BundleContents,
    run: &ThroughputReport,
) -> Result<Vec<PageChapter>, CommandFailure> {
    let seen = &run.observation;
    let (near, far) = if seen.forward {
        (&seen.ends.sender, &seen.ends.receiver)
    } else {
        (&seen.ends.receiver, &seen.ends.sender)
    };
    let mut settings = Vec::new();
    for (role, end) in [("initiator", near), ("responder", far)] {
        let read = of.evidence.host.as_ref().filter(|_| role == "initiator");
        let text = record_evidence::render_configuration(end, read);
        let name = format!("configuration-{role}.txt");
        folder.add(&name, &format!("settings of the {role}"), text.as_bytes())?;
        settings.push((format!("Settings of the {role}"), text));
    }
    if let Some(read) = &of.evidence.host {
        add_json(folder, "host-initiator.json", "readings of the initiator's host", read)?;
    }
    Ok(settings)
}

/// Copies the captures, and adds them as text.
fn copy_captures(
    folder: &mut BundleFolder,
    of: &BundleContents,
) -> Result<Vec<PageChapter>, CommandFailure> {
    let mut chapters = Vec::new();
    for capture in &of.evidence.captures {
        let role = capture.role;
        let about = format!("packets of the transfer at the {role}");
        folder.copy(&format!("capture-{role}.pcapng"), &about, &capture.file)?;
        let text = strip_str(&capture.text).to_string();
        let about = format!("analysis and first packets of the capture at the {role}");
        folder.add(&format!("capture-{role}.txt"), &about, text.as_bytes())?;
        chapters.push((format!("Packets at the {role}"), text));
    }
    Ok(chapters)
}

/// Copies attachments under generated names.
fn copy_attachments(folder: &mut BundleFolder, of: &BundleContents) -> Result<(), CommandFailure> {
    for (file, number) in of.attached.iter().zip(1..) {
        let given = file.file_name().unwrap_or_default().to_string_lossy();
        let about = format!("attached: {}", sanitize_line(&given, 80));
        folder.copy(&attachment_name(number, file), &about, file)?;
    }
    Ok(())
}

/// Returns a generated name that keeps only a plain extension of the original.
fn attachment_name(number: u32, file: &Path) -> String {
    let extension = file.extension().and_then(|it| it.to_str()).unwrap_or("");
    let extension = extension.to_ascii_lowercase();
    let plain = (1..=8).contains(&extension.len())
        && extension.bytes().all(|b| b.is_ascii_alphanumeric())
        // No types that a browser would execute.
        && !["html", "htm", "xhtml", "svg", "xml", "js"].contains(&extension.as_str());
    if plain { format!("attached-{number}.{extension}") } else { format!("attached-{number}.bin") }
}

fn unstyled_text(document: &ReportDocument) -> String {
    strip_str(&document.text()).to_string()
}

fn add_json(
    folder: &mut BundleFolder,
    name: &str,
    about: &str,
    value: &impl Serialize,
) -> Result<(), CommandFailure> {
    let text = report_output::to_json(value, true)?;
    folder.add(name, about, text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_files_keep_a_plain_extension_and_nothing_else() {
        let name = |file: &str| attachment_name(3, Path::new(file));
        assert_eq!(name("/tmp/serve.LOG"), "attached-3.log");
        assert_eq!(name("x.pcapng"), "attached-3.pcapng");
        for file in ["../../x", "a.html", "a.svg", "a.b/../..", "a.\u{202e}txt", "."] {
            assert_eq!(name(file), "attached-3.bin", "{file}");
        }
    }
}
