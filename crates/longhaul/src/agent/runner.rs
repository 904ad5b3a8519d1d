//! Runs this program as a process that writes its report into the spool.
//!
//! Space for the report is allocated before the process starts, so that a full disk cannot cost the
//! result. The file stays locked as long as the process lives, even if the agent dies; a later
//! process thus knows whether to wait for the run.

use super::command::Command;
use super::folder;
use super::landing::{self, Finished, NoReport, Owner};
use longhaul_probe::supervise;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::timeout;

/// The time for process start and report output beyond the maximum duration of a run.
const MARGIN: Duration = Duration::from_secs(30);
/// The time between SIGTERM and SIGKILL.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The size of the kept tail of the process's stderr.
const SAID_BYTES: u64 = 4096;
/// The preallocated size of a report. Longer ones allocate more when they are written.
const ROOM_BYTES: usize = 512 << 10;
/// The maximum size of a report.
const REPORT_BYTES_MAX: u64 = 64 << 20;

/// The outcome of a run's process.
#[derive(Debug)]
pub enum Ended {
    Finished(Box<Finished>),
    /// The server is busy.
    Refused(String),
    /// There is no report; contains the reason.
    Failed(String),
    /// The disk is full; the process was not started.
    DiskFull,
    /// The agent stopped and terminated the process.
    Stopped,
}

/// The three spool files of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooled {
    pub report: PathBuf,
    pub said: PathBuf,
    pub owner: PathBuf,
}

impl Spooled {
    pub fn new(spool: &Path, planned_id: &str) -> Spooled {
        let file = |end: &str| spool.join(format!("{planned_id}.{end}"));
        Spooled {
            report: file("report"),
            said: file("said"),
            owner: file("owner"),
        }
    }

    /// Lists the runs in a spool: running ones, and those of an earlier process.
    pub fn all(spool: &Path) -> io::Result<Vec<Spooled>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(spool)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("owner"))
                && let Some(id) = path.file_stem().and_then(OsStr::to_str)
            {
                found.push(Spooled::new(spool, id));
            }
        }
        Ok(found)
    }

    /// Deletes the files. The owner file goes last, because the others are worthless without it.
    pub fn remove(&self) {
        for file in [&self.report, &self.said, &self.owner] {
            let _ = fs::remove_file(file);
        }
    }

    pub fn owner(&self) -> Option<Owner> {
        let text = folder::read(&self.owner, SAID_BYTES).ok()??;
        Owner::read(&text)
    }

    /// Returns whether the process is still alive.
    pub fn is_under_way(&self) -> bool {
        File::open(&self.report).is_ok_and(|file| file.try_lock().is_err())
    }

    /// Parses the report of an ended process.
    pub fn finished(&self, owner: &Owner) -> Result<Finished, NoReport> {
        let mut written = Vec::new();
        if let Ok(file) = File::open(&self.report) {
            let _ = file.take(REPORT_BYTES_MAX).read_to_end(&mut written);
        }
        landing::read(&written, owner)
    }

    /// Creates the files. The report file is preallocated and locked.
    fn make(&self, owner: &Owner) -> io::Result<(File, File)> {
        fs::write(&self.owner, owner.text())?;
        let mut report = folder::open(&self.report)?;
        report.try_lock()?;
        report.write_all(&vec![b' '; ROOM_BYTES])?;
        report.seek(SeekFrom::Start(0))?;
        Ok((report, folder::open(&self.said)?))
    }

    /// Returns the last output of the process on stderr.
    fn last_words(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.said)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(SAID_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(SAID_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }
}

/// Starts runs as processes.
#[derive(Debug, Clone)]
pub struct Runner {
    pub program: PathBuf,
    pub spool: PathBuf,
    /// True: terminate all processes now.
    pub end: watch::Receiver<bool>,
}

impl Runner {
    /// Makes one run. The files of a finished run stay in the spool until its report is stored.
    pub async fn run(mut self, command: Command, owner: &Owner, lasts: Duration) -> Ended {
        let files = Spooled::new(&self.spool, &owner.planned_id);
        let ended = self.process(&files, &command, owner, lasts).await;
        if !matches!(ended, Ended::Finished(_)) {
            files.remove();
        }
        ended
    }

    async fn process(
        &mut self,
        files: &Spooled,
        command: &Command,
        owner: &Owner,
        lasts: Duration,
    ) -> Ended {
        let (report, said) = match files.make(owner) {
            Ok(made) => made,
            Err(error) if is_full(&error) => return Ended::DiskFull,
            Err(error) => return Ended::Failed(format!("cannot use the spool: {error}")),
        };
        let child = tokio::process::Command::new(&self.program)
            .args(&command.arguments)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::from(report))
            .stderr(Stdio::from(said))
            // Ctrl-C in the terminal must reach only the agent, which then ends its runs in order.
            .process_group(0)
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                let program = self.program.display();
                return Ended::Failed(format!("cannot start {program}: {error}"));
            }
        };
        let status = match self.wait(child, lasts + MARGIN).await {
            Ok(status) => status,
            Err(ended) => return ended,
        };
        judge(files, owner, status)
    }

    /// Waits for the process, and terminates it at the deadline.
    async fn wait(&mut self, mut child: Child, most: Duration) -> Result<ExitStatus, Ended> {
        let lost = |error: io::Error| Ended::Failed(format!("cannot wait for the run: {error}"));
        let stopped = tokio::select! {
            status = child.wait() => return status.map_err(lost),
            () = tokio::time::sleep(most) => false,
            _ = self.end.wait_for(|end| *end) => true,
        };
        // The process has not been reaped, so its pid is still valid.
        if let Some(pid) = child.id() {
            let _ = supervise::ask_to_end(pid);
        }
        let ended = timeout(LAST_WORDS, child.wait()).await;
        if ended.is_err() {
            child.kill().await.map_err(lost)?;
        }
        match ended {
            // It may have written its report.
            Ok(status) if !stopped => status.map_err(lost),
            _ if stopped => Err(Ended::Stopped),
            _ => Err(Ended::Failed(format!(
                "it did not end within {} s and was killed",
                most.as_secs()
            ))),
        }
    }
}

fn judge(files: &Spooled, owner: &Owner, status: ExitStatus) -> Ended {
    match files.finished(owner) {
        Ok(finished) => Ended::Finished(Box::new(finished)),
        Err(NoReport::Empty) => {
            let said = files.last_words();
            let why = in_one_line(&said);
            if is_busy(&said) {
                return Ended::Refused(why);
            }
            Ended::Failed(if why.is_empty() {
                format!("it ended with {status} and said nothing")
            } else {
                why
            })
        }
        Err(error) => Ended::Failed(format!("its report cannot be read: {error}")),
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Returns whether the server has no free slot. The protocol has one message for all refusals, so
/// the text decides.
fn is_busy(said: &str) -> bool {
    said.contains(" refuses: ") && said.contains("try again later")
}

/// Returns `error: …` and its causes as one line, without hints and prefixes.
fn in_one_line(said: &str) -> String {
    let from = said.rfind("error: ").map_or(0, |at| at + "error: ".len());
    let lines = said[from..].lines().map(str::trim);
    let told = lines.filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    let parts: Vec<&str> = told
        .map(|line| line.strip_prefix("caused by: ").unwrap_or(line))
        .collect();
    let text = parts.join(": ");
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_far_end_is_told_from_one_that_forbids() {
        let busy = "error: 127.0.0.1:5201 refuses: 1 sessions run already; try again later\n";
        assert!(is_busy(busy));
        assert!(!is_busy(
            "error: 127.0.0.1:5201 refuses: streams: at most 4\n"
        ));
        assert!(!is_busy("error: cannot connect to far (127.0.0.1:5201)\n"));
    }

    #[test]
    fn the_reason_of_a_failure_is_one_line() {
        let said = "note\nerror: cannot connect to far (127.0.0.1:1)\n  caused by: Connection \
                    refused (os error 111)\nhint: nothing listens there\n";
        assert_eq!(
            in_one_line(said),
            "cannot connect to far (127.0.0.1:1): Connection refused (os error 111)"
        );
        assert_eq!(in_one_line(""), "");
    }
}
