//! Builds the command line of a run: this program with the options of the watch file.

use crate::watch::file::{Host, Mode, WatchFile, Work};
use crate::watch::jobs::Job;
use longhaul_model::units::Rate;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The command line of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub arguments: Vec<OsString>,
}

/// Returns the command of a run, or `None` if the file no longer contains the target.
///
/// Relative paths in the file refer to `folder`.
pub fn command(job: &Job, file: &WatchFile, folder: &Path, archive: &Path) -> Option<Command> {
    let mut line = Line::default();
    match &job.far {
        None => line.word("host"),
        Some(name) => {
            let far = file.hosts.iter().find(|host| *host.name == **name)?;
            work(&job.measure.work, job.is_back(), &mut line);
            far_end(far, folder, &mut line);
        }
    }
    line.word("--json");
    line.option("--archive", archive);
    Some(Command {
        arguments: line.words,
    })
}

#[derive(Debug, Default)]
struct Line {
    words: Vec<OsString>,
}

impl Line {
    fn word(&mut self, word: impl Into<OsString>) {
        self.words.push(word.into());
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.word(name);
        self.word(value);
    }

    fn time(&mut self, name: &str, time: Duration) {
        self.option(name, format!("{}us", time.as_micros()));
    }

    fn maybe<T: ToString>(&mut self, name: &str, value: Option<&T>) {
        if let Some(value) = value {
            self.option(name, value.to_string());
        }
    }
}

fn work(work: &Work, back: bool, line: &mut Line) {
    match work {
        Work::Path { count, protocol } => {
            line.word("path");
            line.word(format!("--{protocol}"));
            line.option("--count", count.to_string());
        }
        Work::Available { mode } => {
            line.word("available");
            line.word(match mode {
                Mode::Light => "--light",
                Mode::Quick => "--quick",
                Mode::Careful => "--careful",
            });
        }
        Work::Shaper => {
            line.word("available");
            line.word("--shaper");
            line.word(if back { "--reverse" } else { "--forward" });
        }
        Work::Throughput { .. } => throughput(work, back, line),
        Work::Tune {
            time,
            probes,
            congestion_control,
        } => {
            line.word("tune");
            line.time("--time", *time);
            line.option("--budget-probes", probes.to_string());
            line.time("--budget-time", work.lasts());
            line.maybe("--congestion-control", congestion_control.as_ref());
            // A setting that fitted another route is a bad starting point.
            line.word("--fresh");
            reverse(back, line);
        }
        Work::Load {
            time,
            streams,
            rate,
            scavenger,
        } => {
            line.word("load");
            line.time("--time", *time);
            line.option("--streams", streams.to_string());
            line.maybe("--rate", rate.map(Rate::as_bps).as_ref());
            if *scavenger {
                line.word("--scavenger");
            }
            reverse(back, line);
        }
        Work::Host => line.word("host"),
    }
}

fn throughput(work: &Work, back: bool, line: &mut Line) {
    let Work::Throughput {
        time,
        streams,
        window_bytes,
        congestion_control,
        rate,
    } = work
    else {
        return;
    };
    line.word("test");
    line.time("--time", *time);
    line.maybe("--streams", streams.as_ref());
    line.maybe("--window", window_bytes.as_ref());
    line.maybe("--congestion-control", congestion_control.as_ref());
    line.maybe("--bitrate", rate.map(Rate::as_bps).as_ref());
    reverse(back, line);
}

fn reverse(back: bool, line: &mut Line) {
    if back {
        line.word("--reverse");
    }
}

fn far_end(far: &Host, folder: &Path, line: &mut Line) {
    line.option("--port", far.port.to_string());
    if let Some(token) = &far.token_file {
        line.option("--token-file", PathBuf::from(folder).join(token));
    }
    line.word("--quiet");
    line.word(&far.address);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use crate::watch::file::{Secrecy, Surroundings, parse};
    use crate::watch::jobs::jobs;
    use clap::Parser;

    fn file(measures: &str) -> WatchFile {
        let text = format!(
            "[agent]\nname = \"a\"\n[[host]]\nname = \"b\"\naddress = \"192.0.2.7\"\nport = 5300\n\
             token_file = \"b.token\"\n[[target]]\nhost = \"b\"\n{measures}"
        );
        let look = |_: &Path| Secrecy::Kept;
        let here = Surroundings {
            agent: None,
            look: &look,
        };
        parse("w", &text, &here).expect("right")
    }

    fn commands(file: &WatchFile) -> Vec<String> {
        let jobs = jobs(file, None, 1);
        let line = |job: &Job| {
            let made = command(job, file, Path::new("/etc/lh"), Path::new("/a.db"));
            let words = made.expect("the host is there").arguments;
            // The program must accept every command line.
            let typed = std::iter::once(OsString::from("longhaul")).chain(words.iter().cloned());
            if let Err(error) = Cli::try_parse_from(typed) {
                panic!("{words:?}: {error}");
            }
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
        assert_eq!(
            commands(&file),
            [format!("{begin} {end}"), format!("{begin} --reverse {end}")]
        );
    }

    #[test]
    fn every_kind_is_a_command_that_the_program_understands() {
        for kind in [
            "kind = \"path\"\nprotocol = \"udp\"",
            "kind = \"available\"\nmode = \"careful\"",
            "kind = \"tune\"\ncongestion_control = \"bbr\"",
            "kind = \"load\"\nscavenger = true\nrate = \"1 Gbit/s\"",
            "kind = \"host\"",
        ] {
            let file = file(&format!(
                "[[measure]]\nname = \"m\"\nevery = \"1 d\"\n{kind}\n"
            ));
            assert!(!commands(&file).is_empty(), "{kind}");
        }
    }

    #[test]
    fn a_host_that_has_gone_from_the_file_has_no_command() {
        let mut file = file("[[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n");
        let jobs = jobs(&file, None, 1);
        file.hosts.retain(|host| host.name != "b");
        assert_eq!(
            command(&jobs[0], &file, Path::new(""), Path::new("a")),
            None
        );
    }
}
