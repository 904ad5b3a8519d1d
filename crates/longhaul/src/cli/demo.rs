//! `longhaul demo`: two measurements over the emulated path of the 2004 record, and an agent on a
//! path whose route changes.

use super::args::DemoArgs;
use super::{command_output, invocation};
use crate::command_failure::{CommandFailure, HOST};
use longhaul_agent::watch_file_reading::TIME_FACTOR_VARIABLE;
use longhaul_analysis::throughput::limiter_label;
use longhaul_model::report::v1::AnyReport;
use longhaul_report::number_format;
use longhaul_store::Archive;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

const PATH: &str = "la-geneva";
/// Passes the ramp of 13 to 14 round trips of 172 ms.
const SECONDS: &str = "15";
/// Buffers that the kernel may grow to 32 MiB, about 21 MiB of window: nine streams fill path and
/// queue and do not overflow them.
const LARGE_BUFFERS: [&str; 4] = [
    "--set",
    "far.sysctl.net.ipv4.tcp_rmem=4096 131072 33554432",
    "--set",
    "near.sysctl.net.ipv4.tcp_wmem=4096 65536 33554432",
];
const WATCH_PATH: &str = "slac-cesnet";
const WATCH_PORT: u16 = 5280;
const WATCH_SECONDS: u64 = 600;
/// An agent with short intervals, so that ten minutes stand for a day.
const WATCH_FILE: &str = include_str!("demo/watch.toml");

/// The measurements: title, number of streams, options of the lab.
const RUNS: [(&str, &str, &[&str]); 2] = [
    ("1 stream, default buffers", "1", &[]),
    ("9 streams, buffers up to 32 MiB", "9", &LARGE_BUFFERS),
];

pub fn run(args: &DemoArgs) -> Result<ExitCode, CommandFailure> {
    let scratch = DemoFolder::create()?;
    let own = std::env::current_exe().map_err(|e| {
        CommandFailure::from_error(HOST, &e).hint(Some("start longhaul by its full path"))
    })?;
    if args.watch {
        return run_demo_agent(&own, &scratch);
    }
    let archive = scratch.0.join("archive.sqlite3");
    let mut lines = Vec::new();
    for (title, streams, options) in RUNS {
        // The report goes to the terminal and into the archive.
        let mut lab = Command::new(&own);
        lab.args(["lab", "run", PATH]).args(options).arg("--").arg(&own);
        lab.args(["test", "far", "-P", streams, "-t", SECONDS, "--archive"]).arg(&archive);
        let status = run_shown_command(&mut lab)?;
        if !status.success() {
            return Ok(child_exit_code(status));
        }
        lines.push(format!("{title:<34}{}", summarize_latest_run(&archive)?));
    }
    command_output::print_text(&format!("\n{}\n{}\n", "-".repeat(72), lines.join("\n")))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the command as a user would type it, and runs it.
fn run_shown_command(command: &mut Command) -> Result<ExitStatus, CommandFailure> {
    let own = command.get_program().to_owned();
    let words = std::iter::once(own.as_os_str()).chain(command.get_args());
    let words = words.map(|word| match word.to_string_lossy() {
        _ if word == own => "longhaul".to_owned(),
        word => invocation::quote_for_shell(&word),
    });
    let line = words.collect::<Vec<_>>().join(" ");
    command_output::print_text(&format!("\n$ {line}\n"))?;
    command.status().map_err(|e| CommandFailure::from_error(HOST, &e))
}

/// Returns rate and limiter of the latest run.
fn summarize_latest_run(archive: &Path) -> Result<String, CommandFailure> {
    let AnyReport::Throughput(report) = Archive::open(archive)?.find("last")? else {
        return Ok("no result".to_owned());
    };
    let analysis = &report.analysis;
    let rate = analysis.goodput_bps.or(analysis.mean_goodput_bps);
    Ok(format!(
        "{:>14}   limited by: {}",
        rate.map_or_else(|| "no goodput".to_owned(), number_format::format_rate),
        limiter_label(analysis.limited_by)
    ))
}

/// Runs an agent on a path whose route changes after three minutes.
fn run_demo_agent(own: &Path, scratch: &DemoFolder) -> Result<ExitCode, CommandFailure> {
    let file = scratch.0.join("watch.toml");
    std::fs::write(&file, WATCH_FILE).map_err(|e| CommandFailure::from_error(HOST, &e))?;
    command_output::print_text(&format!(
        "Web page: http://127.0.0.1:{WATCH_PORT}/   (for {} minutes; Ctrl-C stops it)\n\
         After 3 minutes the route changes from Abilene to ESnet, as in June 2003. Two or three\n\
         minutes later the agent reports the change and its cause, and tunes the path again.\n",
        WATCH_SECONDS / 60
    ))?;
    let mut lab = Command::new(own);
    lab.args(["lab", "run", WATCH_PATH, "--set", "events.1.at=180 s"]);
    lab.args(["--publish", &WATCH_PORT.to_string(), "--"]);
    lab.args(["timeout", "--signal=TERM", &WATCH_SECONDS.to_string()]);
    lab.arg(own).arg("watch").arg(&file);
    lab.env(TIME_FACTOR_VARIABLE, "144");
    let status = run_shown_command(&mut lab)?;
    // `timeout` ends with 124, the agent with 130 after Ctrl-C: both are the normal end.
    match status.code() {
        Some(124 | 130) | None => Ok(ExitCode::SUCCESS),
        _ => Ok(child_exit_code(status)),
    }
}

fn child_exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().map_or(HOST, |code| code as u8))
}

/// A temporary folder, removed at the end.
struct DemoFolder(PathBuf);

impl DemoFolder {
    fn create() -> Result<Self, CommandFailure> {
        let folder = std::env::temp_dir().join(format!("longhaul-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| {
            CommandFailure::new(HOST, format!("cannot create {}", folder.display())).cause(&e)
        })?;
        Ok(DemoFolder(folder))
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
