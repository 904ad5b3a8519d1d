//! A path file, and longhaul on it.

use crate::bench::scratch::Scratch;
use crate::bench::verdicts::last_words;
use crate::process;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use toml::Table;

/// The time for setting up a path and connecting, in addition to the runs.
const MARGIN: Duration = Duration::from_secs(60);

/// The program, and the folder for the bench's files.
#[derive(Debug)]
pub struct Ground<'a> {
    pub longhaul: &'a Path,
    scratch: Scratch,
}

/// A path to run on: a shipped path or a file, with edits.
#[derive(Debug, Clone, Default)]
pub struct Site {
    pub path: String,
    pub sets: Vec<String>,
    pub begin_at: Option<String>,
}

/// The reports of consecutive runs on one path, and the path's truth.
#[derive(Debug, Default)]
pub struct Seen {
    pub reports: Vec<Value>,
    pub truth: Value,
}

impl<'a> Ground<'a> {
    pub fn new(longhaul: &'a Path) -> Result<Self, String> {
        Ok(Ground {
            longhaul,
            scratch: Scratch::new("path")?,
        })
    }

    /// Returns a path of `hops`, each a table as in a path file, between hosts with large buffers.
    pub fn site(&self, name: &str, hops: Vec<Table>, sets: &[&str]) -> Result<Site, String> {
        let mut file = Table::new();
        file.insert("name".to_owned(), name.into());
        file.insert("hops".to_owned(), hops.into());
        let mut sysctl = Table::new();
        for (key, value) in [
            ("net.ipv4.tcp_congestion_control", "cubic"),
            ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
            ("net.ipv4.tcp_wmem", "4096 65536 33554432"),
        ] {
            sysctl.insert(key.to_owned(), value.into());
        }
        for host in ["near", "far"] {
            let mut table = Table::new();
            table.insert("sysctl".to_owned(), sysctl.clone().into());
            file.insert(host.to_owned(), table.into());
        }
        let text =
            toml::to_string(&file).map_err(|e| format!("cannot write the path file: {e}"))?;
        let file = self.scratch.write("path.toml", &text)?;
        Ok(Site {
            path: file.display().to_string(),
            sets: sets.iter().map(|&set| set.to_owned()).collect(),
            begin_at: None,
        })
    }

    /// Runs longhaul with `words`, `times` times, each for at most `time`.
    pub fn see(
        &self,
        site: &Site,
        words: &[&str],
        times: u32,
        time: Duration,
    ) -> Result<Seen, String> {
        let truth = self.scratch.path("truth.json");
        let mut lab = self.lab(site);
        lab.arg("--truth").arg(&truth).arg("--");
        // No word contains spaces.
        let again = "n=$0; while [ \"$n\" -gt 0 ]; do \"$@\" || exit; n=$((n-1)); done";
        lab.args(["sh", "-c", again, &times.to_string()])
            .arg(self.longhaul);
        lab.args(words).args(["--json", "--no-save", "--quiet"]);
        let output = process::capture(&mut lab, time * times + MARGIN)?;
        let reports: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&output.stdout)
            .into_iter()
            .collect();
        let reports = reports.map_err(|_| last_words(&output.stderr))?;
        if reports.is_empty() {
            return Err(last_words(&output.stderr));
        }
        let text = std::fs::read_to_string(&truth).map_err(|e| format!("no truth: {e}"))?;
        let truth = serde_json::from_str(&text).map_err(|e| format!("no truth: {e}"))?;
        Ok(Seen { reports, truth })
    }

    /// Returns the output of another program at the near end.
    pub fn stdout_of(&self, site: &Site, words: &[&str], time: Duration) -> Result<String, String> {
        let mut lab = self.lab(site);
        lab.arg("--").args(words);
        process::stdout_of(&mut lab, time + MARGIN)
    }

    fn lab(&self, site: &Site) -> Command {
        let mut lab = Command::new(self.longhaul);
        lab.args(["lab", "run", &site.path]);
        for set in &site.sets {
            lab.args(["--set", set]);
        }
        lab.args(site.begin_at.iter().flat_map(|at| ["--begin-at", at]));
        lab
    }
}

/// Returns a hop of a path file.
pub fn hop(name: &str, keys: &[(&str, &str)]) -> Table {
    let keys = keys
        .iter()
        .map(|(key, value)| ((*key).to_owned(), toml::Value::from(*value)));
    let mut hop: Table = keys.collect();
    hop.insert("name".to_owned(), name.into());
    hop
}

/// Returns one forward link of a truth file by its hop number, from 1, on the active route.
pub fn forward_link(truth: &Value, hop: usize) -> &Value {
    let routes = truth["routes"].as_array().map_or(&[][..], Vec::as_slice);
    let active = routes.iter().find(|route| route["active"] == true);
    active.map_or(&Value::Null, |route| &route["hops"][hop - 1]["forward"])
}

/// Formats `12.3 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

/// Formats megabits per second.
pub fn mbps(bps: f64) -> String {
    format!("{:.1}", bps / 1e6)
}
