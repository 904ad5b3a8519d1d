//! The files of a bundle.

use super::{RecordCapture, RecordEvidence};
use crate::cli::report_command;
use crate::command_failure::CommandFailure;
use anstream::adapter::strip_str;
use longhaul_model::report::v1::{ImportedReport, ThroughputReport};
use longhaul_model::sanitize::sanitize_line;
use longhaul_record::bundle_folder::BundleFolder;
use longhaul_record::bundle_verification::{IMPORTED, RECORD, THROUGHPUT};
use longhaul_record::record_assembly::RecordTransfer;
use longhaul_record::speed_record::SpeedRecord;
use longhaul_report::{capture_text, imported_text, path_text, plot, record_text, throughput_text};
use serde::Serialize;
use std::path::{Path, PathBuf};

const PAGE: &str = "index.html";
const COMMANDS: &str = "command lines";

/// Writes all files of a bundle.
pub fn write_bundle_files(
    folder: &mut BundleFolder,
    record: &SpeedRecord,
    evidence: &RecordEvidence,
    attached: &[PathBuf],
) -> Result<(), CommandFailure> {
    let mut writer = BundleWriter { folder, chapters: Vec::new() };
    writer.add_json(RECORD, "the record: figures, legs, rules", record)?;
    let mut drawing = None;
    match &evidence.runs.transfer {
        RecordTransfer::Measured(run) => {
            writer.add_measured(run)?;
            let svg = plot::draw_goodput_chart(run).svg();
            let about = "goodput over time, all streams together, as the receiver counted it";
            writer.folder.add("course.svg", about, svg.as_bytes())?;
            drawing = Some((svg, about.to_owned()));
        }
        RecordTransfer::Imported(run) => writer.add_imported(run)?,
    }
    if let Some(path) = &evidence.runs.path {
        writer.add_json("path.json", "the path measurement as archived", path)?;
        let text = path_text::build_path_document(path).unstyled_text();
        writer.add_chapter("path.txt", "routes in both directions, path MTU", text)?;
    }
    if let Some(read) = &evidence.host {
        writer.add_json("host-initiator.json", "readings of the initiator's host", read)?;
    }
    for RecordCapture { role, file, text, .. } in &evidence.captures {
        let about = format!("packets of the transfer at the {role}");
        writer.folder.copy(&format!("capture-{role}.pcapng"), &about, file)?;
        let about = format!("analysis and first packets of the capture at the {role}");
        let text = strip_str(text).to_string();
        writer.add_chapter(&format!("capture-{role}.txt"), &about, text)?;
    }
    copy_attachments(writer.folder, attached)?;
    let html = record_text::build_record_page(&record_text::RecordPageParts {
        record,
        runs: (evidence.runs.transfer.run(), evidence.runs.path.as_ref()),
        chapters: writer.chapters,
        drawing,
        files: writer.folder.files(),
    });
    writer.folder.add(PAGE, "all results as a web page", html.html().as_bytes())?;
    Ok(())
}

/// Writes files into the bundle, and collects those that the page shows.
struct BundleWriter<'a> {
    folder: &'a mut BundleFolder,
    /// The subject of each text, and the text.
    chapters: Vec<(String, String)>,
}

impl BundleWriter<'_> {
    fn add_chapter(&mut self, name: &str, about: &str, text: String) -> Result<(), CommandFailure> {
        self.folder.add(name, about, text.as_bytes())?;
        self.chapters.push((about.to_owned(), text));
        Ok(())
    }

    fn add_json(
        &mut self,
        name: &str,
        about: &str,
        value: &impl Serialize,
    ) -> Result<(), CommandFailure> {
        let text = report_command::to_json(value, true)?;
        self.folder.add(name, about, text.as_bytes())?;
        Ok(())
    }

    fn add_imported(&mut self, run: &ImportedReport) -> Result<(), CommandFailure> {
        self.add_json(IMPORTED, "the transfer as imported from another program", run)?;
        if let Some(command) = &run.observation.command {
            // The text of another program may hold terminal control characters.
            let text = format!("{}\n", capture_text::sanitize_shown(command));
            self.add_chapter("commands.txt", COMMANDS, text)?;
        }
        let text = imported_text::build_imported_document(run).unstyled_text();
        self.add_chapter("imported.txt", "the transfer as printed by another program", text)
    }

    fn add_measured(&mut self, run: &ThroughputReport) -> Result<(), CommandFailure> {
        self.add_json(THROUGHPUT, "the transfer as archived: what both ends counted", run)?;
        self.add_chapter("commands.txt", COMMANDS, record_text::render_commands(run))?;
        let near = throughput_text::build_throughput_document(run).unstyled_text();
        let far = record_text::render_responder_output(run);
        let roles = ["initiator", "responder"];
        for (role, text) in roles.into_iter().zip([near, far]) {
            let about = format!("full output of the {role}");
            self.add_chapter(&format!("output-{role}.txt"), &about, text)?;
        }
        for (role, end) in roles.into_iter().zip(run.observation.initiator_and_responder()) {
            let text = record_text::render_configuration(end);
            let about = format!("settings of the {role}");
            self.add_chapter(&format!("configuration-{role}.txt"), &about, text)?;
        }
        Ok(())
    }
}

/// Copies attachments under generated names.
fn copy_attachments(folder: &mut BundleFolder, attached: &[PathBuf]) -> Result<(), CommandFailure> {
    for (file, number) in attached.iter().zip(1..) {
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
