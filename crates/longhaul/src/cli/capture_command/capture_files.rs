//! The capture files of a run: the local one with the given name, the remote one next to it.
//! Existing files are overwritten only on request.
//!
//! A failure to write a capture loses the file but not the result, like a failure of the archive.

use crate::cli::args::TestCaptureArgs;
use crate::cli::command_output;
use crate::cli::report_archiving::end_mut;
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_capture::rewrite_capture;
use longhaul_model::report::v1::capture::CaptureResult;
use longhaul_model::report::v1::{ReportCaveat, ThroughputReport};
use longhaul_probe::throughput::RunCaptures;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Fails before a run if its captures cannot be written.
pub fn check_capture_paths(args: &TestCaptureArgs) -> Result<(), CommandFailure> {
    let Some(near) = &args.capture else {
        return Ok(());
    };
    let far = far_capture_path(near);
    for file in [near, &far] {
        let there = file.symlink_metadata().is_ok();
        if there && (!args.capture_overwrite || file.is_dir()) {
            return Err(already_exists_failure(file));
        }
    }
    let folder = near.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            let text = format!("cannot write the capture: no folder {}", folder.display());
            Err(CommandFailure::new(USAGE, text)
                .hint(Some("create the folder, or name a file elsewhere")))
        }
        _ => Ok(()),
    }
}

/// Returns the name of the remote capture: `run.pcapng` → `run-far.pcapng`.
pub fn far_capture_path(near: &Path) -> PathBuf {
    let mut name = near.file_stem().unwrap_or_default().to_owned();
    name.push("-far");
    if let Some(extension) = near.extension() {
        name.push(".");
        name.push(extension);
    }
    near.with_file_name(name)
}

fn open_for_writing(file: &Path, overwrite: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(overwrite).create(overwrite).create_new(!overwrite).open(file)
}

fn already_exists_failure(file: &Path) -> CommandFailure {
    CommandFailure::new(USAGE, format!("cannot write {}: it exists", file.display()))
        .hint(Some("name another file, or overwrite it with `--capture-overwrite`"))
}

/// Writes both files after a run, with the run's id as a comment, and adds them to the report. A
/// capture that is damaged or cannot be written is a caveat.
pub fn write_run_captures(
    args: &TestCaptureArgs,
    captures: RunCaptures,
    report: &mut ThroughputReport,
) {
    let Some(near) = &args.capture else {
        return;
    };
    let id = report.run.id.clone();
    let comments =
        |end: &str| vec![format!("longhaul run {id}"), format!("captured at the {end} end")];
    let mut caveats = Vec::new();
    if let Some(mut captured) = captures.client {
        let bytes = captured.write_file(&comments("near"));
        if let Some(capture) = end_mut(&mut report.observation, true).capture.as_mut() {
            capture.packets = captured.capture_report().packets;
            caveats.extend(save_capture(capture, near, &bytes, args.capture_overwrite));
        }
    }
    if let Some(file) = captures.server {
        match rewrite_capture(&file, &comments("far")) {
            Ok((bytes, damage)) => {
                let told = |damage| format!("the capture of the server is damaged: {damage}");
                caveats.extend(damage.map(|it| ReportCaveat::new("capture_incomplete", told(it))));
                if let Some(capture) = end_mut(&mut report.observation, false).capture.as_mut() {
                    let far = far_capture_path(near);
                    caveats.extend(save_capture(capture, &far, &bytes, args.capture_overwrite));
                }
            }
            Err(error) => {
                let text = format!("the server sent an invalid capture: {error}");
                caveats.push(ReportCaveat::new("capture_missing", text));
            }
        }
    }
    command_output::print_caveats(&caveats);
    report.caveats.extend(caveats);
}

/// Writes a capture and notes the file in the report. Returns a caveat if that fails.
fn save_capture(
    capture: &mut CaptureResult,
    file: &Path,
    bytes: &[u8],
    overwrite: bool,
) -> Option<ReportCaveat> {
    if let Err(error) = write_capture_file(file, bytes, overwrite) {
        let text = format!("cannot write the capture {}: {error}", file.display());
        return Some(ReportCaveat::new("capture_missing", text));
    }
    capture.file = file.file_name().map(|name| name.to_string_lossy().into_owned());
    capture.file_bytes = Some(bytes.len() as u64);
    None
}

/// Writes a file, and removes it if it cannot be written completely.
fn write_capture_file(file: &Path, bytes: &[u8], overwrite: bool) -> io::Result<()> {
    let mut made = open_for_writing(file, overwrite)?;
    let written = made.write_all(bytes).and_then(|()| made.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(file);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_file_stands_beside_the_near_one() {
        for (near, far) in [
            ("run.pcapng", "run-far.pcapng"),
            ("out/a.b.pcap", "out/a.b-far.pcap"),
            ("/tmp/run", "/tmp/run-far"),
        ] {
            assert_eq!(far_capture_path(Path::new(near)), Path::new(far));
        }
    }
}
