//! Replays the incidents of June 2003 while an agent watches.
//!
//! The event of each shipped path is moved to a time at which the agent has seen enough of the
//! state before; the agent gets no hints. Its final diagnosis is compared with that of the experts
//! of the time.
//!
//! - `slac-cesnet`: the route moves from Abilene to ESnet, the RTT stays; the old setting no longer
//!   fits, and a re-tune finds one that does
//! - `slac-in2p3`: a route through a shaper with its peak, sustained rate and burst; then it is
//!   repaired

use super::agent_days::{add_agent, read_events};
use super::markdown_table::MarkdownTable;
use super::scratch_folder::ScratchFolder;
use crate::BenchOutcome;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

/// Time for setting up the path, the last runs, and cleaning up.
const MARGIN: Duration = Duration::from_secs(180);

/// One incident.
pub struct IncidentReplay {
    pub path: &'static str,
    /// The port of the page during the replay.
    pub port: u16,
    /// Edits of the path file: the time of the event.
    pub sets: &'static [&'static str],
    pub lasts_s: u64,
    /// The measurements of the agent's watch file.
    measures: &'static str,
    /// The required statements: a word for the table, and whether it holds.
    gates: fn(&[Value]) -> Vec<(&'static str, bool)>,
}

pub const INCIDENTS: &[IncidentReplay] = &[
    IncidentReplay {
        path: "slac-cesnet",
        port: 5280,
        sets: &["events.1.at=180 s"],
        lasts_s: 600,
        measures: "[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\ntime = \"7 s\"\n\
                   streams = 8\nwindow = \"1 MiB\"\ndirections = \"forward\"\nevery = \"16 s\"\n",
        gates: check_cesnet,
    },
    IncidentReplay {
        path: "slac-in2p3",
        port: 5281,
        sets: &["events.1.at=160 s", "events.2.at=400 s"],
        lasts_s: 600,
        measures: "[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\ntime = \"6 s\"\n\
                   directions = \"forward\"\nevery = \"14 s\"\n",
        gates: check_in2p3,
    },
];

/// Returns the table of all gates, and a sentence for every missed one.
pub fn run_all(longhaul: &Path, only: &str, keep: Option<&Path>) -> Result<BenchOutcome, String> {
    xtask::test_requirements::check_namespaces()?;
    let scratch = ScratchFolder::new("seeds")?;
    let mut table = MarkdownTable::new("The seeds, replayed", "path | what must be said | said");
    let mut missed = Vec::new();
    for seed in INCIDENTS.iter().filter(|seed| seed.path.contains(only)) {
        let folder = keep.map_or_else(|| scratch.path(seed.path), |keep| keep.join(seed.path));
        let events = seed.replay(longhaul, &folder)?;
        for (what, held) in (seed.gates)(&events) {
            let said = if held { "yes" } else { "no" };
            table.row(vec![seed.path.to_owned(), what.to_owned(), said.to_owned()]);
            if !held {
                missed.push(format!("{}: not said: {what}", seed.path));
            }
        }
    }
    Ok(BenchOutcome::new(&[table], missed))
}

impl IncidentReplay {
    /// Writes the agent's file into `folder` and returns the paths of it and of the archive.
    pub fn prepare(&self, folder: &Path) -> Result<(PathBuf, PathBuf), String> {
        let failed = |e: std::io::Error| format!("cannot write into {}: {e}", folder.display());
        std::fs::create_dir_all(folder).map_err(failed)?;
        let (file, archive) = (folder.join("watch.toml"), folder.join("archive.sqlite"));
        let text = format!(
            "[agent]\nname = \"near\"\narchive = \"{}\"\nlisten = \"127.0.0.1:{}\"\n\
             rate = \"1 Gbit/s\"\njitter = \"0 s\"\ncity = \"Menlo Park, CA\"\n\
             latitude = 37.42\nlongitude = -122.2\n\
             [[host]]\nname = \"far\"\nrate = \"1 Gbit/s\"\n[[target]]\nhost = \"far\"\n\
             [[measure]]\nname = \"route\"\nkind = \"path\"\ncount = 5\nevery = \"12 s\"\n\
             [[measure]]\nname = \"avail\"\nkind = \"available\"\nmode = \"quick\"\nevery = \"12 s\"\n\
             {}[detect]\nfollow_ups = true\n",
            archive.display(),
            self.port,
            self.measures,
        );
        std::fs::write(&file, text).map_err(failed)?;
        Ok((file, archive))
    }

    /// Returns the lab command that replays it, with an agent at its near host.
    pub fn lab(&self, longhaul: &Path, file: &Path) -> Command {
        let mut lab = Command::new(longhaul);
        lab.args(["lab", "run", self.path]);
        for set in self.sets {
            lab.args(["--set", set]);
        }
        let port = self.port.to_string();
        lab.args(["--publish", &port, "--"]);
        add_agent(&mut lab, longhaul, self.lasts_s, file);
        lab
    }

    /// Replays it, prints every event as its reader sees it, and returns all events.
    fn replay(&self, longhaul: &Path, folder: &Path) -> Result<Vec<Value>, String> {
        let (file, archive) = self.prepare(folder)?;
        let limit = Duration::from_secs(self.lasts_s) + MARGIN;
        let output = program_runner::capture_output(&mut self.lab(longhaul, &file), limit)?;
        let log = folder.join("agent.log");
        let _ = std::fs::write(&log, output.stdout + &output.stderr);
        let events = read_events(longhaul, &archive)?;
        for id in events.iter().filter_map(|event| event["id"].as_str()) {
            let mut report = Command::new(longhaul);
            report.args(["report", "event", id, "--archive"]).arg(&archive);
            println!("{}", program_runner::capture_stdout(&mut report, Duration::from_secs(30))?);
        }
        Ok(events)
    }
}

/// Returns the causes of the events of these quantities, with all their statements.
fn list_causes<'a>(events: &'a [Value], quantities: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    let of =
        |event: &&Value| event["quantity"].as_str().is_some_and(|word| quantities.contains(&word));
    events.iter().filter(of).flat_map(|event| event["causes"].as_array().into_iter().flatten())
}

fn mentions_words(cause: &Value, name: &str, words: &[&str]) -> bool {
    let text = cause.to_string();
    cause["cause"] == name && words.iter().all(|word| text.contains(word))
}

const BULK: &[&str] = &["goodput", "available", "capacity"];

fn check_cesnet(events: &[Value]) -> Vec<(&'static str, bool)> {
    let fell = |event: &&Value| {
        let level = |which: &str| event[which]["median"].as_f64();
        event["quantity"] == "goodput" && level("after") < level("before")
    };
    let rtt_steps = events.iter().any(|event| event["quantity"] == "rtt_floor");
    vec![
        ("throughput fell", events.iter().any(|event| fell(&event))),
        (
            "the route changed, hops 3-11 by 3-7",
            list_causes(events, BULK)
                .any(|it| mentions_words(it, "route_change", &["3-11", "3-7"])),
        ),
        ("round trips did not step", !rtt_steps),
        (
            "the setting no longer fits; a better one was found",
            list_causes(events, &["goodput"]).any(|it| mentions_words(it, "retune", &[])),
        ),
    ]
}

fn check_in2p3(events: &[Value]) -> Vec<(&'static str, bool)> {
    let recovered = |event: &Value| event["state"] == "recovered";
    vec![
        (
            "a shaper on the new route, with peak, sustained rate and burst",
            list_causes(events, &["goodput"])
                .any(|it| mentions_words(it, "shaper_appeared", &["peak", "burst"])),
        ),
        (
            "the route changed",
            list_causes(events, &["goodput", "rtt_floor", "available", "capacity"])
                .any(|it| mentions_words(it, "route_change", &[])),
        ),
        (
            "throughput recovered",
            events.iter().any(|event| event["quantity"] == "goodput" && recovered(event)),
        ),
    ]
}
