//! The capture files of a run: the local one with the given name, the remote one next to it.
//! Existing files are overwritten only on request.
//!
//! A failure to write a capture loses the file but not the result, like a failure of the archive.

use crate::cli::args::TestCaptureArgs;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use longhaul_capture::rewrite_capture;
use longhaul_model::report::v1::capture::CaptureResult;
use longhaul_model::report::v1::{ReportCaveat, ThroughputReport};
use longhaul_probe::throughput::RunCaptures;
use longhaul_report::style::{CAVEAT, paint};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The maximum size of the local file, enough for the maximum number of packets.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Fails before a run if its captures cannot be written.
pub fn check_capture_paths(args: &TestCaptureArgs) -> Result<(), CommandFailure> {
    let Some(near) = &args.capture else {
        return Ok(());
    };
    let far = far_capture_path(near);
    let wanted = [Some(near), Some(&far).filter(|_| !args.capture_near)];
    for file in wanted.into_iter().flatten() {
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

/// Creates a file, or truncates an existing one on request.
pub fn create_capture_file(file: &Path, overwrite: bool) -> Result<File, CommandFailure> {
    open_for_writing(file, overwrite).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return already_exists_failure(file);
        }
        let mut fail = CommandFailure::new(HOST, format!("cannot create {}", file.display()));
        fail.causes.push(error.to_string());
        fail
    })
}

fn open_for_writing(file: &Path, overwrite: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    if overwrite {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(file)
}

fn already_exists_failure(file: &Path) -> CommandFailure {
    CommandFailure::new(USAGE, format!("cannot write {}: it exists", file.display())).hint(Some(
        "name another file, or overwrite it with `--overwrite` (`--capture-overwrite` for a test)",
    ))
}

/// A capture file to be written.
struct CaptureFile {
    near: bool,
    file: PathBuf,
    bytes: Vec<u8>,
    packets: u64,
}

/// Writes both files after a run, and adds them to the report.
pub fn write_run_captures(
    args: &TestCaptureArgs,
    captures: RunCaptures,
    report: &mut ThroughputReport,
) {
    let Some(near) = &args.capture else {
        return;
    };
    let (made, mut caveats) = prepare_capture_files(near, captures, report);
    for made in made {
        match write_capture_file(&made.file, &made.bytes, args.capture_overwrite) {
            Ok(()) => note_capture_file(report, &made),
            Err(error) => {
                let text = format!("cannot write the capture {}: {error}", made.file.display());
                caveats.push(ReportCaveat::new("capture_missing", text));
            }
        }
    }
    for caveat in &caveats {
        let told = format!("{} {}\n", paint(CAVEAT, "caveat:"), caveat.text);
        // If stderr is closed as well, only the report has the caveat.
        let _ = anstream::stderr().write_all(told.as_bytes());
    }
    report.caveats.extend(caveats);
}

/// Prepares the files, with the run's id as a comment, and caveats for captures that are damaged.
fn prepare_capture_files(
    near: &Path,
    captures: RunCaptures,
    report: &mut ThroughputReport,
) -> (Vec<CaptureFile>, Vec<ReportCaveat>) {
    let id = report.run.id.clone();
    let comments =
        |end: &str| vec![format!("longhaul run {id}"), format!("captured at the {end} end")];
    let (mut made, mut caveats) = (Vec::new(), Vec::new());
    if let Some(mut captured) = captures.client {
        let bytes = captured.write_file(comments("near"), MAX_FILE_BYTES);
        made.push(CaptureFile {
            near: true,
            file: near.to_owned(),
            bytes,
            packets: captured.capture_report().packets,
        });
    }
    if let Some(file) = captures.server {
        match rewrite_capture(&file, comments("far")) {
            Ok((bytes, damage)) => {
                let told = |damage| format!("the capture of the server is damaged: {damage}");
                caveats.extend(damage.map(|it| ReportCaveat::new("capture_incomplete", told(it))));
                made.push(CaptureFile {
                    near: false,
                    file: far_capture_path(near),
                    bytes,
                    packets: capture_entry_mut(report, false).map_or(0, |capture| capture.packets),
                });
            }
            Err(error) => {
                let text = format!("the server sent an invalid capture: {error}");
                caveats.push(ReportCaveat::new("capture_missing", text));
            }
        }
    }
    (made, caveats)
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

fn note_capture_file(report: &mut ThroughputReport, made: &CaptureFile) {
    let name = made.file.file_name();
    if let Some(capture) = capture_entry_mut(report, made.near) {
        capture.file = name.map(|name| name.to_string_lossy().into_owned());
        capture.file_bytes = Some(made.bytes.len() as u64);
        capture.packets = made.packets;
    }
}

/// Returns the report's entry for the capture of one host.
fn capture_entry_mut(report: &mut ThroughputReport, near: bool) -> Option<&mut CaptureResult> {
    let forward = report.observation.forward;
    let ends = &mut report.observation.ends;
    let end = if forward == near { &mut ends.sender } else { &mut ends.receiver };
    end.capture.as_mut()
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
