//! Runs a user's program, which gets the event as JSON on its standard input.

use super::EventNotice;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

pub async fn run_notify_command(command: &[String], notice: &EventNotice) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("the watch file names no program".to_owned());
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A timeout drops the child and thus kills it.
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("cannot start {program}: {e}"))?;
    if let Some(mut input) = child.stdin.take() {
        // A program need not read its input; only its exit code counts.
        let _ = input.write_all(notice.to_json().as_bytes()).await;
    }
    let status = child.wait().await.map_err(|e| format!("{program}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed with {status}")) }
}
