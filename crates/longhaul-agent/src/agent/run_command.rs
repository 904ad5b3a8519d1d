//! Builds the command line of a run: this program with the options of the watch file.

use crate::watch::measure_jobs::MeasureJob;
use crate::watch::watch_file::{MeasureConfig, MeasureKind, WatchFile, WatchHost};
use longhaul_model::units::Rate;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
        None => line.add("host"),
        Some(name) => {
            let far = file.hosts.iter().find(|host| *host.name == **name)?;
            add_measurement(&job.measure, job.is_reverse(), &mut line);
            add_target(far, folder, &mut line);
        }
    }
    line.add("--json");
    line.add_option("--archive", archive);
    Some(line)
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
        MeasureKind::Host => line.add("host"),
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

#[cfg(test)]
mod tests {
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
             streams = 4\nwindow = \"1 MiB\"\ncongestion_control = \"cubic\"\nrate = \"50 Mbit/s\"\n",
        );
        let end =
            "--port 5300 --token-file /etc/lh/b.token --quiet 192.0.2.7 --json --archive /a.db";
        let begin = "test --time 2000000us --streams 4 --window 1048576 \
                     --congestion-control cubic --bitrate 50000000";
        assert_eq!(commands(&file), [format!("{begin} {end}"), format!("{begin} --reverse {end}")]);
    }

    #[test]
    fn a_host_that_has_gone_from_the_file_has_no_command() {
        let mut file = file("[[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n");
        let jobs = build_jobs(&file, None, 1);
        file.hosts.retain(|host| host.name != "b");
        assert_eq!(build_run_command(&jobs[0], &file, Path::new(""), Path::new("a")), None);
    }
}
