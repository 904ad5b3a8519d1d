//! Other programs that copy files. rclone is in Debian; bbcp and FDT are in no registry.
//!
//! rclone serves HTTP at the far end and pulls over several connections: of its own protocols only
//! that runs in parallel. Its copy is synced to the disk afterwards, and that time counts.

use super::copy_testbed::CopyTestbed;
use super::scratch_store::{self, ScratchStore};
use crate::bench_lab;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use xtask::program_runner;

const PORT: u16 = 5302;

struct RcloneServer(Child);

impl Drop for RcloneServer {
    fn drop(&mut self) {
        program_runner::kill_child(&mut self.0);
    }
}

/// Returns the time of a copy from the far end; `None` if rclone is not installed.
pub fn time_rclone(
    ground: &CopyTestbed,
    (store, source): (&ScratchStore, &Path),
    limit: Duration,
) -> Result<Option<Duration>, String> {
    if program_runner::find_program("rclone").is_none() {
        return Ok(None);
    }
    let folder = source.parent().ok_or("a source without a folder")?;
    let name = source.file_name().ok_or("a source without a name")?;
    let _far = start_rclone(ground, folder)?;
    let target = store.path("there").join(name);
    let mut copy = ground.near(&["rclone", "copyto", "--multi-thread-streams", "8"]);
    copy.args(["--multi-thread-cutoff", "16M", "--http-url"])
        .arg(format!("http://{}:{PORT}", ground.address))
        .arg(format!(":http:{}", name.display()))
        .arg(&target)
        .env("RCLONE_CONFIG", "/dev/null");
    let begun = Instant::now();
    program_runner::capture_stdout(&mut copy, limit)?;
    program_runner::capture_stdout(Command::new("sync").arg(&target), limit)?;
    let time = begun.elapsed();
    if scratch_store::have_same_contents(source, &target)? {
        Ok(Some(time))
    } else {
        Err("rclone's copy differs from its source".to_owned())
    }
}

fn start_rclone(ground: &CopyTestbed, folder: &Path) -> Result<RcloneServer, String> {
    let mut serve = ground.far(&["rclone", "serve", "http", "--read-only", "--addr"]);
    serve.arg(format!(":{PORT}")).arg(folder).env("RCLONE_CONFIG", "/dev/null");
    let serving = RcloneServer(program_runner::spawn_silent(&mut serve)?);
    bench_lab::wait_until_listening(serving.0.id(), PORT)?;
    Ok(serving)
}
