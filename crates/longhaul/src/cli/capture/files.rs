//! The capture files of a run: the local one with the given name, the remote one next to it.
//! Existing files are overwritten only on request.
//!
//! A failure to write a capture loses the file but not the result, like a failure of the archive.

use crate::cli::args::TestCaptureArgs;
use crate::fail::{Fail, HOST, USAGE};
use crate::render::style::{CAVEAT, paint};
use longhaul_model::report::v1::capture::Capture;
use longhaul_model::report::v1::{Caveat, Throughput};
use longhaul_probe::capture::relabel;
use longhaul_probe::throughput::Captures;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The maximum size of the local file, enough for the maximum number of packets.
const MOST_FILE_BYTES: u64 = 256 << 20;

/// Fails before a run if its captures cannot be written.
pub fn check(args: &TestCaptureArgs) -> Result<(), Fail> {
    let Some(near) = &args.capture else {
        return Ok(());
    };
    let far = far_name(near);
    let wanted = [Some(near), Some(&far).filter(|_| !args.capture_near)];
    for file in wanted.into_iter().flatten() {
        let there = file.symlink_metadata().is_ok();
        if there && (!args.capture_overwrite || file.is_dir()) {
            return Err(exists(file));
        }
    }
    let folder = near
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            let text = format!("there is no folder {} for the capture", folder.display());
            Err(Fail::new(USAGE, text).hint(Some("make it first, or name a file elsewhere")))
        }
        _ => Ok(()),
    }
}

/// Returns the name of the remote capture: `run.pcapng` → `run-far.pcapng`.
pub fn far_name(near: &Path) -> PathBuf {
    let mut name = near.file_stem().unwrap_or_default().to_owned();
    name.push("-far");
    if let Some(extension) = near.extension() {
        name.push(".");
        name.push(extension);
    }
    near.with_file_name(name)
}

/// Creates a file, or truncates an existing one on request.
pub fn create(file: &Path, overwrite: bool) -> Result<File, Fail> {
    made(file, overwrite).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return exists(file);
        }
        let mut fail = Fail::new(HOST, format!("cannot make {}", file.display()));
        fail.causes.push(error.to_string());
        fail
    })
}

fn made(file: &Path, overwrite: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    if overwrite {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(file)
}

fn exists(file: &Path) -> Fail {
    Fail::new(USAGE, format!("{} is there already", file.display())).hint(Some(
        "name another file, or replace it with `--overwrite` (`--capture-overwrite` of a test)",
    ))
}

/// A capture file to be written.
struct Made {
    near: bool,
    file: PathBuf,
    bytes: Vec<u8>,
    packets: u64,
}

/// Writes both files after a run, and adds them to the report.
pub fn keep(args: &TestCaptureArgs, captures: Captures, report: &mut Throughput) {
    let Some(near) = &args.capture else {
        return;
    };
    let (made, mut caveats) = both(near, captures, report);
    for made in made {
        match write(&made.file, &made.bytes, args.capture_overwrite) {
            Ok(()) => note(report, &made),
            Err(error) => {
                let text = format!(
                    "the capture {} is not written: {error}",
                    made.file.display()
                );
                caveats.push(Caveat::new("capture_missing", text));
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
fn both(near: &Path, captures: Captures, report: &mut Throughput) -> (Vec<Made>, Vec<Caveat>) {
    let id = report.run.id.clone();
    let comments = |end: &str| {
        vec![
            format!("longhaul run {id}"),
            format!("captured at the {end} end"),
        ]
    };
    let (mut made, mut caveats) = (Vec::new(), Vec::new());
    if let Some(mut captured) = captures.near {
        let bytes = captured.file(comments("near"), MOST_FILE_BYTES);
        made.push(Made {
            near: true,
            file: near.to_owned(),
            bytes,
            packets: captured.about().packets,
        });
    }
    if let Some(file) = captures.far {
        match relabel(&file, comments("far")) {
            Ok((bytes, damage)) => {
                let told = |damage| format!("the far end's capture is damaged: {damage}");
                caveats.extend(damage.map(|it| Caveat::new("capture_incomplete", told(it))));
                made.push(Made {
                    near: false,
                    file: far_name(near),
                    bytes,
                    packets: ends(report, false).map_or(0, |capture| capture.packets),
                });
            }
            Err(error) => {
                let text = format!("what the far end sent as its capture is none: {error}");
                caveats.push(Caveat::new("capture_missing", text));
            }
        }
    }
    (made, caveats)
}

/// Writes a file, and removes it if it cannot be written completely.
fn write(file: &Path, bytes: &[u8], overwrite: bool) -> io::Result<()> {
    let mut made = made(file, overwrite)?;
    let written = made.write_all(bytes).and_then(|()| made.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(file);
    }
    written
}

fn note(report: &mut Throughput, made: &Made) {
    let name = made.file.file_name();
    if let Some(capture) = ends(report, made.near) {
        capture.file = name.map(|name| name.to_string_lossy().into_owned());
        capture.file_bytes = Some(made.bytes.len() as u64);
        capture.packets = made.packets;
    }
}

/// Returns the report's entry for the capture of one host.
fn ends(report: &mut Throughput, near: bool) -> Option<&mut Capture> {
    let forward = report.observation.forward;
    let ends = &mut report.observation.ends;
    let end = if forward == near {
        &mut ends.sender
    } else {
        &mut ends.receiver
    };
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
            assert_eq!(far_name(Path::new(near)), Path::new(far));
        }
    }
}
