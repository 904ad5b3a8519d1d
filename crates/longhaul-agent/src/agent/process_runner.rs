//! Runs this program as a process that writes its report into the spool.
//!
//! Space for the report is allocated before the process starts, so that a full disk cannot cost the
//! result. The file stays locked as long as the process lives, even if the agent dies; a later
//! process thus knows whether to wait for the run.

use super::agent_folder;
use super::finished_run::{self, FinishedRun, ReportReadError, RunOwner};
use super::job_status::{FailureReason, RunFailure};
use super::run_tasks::RunOutcome;
use crate::watch::measure_jobs::MeasureJob;
use crate::watch::watch_file::{MeasureConfig, MeasureKind, WatchFile, WatchHost};
use longhaul_model::sanitize::sanitize_line;
use longhaul_model::units::Rate;
use longhaul_probe::latency::STAMP_PORT;
use longhaul_probe::supervise;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::timeout;

/// The time for process start and report output beyond the maximum duration of a run.
const DEADLINE_MARGIN: Duration = Duration::from_secs(30);
/// The time between SIGTERM and SIGKILL.
const TERMINATE_GRACE: Duration = Duration::from_secs(5);
/// The size of the kept tail of the process's stderr.
const STDERR_TAIL_BYTES: u64 = 4096;
/// The preallocated size of a report. Longer ones allocate more when they are written.
const PREALLOCATED_BYTES: usize = 512 << 10;
/// The maximum size of a report.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// The three spool files of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolFiles {
    pub report: PathBuf,
    pub stderr: PathBuf,
    pub owner: PathBuf,
}

impl SpoolFiles {
    pub fn new(spool: &Path, planned_id: &str) -> SpoolFiles {
        let file = |end: &str| spool.join(format!("{planned_id}.{end}"));
        SpoolFiles { report: file("report"), stderr: file("said"), owner: file("owner") }
    }

    /// Deletes the files. The owner file goes last, because the others are worthless without it.
    pub fn remove(&self) {
        for file in [&self.report, &self.stderr, &self.owner] {
            let _ = fs::remove_file(file);
        }
    }

    pub fn read_owner(&self) -> Option<RunOwner> {
        agent_folder::load_json(&self.owner, STDERR_TAIL_BYTES)
    }

    /// Returns whether the process is still alive.
    pub fn is_running(&self) -> bool {
        File::open(&self.report).is_ok_and(|file| file.try_lock().is_err())
    }

    /// Parses the report of an ended process.
    pub fn read_finished_run(&self, owner: &RunOwner) -> Result<FinishedRun, ReportReadError> {
        let mut written = Vec::new();
        if let Ok(file) = File::open(&self.report) {
            let _ = file.take(MAX_REPORT_BYTES).read_to_end(&mut written);
        }
        finished_run::read_report(&written, owner)
    }

    /// Creates the files. The report file is preallocated and locked.
    fn create(&self, owner: &RunOwner) -> io::Result<(File, File)> {
        fs::write(&self.owner, serde_json::to_vec(owner)?)?;
        let mut report = agent_folder::open_private_file(&self.report)?;
        report.try_lock()?;
        report.write_all(&vec![b' '; PREALLOCATED_BYTES])?;
        report.seek(SeekFrom::Start(0))?;
        Ok((report, agent_folder::open_private_file(&self.stderr)?))
    }

    /// Returns the last output of the process on stderr.
    fn read_stderr_tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.stderr)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(STDERR_TAIL_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }
}

/// Starts runs as processes.
#[derive(Debug, Clone)]
pub struct ProcessRunner {
    pub program: PathBuf,
    pub spool: PathBuf,
    /// True: terminate all processes now.
    pub end: watch::Receiver<bool>,
}

impl ProcessRunner {
    /// Makes one run. The files of a finished run stay in the spool until its report is stored.
    pub async fn run(
        mut self,
        command: RunCommand,
        owner: &RunOwner,
        lasts: Duration,
    ) -> Result<FinishedRun, RunOutcome> {
        let files = SpoolFiles::new(&self.spool, &owner.planned_id);
        let ended = self.run_process(&files, &command, owner, lasts).await;
        if ended.is_err() {
            files.remove();
        }
        ended
    }

    async fn run_process(
        &mut self,
        files: &SpoolFiles,
        command: &RunCommand,
        owner: &RunOwner,
        lasts: Duration,
    ) -> Result<FinishedRun, RunOutcome> {
        let (report, said) = files.create(owner).map_err(|error| {
            if is_disk_full(&error) {
                return RunOutcome::DiskFull;
            }
            fail_run(FailureReason::Host, format!("cannot use the spool: {error}"))
        })?;
        let child = tokio::process::Command::new(&self.program)
            .args(&command.arguments)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::from(report))
            .stderr(Stdio::from(said))
            // Ctrl-C in the terminal must reach only the agent, which then ends its runs in order.
            .process_group(0)
            .spawn();
        let child = child.map_err(|error| {
            let text = format!("cannot start {}: {error}", self.program.display());
            fail_run(FailureReason::Host, text)
        })?;
        let status = self.wait_for_exit(child, lasts + DEADLINE_MARGIN).await?;
        classify_exit(files, owner, status)
    }

    /// Waits for the process, and terminates it at the deadline.
    async fn wait_for_exit(
        &mut self,
        mut child: Child,
        most: Duration,
    ) -> Result<ExitStatus, RunOutcome> {
        let lost = |error: io::Error| {
            fail_run(FailureReason::Host, format!("cannot wait for the run: {error}"))
        };
        let stopped = tokio::select! {
            status = child.wait() => return status.map_err(lost),
            () = tokio::time::sleep(most) => false,
            _ = self.end.wait_for(|end| *end) => true,
        };
        // The process has not been reaped, so its pid is still valid.
        if let Some(pid) = child.id() {
            let _ = supervise::terminate_child(pid);
        }
        let ended = timeout(TERMINATE_GRACE, child.wait()).await;
        if ended.is_err() {
            child.kill().await.map_err(lost)?;
        }
        match ended {
            // It may have written its report.
            Ok(status) if !stopped => status.map_err(lost),
            _ if stopped => Err(RunOutcome::Stopped),
            _ => {
                let text =
                    format!("the run did not end within {} s and was killed", most.as_secs());
                Err(fail_run(FailureReason::Timeout, text))
            }
        }
    }
}

fn classify_exit(
    files: &SpoolFiles,
    owner: &RunOwner,
    status: ExitStatus,
) -> Result<FinishedRun, RunOutcome> {
    files.read_finished_run(owner).map_err(|error| {
        let ReportReadError::Empty = error else {
            let text = format!("cannot read the report of the run: {error}");
            return fail_run(FailureReason::Report, text);
        };
        let said = files.read_stderr_tail();
        let why = format_error_line(&said);
        if is_server_busy(&said) {
            RunOutcome::Refused(why)
        } else if why.is_empty() {
            let text = format!("the run ended with {status} and without a message");
            fail_run(FailureReason::Report, text)
        } else {
            fail_run(FailureReason::from_exit_code(status.code()), why)
        }
    })
}

fn fail_run(reason: FailureReason, text: String) -> RunOutcome {
    RunOutcome::Failed(RunFailure { reason, text })
}

fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Returns whether the server has no free slot. The protocol has one message for all refusals, so
/// the text decides.
fn is_server_busy(said: &str) -> bool {
    said.contains(" refuses: ") && said.contains("try again later")
}

/// Returns `error: …` and its causes as one line, without hints and prefixes.
fn format_error_line(said: &str) -> String {
    let from = said.rfind("error: ").map_or(0, |at| at + "error: ".len());
    let lines = said[from..].lines().map(str::trim);
    let told = lines.filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    let parts: Vec<&str> =
        told.map(|line| line.strip_prefix("caused by: ").unwrap_or(line)).collect();
    sanitize_line(&parts.join(": "), 300)
}

/// The command line of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunCommand {
    pub arguments: Vec<OsString>,
}

/// Returns the command of a run, or `None` if the file no longer contains the target.
///
/// Relative paths in the file refer to `folder`.
pub fn build_run_command(
    job: &MeasureJob,
    file: &WatchFile,
    folder: &Path,
    archive: &Path,
) -> Option<RunCommand> {
    let mut line = RunCommand::default();
    match &job.target {
        None => add_local_measurement(&job.measure, &mut line),
        Some(name) => {
            let far = file.hosts.iter().find(|host| *host.name == **name)?;
            add_measurement(&job.measure, job.is_reverse(), &mut line);
            if job.measure.kind == MeasureKind::Latency {
                add_reflector(far, &job.measure, folder, &mut line);
            } else {
                add_target(far, folder, &mut line);
            }
        }
    }
    line.add("--json");
    line.add_option("--archive", archive);
    if job.measure.kind == MeasureKind::Flows {
        line.add("--");
        line.add(job.measure.what());
    }
    Some(line)
}

fn add_local_measurement(measure: &MeasureConfig, line: &mut RunCommand) {
    if measure.kind != MeasureKind::Flows {
        return line.add("host");
    }
    line.add("explain");
    line.add_duration("--for", measure.time());
    line.add_option("--flows", measure.flows().to_string());
    line.add("--allow-none");
    line.add("--quiet");
}

impl RunCommand {
    fn add(&mut self, word: impl Into<OsString>) {
        self.arguments.push(word.into());
    }

    fn add_option(&mut self, name: &str, value: impl Into<OsString>) {
        self.add(name);
        self.add(value);
    }

    fn add_duration(&mut self, name: &str, time: Duration) {
        self.add_option(name, format!("{}us", time.as_micros()));
    }

    fn add_optional<T: ToString>(&mut self, name: &str, value: Option<&T>) {
        if let Some(value) = value {
            self.add_option(name, value.to_string());
        }
    }
}

fn add_measurement(measure: &MeasureConfig, back: bool, line: &mut RunCommand) {
    let MeasureConfig { streams, window, congestion_control, rate, .. } = measure;
    let rate = rate.map(Rate::as_bps);
    match measure.kind {
        MeasureKind::Path => {
            line.add("path");
            line.add(format!("--{}", measure.protocol().word()));
            line.add_option("--count", measure.count().to_string());
        }
        MeasureKind::Latency => {
            line.add("latency");
            line.add_option("--count", measure.count().to_string());
            if measure.twamp_light == Some(true) {
                line.add("--twamp-light");
            }
            if let Some(port) = measure.twamp_control {
                line.add(format!("--twamp-control={port}"));
            }
        }
        MeasureKind::Available => {
            line.add("available");
            line.add(format!("--{}", measure.mode().word()));
        }
        MeasureKind::AvailableShaper => {
            line.add("available");
            line.add("--shaper");
            if !back {
                line.add("--forward");
            }
        }
        MeasureKind::Throughput => {
            line.add("test");
            line.add_duration("--time", measure.time());
            let until = measure.until.map(|ratio| format!("{:.1}%", 100.0 * ratio));
            line.add_optional("--until", until.as_ref());
            line.add_optional("--streams", streams.as_ref());
            line.add_optional("--window", window.as_ref());
            line.add_optional("--congestion-control", congestion_control.as_ref());
            line.add_optional("--bitrate", rate.as_ref());
        }
        MeasureKind::Tune => {
            line.add("tune");
            line.add_duration("--time", measure.time());
            line.add_option("--budget-probes", measure.probes().to_string());
            line.add_duration("--budget-time", measure.max_duration());
            line.add_optional("--congestion-control", congestion_control.as_ref());
            // A setting that fitted another route is a bad starting point.
            line.add("--fresh");
        }
        MeasureKind::Load => {
            line.add("load");
            line.add_duration("--time", measure.time());
            line.add_option("--streams", streams.unwrap_or(1).to_string());
            line.add_optional("--rate", rate.as_ref());
            if measure.scavenger == Some(true) {
                line.add("--scavenger");
            }
        }
        MeasureKind::Host | MeasureKind::Flows => add_local_measurement(measure, line),
    }
    if back {
        line.add("--reverse");
    }
}

fn add_target(far: &WatchHost, folder: &Path, line: &mut RunCommand) {
    line.add_option("--port", far.port.to_string());
    if let Some(token) = &far.token_file {
        line.add_option("--token-file", PathBuf::from(folder).join(token));
    }
    line.add("--quiet");
    line.add(&far.address);
}

/// Adds the reflector of a host, which needs no token and listens on a port of its own.
fn add_reflector(far: &WatchHost, measure: &MeasureConfig, folder: &Path, line: &mut RunCommand) {
    line.add_option("--port", measure.reflector_port.unwrap_or(STAMP_PORT).to_string());
    if let Some(key) = &measure.key_file {
        line.add_option("--key-file", folder.join(key));
    }
    line.add("--quiet");
    line.add(&far.address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_far_end_is_told_from_one_that_forbids() {
        let busy =
            "error: 127.0.0.1:5201 refuses: 1 sessions are already running; try again later\n";
        assert!(is_server_busy(busy));
        assert!(!is_server_busy("error: 127.0.0.1:5201 refuses: streams: at most 4\n"));
        assert!(!is_server_busy("error: cannot connect to far (127.0.0.1:5201)\n"));
    }

    #[test]
    fn the_reason_of_a_failure_is_one_line() {
        let said = "note\nerror: cannot connect to far (127.0.0.1:1)\n  caused by: Connection \
                    refused (os error 111)\nhint: nothing listens there\n";
        assert_eq!(
            format_error_line(said),
            "cannot connect to far (127.0.0.1:1): Connection refused (os error 111)"
        );
        assert_eq!(format_error_line(""), "");
    }
}

#[cfg(test)]
mod run_command_tests {
    use super::*;
    use crate::watch::measure_jobs::build_jobs;
    use crate::watch::watch_file::{SecretFileState, WatchFileContext, parse_watch_file};

    fn file(measures: &str) -> WatchFile {
        let text = format!(
            "[agent]\nname = \"a\"\n[[host]]\nname = \"b\"\naddress = \"192.0.2.7\"\nport = 5300\n\
             token_file = \"b.token\"\n[[target]]\nhost = \"b\"\n{measures}"
        );
        let look = |_: &Path| SecretFileState::Private;
        let here = WatchFileContext { agent: None, check_secret: &look };
        parse_watch_file("w", &text, &here).expect("right")
    }

    fn commands(file: &WatchFile) -> Vec<String> {
        let jobs = build_jobs(file, None, 1);
        let line = |job: &MeasureJob| {
            let made = build_run_command(job, file, Path::new("/etc/lh"), Path::new("/a.db"));
            let words = made.expect("the host is there").arguments;
            let words: Vec<String> = words.iter().map(|it| it.to_string_lossy().into()).collect();
            words.join(" ")
        };
        jobs.iter().map(line).collect()
    }

    #[test]
    fn a_bulk_measurement_is_a_command_for_each_direction() {
        let file = file(
            "[[measure]]\nname = \"m\"\nkind = \"throughput\"\nevery = \"1 h\"\ntime = \"2 s\"\n\
             until = \"3 %\"\nstreams = 4\nwindow = \"1 MiB\"\ncongestion_control = \"cubic\"\nrate = \"50 Mbit/s\"\n",
        );
        let end =
            "--port 5300 --token-file /etc/lh/b.token --quiet 192.0.2.7 --json --archive /a.db";
        let begin = "test --time 2000000us --until 3.0% --streams 4 --window 1048576 \
                     --congestion-control cubic --bitrate 50000000";
        assert_eq!(commands(&file), [format!("{begin} {end}"), format!("{begin} --reverse {end}")]);
    }

    #[test]
    fn latency_is_measured_on_the_port_of_the_reflector_without_a_token() {
        let file = file(
            "[[measure]]\nname = \"m\"\nkind = \"latency\"\nevery = \"1 min\"\n[[measure]]\n\
             name = \"k\"\nkind = \"latency\"\nevery = \"1 min\"\ncount = 20\n\
             reflector_port = 8862\nkey_file = \"s.key\"\n[[measure]]\nname = \"t\"\n\
             kind = \"latency\"\nevery = \"1 min\"\ntwamp_light = true\n\
             [[measure]]\nname = \"c\"\nkind = \"latency\"\nevery = \"1 min\"\ntwamp_control = 8620\n\
             key_file = \"/etc/joe.key\"\n",
        );
        let end = "--quiet 192.0.2.7 --json --archive /a.db";
        let expected = [
            format!("latency --count 100 --port 862 {end}"),
            format!("latency --count 20 --port 8862 --key-file /etc/lh/s.key {end}"),
            format!("latency --count 100 --twamp-light --port 862 {end}"),
            format!(
                "latency --count 100 --twamp-control=8620 --port 862 --key-file /etc/joe.key {end}"
            ),
        ];
        assert_eq!(commands(&file), expected);
    }

    #[test]
    fn the_transfers_of_this_host_are_watched_once_for_all_targets() {
        let file = file(
            "[[measure]]\nname = \"all\"\nkind = \"flows\"\nevery = \"10 min\"\n[[measure]]\n\
             name = \"r\"\nkind = \"flows\"\nevery = \"1 min\"\nwhat = \"-x\"\ntime = \"20 s\"\nflows = 4\n",
        );
        let line = |time, flows, what| {
            format!(
                "explain --for {time}us --flows {flows} --allow-none --quiet --json \
                 --archive /a.db -- {what}"
            )
        };
        let expected = [line("10000000", 16, "all"), line("20000000", 4, "-x")];
        assert_eq!(commands(&file), expected);
    }

    #[test]
    fn a_host_that_has_gone_from_the_file_has_no_command() {
        let mut file = file("[[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n");
        let jobs = build_jobs(&file, None, 1);
        file.hosts.retain(|host| host.name != "b");
        assert_eq!(build_run_command(&jobs[0], &file, Path::new(""), Path::new("a")), None);
    }
}
