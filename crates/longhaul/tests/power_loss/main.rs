//! Power failures: the archive and copies on a disk that loses and reorders what was not synced.
//!
//! The program runs on a file system that records its operations; the contents that a power failure
//! may leave are computed from the record. Has its own `main`, because it starts itself again in
//! namespaces in which it may mount.

mod archive_failures;
mod copy_failures;
mod disk_log;
mod recording_file_system;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Power failures at random moments of each scenario.
const CUTS: usize = 1000;
const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/power_loss");
/// Arguments of the program that starts itself.
const IN_NAMESPACE: &str = "in-namespace";
const FILL_ARCHIVE: &str = "fill-archive";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, FILL_ARCHIVE, file] = &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        archive_failures::fill_archive(Path::new(file));
        return ExitCode::SUCCESS;
    }
    if arguments.get(1).is_some_and(|word| word == IN_NAMESPACE) {
        archive_failures::results_that_were_shown_survive_power_failures();
        copy_failures::copied_files_are_whole_after_power_failures();
        println!("power failures: 2 passed");
        return ExitCode::SUCCESS;
    }
    // The folders of the scenarios are in memory, and gone with the namespace.
    let script = r#"mount -t tmpfs tmpfs "$1" && exec "$0" "$2""#;
    std::fs::create_dir_all(FOLDER).expect("the target folder can be written");
    let status = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().expect("own path"))
        .args([FOLDER, IN_NAMESPACE])
        .status()
        .expect("start unshare");
    ExitCode::from(u8::from(!status.success()))
}

/// Returns an empty folder for a scenario.
fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(FOLDER).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}
